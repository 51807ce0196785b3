// Package pace orders the requests of a scheduler to the API server: first bindings, a limited number at a time, by priority and then in
// the order of their decision; then the events about them. It also records whether a binding failed because of the node (answer.go).
//
// kube-scheduler sends each binding and each event from a separate goroutine. It plans a backlog of gangs faster than bindings can be
// written. Then bindings of all gangs compete, so that all gangs start late, over hundreds of connections. See docs/decisions/0013-pace.md.
//
// The package uses the scheduler's framework, but no gangs and no plans.
// Invariant: at most Options.Bindings bindings have a slot at a time.
package pace

import (
	"cmp"
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-scheduler/muster/pkg/apis/config"
)

// Options limit the requests. Zero values mean the defaults.
type Options struct {
	// Bindings is the number of bindings at a time; 0 means 48. With their events and nominations these fit into the 100 streams of one HTTP/2
	// connection.
	Bindings int
	Events   EventOptions
	// SuppressRepeats returns whether a failure event of a pod is not repeated within a minute, because the cause is reported elsewhere. nil
	// means that all are repeated.
	SuppressRepeats func(*v1.Pod) bool
}

const defaultBindings = 48

// maxClaimTime is how long a pod has a slot while its PreBind plugins run. If they take longer, they do not write claims, but wait for a
// volume or a driver.
const maxClaimTime = time.Second

// queueFactor is how many bindings for each slot may be in progress or waiting before the scheduler takes the next pod. Each one has a
// goroutine. It is not smaller, because pods in the scheduler's queue cost time, too: the queue visits them at each binding.
const queueFactor = 64

// Lane is the state that the profiles of one process share: slots for bindings and delayed events.
type Lane struct {
	slots   slots
	queue   queue
	events  *delayedEvents
	repeats *repeats
}

// New returns a new Lane.
func New(o Options) *Lane {
	bindings := cmp.Or(o.Bindings, defaultBindings)
	return &Lane{
		slots: slots{free: bindings}, queue: queue{limit: queueFactor * bindings},
		events: newDelayedEvents(o.Events), repeats: &repeats{covers: o.SuppressRepeats},
	}
}

// Pace changes a scheduler so that its bindings and events use the lane until the context ends. Call it before the scheduler runs.
func (l *Lane) Pace(ctx context.Context, sched *scheduler.Scheduler) {
	ReadAnswers(sched)
	for name, p := range sched.Profiles {
		sched.Profiles[name] = &profile{
			Framework: p, lane: l, foreignBinder: bindsItself(p),
			recorder: &recorder{EventRecorderLogger: p.EventRecorder(), Lane: l},
		}
	}
	next := sched.NextEntity
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		l.queue.wait(ctx)
		return next(logger)
	}
	go l.events.run(ctx)
}

// Busy returns whether bindings are in progress. Less urgent requests should then wait for a short time.
func (l *Lane) Busy() bool {
	l.events.mu.Lock()
	defer l.events.mu.Unlock()
	return l.events.binding > 0
}

// profile is a profile whose bindings use the lane.
type profile struct {
	framework.Framework
	lane          *Lane
	foreignBinder bool // added plugins bind, which may take any time
	recorder      *recorder
}

// bindsItself returns whether a profile has a Bind plugin that is neither kube-scheduler's nor Muster's.
func bindsItself(p framework.Framework) bool {
	for _, plugin := range p.ListPlugins().Bind.Enabled {
		if plugin.Name != names.DefaultBinder && plugin.Name != config.DevicesName {
			return true
		}
	}
	return false
}

// turnKey is the key in a cycle's state for the turn with which the pod's PreBind plugins ran.
const turnKey = fwk.StateKey("pace.turn")

// RunPreBindPlugins implements framework.Framework. For a pod with ResourceClaims it first waits for a slot, because writing claims takes
// two requests for each. Otherwise the claims of the whole backlog would be written before the first pod is bound.
func (p *profile) RunPreBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if s := preFlight(ctx, p.Framework, state, pod, node); s.IsSkip() { // no slot is needed
		return nil
	} else if !s.IsSuccess() {
		return s
	}
	if p.foreignBinder || len(pod.Spec.ResourceClaims) == 0 {
		return p.Framework.RunPreBindPlugins(ctx, state, pod, node)
	}
	t := p.lane.slots.turn(corev1helpers.PodPriority(pod))
	state.Write(turnKey, t)
	p.lane.events.begin()
	p.lane.queue.enter()
	if err := p.lane.slots.acquire(ctx, t); err != nil {
		p.lane.queue.leave()
		p.lane.events.end()
		return fwk.AsStatus(context.Cause(ctx)) // the pod may have been preempted
	}
	leave := sync.OnceFunc(func() {
		p.lane.slots.release()
		p.lane.queue.leave()
		p.lane.events.end()
	})
	defer leave()
	defer time.AfterFunc(maxClaimTime, leave).Stop()
	return p.Framework.RunPreBindPlugins(ctx, state, pod, node)
}

// RunBindPlugins implements framework.Framework. It first waits for a slot: by priority, then in order of arrival.
func (p *profile) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.lane.events.begin()
	defer p.lane.events.end()
	if p.foreignBinder {
		return p.Framework.RunBindPlugins(ctx, state, pod, node)
	}
	p.lane.queue.enter()
	defer p.lane.queue.leave()
	if err := p.lane.slots.acquire(ctx, p.turn(state, pod)); err != nil {
		return recordUnanswered(state, fwk.AsStatus(err))
	}
	defer p.lane.slots.release()
	return p.Framework.RunBindPlugins(ctx, state, pod, node)
}

// turn returns the turn of a pod's binding. A pod with claims has the turn with which its claims were written, so that it is bound before
// further claims are written.
func (p *profile) turn(state fwk.CycleState, pod *v1.Pod) turn {
	if len(pod.Spec.ResourceClaims) > 0 {
		if had, err := state.Read(turnKey); err == nil {
			return had.(turn)
		}
	}
	return p.lane.slots.turn(corev1helpers.PodPriority(pod))
}

func (p *profile) EventRecorder() events.EventRecorderLogger { return p.recorder }

// queue counts the bindings that are in progress or wait for a slot.
type queue struct {
	limit int

	mu         sync.Mutex
	length     int
	belowLimit chan struct{} // closed when the queue is below its limit again; nil if no caller waits
}

func (q *queue) enter() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.length++
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.length--; q.length < q.limit && q.belowLimit != nil {
		close(q.belowLimit)
		q.belowLimit = nil
	}
}

// wait returns when the queue is below its limit, or the context has ended.
func (q *queue) wait(ctx context.Context) {
	q.mu.Lock()
	if q.length < q.limit {
		q.mu.Unlock()
		return
	}
	if q.belowLimit == nil {
		q.belowLimit = make(chan struct{})
	}
	belowLimit := q.belowLimit
	q.mu.Unlock()
	select {
	case <-belowLimit:
	case <-ctx.Done():
	}
}
