package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Labels of the trace's pods and nodes.
const (
	gangLabel = "quality-gang"
	runLabel  = "quality-run"
	typeLabel = "quality-gpu" // of nodes
)

// play is one contender and one trace. It acts as a workload's controller. It creates the pods of a gang when its time
// has come, and deletes them when all have run for so long. It recreates all of them when one was evicted. One goroutine
// owns it; requests are made beside it.
type play struct {
	contender contender
	trace     Trace
	client    kubernetes.Interface
	dynamic   dynamic.Interface

	began  time.Time
	live   map[string]*live // by gang
	due    agenda
	busy   chan struct{} // as many requests at a time
	failed chan error
	events []Event
	ended  int
}

// live is a gang as it is now.
type live struct {
	*Gang
	run    int
	there  map[string]bool   // pods that exist
	bound  map[string]string // node by pod
	doomed bool              // its pods go: it has ended, or lost one
	over   bool              // it has ended
}

// perform returns when all gangs have ended, or after so long.
func (p *play) perform(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	pods, err := p.watch(ctx)
	if err != nil {
		return err
	}
	defer pods.Stop()
	p.begin()
	for i := range p.trace.Gangs {
		g := &p.trace.Gangs[i]
		p.due.add(g.At, func() { p.create(ctx, &live{Gang: g}) })
	}
	for p.ended < len(p.trace.Gangs) {
		if err := p.step(ctx, pods); err != nil {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				p.events = append(p.events, Event{At: time.Since(p.began), Kind: Stopped, Gang: noGang})
				return nil // the columns show the gangs that have not ended
			}
			return err
		}
	}
	return nil
}

// begin sets the clock to 0.
func (p *play) begin() {
	p.began, p.live = time.Now(), map[string]*live{}
	p.busy, p.failed = make(chan struct{}, 16), make(chan error, 1)
}

