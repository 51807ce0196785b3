package plugin

import (
	"fmt"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
)

// lacks counts what nodes without a slot are short of.
type lacks struct {
	nodes  int
	counts map[string]int
}

func histogram(nodes []fwk.NodeInfo, reasons [][]string) lacks {
	l := lacks{counts: map[string]int{}}
	for i, n := range nodes {
		if n == nil {
			continue
		}
		l.nodes++
		for _, r := range slices.Compact(slices.Sorted(slices.Values(reasons[i]))) {
			l.counts[r]++
		}
	}
	return l
}

// String is how kube-scheduler words it, after a comma; "" if nothing is lacking.
func (l lacks) String() string {
	if len(l.counts) == 0 {
		return ""
	}
	var parts []string
	for r, n := range l.counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, r))
	}
	slices.Sort(parts)
	return fmt.Sprintf(", 0/%d nodes are available: %s", l.nodes, strings.Join(parts, ", "))
}
