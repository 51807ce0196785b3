package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCompare: a finding beyond the exceptions fails the check, and so does an exception that is too wide.
func TestCompare(t *testing.T) {
	alerts, err := Alerts([]byte(`{"pkg/a/a.go": [{"Check": "Muster.Terms", "Line": 7, "Message": "Use 'invalid'."}, {"Check": "Muster.Pronouns", "Line": 3, "Message": "who"}],
		"docs/old/b.md": [{"Check": "Muster.Sentences", "Line": 1, "Message": "long"}]}`))
	require.NoError(t, err)
	exceptions, err := Parse(strings.NewReader("# why\ndocs/o*.md * 1 closed pages\npkg/a/a.go Muster.Pronouns 2 a name\n"))
	require.NoError(t, err)
	require.Equal(t, []string{
		"pkg/a/a.go:7: Use 'invalid'. (Muster.Terms)",
		"pkg/a/a.go Muster.Pronouns: 1 findings, tools/words/exceptions.txt allows 2: lower the count",
	}, Compare(alerts, exceptions))
	exceptions[0].Count, exceptions[1].Count = 0, 1
	require.Equal(t, []string{
		"pkg/a/a.go:7: Use 'invalid'. (Muster.Terms)",
		"docs/o*.md *: 1 findings, tools/words/exceptions.txt allows 0:",
		"  docs/old/b.md:1: long (Muster.Sentences)",
	}, Compare(alerts, exceptions))
}

// TestParseRejectsLines: a line without a count or a reason names its line.
func TestParseRejectsLines(t *testing.T) {
	_, err := Parse(strings.NewReader("docs * 3\n"))
	require.EqualError(t, err, "tools/words/exceptions.txt:1: supported values: PATH RULE COUNT REASON")
	_, err = Parse(strings.NewReader("\ndocs * three decisions\n"))
	require.EqualError(t, err, `tools/words/exceptions.txt:2: count "three": invalid syntax`)
}
