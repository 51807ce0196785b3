package plugin

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// victims remembers, by group, who is asked to leave for its reservation. Only until
// they can be seen leaving is that more than the API server knows.
type victims struct {
	mu    sync.Mutex
	last  int                   // number of the last eviction
	asked map[string]*eviction  // by group: the one for its reservation
	going map[types.UID]*parted // who is to leave, of all groups, and was not seen leaving
	stuck map[string]map[types.UID]bool
}

// eviction is who is asked to leave for one reservation.
type eviction struct {
	number int
	pods   map[types.UID]bool
	took   map[types.UID]bool // those whose leaving the API server has taken
}

// parted is a pod that is to leave although the scheduler still counts it.
type parted struct {
	pod   *v1.Pod
	until time.Time // when that is not to be expected any more; zero if we hear of it
}

// set notes who is asked to leave for a group's reservation, and numbers the eviction.
func (v *victims) set(group string, pods []*v1.Pod) (number int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked == nil {
		v.asked = map[string]*eviction{}
	}
	v.last++
	e := &eviction{number: v.last, pods: map[types.UID]bool{}, took: map[types.UID]bool{}}
	for _, p := range pods {
		e.pods[p.UID] = true
	}
	v.asked[group] = e
	v.part(pods, time.Time{})
	return e.number
}

// expect notes that DefaultPreemption is having pods deleted, and is not heard of if it
// cannot.
func (v *victims) expect(pods []*v1.Pod, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.part(pods, until)
}

// part notes who is to leave. v.mu is held.
func (v *victims) part(pods []*v1.Pod, until time.Time) {
	if v.going == nil {
		v.going = map[types.UID]*parted{}
	}
	for _, p := range pods {
		if p.DeletionTimestamp == nil {
			v.going[p.UID] = &parted{p, until}
		}
	}
}

// took notes that the API server has taken a pod's leaving.
func (v *victims) took(group string, number int, pod *v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.asked[group]; e != nil && e.number == number {
		e.took[pod.UID] = true
	}
}

// stays notes that a pod does not leave after all.
func (v *victims) stays(group string, number int, pod *v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.going, pod.UID)
	if e := v.asked[group]; e != nil && e.number == number {
		delete(e.pods, pod.UID)
	}
}

// current says whether an eviction is the one for its group's reservation.
func (v *victims) current(group string, number int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.asked[group]
	return e != nil && e.number == number
}

// forget is for when the group has its places, or is gone.
func (v *victims) forget(group string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.asked, group)
	delete(v.stuck, group)
}

// overdue notes that the group's victims have had their time. Those whose leaving the API
// server never took have had none.
func (v *victims) overdue(group string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.asked[group]
	if e == nil {
		return
	}
	if v.stuck == nil {
		v.stuck = map[string]map[types.UID]bool{}
	}
	for uid := range e.took {
		if v.stuck[group] == nil {
			v.stuck[group] = map[types.UID]bool{}
		}
		v.stuck[group][uid] = true
	}
	delete(v.asked, group)
}

// anyStuck says whether a victim of the group did not leave in time.
func (v *victims) anyStuck(group string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.stuck[group]) > 0
}

// avoid says whether a victim of the group that did not leave in time is still on the
// node.
func (v *victims) avoid(group string, node fwk.NodeInfo) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.stuck[group]) == 0 {
		return false
	}
	for _, p := range node.GetPods() {
		if v.stuck[group][p.GetPod().UID] {
			return true
		}
	}
	return false
}

// leaving lists, by node index, who is still on a reserved node and was asked to leave, or
// leaves anyway.
func (v *victims) leaving(a *attempt) (gone [][]*v1.Pod, any bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var asked map[types.UID]bool
	if e := v.asked[a.group.Key]; e != nil {
		asked = e.pods
	}
	gone = make([][]*v1.Pod, len(a.nodes))
	for _, node := range a.group.Places {
		i, ok := a.net.Tree.NodeIndex(node)
		if !ok || a.nodes[i] == nil || gone[i] != nil {
			continue
		}
		for _, p := range a.nodes[i].GetPods() {
			pod := p.GetPod()
			if pod.DeletionTimestamp != nil || asked[pod.UID] || v.isGoing(pod, a.options.Clock.Now()) {
				gone[i], any = append(gone[i], pod), true
			}
		}
	}
	return gone, any
}

// leaves says whether a pod is to leave, seen or not.
func (v *victims) leaves(pod *v1.Pod, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return pod.DeletionTimestamp != nil || v.isGoing(pod, now)
}

// isGoing says whether a pod is to leave and was not seen leaving. v.mu is held.
func (v *victims) isGoing(pod *v1.Pod, now time.Time) bool {
	p := v.going[pod.UID]
	return p != nil && (p.until.IsZero() || now.Before(p.until))
}

// depart brings a snapshot up to date: pods that were asked to leave, for this group or
// another one, leave, though the scheduler has not seen it yet. Without that two gangs
// could choose the same victim. Those who are seen leaving are no longer remembered.
func (a *attempt) depart(ctx context.Context) {
	v, now := &a.victims, a.options.Clock.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.going) > 0 {
		a.nodes = slices.Clone(a.nodes) // the layout's are not to be changed
	}
	for uid, p := range v.going {
		i, ok := a.net.Tree.NodeIndex(p.pod.Spec.NodeName)
		if ok && a.nodes[i] == nil {
			continue // a node to avoid
		}
		if !ok || !v.isGoing(p.pod, now) || !a.departs(ctx, i, uid) {
			delete(v.going, uid)
		}
	}
}

// departs marks a pod of a node as leaving. It says false if the pod is gone, or leaves
// already as far as the scheduler knows.
func (a *attempt) departs(ctx context.Context, node int, uid types.UID) bool {
	for _, info := range a.nodes[node].GetPods() {
		pod := info.GetPod()
		if pod.UID != uid {
			continue
		}
		if pod.DeletionTimestamp != nil {
			return false
		}
		gone, err := framework.NewPodInfo(marked(pod))
		n := a.nodes[node].Snapshot()
		if err == nil && n.RemovePod(klog.FromContext(ctx), pod) == nil {
			n.AddPodInfo(gone)
			a.nodes[node] = n
		}
		return true
	}
	return false
}

// marked is a pod as it will be once its leaving is seen.
func marked(pod *v1.Pod) *v1.Pod {
	out := pod.DeepCopy()
	out.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	return out
}
