package main

import (
	"fmt"
	"strings"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// keys writes the annotations and labels.
func keys(out *strings.Builder) {
	fmt.Fprintf(out, "\n## Annotations and labels\n\nA key under `%s` that is not listed here is named in an event `UnknownKey`, with the one that it is like.\n",
		scheduling.GangDomain)
	for _, chapter := range scheduling.Keys() {
		fmt.Fprintf(out, "\n### %s\n", chapter.Title)
		if chapter.Intro != "" {
			fmt.Fprintf(out, "\n%s\n", chapter.Intro)
		}
		var rows [][]string
		for _, k := range chapter.Keys {
			kind := "annotation"
			if k.Label {
				kind = "label"
			}
			rows = append(rows, []string{code(k.Name), kind, k.On, k.Meaning, k.Legal, k.Default, code(k.Example)})
		}
		table(out, []string{"key", "is", "on", "meaning", "supported values", "default", "example"}, rows)
	}
}
