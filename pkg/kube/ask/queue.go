package ask

import (
	"context"
	"slices"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// Waiter is a gang that waits, or of which members do.
type Waiter struct {
	Gang     string    `json:"gang"`
	Position int       `json:"position"` // as Place's
	Priority int32     `json:"priority"`
	Since    time.Time `json:"since,omitzero"`
	Members  Members   `json:"members"`
	State    State     `json:"state"`
	Reason   string    `json:"reason"` // one sentence
	// Reservation is nil if no places are reserved or kept for it.
	Reservation *Reservation `json:"reservation,omitempty"`
	// EstimatedStart is the earliest time at which enough pods have reached their
	// activeDeadlineSeconds, if those who are tried before it took nothing; nil if that is not known.
	EstimatedStart *time.Time `json:"estimatedStart,omitempty"`

	next *Next // what the scheduler would do
}

// Reservation is places that are held for a gang.
type Reservation struct {
	Places  int      `json:"places"`
	Domain  string   `json:"domain"`
	Leaving []string `json:"leaving,omitempty"` // who has yet to leave, namespace/name on node
}

// Queue lists the gangs that wait, in the order in which they will be tried; last those that
// nobody tries. A namespace lists only its own; "" lists all.
func (v *View) Queue(ctx context.Context, namespace string) ([]Waiter, error) {
	pending := map[gang.Ref][]*v1.Pod{}
	for _, ref := range v.queue {
		pending[ref] = v.cache().Pending(ref)
	}
	if err := v.Settle(ctx, nil); err != nil {
		return nil, err
	}
	all := []Waiter{}
	for _, ref := range v.queue {
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

// waiter is what has become of a gang of which members waited.
func (v *View) waiter(ctx context.Context, ref gang.Ref, pending []*v1.Pod) (*Waiter, error) {
	was := v.listed[ref]
	e := &Explanation{Gang: ref.String(), Since: v.since(ref, was, pending)}
	if err := v.fate(ctx, e, ref, was); err != nil {
		return nil, err
	}
	w := &Waiter{
		Gang: e.Gang, Since: e.Since, Priority: v.cache().Priority(pending[0]), Members: e.Members, State: e.State, Reason: e.WaitsFor,
		next: e.Next,
	}
	if p := v.placeOf(ref); p != nil {
		w.Position = p.Position
	}
	if e.Next != nil && (e.State == Preempting || e.State == Evicts) {
		w.Reservation = &Reservation{Places: len(e.Next.Nodes), Domain: e.Next.Domain, Leaving: slices.Concat(e.Next.Evicts, e.Next.Leave)}
		w.EstimatedStart = v.left(slices.Concat(e.Next.Evicts[:e.Next.inTheWay], e.Next.Leave))
	}
	if e.State == Starts {
		w.EstimatedStart = &v.at
	}
	if e.State == Unschedulable && !v.cache().Reserved(v.group(ref)) { // else it is known what comes first, and not what after that
		var err error
		if w.EstimatedStart, err = v.room(ctx, ref); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// left is when the last of some pods has left that were asked to; nil if nobody knows.
func (v *View) left(names []string) *time.Time {
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

// ends is when a pod that runs will be ended; zero if it does not say.
func ends(pod *v1.Pod) time.Time {
	switch {
	case pod.DeletionTimestamp != nil:
		return pod.DeletionTimestamp.Time
	case pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil:
		return time.Time{}
	}
	return pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// room is when there will be a plan for a gang; nil if it is not known.
func (v *View) room(ctx context.Context, ref gang.Ref) (*time.Time, error) {
	t, err := v.try(ctx, ref)
	if err != nil || t == nil || t.Refusal == nil || !t.Attempt.Counted() {
		return nil, err
	}
	a := t.Attempt
	var times []time.Time
	for _, n := range a.Nodes {
		if n == nil {
			continue
		}
		for _, pod := range podsOn(n) {
			if at := ends(pod); !at.IsZero() {
				times = append(times, at)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, time.Time.Equal)
	enough := func(k int) bool {
		gone := make([][]*v1.Pod, len(a.Nodes))
		for i, n := range a.Nodes {
			if n == nil {
				continue
			}
			for _, pod := range podsOn(n) {
				if at := ends(pod); !at.IsZero() && !at.After(times[k]) {
					gone[i] = append(gone[i], pod)
				}
			}
		}
		_, refusal, failed := a.Choose(ctx, gone)
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
	if at.Before(v.at) { // it is due, and somebody is slow to end it
		at = v.at
	}
	return &at, nil
}
