package departure

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Kept is how many reservations and groups are remembered.
func (v *Victims) Kept() (asked, stuck int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.evictions), len(v.overdue)
}

// Held returns how many departures hold a pod.
func (v *Victims) Held() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.unreserved)
}

// Late lets the victims of a group's reservation be overdue.
func (v *Victims) Late(group gang.Ref, pod *v1.Pod) {
	v.recordAccepted(group, v.recordReservation(group, []*v1.Pod{pod}), pod)
	v.Overdue(group)
}

// LeaveFor evicts the rest of a bundle for a pod.
func (p *Evictor) LeaveFor(ctx context.Context, pod *v1.Pod, victims []*v1.Pod, evict PreemptPod) {
	d := p.NewEviction(preemptor{pod: pod, members: map[string]*v1.Pod{convert.PodKey(pod): pod}}, p.BundlesOf(victims))
	d.Evict = evict
	d.StillWanted = func() bool { return true }
	p.Victims.addUnreserved(d)
	d.EvictRest(ctx, victims)
}

// Names returns the name of a group of that many gangs in events.
func Names(gangs int) string {
	p := preemptor{}
	for i := range gangs {
		p.gangs = append(p.gangs, gang.Ref{Namespace: "ns", Name: fmt.Sprint("g", i)})
	}
	return p.names()
}

// Gently is gently.
func (p *Evictor) Gently(evict PreemptPod) PreemptPod { return p.requeueOrEvict(evict) }
