package departure

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Leaving is who leaves, as far as that matters to a reservation, by node index: its own are who is still on a reserved node, and
// who was asked to leave for it, if it matters to members who is elsewhere; in that case all are whoever leaves.
type Leaving struct{ own, all [][]*v1.Pod }

// Leaving says who is still there and was asked to leave, or leaves anyway. The places must have been looked at.
func (v *Victims) Leaving(a *place.Attempt, now time.Time) Leaving {
	known := v.remembered(a.Group.Key, now)
	l := Leaving{own: make([][]*v1.Pod, len(a.Nodes))}
	for _, node := range a.Group.Places {
		if i, ok := a.Net.Tree.NodeIndex(node); ok && a.Nodes[i] != nil && l.own[i] == nil {
			l.own[i] = some(a.Nodes[i], known.leaves)
		}
	}
	if l.all = l.own; !a.Dependent() {
		return l
	}
	return v.elsewhere(a, l, known)
}

// elsewhere adds who leaves other nodes than the reserved ones.
func (v *Victims) elsewhere(a *place.Attempt, l Leaving, known remembered) Leaving {
	l.all = slices.Clone(l.own)
	named := map[int]bool{}
	for node := range known.nodes {
		if i, ok := a.Net.Tree.NodeIndex(node); ok {
			named[i] = true
		}
	}
	calm := v.takeCalm(len(a.Nodes))
	defer v.putCalm(calm)
	for i, n := range a.Nodes {
		if n == nil || l.own[i] != nil {
			continue
		}
		now := a.Generation(i)
		if calm[i] == now && !named[i] {
			continue
		}
		calm[i] = now
		if l.all[i] = some(n, known.leaves); l.all[i] == nil {
			continue
		}
		l.own[i] = some(n, known.isAsked)
		if slices.ContainsFunc(l.all[i], func(p *v1.Pod) bool { return p.DeletionTimestamp != nil }) {
			calm[i] = 0
		}
	}
	return l
}

// takeCalm returns in which state of nodes no pod was seen terminating, by node index: that is nearly all nodes, and all of their
// pods are a lot to look at. Indices may be those of another tree: no two nodes have had the same state. A search that runs at
// the same time begins with nothing.
func (v *Victims) takeCalm(nodes int) []int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	calm := v.calm
	v.calm = nil
	if len(calm) != nodes {
		return make([]int64, nodes)
	}
	return calm
}

func (v *Victims) putCalm(calm []int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calm = calm
}

// some are those of a node's pods of whom something is so.
func some(n fwk.NodeInfo, is func(*v1.Pod) bool) (pods []*v1.Pod) {
	for _, p := range n.GetPods() {
		if pod := p.GetPod(); is(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// remembered are those who were asked to leave for a group's reservation, and who are to leave for whomever and were not seen
// leaving; and on which nodes they are.
type remembered struct {
	asked, going map[types.UID]bool
	nodes        map[string]bool
}

// remembered copies what is to be known: whoever goes through all pods of a cluster with it holds nobody up.
func (v *Victims) remembered(group gang.Ref, now time.Time) remembered {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := remembered{going: make(map[types.UID]bool, len(v.going)), nodes: map[string]bool{}}
	if e := v.asked[group]; e != nil {
		r.asked = maps.Clone(e.pods)
		maps.Copy(r.nodes, e.nodes)
	}
	for uid, p := range v.going {
		if v.isGoing(p.pod, now) {
			r.going[uid], r.nodes[p.pod.Spec.NodeName] = true, true
		}
	}
	return r
}

func (r remembered) isAsked(p *v1.Pod) bool { return r.asked[p.UID] }

func (r remembered) leaves(p *v1.Pod) bool {
	return p.DeletionTimestamp != nil || r.asked[p.UID] || r.going[p.UID]
}

// Any says whether anybody leaves.
func (l Leaving) Any() bool {
	return slices.ContainsFunc(l.all, func(here []*v1.Pod) bool { return len(here) > 0 })
}

// Fit says with whom gone the reserved places of an attempt can be taken, and if they cannot even then, why. Who leaves elsewhere
// may be somebody whom members need: as long as he is there, the reservation waits for its own.
func (l Leaving) Fit(ctx context.Context, a *place.Attempt) (gone [][]*v1.Pod, why string) {
	if _, why = a.PlacesFit(ctx, l.all); why == "" || len(l.others()) == 0 {
		return l.all, why
	}
	if _, still := a.PlacesFit(ctx, l.own); still != "" {
		return l.all, why
	}
	return l.own, ""
}

// others are all but its own.
func (l Leaving) others() (pods []*v1.Pod) {
	for i, here := range l.all {
		if len(here) == len(l.own[i]) {
			continue
		}
		for _, p := range here {
			if !slices.Contains(l.own[i], p) {
				pods = append(pods, p)
			}
		}
	}
	return pods
}

// InTheWay are its own, and of the others those without whom the reserved places could not be taken, as far as few tries show.
func (l Leaving) InTheWay(ctx context.Context, a *place.Attempt) []*v1.Pod {
	own := slices.Concat(l.own...)
	if settled, err := a.Settled(ctx); settled != nil && err == nil {
		a = settled
	}
	others := l.others()
	if len(others) == 0 {
		return own
	}
	if _, why := a.PlacesFit(ctx, l.all); why != "" {
		return own
	}
	units := make([][]*v1.Pod, len(others))
	for i, p := range others {
		units[i] = []*v1.Pod{p}
	}
	back := Kept(units, func(some [][]*v1.Pod) bool {
		_, why := a.PlacesFit(ctx, l.without(some))
		return why == ""
	})
	needless := eligible.UIDs([][]*v1.Pod{back})
	return append(own, slices.DeleteFunc(others, func(p *v1.Pod) bool { return needless[p.UID] })...)
}

// without are all but some.
func (l Leaving) without(units [][]*v1.Pod) [][]*v1.Pod {
	stays := eligible.UIDs(units)
	out := slices.Clone(l.all)
	for i, here := range out {
		if len(here) > 0 {
			out[i] = slices.DeleteFunc(slices.Clone(here), func(p *v1.Pod) bool { return stays[p.UID] })
		}
	}
	return out
}
