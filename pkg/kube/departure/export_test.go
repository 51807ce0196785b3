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
	return len(v.evictions), len(v.stuck)
}

// Held is for how many departures pods are held.
func (v *Victims) Held() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.unreserved)
}

// Late has the victims of a group's reservation have had their time.
func (v *Victims) Late(group gang.Ref, pod *v1.Pod) {
	v.recordAccepted(group, v.set(group, []*v1.Pod{pod}), pod)
	v.Overdue(group)
}

// LeaveFor has what is left of a bundle evicted for a pod.
func (p *Evictor) LeaveFor(ctx context.Context, pod *v1.Pod, victims []*v1.Pod, evict PreemptPod) {
	d := p.NewEviction(preemptor{pod: pod, members: map[string]*v1.Pod{convert.PodKey(pod): pod}}, p.BundlesOf(victims))
	d.Evict = evict
	d.StillWanted = func() bool { return true }
	p.Victims.hold(d)
	d.EvictRest(ctx, victims)
}

// Names is what events call a group of so many gangs that evict together.
func Names(gangs int) string {
	p := preemptor{}
	for i := range gangs {
		p.gangs = append(p.gangs, gang.Ref{Namespace: "ns", Name: fmt.Sprint("g", i)})
	}
	return p.names()
}

// Gently is gently.
func (p *Evictor) Gently(evict PreemptPod) PreemptPod { return p.requeueOrEvict(evict) }
