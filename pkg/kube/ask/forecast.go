package ask

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// Start is when a waiting gang starts, as far as that is known.
type Start = simulate.Start

// maxForecasts bounds the groups whose start is computed: each forecast takes some plans.
const maxForecasts = 20

// starts returns the start of each unschedulable group: the promised one, or a forecast. A forecast counts the promised starts and the
// forecasts of the groups before it in the queue. It exists in the answer only: the scheduler holds nothing for it. last is the last group
// whose start is needed; zero for all.
func (v *View) starts(ctx context.Context, last gang.Ref) (map[gang.Ref]*Start, error) {
	starts := map[gang.Ref]*Start{}
	var taken []place.Taken
	var groups []gang.Ref
	for _, ref := range v.queue {
		r, ok := v.cache().Report(ref)
		key := v.group(ref)
		if !ok || r.Reserved || v.reason(ref, r) != Unschedulable || slices.Contains(groups, key) {
			continue
		}
		groups = append(groups, key)
		if by := r.Refusal.By; by == gang.Quota || by == gang.Veto {
			starts[key] = unknownStart(notNodes)
			continue
		}
		if !r.Promise.Exists() {
			continue
		}
		starts[key] = simulate.StartOf(r.Promise)
		if g, refusal := v.cache().GroupOf(key); !refusal.Exists() {
			var places []gang.Assignment
			for _, pod := range slices.Sorted(maps.Keys(g.HeldNodes)) {
				places = append(places, gang.Assignment{Pod: pod, Node: g.HeldNodes[pod]})
			}
			taken = append(taken, v.takenBy(g, places, r.Promise.At)...)
		}
	}
	computed, declared := 0, v.anyEnd()
	for _, key := range groups {
		switch {
		case starts[key] != nil:
		case !declared:
			starts[key] = unknownStart("No pod declares when it ends.")
		case computed == maxForecasts:
			starts[key] = unknownStart(fmt.Sprintf("Forecasts are computed for the first %d gangs only.", maxForecasts))
		default:
			computed++
			start, nodes, err := v.forecast(ctx, key, taken)
			if err != nil {
				return nil, err
			}
			starts[key], taken = start, append(taken, nodes...)
		}
		if key == last {
			break
		}
	}
	return starts, nil
}

// notNodes is why the start of a gang is unknown that waits for a quota or a plugin.
const notNodes = "The gang does not wait for free nodes alone."

func unknownStart(why string) *Start { return &Start{Kind: simulate.UnknownStart, Why: why} }

// reason returns the reason of a gang's condition, or Waiting if kinds that could not be listed make it unknown.
func (v *View) reason(ref gang.Ref, r cache.Report) State {
	state, _ := v.StateOf(ref, r)
	return state
}

// anyEnd returns whether the end of any running pod is known.
func (v *View) anyEnd() bool {
	running := slices.DeleteFunc(v.Pods(), func(pod *v1.Pod) bool { return pod.Spec.NodeName == "" })
	return slices.ContainsFunc(v.ends(running), func(end cache.DeclaredEnd) bool { return end.Known })
}

// ends returns when running pods end.
func (v *View) ends(pods []*v1.Pod) []cache.DeclaredEnd { return v.cache().Ends(pods, v.Now()) }

// forecast returns when a group starts if the pods end as declared and other groups have taken nodes, and the nodes that it then takes.
func (v *View) forecast(ctx context.Context, key gang.Ref, taken []place.Taken) (*Start, []place.Taken, error) {
	t, err := v.try(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	if t == nil || t.Refusal == nil || !t.Attempt.CapacityKnown() {
		return unknownStart(notNodes), nil, nil
	}
	a := t.Attempt.SmallestAttempt(ctx)
	if len(a.Group.Pending) == 0 {
		return unknownStart(notNodes), nil, nil
	}
	lower := v.Shared().Profile(a.Lowest().Spec.SchedulerName).Preemptor.LowerVictims(a)
	start, ok := a.EarliestStart(ctx, func(pods []*v1.Pod) []cache.DeclaredEnd {
		all := v.ends(pods)
		for i, pod := range pods {
			if lower(pod) { // it is evicted when the gang starts
				all[i] = cache.DeclaredEnd{Time: v.Now(), Known: true}
			}
		}
		return all
	}, taken)
	if !ok || !start.At.After(v.Now()) { // the search for victims found none for a start now
		start, ok = a.EarliestStart(ctx, v.ends, taken)
	}
	if !ok {
		if lost := simulate.StartOf(a.Group.Promise); lost != nil {
			return lost, nil, nil
		}
		return unknownStart("Too few pods, or gangs ahead, declare when they end."), nil, nil
	}
	found := simulate.ForecastOf(start.At, start.Domain, "It counts the gangs ahead and is not kept.")
	return found, v.takenBy(a.Group, start.Places, start.At), nil
}

// takenBy returns the nodes of a group from now until its declared end, if it starts at a time; for ever if its end is not declared.
func (v *View) takenBy(g *cache.Group, places []gang.Assignment, at time.Time) (all []place.Taken) {
	for _, p := range places {
		pod := g.Pods[p.Pod]
		if pod == nil {
			continue
		}
		t := place.Taken{Pod: pod, Node: p.Node}
		if until, known := v.cache().End(pod, at); known {
			t.Until = until
		}
		all = append(all, t)
	}
	return all
}