// step does what is due, or waits for what comes first.
func (p *play) step(ctx context.Context, pods watch.Interface) error {
	var timer <-chan time.Time
	if len(p.due) > 0 {
		wait := p.due[0].at - time.Since(p.began)
		if wait <= 0 {
			p.due.pop()()
			return nil
		}
		timer = time.After(wait)
	}
	select {
	case event, ok := <-pods.ResultChan():
		pod, isPod := event.Object.(*v1.Pod)
		if !ok || !isPod {
			return fmt.Errorf("watch pods: %v", event.Object)
		}
		p.see(ctx, event.Type, pod)
	case err := <-p.failed:
		return err
	case <-timer:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (p *play) tell(kind EventKind, l *live, pod, node string) {
	p.events = append(p.events, Event{At: time.Since(p.began), Kind: kind, Gang: l.Name, Run: l.run, Pod: pod, Node: node})
}

// see learns of a pod.
func (p *play) see(ctx context.Context, kind watch.EventType, pod *v1.Pod) {
	l := p.live[pod.Labels[gangLabel]]
	if l == nil {
		return
	}
	if pod.Labels[runLabel] != fmt.Sprint(l.run) {
		if kind == watch.Added { // it was made when the others of its run had gone
			p.request(func() error { return p.delete(ctx, pod.Name) })
		}
		return
	}
	if kind == watch.Deleted {
		p.gone(ctx, l, pod.Name)
		return
	}
	if !l.there[pod.Name] {
		l.there[pod.Name] = true
		if len(l.there) == l.Size {
			p.tell(Created, l, "", "")
		}
		if l.doomed {
			p.remove(ctx, l) // likewise
		}
	}
	if pod.Spec.NodeName == "" || l.bound[pod.Name] != "" {
		return
	}
	l.bound[pod.Name] = pod.Spec.NodeName
	p.tell(Bound, l, pod.Name, pod.Spec.NodeName)
	if run := l.run; len(l.bound) == l.Size && !l.doomed {
		p.due.add(time.Since(p.began)+l.Lasts, func() { p.finish(ctx, l, run) })
	}
}

// gone is the end of a pod. A pod that the play did not delete was evicted: the others of its gang are deleted, too.
func (p *play) gone(ctx context.Context, l *live, pod string) {
	delete(l.there, pod)
	switch {
	case l.over || l.doomed:
		p.tell(Gone, l, pod, "")
	default:
		p.tell(Evicted, l, pod, "")
		l.doomed = true
		p.remove(ctx, l)
	}
	if len(l.there) > 0 {
		return
	}
	if l.over {
		p.ended++
		return
	}
	p.create(ctx, &live{Gang: l.Gang, run: l.run + 1})
}

// finish ends a run, if it is still the same and whole.
func (p *play) finish(ctx context.Context, l *live, run int) {
	if p.live[l.Name] != l || l.run != run || l.doomed {
		return
	}
	p.tell(Finished, l, "", "")
	l.doomed, l.over = true, true
	p.remove(ctx, l)
}

// create makes the pods of a run, and what they need.
func (p *play) create(ctx context.Context, l *live) {
	l.there, l.bound = map[string]bool{}, map[string]string{}
	p.live[l.Name] = l
	name := l.group()
	p.request(func() error {
		if err := p.createGroup(ctx, l, name); err != nil {
			return err
		}
		for i := range l.Size {
			if _, err := p.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, p.pod(l, name, i), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// group is the name of a run.
func (l *live) group() string { return fmt.Sprintf("%s-%d", l.Name, l.run) }

func (p *play) createGroup(ctx context.Context, l *live, name string) error {
	if p.contender.group == nil {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.contender.group(l.Gang, name))
	if err != nil {
		return err
	}
	_, err = p.dynamic.Resource(p.contender.groups).Namespace(metav1.NamespaceDefault).Create(ctx, &unstructured.Unstructured{Object: content},
		metav1.CreateOptions{})
	return err
}

func (p *play) pod(l *live, group string, i int) *v1.Pod {
	whole := v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s-%d", group, i),
			Labels: map[string]string{gangLabel: l.Name, runLabel: fmt.Sprint(l.run)},
		},
		Spec: v1.PodSpec{
			SchedulerName: p.contender.profile, PriorityClassName: Priorities[l.Priority],
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []v1.Container{{Name: "main", Image: "none", Resources: v1.ResourceRequirements{Requests: whole}}},
		},
	}
	if l.Type != "" {
		pod.Spec.NodeSelector = map[string]string{typeLabel: l.Type}
	}
	if p.contender.dress != nil {
		p.contender.dress(pod, group)
	}
	return pod
}

// remove takes away the pods of a run, which may have gone already, and its group.
func (p *play) remove(ctx context.Context, l *live) {
	name := l.group()
	p.request(func() error {
		for i := range l.Size {
			if err := p.delete(ctx, fmt.Sprintf("%s-%d", name, i)); err != nil {
				return err
			}
		}
		if p.contender.group == nil {
			return nil
		}
		return mayBeGone(p.dynamic.Resource(p.contender.groups).Namespace(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{}))
	})
}

// delete removes a pod at once.
func (p *play) delete(ctx context.Context, pod string) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	return mayBeGone(p.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, pod, now))
}

func mayBeGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// request makes requests beside the loop. The first failure ends it.
func (p *play) request(do func() error) {
	go func() {
		p.busy <- struct{}{}
		defer func() { <-p.busy }()
		if err := do(); err != nil {
			select {
			case p.failed <- err:
			default:
			}
		}
	}()
}

// watch begins to watch the trace's pods, of which there are none.
func (p *play) watch(ctx context.Context) (watch.Interface, error) {
	api := p.client.CoreV1().Pods(metav1.NamespaceDefault)
	none, err := api.List(ctx, metav1.ListOptions{LabelSelector: gangLabel})
	if err != nil {
		return nil, err
	}
	return watchtools.NewRetryWatcherWithContext(ctx, none.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = gangLabel
			return api.Watch(ctx, o)
		},
	})
}
