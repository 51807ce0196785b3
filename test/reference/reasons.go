package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// reasonChapter is a section of docs/reference/reasons.md.
type reasonChapter struct {
	Title   string
	Intro   string
	Reasons []reason
}

// reason is a reason of conditions and events, as reasons.yaml describes it.
type reason struct {
	Name    string
	Core    string // the constant in k8s.io/api/core/v1; "" if pkg/apis/reasons has it
	Where   string // the conditions and events that have the reason
	Meaning string
	Cause   string
	Remedy  string
}

const reasonsHead = `# Reasons of conditions and events

Each reason that Muster writes, with its meaning, its cause and its remedy. This page is made from the source by ` + "`make generate`" + `; do not edit it.
Messages beside the reasons are in [Messages A to Z](../troubleshooting/messages.md). Names of reasons stay the same between versions.

A gang's state in ` + "`musterctl queue` and `musterctl explain`" + ` is the reason of its condition ` + "`Scheduled`" + `, except for two states. ` + "`Starts`" + ` and ` + "`Evicts`" + `
say what would happen now to a gang whose condition has another reason. A running gang that has lost members shows the reason of its condition ` + "`Repairing`" + `, unless Muster would start members or evict pods for it now.
`

// reasonChapters returns the content of reasons.yaml.
func reasonChapters(root string) (chapters []reasonChapter, err error) {
	err = readYAML(filepath.Join(root, "test/reference/reasons.yaml"), &chapters)
	return chapters, err
}

// reasonsPage returns the whole of docs/reference/reasons.md.
func reasonsPage(root string) (string, error) {
	chapters, err := reasonChapters(root)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(reasonsHead)
	for _, c := range chapters {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n", c.Title, strings.TrimSpace(c.Intro))
		var rows [][]string
		for _, r := range c.Reasons {
			rows = append(rows, []string{code(r.Name), r.Where, r.Meaning, r.Cause, r.Remedy})
		}
		table(&out, []string{"reason", "where", "meaning", "cause", "remedy"}, rows)
	}
	return out.String(), nil
}
