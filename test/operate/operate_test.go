// Package operate runs the commands of docs/operate.md.
package operate

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/cli"
)

const page = "../../docs/operate.md"

var rewrite = flag.Bool("rewrite", false, "write what the commands print into the page")

// TestCommands: each command of the page prints what stands below it.
func TestCommands(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var out strings.Builder
	rest, ran := string(text), 0
	for {
		before, block, ok := strings.Cut(rest, "```console\n")
		out.WriteString(before)
		if !ok {
			break
		}
		var end bool
		block, rest, end = strings.Cut(block, "```")
		require.True(t, end, "a block that does not end")
		command, _, _ := strings.Cut(block, "\n")
		args, ok := strings.CutPrefix(command, "$ kubectl muster ")
		require.True(t, ok, command)
		args = strings.Replace(args, " --from-cluster", "", 1) // for which the file stands
		var said, errs bytes.Buffer
		code := cli.Main(t.Context(), append(strings.Fields(args), "-f", "cluster.yaml"), &said, &errs)
		verdict := strings.HasPrefix(args, "drain-plan") && code == 1 // "does not fit"
		require.True(t, code == 0 || verdict, "%s: %s", command, errs.String())
		out.WriteString("```console\n" + command + "\n" + said.String() + "```")
		ran++
	}
	require.Positive(t, ran)
	if *rewrite {
		require.NoError(t, os.WriteFile(page, []byte(out.String()), 0o600))
		return
	}
	require.Equal(t, out.String(), string(text), "run with -rewrite, and read the diff")
}

// TestAlerts: each alert of the rules is explained on the page, and no other.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	rules, err := os.ReadFile("../../deploy/monitoring/prometheusrule.yaml")
	require.NoError(t, err)
	names := func(text []byte, pattern string) (names []string) {
		for _, found := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
		return names
	}
	require.Equal(t, names(rules, `alert: (\w+)`), names(text, "(?m)^\\| `(Muster\\w+)` \\|"))
}
