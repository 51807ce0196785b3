package place

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// Holder is a group of gangs with reserved nodes, or a nominated pod without a gang.
type Holder struct {
	Name     string // with its namespace
	Alone    bool   // the holder is a pod
	Priority int32
	Nodes    []int // node indexes, one for each reserved node
}

// Description returns the holder's kind and name.
func (h Holder) Description() string {
	if h.Alone {
		return "pod " + h.Name
	}
	return "gang " + h.Name
}

// Holders returns which gangs and pods have reserved nodes. places has the pods with a reservation by node index.
func Holders(c *cache.Cache, places map[int][]*v1.Pod) (holders []Holder) {
	for _, i := range slices.Sorted(maps.Keys(places)) {
		for _, p := range places[i] {
			group := c.GroupKey(p)
			holder := Holder{Name: group.String(), Alone: group.IsZero(), Priority: c.Priority(p)}
			if holder.Alone {
				holder.Name = convert.PodKey(p)
			}
			index := slices.IndexFunc(holders, func(h Holder) bool { return h.Name == holder.Name && h.Alone == holder.Alone })
			if index < 0 {
				index = len(holders)
				holders = append(holders, holder)
			}
			holders[index].Nodes = append(holders[index].Nodes, i)
		}
	}
	return holders
}

// NodesReserved counts the nodes that would take members without reservations.
type NodesReserved struct {
	Nodes        int    // number of these nodes
	Holder       string // the holder of most of these nodes, as in Holder.Description
	OtherHolders int    // number of further holders
}

// nodesReservedForOthers returns the indexes of the nodes that take no member only because of reservations, sorted, and a summary for
// users. Nodes of confirmed plans are not included: their members bind soon.
func (a *Attempt) nodesReservedForOthers(ctx context.Context) (h NodesReserved, nodes []int) {
	if len(a.beside) == 0 || !a.counted {
		return NodesReserved{}, nil
	}
	places, rest := map[int][]*v1.Pod{}, map[int]fit.Pods{}
	for i, pods := range a.beside {
		if a.Nodes[i] == nil || a.World.Free[i] > 0 {
			continue
		}
		for _, info := range pods {
			pod := info.GetPod()
			if node, planned := a.planner.cache.Place(pod); node != "" && planned {
				rest[i] = append(rest[i], info)
			} else {
				places[i] = append(places[i], pod)
			}
		}
	}
	for i := range places {
		if a.takesBeside(ctx, i, rest[i]) {
			nodes = append(nodes, i)
		} else {
			delete(places, i)
		}
	}
	if len(nodes) == 0 {
		return NodesReserved{}, nil
	}
	holders := Holders(a.planner.cache, places)
	for i := range holders {
		holders[i].Nodes = slices.Compact(holders[i].Nodes)
	}
	most := slices.MinFunc(holders, func(x, y Holder) int {
		return cmp.Or(cmp.Compare(len(y.Nodes), len(x.Nodes)), strings.Compare(x.Description(), y.Description()))
	})
	slices.Sort(nodes)
	return NodesReserved{Nodes: len(nodes), Holder: most.Description(), OtherHolders: len(holders) - 1}, nodes
}

// takesBeside returns whether a member of each kind, taken alone, fits on the node beside its pods and the given ones.
func (a *Attempt) takesBeside(ctx context.Context, node int, beside fit.Pods) bool {
	for k := range a.kinds {
		slots, _ := a.kinds[k].counter.Count(ctx, a.Nodes[node], beside)
		if a.limited.allow(node, k, nil, slots) == 0 {
			return false
		}
	}
	return true
}
