package extend

import (
	"context"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// SeatsName is how profiles name Seats.
const SeatsName = "Seats"

// seats is how many there are of a licence that pods with the label example.com/seat take, wherever they run.
const seats = 4

// Seats is a plugin as kube-scheduler has many: it counts, beside the nodes, what pods have taken. It lets each member of
// a gang pass as long as one seat is free. Only the ledger knows that the seats do not suffice for all members.
type Seats struct {
	pods  corelisters.PodLister
	mu    sync.Mutex
	given map[types.UID]bool // to pods without a written node
}

// NewSeats is its factory.
func NewSeats(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &Seats{pods: h.SharedInformerFactory().Core().V1().Pods().Lister(), given: map[types.UID]bool{}}, nil
}

// Name implements fwk.Plugin.
func (*Seats) Name() string { return SeatsName }

// EventsToRegister says when there may be a seat again.
func (*Seats) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}}}, nil
}

// sits says whether a pod takes a seat.
func sits(pod *v1.Pod) bool { _, is := pod.Labels["example.com/seat"]; return is }

// free is how many seats are free.
func (s *Seats) free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, _ := s.pods.List(labels.Everything())
	n := seats
	for _, pod := range all {
		ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		if sits(pod) && !ended && (pod.Spec.NodeName != "" || s.given[pod.UID]) {
			n--
		}
	}
	return n
}

// Filter implements fwk.FilterPlugin.
func (s *Seats) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if sits(pod) && s.free() < 1 {
		return noSeat()
	}
	return nil
}

func noSeat() *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, "no seat is free").WithPlugin(SeatsName)
}

// Reserve implements fwk.ReservePlugin.
func (s *Seats) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given[pod.UID] = sits(pod)
	return nil
}

// Unreserve implements fwk.ReservePlugin.
func (s *Seats) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.given, pod.UID)
}

// Ledger implements plugin.Keeper.
func (s *Seats) Ledger() fit.Ledger { return ledger{s} }

// ledger is what Seats says of several members.
type ledger struct{ *Seats }

// Plugins implements fit.Ledger: it is asked instead of Seats about members after the first.
func (ledger) Plugins() []string { return []string{SeatsName} }

// Frees implements fit.Ledger: Seats knows of no seat that a victim will give back.
func (ledger) Frees() bool { return true }

// Open implements fit.Ledger.
func (l ledger) Open(_ context.Context, members []fit.Demand) (fit.Page, error) {
	for _, m := range members {
		if sits(m.Pod) {
			return page{l.free()}, nil
		}
	}
	return nil, nil
}

// page is how many seats are free at one moment.
type page struct{ free int }

// Entry implements fit.Page: all pods that need a seat take the same.
func (page) Entry(pod *v1.Pod) string {
	if sits(pod) {
		return "seat"
	}
	return ""
}

// Far implements fit.Page: a pod that takes the last seat on one node takes it from all nodes.
func (page) Far(*v1.Pod) bool { return true }

// State implements fit.Page.
func (p page) State(fwk.NodeInfo) string { return strconv.Itoa(p.free) }

// Short is asked for the words of a refusal.
func (p page) Short(members []fit.Demand, _ []fwk.NodeInfo) []fit.Shortage {
	short := fit.Shortage{What: "seats", Free: int64(p.free)}
	for _, m := range members {
		if sits(m.Pod) {
			short.Need += int64(m.Members)
		}
	}
	return []fit.Shortage{short}
}

// Rehearse implements fit.Page.
func (p page) Rehearse() fit.Rehearsal { return &rehearsal{free: p.free} }

// rehearsal is how many seats would be free.
type rehearsal struct {
	free int
	took []int // one after the other
}

// Leave implements fit.Rehearsal.
func (r *rehearsal) Release(pod *v1.Pod) {
	if sits(pod) {
		r.free++
	}
}

// Take implements fit.Rehearsal.
func (r *rehearsal) Take(_ context.Context, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	need := 0
	if sits(pod) {
		need = 1
	}
	if need > r.free {
		return noSeat()
	}
	r.free, r.took = r.free-need, append(r.took, need)
	return nil
}

// Undo implements fit.Rehearsal.
func (r *rehearsal) Undo() {
	last := len(r.took) - 1
	r.free, r.took = r.free+r.took[last], r.took[:last]
}
