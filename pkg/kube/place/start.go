package place

import (
	"context"
	"maps"
	"slices"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Start is the earliest start of a gang: a plan, the domain of its MustGather layer ("" is the cluster), and when enough pods have ended.
type Start struct {
	Places []gang.Assignment
	Domain string
	At     time.Time
}

// Ends returns when pods end.
type Ends func(pods []*v1.Pod) []cache.DeclaredEnd

// Taken is a node that a member of another gang is going to use: it counts as used now, until it is free again.
type Taken struct {
	Pod   *v1.Pod
	Node  string
	Until time.Time // zero: for ever
}

// ending is a pod with a declared end, on the node with that index; pod is nil for the end of a Taken node.
type ending struct {
	node int
	pod  *v1.Pod
	at   time.Time
}

// EarliestStartIn is EarliestStart in the domain of the gang's MustGather layer with that path; ok is false if there is none.
func (a *Attempt) EarliestStartIn(ctx context.Context, path string, ends Ends) (start Start, ok bool) {
	tree := a.Net.Tree
	for d := topology.Root; int(d) < tree.Len(); d++ {
		if tree.Layer(d) == a.All.Must && tree.Path(d) == path {
			lo, hi := tree.Nodes(d)
			outside := func(i int) bool { return i < lo || i >= hi }
			within := a.Without(outside)
			within.maintained.closed = maps.Clone(a.maintained.closed)
			maps.DeleteFunc(within.maintained.closed, func(i int, _ scheduling.Window) bool { return outside(i) })
			return within.EarliestStart(ctx, ends, nil)
		}
	}
	return Start{}, false
}

// EarliestStart returns the first time at which the gang has a plan, if no further pod gets a node. Each pod ends when ends says; pods
// whose end is not known stay. Nodes that maintenance closes now are open again after their window. The pods in taken use their nodes
// besides. Of several plans it is the first by the order of plan rules. Then the members use nodes that are free now only as far as they
// must, so that these stay open to other pods. ok is false if no time is known at which there is a plan.
func (a *Attempt) EarliestStart(ctx context.Context, ends Ends, taken []Taken) (start Start, ok bool) {
	var all []ending
	var pods []*v1.Pod
	for i, n := range a.Nodes {
		if n == nil {
			continue
		}
		for _, info := range n.GetPods() {
			all, pods = append(all, ending{node: i, pod: info.GetPod()}), append(pods, info.GetPod())
		}
	}
	taken = slices.Concat(taken, a.endingBeside(ends, taken))
	known := all[:0]
	for i, end := range ends(pods) {
		if end.Known {
			all[i].at = end.Time
			known = append(known, all[i])
		}
	}
	for _, t := range taken {
		if !t.Until.IsZero() {
			known = append(known, ending{at: t.Until})
		}
	}
	for i := range a.maintained.closed {
		known = append(known, ending{at: a.openAgain(i)})
	}
	if all = known; len(all) == 0 {
		return Start{}, false
	}
	a = a.reopened(ctx)
	slices.SortStableFunc(all, func(x, y ending) int { return x.at.Compare(y.at) })
	// plan returns the plan of a part of the domain after the first n pods have ended.
	plan := func(a *Attempt, n int) (Outcome, bool) {
		gone := make([][]*v1.Pod, len(a.Nodes))
		for _, e := range all[:n] {
			if e.pod != nil {
				gone[e.node] = append(gone[e.node], e.pod)
			}
		}
		if a.maintained.announced {
			a = a.Without(a.ClosedAt(all[n-1].at))
		}
		found, refusal, err := a.Choose(ctx, gone)
		return found, err == nil && refusal == nil
	}
	n := 1 + sort.Search(len(all), func(i int) bool { _, ok := plan(a.takenAt(ctx, taken, all[i].at), i+1); return ok })
	if n > len(all) {
		return Start{}, false
	}
	at := all[n-1].at
	for n < len(all) && !all[n].at.After(wholeSecond(at)) { // all that end at that time
		n++
	}
	a = a.takenAt(ctx, taken, at)
	found, ok := plan(a, n)
	if !ok {
		return Start{}, false
	}
	tree := a.Net.Tree
	domain := tree.Ancestor(a.Enclosing(found.Places), a.All.Must)
	lo, hi := tree.Nodes(domain)
	var free []int
	for i := lo; i < hi; i++ {
		if a.World.Free[i] > 0 {
			free = append(free, i)
		}
	}
	without := func(count int) *Attempt {
		return a.Without(func(i int) bool {
			_, leftOut := slices.BinarySearch(free[:count], i)
			return leftOut || i < lo || i >= hi
		})
	}
	if leave := sort.Search(len(free), func(i int) bool { _, ok := plan(without(i+1), n); return !ok }); leave > 0 {
		if other, ok := plan(without(leave), n); ok {
			found = other
		}
	}
	return Start{Places: found.Places, Domain: tree.Path(domain), At: at}, true
}

// wholeSecond returns the first whole second that is not before t: objects have times in whole seconds.
func wholeSecond(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second) }

