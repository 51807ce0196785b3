package place

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Diagnosis is what nodes are short of that take nobody.
type Diagnosis struct {
	Nodes int            // that were looked at
	Lacks map[string]int // how many of them lack each thing, in the Filters' words
	// Short is what the members need more of than is free in the domain In, which no NodeInfo shows; In is "" for
	// the whole cluster.
	Short []fit.Shortage
	In    string
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

// short adds what the best domain of a refusal has too little of for all members.
func (a *Attempt) short(d Diagnosis, r *plan.Refusal) Diagnosis {
	if len(a.pages) == 0 || len(r.Domains) == 0 {
		return d
	}
	tree := a.Net.Tree
	for domain := topology.Root; int(domain) < tree.Len(); domain++ {
		if tree.Layer(domain) != a.All.Must || tree.Path(domain) != r.Domains[0].Path {
			continue
		}
		lo, hi := tree.Nodes(domain)
		_, demand := a.For(a.Group.Pending[:min(len(a.Group.Pending), int(r.Want))]).templates() // those for whom it was sought
		d.Short = a.pages.Short(demand, slices.DeleteFunc(slices.Clone(a.Nodes[lo:hi]), func(n fwk.NodeInfo) bool { return n == nil }))
		d.In = tree.Path(domain)
		break
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
