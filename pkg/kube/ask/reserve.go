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
	v.evicted(e.Next, trial)
	verb := "Waits for"
	if v.Eviction(ref) != nil {
		e.State, verb = Evicts, "Would evict"
		e.Next.Why = v.Eviction(ref)
	}
	e.WaitsFor = fmt.Sprintf("%s %s; it starts in %s when that pod has left.", verb, several(e.Next.Evicts), in(e.Next.Domain))
	if len(e.Next.Evicts) > 1 {
		e.WaitsFor = fmt.Sprintf("%s %s; it starts in %s when these have left.", verb, several(e.Next.Evicts), in(e.Next.Domain))
	}
	if len(e.Next.Evicts) == 0 {
		e.WaitsFor = fmt.Sprintf("Its places in %s are reserved, and free: it starts when the scheduler comes to it.", in(e.Next.Domain))
	}
	v.costs(e, ref)
	return nil
}

// evicted notes who leaves for a reservation.
func (v *View) evicted(n *Next, t *plugin.Trial) {
	victims, names := t.Preemptor.Victims, map[types.UID]bool{}
	gone, _ := victims.Leaving(t.Attempt, v.Now())
	for _, pods := range gone {
		for _, p := range pods {
			names[p.UID] = true
			n.Evicts = append(n.Evicts, nameOn(p))
		}
	}
	n.inTheWay = len(n.Evicts)
	for _, p := range v.Pods() {
		if !names[p.UID] && victims.Asked(t.Attempt.Group.Key, p) {
			n.Evicts = append(n.Evicts, nameOn(p))
		}
	}
	slices.SortFunc(n.Evicts[:n.inTheWay], topology.CompareNames)
	slices.SortFunc(n.Evicts[n.inTheWay:], topology.CompareNames)
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
