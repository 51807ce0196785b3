package main

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// occupancy says which nodes are taken by others, each by one pod. In every spine a few
// are free that stand together. They step forward as pods move from one spine to the next:
//
//	spine-0  ..######      spine-0  ...#####
//	spine-1  ...#####  =>  spine-1  #..#####
//
// So at rest one spine has a free node more than the others, and it is never the same:
// each move changes what is best for a gang, and none makes room for one.
type occupancy struct {
	spines          []ring
	moves, replaced int // so far
}

// ring is the nodes of a spine; from first on, so many are free.
type ring struct {
	nodes       []string
	first, free int
}

// mostFree is how many nodes are free in a spine, but for the one with one more.
const mostFree = 3

// leastInVain is the smallest gang that finds no capacity by eviction. A spine has at most mostFree and one free nodes,
// and mostFree pods of lower priority.
const leastInVain = 2*mostFree + 2

// less lists nodes of every spine, as many as mostFree; a pod there matters less than the backlog.
func (o *occupancy) less() map[string]bool {
	on := map[string]bool{}
	for _, r := range o.spines {
		for _, n := range r.nodes[len(r.nodes)-mostFree:] {
			on[n] = true
		}
	}
	return on
}

// newOccupancy leaves free capacity in every spine, but not enough for a gang. If pods are bound one by one there is no
// free capacity at all, and no pod may move.
func newOccupancy(nodes []*v1.Node, spine map[string]string, c contender, s Shape) *occupancy {
	o := &occupancy{}
	at := map[string]int{}
	for _, n := range nodes {
		i, ok := at[spine[n.Name]]
		if !ok {
			i = len(o.spines)
			at[spine[n.Name]] = i
			o.spines = append(o.spines, ring{})
		}
		o.spines[i].nodes = append(o.spines[i].nodes, n.Name)
	}
	if c.gathers {
		for i := range o.spines {
			o.spines[i].free = min(mostFree, s.Pods-2)
		}
		o.spines[len(o.spines)-1].free++
	}
	return o
}

// taken lists the nodes that are taken.
func (o *occupancy) taken() (all []string) {
	for _, r := range o.spines {
		for i := r.free; i < len(r.nodes); i++ {
			all = append(all, r.at(i))
		}
	}
	return all
}

// most is how many nodes are free where most are.
func (o *occupancy) most() (free int) {
	for _, r := range o.spines {
		free = max(free, r.free)
	}
	return free
}

// move is a change: a pod comes to a node, and then the one of another node leaves.
func (o *occupancy) move() (to, from string) {
	k, n := o.moves, len(o.spines)
	o.moves++
	fuller := &o.spines[(k+n-1)%n]
	to = fuller.at(0)
	fuller.first, fuller.free = fuller.first+1, fuller.free-1
	emptier := &o.spines[k%n]
	emptier.free++
	return to, emptier.at(emptier.free - 1)
}

// replace is a change after which everything is as before: another pod comes to a node,
// and then the one that was there leaves.
func (o *occupancy) replace() (to, from string) {
	k, n := o.replaced, len(o.spines)
	o.replaced++
	r := &o.spines[k%n]
	node := r.at(r.free + k/n%(len(r.nodes)-r.free))
	return node, node
}

// room lists the nodes of a spine that must become free so that a gang of so many nodes fits there; the i-th time it is the i-th spine.
func (o *occupancy) room(i, pods int) []string {
	r := &o.spines[i%len(o.spines)]
	free := make([]string, 0, pods)
	for k := r.free; k < pods; k++ {
		free = append(free, r.at(k))
	}
	return free
}

// replaceBeside is replace, but in other spines than the i-th.
func (o *occupancy) replaceBeside(i int) func() (to, from string) {
	return func() (string, string) {
		if o.replaced%len(o.spines) == i%len(o.spines) {
			o.replaced++
		}
		return o.replace()
	}
}

// at is a node by its distance from the first free one.
func (r *ring) at(i int) string { return r.nodes[(r.first+i)%len(r.nodes)] }

// occupants are the pods of an occupancy, in the API.
type occupants struct {
	*bench
	names map[string]string // by node
	less  map[string]bool   // nodes with a pod of lower priority than the backlog
	made  int
}

// lessImportant is the class of pods that the backlog may evict.
const lessImportant = "perf-less-important"

// class creates the PriorityClass of the less important pods, if there are any.
func (o *occupants) class(ctx context.Context) error {
	if len(o.less) == 0 {
		return nil
	}
	_, err := o.client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: lessImportant}, Value: -100,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return errors.Join(err, localcluster.AwaitClasses(ctx, o.client))
}

const occupantLabel = "perf-occupant"

// fill has a running pod on every node of a list.
func (o *occupants) fill(ctx context.Context, nodes []string) error {
	if err := o.class(ctx); err != nil {
		return err
	}
	pods := make([]*v1.Pod, len(nodes))
	for i, n := range nodes {
		pods[i] = o.next(n)
	}
	return inParallel(ctx, len(pods), func(i int) error { return o.start(ctx, pods[i]) })
}

// change starts a pod on one node, and then deletes the older one of that or another.
func (o *occupants) change(ctx context.Context, to, from string) error {
	old := o.names[from]
	if from != to {
		delete(o.names, from)
	}
	if err := o.start(ctx, o.next(to)); err != nil {
		return err
	}
	return o.delete(ctx, old)
}

// next makes the pod that is now a node's.
func (o *occupants) next(node string) *v1.Pod {
	o.made++
	one := Shape{Gangs: 1, Pods: 1, GPUs: gpusPerNode}
	pod := one.pods("", []string{fmt.Sprintf("occupant-%d", o.made)})[0]
	pod.Labels = map[string]string{occupantLabel: ""}
	pod.Spec.NodeName, pod.Spec.SchedulerName = node, "nobody"
	if o.less[node] {
		pod.Spec.PriorityClassName = lessImportant
	}
	o.names[node] = pod.Name
	return pod
}

func (o *occupants) start(ctx context.Context, pod *v1.Pod) error {
	api := o.client.CoreV1().Pods(pod.Namespace)
	pod, err := api.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.Status.Phase = v1.PodRunning
	_, err = api.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// leaveNodes deletes the pods of some nodes.
func (o *occupants) leaveNodes(ctx context.Context, nodes []string) error {
	return inParallel(ctx, len(nodes), func(i int) error { return o.delete(ctx, o.names[nodes[i]]) })
}

// leave deletes all of them.
func (o *occupants) leave(ctx context.Context) error {
	return o.deletePods(ctx, occupantLabel)
}