// endingBeside returns the pods beside the snapshot that have a node and whose ends are known, without the pods in taken. Members for which
// capacity is held are left out: their run time has not begun.
func (a *Attempt) endingBeside(ends Ends, taken []Taken) (out []Taken) {
	for _, i := range slices.Sorted(maps.Keys(a.beside)) {
		for _, info := range a.beside[i] {
			pod := info.GetPod()
			isPod := func(t Taken) bool { return t.Pod.UID == pod.UID }
			if !source.GangOf(pod).IsZero() && !a.planner.cache.HasPlace(pod) {
				continue
			}
			if end := ends([]*v1.Pod{pod})[0]; end.Known && !slices.ContainsFunc(taken, isPod) {
				out = append(out, Taken{pod, a.Net.Tree.NodeName(i), end.Time})
			}
		}
	}
	return out
}

// BesideHeld returns the attempt as it is beside the pods in taken, of which no one ends. The attempt must have counted.
func (a *Attempt) BesideHeld(ctx context.Context, taken []Taken) *Attempt {
	return a.takenAt(ctx, taken, time.Time{})
}

// takenAt returns the attempt as it is at a time: the pods in taken count on their nodes, if these are taken then, and on no others. The
// attempt must have counted.
func (a *Attempt) takenAt(ctx context.Context, taken []Taken, at time.Time) *Attempt {
	if len(taken) == 0 {
		return a
	}
	b := *a
	b.kinds, b.answers, b.beside = slices.Clone(a.kinds), &answers{}, map[int]fit.Pods{}
	known, changed := map[types.UID]bool{}, map[int]bool{}
	for _, t := range taken {
		known[t.Pod.UID] = true
	}
	for i, pods := range a.beside {
		rest := slices.DeleteFunc(slices.Clone(pods), func(p fwk.PodInfo) bool { return known[p.GetPod().UID] })
		b.beside[i] = rest
		if len(rest) < len(pods) {
			changed[i] = true
		}
	}
	for _, t := range taken {
		i, ok := a.Net.Tree.NodeIndex(t.Node)
		info, err := framework.NewPodInfo(t.Pod)
		if !ok || err != nil || !t.Until.IsZero() && !t.Until.After(at) {
			continue
		}
		b.beside[i] = append(b.beside[i], info)
		changed[i] = true
	}
	b.recount(ctx, changed)
	return &b
}

// reopened returns the attempt with the nodes that are closed for maintenance. The attempt must have counted.
func (a *Attempt) reopened(ctx context.Context) *Attempt {
	if len(a.maintained.closed) == 0 {
		return a
	}
	b := *a
	b.kinds, b.answers = slices.Clone(a.kinds), &answers{}
	nodes, changed := map[int]fwk.NodeInfo{}, map[int]bool{}
	for i := range a.maintained.closed {
		nodes[i], changed[i] = a.allNodes[i], true
	}
	b.Replace(nodes)
	b.recount(ctx, changed)
	return &b
}

// recount counts again how many members the changed nodes take. The attempt's kinds must not be another attempt's.
func (a *Attempt) recount(ctx context.Context, changed map[int]bool) {
	for k := range a.kinds {
		a.kinds[k].slots = slices.Clone(a.kinds[k].slots)
		for i := range changed {
			if a.Nodes[i] != nil {
				slots, _ := a.kinds[k].counter.CountWithout(ctx, a.Nodes[i], a.beside[i], nil)
				a.kinds[k].slots[i] = a.limited.allow(i, k, nil, slots)
			}
		}
	}
	a.World.Free, a.sum = a.least(), nil
}
