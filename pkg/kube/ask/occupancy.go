package ask

import (
	"cmp"
	"context"
	"slices"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Occupancy is the occupancy of the nodes.
type Occupancy struct {
	// Nodes has the pods by node name, without empty nodes, and without DaemonSet and static pods.
	Nodes map[string][]NodePods
	Gangs []GangPlacement // gangs with members, the most pods on nodes first
}

// NodePods is the number of pods of one gang on one node in the same phase.
type NodePods struct {
	Gang  string // "" is none
	Phase PodPhase
	Pods  int
}

// PodPhase is how pods use their slots.
type PodPhase string

// The values of PodPhase.
const (
	Running     PodPhase = "run"
	Terminating PodPhase = "leave" // the pods terminate
	Reserved    PodPhase = "come"  // the node is reserved for the pods
)

// GangPlacement is a gang, the number of its pods, and its domain.
type GangPlacement struct {
	Gang   string
	Pods   int    // on nodes
	Domain string // the deepest that holds the bound members; "" is the whole cluster
}

// Occupancy returns the occupancy at the start. The caller must call it before any method that runs the scheduler.
func (v *View) Occupancy(ctx context.Context) (*Occupancy, error) {
	nodes, err := v.infos(ctx, v.cache().Topology().Tree, v.Profile(v.ProfileNames()[0]))
	if err != nil {
		return nil, err
	}
	out := &Occupancy{Nodes: map[string][]NodePods{}}
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
		all := map[NodePods]int{}
		for _, pod := range podsOn(n) {
			ref, does := source.GangOf(pod), Running
			if pod.DeletionTimestamp != nil {
				does = Terminating
			}
			switch {
			case !ref.IsZero():
				all[NodePods{Gang: ref.String(), Phase: does}]++
				if _, listed := count[ref]; listed {
					count[ref]++
				}
			case !convert.OnEveryNode(pod):
				all[NodePods{Phase: does}]++
			}
		}
		for _, p := range v.cache().PlacesOn(n.Node().Name, lowest) {
			if p.Spec.NodeName == "" {
				all[NodePods{Gang: source.GangOf(p).String(), Phase: Reserved}]++
			}
		}
		if len(all) > 0 {
			out.Nodes[n.Node().Name] = sortedNodePods(all)
		}
	}
	for _, ref := range largestFirst(count) {
		out.Gangs = append(out.Gangs, GangPlacement{ref.String(), count[ref], v.initial[ref].Domain})
	}
	return out, nil
}

// sortedNodePods returns the entries of all with their counts: gangs by name, then pods without a gang. It sorts a gang's by phase.
func sortedNodePods(all map[NodePods]int) (out []NodePods) {
	rank := map[PodPhase]int{Running: 0, Terminating: 1, Reserved: 2}
	for h, n := range all {
		h.Pods = n
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b NodePods) int {
		if (a.Gang == "") != (b.Gang == "") {
			return cmp.Compare(b.Gang, a.Gang)
		}
		return cmp.Or(topology.CompareNames(a.Gang, b.Gang), rank[a.Phase]-rank[b.Phase])
	})
	return out
}
