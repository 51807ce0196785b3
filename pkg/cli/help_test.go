package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHelpShowsRealOutput: the outputs in the help of commands are what the commands print.
func TestHelpShowsRealOutput(t *testing.T) {
	for command, files := range map[string][]string{
		"quota": {"../../test/mistakes/testdata/nodes.yaml", "../../test/mistakes/testdata/reclaim-never.yaml"},
	} {
		var shown strings.Builder
		_, help, found := strings.Cut(say(t, command, "--help"), "\n\n  ")
		require.True(t, found)
		help, _, _ = strings.Cut(help, "\n\n")
		for line := range strings.Lines("  " + help + "\n") {
			shown.WriteString(strings.TrimPrefix(line, "  "))
		}
		args := []string{command}
		for _, file := range files {
			args = append(args, "-f", file)
		}
		require.Equal(t, shown.String(), say(t, args...), command)
	}
}

// TestHelpOfQuotaNamesColumns: each column and each note that the command prints has a word in its help.
func TestHelpOfQuotaNamesColumns(t *testing.T) {
	help := say(t, "quota", "--help")
	out := say(t, "quota", "-o", "wide", "-f", "../../test/mistakes/testdata/nodes.yaml", "-f", "../../test/mistakes/testdata/reclaim-never.yaml")
	header, _, _ := strings.Cut(out, "\n")
	require.Contains(t, header, "SHARE")
	for _, column := range strings.Fields(header) {
		require.Contains(t, help, column)
	}
	for _, note := range []string{"borrows", "guaranteed", "waits"} {
		require.Contains(t, help, "("+note)
	}
}
