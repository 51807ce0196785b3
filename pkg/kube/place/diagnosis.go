package place

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Diagnosis is what nodes that take no member lack.
type Diagnosis struct {
	Nodes int            // number of nodes examined
	Lacks map[string]int // number of nodes that lack each thing, in the Filters' words
	// Short are resources that no NodeInfo shows (such as devices) and of which the domain In has too little; In is "" for the cluster.
	Short []fit.Shortage
	In    string
}

// diagnose counts by message the nodes on which Filters reject a member of any kind. counts is by kind.
func diagnose(nodes []fwk.NodeInfo, counts []fit.Counts) Diagnosis {
	d := Diagnosis{Lacks: map[string]int{}}
	nodesByReasons := map[*fit.Reasons]int{} // nodes by what they lack, if there is one kind
	for i, n := range nodes {
		if n == nil {
			continue
		}
		d.Nodes++
		if len(counts) == 1 {
			nodesByReasons[counts[0].Why(i)]++
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
	for reasons, n := range nodesByReasons {
		for _, r := range reasons.All() {
			d.Lacks[r] += n
		}
	}
	return d
}

// withShortages adds to d the ledger resources (package fit, such as devices) that the refusal's best domain, r.Domains[0], lacks for the
// members.
func (a *Attempt) withShortages(d Diagnosis, r *plan.Refusal) Diagnosis {
	if len(a.pages) == 0 || len(r.Domains) == 0 {
		return d
	}
	tree := a.Net.Tree
	for domain := topology.Root; int(domain) < tree.Len(); domain++ {
		if tree.Layer(domain) != a.All.Must || tree.Path(domain) != r.Domains[0].Path {
			continue
		}
		lo, hi := tree.Nodes(domain)
		_, demand := a.For(a.Group.Pending[:min(len(a.Group.Pending), int(r.Want))]).templates() // the members of the refusal
		d.Short = a.pages.Short(demand, slices.DeleteFunc(slices.Clone(a.Nodes[lo:hi]), func(n fwk.NodeInfo) bool { return n == nil }))
		d.In = tree.Path(domain)
		break
	}
	return d
}

// withLimits adds the messages of remembered limits, unless the Filters reject members on that node with the same message.
func (d Diagnosis) withLimits(l activeLimits, counts []fit.Counts) Diagnosis {
	for node, limit := range l.reasons {
		known := slices.ContainsFunc(counts, func(c fit.Counts) bool { return slices.Contains(c.Why(node).All(), limit.why) })
		if !known {
			d.Lacks[limit.why]++
		}
	}
	return d
}
