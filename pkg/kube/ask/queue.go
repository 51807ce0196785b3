package ask

import (
	"context"
	"slices"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
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
	// Reservation is nil if no nodes are reserved or held for it.
	Reservation *Reservation `json:"reservation,omitempty"`
	// EstimatedStart is the earliest time at which enough pods have reached their activeDeadlineSeconds, if gangs ahead in the
	// queue took nothing; nil if unknown.
	EstimatedStart *time.Time `json:"estimatedStart,omitempty"`

	next *Next // what the scheduler would do
}

// Reservation is the reserved nodes of a gang.
type Reservation struct {
	Places  int      `json:"places"`
	Domain  string   `json:"domain"`
	Leaving []string `json:"leaving,omitempty"` // pods that have not terminated, as namespace/name on node
}

// Queue runs the scheduler and lists the waiting gangs in scheduling order. After them come the gangs that are not tried, and then the
// gangs without a member that this scheduler could try. namespace "" lists all namespaces.
func (v *View) Queue(ctx context.Context, namespace string) ([]Waiter, error) {
	pending := map[gang.Ref][]*v1.Pod{}
	for _, ref := range v.queue {
		pending[ref] = v.cache().Pending(ref)
	}
	if err := v.Settle(ctx, nil); err != nil {
		return nil, err
	}
	all := []Waiter{}
	for _, ref := range slices.Concat(v.queue, v.unqueued) {
		if namespace != "" && ref.Namespace != namespace {
			continue
		}
		w, err := v.waiter(ctx, ref, pending[ref])
		if err != nil {
			return nil, err
		}
		all = append(all, *w)
	}
	return all, nil
}

// waiter returns the entry of Queue for a gang. pending are the members that waited at the start.
func (v *View) waiter(ctx context.Context, ref gang.Ref, pending []*v1.Pod) (*Waiter, error) {
	atStart := v.initial[ref]
	if len(pending) == 0 && atStart.EventMember != nil {
		pending = []*v1.Pod{atStart.EventMember}
	}
	e := &Explanation{Gang: ref.String(), Since: v.since(ref, atStart, pending)}
	if err := v.explainWaiting(ctx, e, ref, atStart); err != nil {
		return nil, err
	}
	w := &Waiter{Gang: e.Gang, Since: e.Since, Members: e.Members, State: e.State, Reason: e.WaitsFor, next: e.Next}
	if len(pending) > 0 {
		w.Priority = v.cache().Priority(pending[0])
	}
	if p := v.placeOf(ref); p != nil {
		w.Position = p.Position
	}
	if e.Next != nil && (e.State == Preempting || e.State == Evicts) {
		w.Reservation = &Reservation{Places: len(e.Next.Nodes), Domain: e.Next.Domain, Leaving: slices.Concat(e.Next.Evicts, e.Next.Terminating)}
		w.EstimatedStart = v.lastDeletion(slices.Concat(e.Next.Evicts[:e.Next.inTheWay], e.Next.Terminating))
	}
	if e.State == Starts {
		w.EstimatedStart = &v.at
	}
	if e.State == Unschedulable && !v.cache().Reserved(v.group(ref)) { // with a reservation, what follows it is unknown
		var err error
		if w.EstimatedStart, err = v.startTime(ctx, ref); err != nil {
			return nil, err
		}
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

// endTime returns when a pod must end: its deletion time, or its start plus activeDeadlineSeconds; zero if it has neither.
func endTime(pod *v1.Pod) time.Time {
	switch {
	case pod.DeletionTimestamp != nil:
		return pod.DeletionTimestamp.Time
	case pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil:
		return time.Time{}
	}
	return pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// startTime returns the earliest endTime of pods after which a trial plan for the gang succeeds; nil if there is none.
func (v *View) startTime(ctx context.Context, ref gang.Ref) (*time.Time, error) {
	t, err := v.try(ctx, ref)
	if err != nil || t == nil || t.Refusal == nil || !t.Attempt.CapacityKnown() {
		return nil, err
	}
	a := t.Attempt
	var times []time.Time
	for _, n := range a.Nodes {
		if n == nil {
			continue
		}
		for _, pod := range podsOn(n) {
			if at := endTime(pod); !at.IsZero() {
				times = append(times, at)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, time.Time.Equal)
	enough := func(k int) bool {
		ended := make([][]*v1.Pod, len(a.Nodes))
		for i, n := range a.Nodes {
			if n == nil {
				continue
			}
			for _, pod := range podsOn(n) {
				if at := endTime(pod); !at.IsZero() && !at.After(times[k]) {
					ended[i] = append(ended[i], pod)
				}
			}
		}
		_, refusal, failed := a.Choose(ctx, ended)
		if failed != nil {
			err = failed
		}
		return refusal == nil && failed == nil
	}
	k := sort.Search(len(times), enough)
	if err != nil || k == len(times) {
		return nil, err
	}
	at := times[k]
	if at.Before(v.at) { // overdue
		at = v.at
	}
	return &at, nil
}
