package ask

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Waiter is a gang with waiting members.
type Waiter struct {
	Gang     string    `json:"gang"`
	Position int       `json:"position"` // see QueuePosition
	Priority int32     `json:"priority"`
	Since    time.Time `json:"since,omitzero"`
	Members  Members   `json:"members"`
	State    State     `json:"state"`
	Reason   string    `json:"reason"` // one sentence
	// Warnings is the same as in Explanation.
	Warnings []string `json:"warnings,omitempty"`
	// Reservation is nil if no nodes are reserved or held for it.
	Reservation *Reservation `json:"reservation,omitempty"`
	// Start is when the gang starts; nil for a gang that waits for something else than capacity.
	Start *Start `json:"start,omitempty"`

	next *Next // what the scheduler would do
}

// Reservation is the reserved nodes of a gang.
type Reservation struct {
	Places  int      `json:"places"`
	Domain  string   `json:"domain"`
	Leaving []string `json:"leaving,omitempty"` // pods that have not terminated, as namespace/name on node
}

// Queue runs the scheduler and lists the waiting gangs in scheduling order. After them come the gangs that are not tried, and then the
// gangs without a member that this scheduler could try. Last come gangs that pods name in a misspelt key only. namespace "" lists all.
func (v *View) Queue(ctx context.Context, namespace string) ([]Waiter, error) {
	pending := map[gang.Ref][]*v1.Pod{}
	for _, ref := range v.queue {
		pending[ref] = v.cache().Pending(ref)
	}
	misspelt := v.misspeltGangs(namespace)
	if err := v.Settle(ctx, nil); err != nil {
		return nil, err
	}
	starts, err := v.starts(ctx, gang.Ref{})
	if err != nil {
		return nil, err
	}
	all, warnings := []Waiter{}, v.Warnings() // sorted, so that they are read once
	for _, ref := range slices.Concat(v.queue, v.unqueued) {
		if namespace != "" && ref.Namespace != namespace {
			continue
		}
		w, err := v.waiter(ctx, ref, pending[ref], starts, warnings)
		if err != nil {
			return nil, err
		}
		all = append(all, *w)
	}
	return append(all, misspelt...), nil
}

// misspeltGangs returns entries for the gangs that do not exist, and that pods without a node name in a misspelt key.
func (v *View) misspeltGangs(namespace string) (all []Waiter) {
	pods := map[gang.Ref][]*v1.Pod{}
	for _, pod := range v.Pods() {
		_, name, _ := convert.MisspeltGangKey(pod)
		if name != "" && pod.Spec.NodeName == "" && source.GangOf(pod).IsZero() && (namespace == "" || namespace == pod.Namespace) {
			ref := gang.Ref{Namespace: pod.Namespace, Name: name}
			pods[ref] = append(pods[ref], pod)
		}
	}
	for _, ref := range v.cache().Gangs() {
		delete(pods, gang.Ref{Namespace: ref.Namespace, Name: ref.Name}) // its own entry names these pods
	}
	for _, ref := range slices.SortedFunc(maps.Keys(pods), func(a, b gang.Ref) int { return a.Compare(b, topology.CompareNames) }) {
		reason := fmt.Sprintf("There is no gang %s%s", ref, convert.Misnamed(ref.Name, true, pods[ref], nil))
		all = append(all, Waiter{
			Gang: ref.String(), Since: pods[ref][0].CreationTimestamp.Time, Members: Members{Exist: len(pods[ref])}, State: Waiting, Reason: reason,
		})
	}
	return all
}

// waiter returns the entry of Queue for a gang. pending are the members that waited at the start, and warnings are all warnings.
func (v *View) waiter(ctx context.Context, ref gang.Ref, pending []*v1.Pod, starts map[gang.Ref]*Start, warnings []simulate.Event) (
	*Waiter, error,
) {
	atStart := v.initial[ref]
	if len(pending) == 0 && atStart.EventMember != nil {
		pending = []*v1.Pod{atStart.EventMember}
	}
	e := &Explanation{Gang: ref.String(), Since: v.since(ref, atStart, pending)}
	if err := v.explainWaiting(ctx, e, ref, atStart); err != nil {
		return nil, err
	}
	w := &Waiter{Gang: e.Gang, Since: e.Since, Members: e.Members, State: e.State, Reason: e.WaitsFor, next: e.Next}
	w.Warnings = warningsAbout(warnings, ref, pending)
	if len(pending) > 0 {
		w.Priority = v.cache().Priority(pending[0])
	}
	if p := v.placeOf(ref); p != nil {
		w.Position = p.Position
	}
	if e.Next != nil && (e.State == Preempting || e.State == Evicts) {
		w.Reservation = &Reservation{Places: len(e.Next.Nodes), Domain: e.Next.Domain, Leaving: slices.Concat(e.Next.Evicts, e.Next.Terminating)}
		if at := v.lastDeletion(slices.Concat(e.Next.Evicts[:e.Next.inTheWay], e.Next.Terminating)); at != nil {
			w.Start = simulate.ForecastOf(*at, e.Next.Domain, "The pods on its nodes have then terminated.")
		}
	}
	if e.State == Starts {
		w.Start = simulate.ForecastOf(v.at, e.Next.Domain, "")
	}
	if e.State == Unschedulable {
		w.Start = starts[v.group(ref)]
	}
	v.showRepair(ref, &w.State, &w.Reason)
	return w, nil
}

// lastDeletion returns the latest deletion time of the pods in names (namespace/name on node); nil if none is being deleted.
func (v *View) lastDeletion(names []string) *time.Time {
	var last time.Time
	for _, pod := range v.Pods() {
		if pod.DeletionTimestamp != nil && slices.Contains(names, nameOn(pod)) && pod.DeletionTimestamp.After(last) {
			last = pod.DeletionTimestamp.Time
		}
	}
	if last.IsZero() {
		return nil
	}
	return &last
}
