package ask

import (
	"cmp"
	"context"
	"slices"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Present is who is where.
type Present struct {
	// Nodes are by name; those on which nobody is are left out. So are pods that every node has.
	Nodes map[string][]Holding
	Gangs []Crowd // that have members, the most pods on nodes first
}

// Holding is so many pods of one gang on one node that do the same there.
type Holding struct {
	Gang string // "" is none
	Does Doing
	Pods int
}

// Doing says what pods do with their places.
type Doing string

// What pods do.
const (
	Run   Doing = "run"
	Leave Doing = "leave" // they were asked to end
	Come  Doing = "come"  // their places are reserved
)

// Crowd is a gang, and where it is.
type Crowd struct {
	Gang   string
	Pods   int    // on nodes
	Domain string // the deepest that holds those that are bound; "" is the whole cluster
}

// Present says who is where as the cluster was found: it must be asked before anything that has
// the scheduler go on.
func (v *View) Present(ctx context.Context) (*Present, error) {
	nodes, err := v.infos(ctx, v.cache().Topology().Tree, v.Profile(v.ProfileNames()[0]))
	if err != nil {
		return nil, err
	}
	out := &Present{Nodes: map[string][]Holding{}}
	count := map[gang.Ref]int{}
	for ref, r := range v.listed {
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
			case !everywhere(pod):
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
		out.Gangs = append(out.Gangs, Crowd{ref.String(), count[ref], v.listed[ref].Domain})
	}
	return out, nil
}

// holdings are in order: gangs by name, those of none last, and of one gang who runs, leaves, comes.
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
