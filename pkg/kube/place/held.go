package place

import (
	"cmp"
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// Holder is a group of gangs with places that others must respect, or a pod without a gang that is to come to a node.
type Holder struct {
	Name     string // with its namespace
	Alone    bool   // it is a pod
	Priority int32
	Nodes    []int // by node index, each place
}

// Whose names a holder, and what it is.
func (h Holder) Whose() string {
	if h.Alone {
		return "pod " + h.Name
	}
	return "gang " + h.Name
}

// Holders are those who have places, which are by node index, in the order of the nodes.
func Holders(c *cache.Cache, places map[int][]*v1.Pod) (all []Holder) {
	nodes := make([]int, 0, len(places))
	for i := range places {
		nodes = append(nodes, i)
	}
	slices.Sort(nodes)
	for _, i := range nodes {
		for _, p := range places[i] {
			group := c.GroupKey(p)
			is := Holder{Name: group.String(), Alone: group.IsZero(), Priority: c.Priority(p)}
			if is.Alone {
				is.Name = convert.PodKey(p)
			}
			at := slices.IndexFunc(all, func(h Holder) bool { return h.Name == is.Name && h.Alone == is.Alone })
			if at < 0 {
				at = len(all)
				all = append(all, is)
			}
			all[at].Nodes = append(all[at].Nodes, i)
		}
	}
	return all
}

// Held is nodes that would take members if no place there were reserved for others.
type Held struct {
	Nodes  int
	For    string // who has places on most of them: see Holder.Whose
	Others int    // so many more have
}

// held finds the nodes that take nobody since what is free there is reserved, on which others have places that will be taken later; of those whose
// plans are carried out now it is soon known where they are. Where nothing is reserved it costs nothing.
func (a *Attempt) held(ctx context.Context) (h Held, nodes []int) {
	if len(a.beside) == 0 || !a.counted {
		return Held{}, nil
	}
	places, rest := map[int][]*v1.Pod{}, map[int]fit.Pods{}
	for i, pods := range a.beside {
		if a.Nodes[i] == nil || a.World.Free[i] > 0 {
			continue
		}
		for _, info := range pods {
			pod := info.GetPod()
			if node, goes := a.planner.cache.Place(pod); node != "" && goes {
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
		return Held{}, nil
	}
	holders := Holders(a.planner.cache, places)
	for i := range holders {
		holders[i].Nodes = slices.Compact(holders[i].Nodes)
	}
	most := slices.MinFunc(holders, func(x, y Holder) int {
		return cmp.Or(cmp.Compare(len(y.Nodes), len(x.Nodes)), strings.Compare(x.Whose(), y.Whose()))
	})
	slices.Sort(nodes)
	return Held{Nodes: len(nodes), For: most.Whose(), Others: len(holders) - 1}, nodes
}

// takesBeside says whether a node would take a member, whichever it is, if only some were counted there besides the snapshot.
func (a *Attempt) takesBeside(ctx context.Context, node int, beside fit.Pods) bool {
	for k := range a.kinds {
		slots, _ := a.kinds[k].counter.Count(ctx, a.Nodes[node], beside)
		if a.limited.allow(node, k, nil, slots) == 0 {
			return false
		}
	}
	return true
}
