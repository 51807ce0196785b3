package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// hasPlaces says whether places are reserved for a gang itself, and not only for others of its group.
func (v *View) hasPlaces(ref gang.Ref) bool {
	return slices.ContainsFunc(v.cache().Pending(ref), func(pod *v1.Pod) bool {
		node, _ := v.cache().Place(pod)
		return node != ""
	})
}

// reserved is what a gang waits for whose places are reserved: victims that are leaving, or such as
// would be evicted for it now.
func (v *View) reserved(ctx context.Context, e *Explanation, ref gang.Ref, was cache.Report) error {
	e.State, e.Reason = Preempting, ""
	e.Next = &Next{Nodes: []string{}}
	trial, err := v.try(ctx, ref)
	if err != nil || trial == nil {
		return err
	}
	var places []gang.Place
	for _, m := range trial.Attempt.Group.Pending {
		if node := trial.Attempt.Group.Places[m.Pod]; node != "" {
			e.Next.Nodes = append(e.Next.Nodes, node)
			places = append(places, gang.Place{Pod: m.Pod, Node: node})
		}
	}
	e.Next.Domain = trial.Attempt.Domain(places)
	if e.Next.Why = v.Eviction(ref); e.Next.Why != nil {
		e.State = Evicts
	}
	v.makeRoom(e.Next, trial)
	e.WaitsFor = e.Next.sentence()
	v.costs(e, ref)
	return nil
}

// makeRoom notes who leaves for a reservation.
func (v *View) makeRoom(n *Next, t *plugin.Trial) {
	victims, inTheWay := t.Preemptor.Victims, map[types.UID]bool{}
	asked := func(p *v1.Pod) bool { return victims.Asked(t.Attempt.Group.Key, p) }
	gone, _ := victims.Leaving(t.Attempt, v.Now())
	for _, p := range slices.Concat(gone...) {
		inTheWay[p.UID] = true
		if n.Why != nil && !asked(p) {
			n.Leave = append(n.Leave, nameOn(p))
		} else {
			n.Evicts = append(n.Evicts, nameOn(p))
		}
	}
	n.inTheWay = len(n.Evicts)
	for _, p := range v.Pods() {
		if !inTheWay[p.UID] && asked(p) {
			n.Evicts = append(n.Evicts, nameOn(p))
		}
	}
	for _, names := range [][]string{n.Evicts[:n.inTheWay], n.Evicts[n.inTheWay:], n.Leave} {
		slices.SortFunc(names, topology.CompareNames)
	}
}

// sentence says what a gang with a reservation waits for.
func (n *Next) sentence() string {
	var out []string
	if len(n.Evicts) > 0 {
		out = append(out, map[bool]string{true: "Would evict ", false: "Waits for "}[n.Why != nil]+several(n.Evicts))
	}
	if len(n.Leave) > 0 {
		out = append(out, fmt.Sprintf("%s %s anyway", several(n.Leave), map[bool]string{true: "leaves", false: "leave"}[len(n.Leave) == 1]))
	}
	switch len(n.Evicts) + len(n.Leave) {
	case 0:
		return fmt.Sprintf("Its places in %s are reserved, and free: it starts when the scheduler comes to it.", in(n.Domain))
	case 1:
		return fmt.Sprintf("%s; it starts in %s when that pod has left.", strings.Join(out, "; "), in(n.Domain))
	}
	return fmt.Sprintf("%s; it starts in %s when these have left.", strings.Join(out, "; "), in(n.Domain))
}

func nameOn(p *v1.Pod) string { return convert.PodKey(p) + " on " + p.Spec.NodeName }

// mostNamed bounds the names in a sentence.
const mostNamed = 3

func several(names []string) string {
	if len(names) <= mostNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), len(names)-mostNamed)
}

// in names a domain.
func in(path string) string {
	if path == "" {
		return "the cluster"
	}
	return path
}
