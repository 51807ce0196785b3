package plugin

import (
	"fmt"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// lacks is what nodes without a slot are short of.
type lacks struct {
	nodes  []fwk.NodeInfo
	counts []fit.Counts // by kind
}

// count counts the nodes, and those that lack each thing.
func (l lacks) count() (nodes int, counts map[string]int) {
	alike := map[*fit.Reasons]int{} // nodes that lack the same, for kinds that are alone
	counts = map[string]int{}
	for i, n := range l.nodes {
		if n == nil {
			continue
		}
		nodes++
		if len(l.counts) == 1 {
			alike[l.counts[0].Why(i)]++
			continue
		}
		seen := map[string]bool{}
		for _, c := range l.counts {
			for _, r := range c.Why(i).All() {
				seen[r] = true
			}
		}
		for r := range seen {
			counts[r]++
		}
	}
	for reasons, n := range alike {
		for _, r := range reasons.All() {
			counts[r] += n
		}
	}
	return nodes, counts
}

// String is how kube-scheduler words it, after a comma; "" if nothing is lacking.
func (l lacks) String() string {
	nodes, counts := l.count()
	if len(counts) == 0 {
		return ""
	}
	var parts []string
	for r, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, r))
	}
	slices.Sort(parts)
	return fmt.Sprintf(", 0/%d nodes are available: %s", nodes, strings.Join(parts, ", "))
}
