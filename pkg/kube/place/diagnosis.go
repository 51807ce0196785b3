package place

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// Diagnosis is what nodes are short of that take nobody.
type Diagnosis struct {
	Nodes int            // that were looked at
	Lacks map[string]int // how many of them lack each thing, in the Filters' words
}

// diagnose reads the answers for each kind of members.
func diagnose(nodes []fwk.NodeInfo, counts []fit.Counts) Diagnosis {
	d := Diagnosis{Lacks: map[string]int{}}
	alike := map[*fit.Reasons]int{} // nodes that lack the same, for kinds that are alone
	for i, n := range nodes {
		if n == nil {
			continue
		}
		d.Nodes++
		if len(counts) == 1 {
			alike[counts[0].Why(i)]++
			continue
		}
		seen := map[string]bool{}
		for _, c := range counts {
			for _, r := range c.Why(i).All() {
				seen[r] = true
			}
		}
		for r := range seen {
			d.Lacks[r]++
		}
	}
	for reasons, n := range alike {
		for _, r := range reasons.All() {
			d.Lacks[r] += n
		}
	}
	return d
}

// with adds the nodes that take fewer members than their Filters say, but for those that lack
// the same as it is.
func (d Diagnosis) with(l limited, counts []fit.Counts) Diagnosis {
	for node, is := range l.why {
		known := slices.ContainsFunc(counts, func(c fit.Counts) bool { return slices.Contains(c.Why(node).All(), is.why) })
		if !known {
			d.Lacks[is.why]++
		}
	}
	return d
}
