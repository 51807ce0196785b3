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
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Terminating has the terminating pods that matter to a reservation, by node index. own are the pods on reserved nodes and the
// reservation's own victims. everywhere are the terminating pods of all nodes if the members are interdependent, else it equals own.
type Terminating struct{ own, everywhere [][]*v1.Pod }

// Leaving returns the terminating pods, as of now, that matter to the reservation of the attempt's group.
func (v *Victims) Leaving(a *place.Attempt, now time.Time) Terminating {
	known := v.remembered(a.Group.Key, now)
	l := Terminating{own: make([][]*v1.Pod, len(a.Nodes))}
	for _, node := range a.Group.Places {
		if i, ok := a.Net.Tree.NodeIndex(node); ok && a.Nodes[i] != nil && l.own[i] == nil {
			l.own[i] = podsOn(a.Nodes[i], known.terminates)
		}
	}
	if l.everywhere = l.own; !a.Dependent() {
		return l
	}
	return v.addElsewhere(a, l, known)
}

// addElsewhere returns l with the terminating pods on other nodes than the reserved ones.
func (v *Victims) addElsewhere(a *place.Attempt, l Terminating, known remembered) Terminating {
	l.everywhere = slices.Clone(l.own)
	named := map[int]bool{}
	for node := range known.nodes {
		if i, ok := a.Net.Tree.NodeIndex(node); ok {
			named[i] = true
		}
	}
	calmGenerations := v.takeCalmGenerations(len(a.Nodes))
	defer v.putCalmGenerations(calmGenerations)
	for i, n := range a.Nodes {
		if n == nil || l.own[i] != nil {
			continue
		}
		now := a.Generation(i)
		if calmGenerations[i] == now && !named[i] {
			continue
		}
		calmGenerations[i] = now
		if l.everywhere[i] = podsOn(n, known.terminates); l.everywhere[i] == nil {
			continue
		}
		l.own[i] = podsOn(n, known.isVictim)
		if slices.ContainsFunc(l.everywhere[i], func(p *v1.Pod) bool { return p.DeletionTimestamp != nil }) {
			calmGenerations[i] = 0
		}
	}
	return l
}

// takeCalmGenerations returns, by node index, the last generation in which the node was found without a terminating pod; 0 is unknown.
// Nodes of that generation need not be read again. A concurrent caller gets only zeros. The indexes may be of another tree: generations are
// unique.
func (v *Victims) takeCalmGenerations(nodes int) []int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	calmGenerations := v.calmGenerations
	v.calmGenerations = nil
	if len(calmGenerations) != nodes {
		return make([]int64, nodes)
	}
	return calmGenerations
}

func (v *Victims) putCalmGenerations(calmGenerations []int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calmGenerations = calmGenerations
}

// podsOn returns the pods of a node for which matches returns true.
func podsOn(n fwk.NodeInfo, matches func(*v1.Pod) bool) (pods []*v1.Pod) {
	for _, p := range n.GetPods() {
		if pod := p.GetPod(); matches(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// remembered is a copy from Victims: the victims of a group's reservation, all pods to evict that do not terminate yet, and their nodes.
type remembered struct {
	victims, pending map[types.UID]bool
	nodes            map[string]bool
}

// remembered returns a copy of v's state for a group, so that the caller can read all pods of a cluster with v.mu unlocked.
func (v *Victims) remembered(group gang.Ref, now time.Time) remembered {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := remembered{pending: make(map[types.UID]bool, len(v.pending)), nodes: map[string]bool{}}
	if e := v.evictions[group]; e != nil {
		r.victims = maps.Clone(e.pods)
		maps.Copy(r.nodes, e.nodes)
	}
	for uid, p := range v.pending {
		if v.isPending(p.pod, now) {
			r.pending[uid], r.nodes[p.pod.Spec.NodeName] = true, true
		}
	}
	return r
}

func (r remembered) isVictim(p *v1.Pod) bool { return r.victims[p.UID] }

func (r remembered) terminates(p *v1.Pod) bool {
	return p.DeletionTimestamp != nil || r.victims[p.UID] || r.pending[p.UID]
}

// Any returns whether there is any terminating pod.
func (l Terminating) Any() bool {
	return slices.ContainsFunc(l.everywhere, func(onNode []*v1.Pod) bool { return len(onNode) > 0 })
}

// Sentence returns a sentence for users: what the reservation waits for. It names the first three pods.
func (l Terminating) Sentence() string {
	var pods []string
	for _, onNode := range l.everywhere {
		for _, p := range onNode {
			pods = append(pods, convert.PodKey(p)+" on "+p.Spec.NodeName)
		}
	}
	what := "the devices of terminated pods to be released"
	if len(pods) > 0 {
		slices.SortFunc(pods, topology.CompareNames)
		what = status.FirstNames(pods) + " to terminate"
	}
	return "Waits for " + what + "; then the members with reserved nodes start, unless pods of higher priority take these nodes."
}

// Fit returns the terminating pods without which the attempt fits its reserved nodes, or why it does not fit even then. It tries all of
// them first, and then only l.own, because members may need a terminating pod on another node (by affinity).
func (l Terminating) Fit(ctx context.Context, a *place.Attempt) (gone [][]*v1.Pod, why string) {
	if _, why = a.PlacesFit(ctx, l.everywhere); why == "" || len(l.elsewhere()) == 0 {
		return l.everywhere, why
	}
	if _, stillWhy := a.PlacesFit(ctx, l.own); stillWhy != "" {
		return l.everywhere, why
	}
	return l.own, ""
}

// elsewhere returns the pods of l.everywhere that are not in l.own.
func (l Terminating) elsewhere() (pods []*v1.Pod) {
	for i, onNode := range l.everywhere {
		if len(onNode) == len(l.own[i]) {
			continue
		}
		for _, p := range onNode {
			if !slices.Contains(l.own[i], p) {
				pods = append(pods, p)
			}
		}
	}
	return pods
}

// Blocking returns the pods that the reservation waits for: l.own, and those other pods without whose end it does not fit. The search for
// the latter is limited (see SparedOf).
func (l Terminating) Blocking(ctx context.Context, a *place.Attempt) []*v1.Pod {
	own := slices.Concat(l.own...)
	if settled, err := a.AfterRelease(ctx); settled != nil && err == nil {
		a = settled
	}
	elsewhere := l.elsewhere()
	if len(elsewhere) == 0 {
		return own
	}
	if _, why := a.PlacesFit(ctx, l.everywhere); why != "" {
		return own
	}
	singles := make([][]*v1.Pod, len(elsewhere))
	for i, p := range elsewhere {
		singles[i] = []*v1.Pod{p}
	}
	unneeded := SparedOf(singles, func(kept [][]*v1.Pod) bool {
		_, why := a.PlacesFit(ctx, l.without(kept))
		return why == ""
	})
	isUnneeded := eligible.UIDs([][]*v1.Pod{unneeded})
	return append(own, slices.DeleteFunc(elsewhere, func(p *v1.Pod) bool { return isUnneeded[p.UID] })...)
}

// without returns the pods of l.everywhere that are not in the bundles kept.
func (l Terminating) without(kept [][]*v1.Pod) [][]*v1.Pod {
	isKept := eligible.UIDs(kept)
	out := slices.Clone(l.everywhere)
	for i, onNode := range out {
		if len(onNode) > 0 {
			out[i] = slices.DeleteFunc(slices.Clone(onNode), func(p *v1.Pod) bool { return isKept[p.UID] })
		}
	}
	return out
}
