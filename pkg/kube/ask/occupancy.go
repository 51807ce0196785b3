package ask

import (
	"cmp"
	"context"
	"slices"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Present is the occupancy of the nodes.
type Present struct {
	// Nodes are by name, without empty nodes. Pods that every node has are left out.
	Nodes map[string][]Holding
	Gangs []Crowd // gangs with members, the most pods on nodes first
}

// Holding is the number of pods of one gang on one node in the same phase.
type Holding struct {
	Gang string // "" is none
	Does Doing
	Pods int
}

// Doing is what pods do with their slots.
type Doing string

// The values of Doing.
const (
	Run   Doing = "run"
	Leave Doing = "leave" // the pods terminate
	Come  Doing = "come"  // the node is reserved for the pods
)

// Crowd is a gang, and where it is.
type Crowd struct {
	Gang   string
	Pods   int    // on nodes
	Domain string // the deepest that holds the bound members; "" is the whole cluster
}

// Present returns the occupancy at the start. The caller must call it before any method that lets the scheduler go on.
func (v *View) Present(ctx context.Context) (*Present, error) {
	nodes, err := v.infos(ctx, v.cache().Topology().Tree, v.Profile(v.ProfileNames()[0]))
	if err != nil {
		return nil, err
	}
	out := &Present{Nodes: map[string][]Holding{}}
	count := map[gang.Ref]int{}
	for ref, r := range v.initial {
		if r.Members > 0 {
			count[ref] = 0
		}
	}
	for _, n := range nodes {
		if n == nil {
			continue
		}
		all := map[Holding]int{}
		for _, pod := range podsOn(n) {
			ref, does := source.Of(pod), Run
			if pod.DeletionTimestamp != nil {
				does = Leave
			}
			switch {
			case !ref.IsZero():
				all[Holding{Gang: ref.String(), Does: does}]++
				if _, listed := count[ref]; listed {
					count[ref]++
				}
			case !onEveryNode(pod):
				all[Holding{Does: does}]++
			}
		}
		for _, p := range v.cache().PlacesOn(n.Node().Name, lowest) {
			if p.Spec.NodeName == "" {
				all[Holding{Gang: source.Of(p).String(), Does: Come}]++
			}
		}
		if len(all) > 0 {
			out.Nodes[n.Node().Name] = holdings(all)
		}
	}
	for _, ref := range largestFirst(count) {
		out.Gangs = append(out.Gangs, Crowd{ref.String(), count[ref], v.initial[ref].Domain})
	}
	return out, nil
}

// holdings returns the holdings in order: gangs by name, then pods without a gang; of one gang run, leave, come.
func holdings(all map[Holding]int) (out []Holding) {
	rank := map[Doing]int{Run: 0, Leave: 1, Come: 2}
	for h, n := range all {
		h.Pods = n
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Holding) int {
		if (a.Gang == "") != (b.Gang == "") {
			return cmp.Compare(b.Gang, a.Gang)
		}
		return cmp.Or(topology.CompareNames(a.Gang, b.Gang), rank[a.Does]-rank[b.Does])
	})
	return out
}
