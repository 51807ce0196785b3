// Package pace decides in which order what a scheduler has found out reaches the API
// server: bindings first, so many at a time, the most important first and else in the order in
// which they were decided; then the events that say so.
//
// kube-scheduler sends each binding and each event from a goroutine of its own. A backlog
// of gangs is planned far faster than it can be written, so thousands of requests are
// under way at once: the last gang's first binding competes with the first gang's last
// one, every gang runs at the end, and hundreds of connections are opened. See
// docs/decisions/0013-pace.md.
//
// It also reads why a binding has failed, which tells whether its node is to blame: answer.go.
//
// The package knows the scheduler's framework; it does not know gangs or plans.
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

// Options are how fast requests may be. Zero values mean the defaults.
type Options struct {
	// Bindings is how many are under way at a time; 0 means 48: with the events and nominations
	// that may be under way besides they need no more than the 100 streams of one HTTP/2
	// connection.
	Bindings int
	Events   EventOptions
	// Quiet says of which pods a failure to schedule is not said again within a minute: of
	// those that are told in another way what has changed. nil means of none.
	Quiet func(*v1.Pod) bool
}

const defaultBindings = 48

// longest is how long a pod keeps a slot while its claims are written. Who is not done by then waits for somebody else: for
// a volume, or a driver that makes devices ready.
const longest = time.Second

// ahead is how many bindings may be under way or wait, for each that may be under way,
// before the scheduler goes on to the next pod: each holds a goroutine and its stack. It is
// not less because members that wait to be decided upon are not free either: with each pod
// that is bound the scheduler's queue walks over all that it keeps out.
const ahead = 64

// Lane is what the profiles of one process share.
type Lane struct {
	slots slots
	queue queue
	late  *late
	quiet *quiet
}

// New returns a lane that nobody uses.
func New(o Options) *Lane {
	bindings := cmp.Or(o.Bindings, defaultBindings)
	return &Lane{
		slots: slots{free: bindings}, queue: queue{most: ahead * bindings},
		late: newLate(o.Events), quiet: &quiet{of: o.Quiet},
	}
}

// Pace has a scheduler's profiles keep in lane until the context ends. Call it before the
// scheduler runs.
func (l *Lane) Pace(ctx context.Context, sched *scheduler.Scheduler) {
	ReadAnswers(sched)
	for name, p := range sched.Profiles {
		sched.Profiles[name] = &profile{
			Framework: p, lane: l, bare: bindsItself(p),
			recorder: &recorder{EventRecorderLogger: p.EventRecorder(), Lane: l},
		}
	}
	next := sched.NextEntity
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		l.queue.wait(ctx)
		return next(logger)
	}
	go l.late.run(ctx)
}

// Busy says whether bindings are under way. What is less urgent should wait, but not for
// long: there may always be some.
func (l *Lane) Busy() bool {
	l.late.mu.Lock()
	defer l.late.mu.Unlock()
	return l.late.binding > 0
}

// profile is a profile of which bindings keep in lane.
type profile struct {
	framework.Framework
	lane     *Lane
	bare     bool // other plugins bind, which may take as long as they like
	recorder *recorder
}

// bindsItself says whether a profile binds in another way than by a request to the API
// server.
func bindsItself(p framework.Framework) bool {
	for _, plugin := range p.ListPlugins().Bind.Enabled {
		if plugin.Name != names.DefaultBinder && plugin.Name != config.DevicesName {
			return true
		}
	}
	return false
}

// turnKey is where a cycle keeps the turn that a pod had when its claims were written.
const turnKey = fwk.StateKey("pace.turn")

// RunPreBindPlugins implements framework.Framework. What is written of a pod's claims is a part of its binding: two requests a
// claim. Without a slot those of the whole backlog would be under way before anybody is bound.
func (p *profile) RunPreBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if s := preFlight(ctx, p.Framework, state, pod, node); s.IsSkip() { // for which no slot is needed
		return nil
	} else if !s.IsSuccess() {
		return s
	}
	if p.bare || len(pod.Spec.ResourceClaims) == 0 {
		return p.Framework.RunPreBindPlugins(ctx, state, pod, node)
	}
	t := p.lane.slots.turn(corev1helpers.PodPriority(pod))
	state.Write(turnKey, t)
	p.lane.late.begin()
	p.lane.queue.enter()
	if err := p.lane.slots.acquire(ctx, t); err != nil {
		p.lane.queue.leave()
		p.lane.late.end()
		return fwk.AsStatus(context.Cause(ctx)) // it may have been preempted
	}
	leave := sync.OnceFunc(func() {
		p.lane.slots.release()
		p.lane.queue.leave()
		p.lane.late.end()
	})
	defer leave()
	defer time.AfterFunc(longest, leave).Stop()
	return p.Framework.RunPreBindPlugins(ctx, state, pod, node)
}

// RunBindPlugins implements framework.Framework. The most important is first, then who came first.
func (p *profile) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.lane.late.begin()
	defer p.lane.late.end()
	if p.bare {
		return p.Framework.RunBindPlugins(ctx, state, pod, node)
	}
	p.lane.queue.enter()
	defer p.lane.queue.leave()
	if err := p.lane.slots.acquire(ctx, p.turn(state, pod)); err != nil {
		return noting(state, fwk.AsStatus(err))
	}
	defer p.lane.slots.release()
	return p.Framework.RunBindPlugins(ctx, state, pod, node)
}

// turn is a pod's: if it has claims, the turn that it had with them, so that it is bound before claims of others are written.
func (p *profile) turn(state fwk.CycleState, pod *v1.Pod) turn {
	if len(pod.Spec.ResourceClaims) > 0 {
		if had, err := state.Read(turnKey); err == nil {
			return had.(turn)
		}
	}
	return p.lane.slots.turn(corev1helpers.PodPriority(pod))
}

// EventRecorder implements framework.Framework.
func (p *profile) EventRecorder() events.EventRecorderLogger { return p.recorder }

// queue counts the bindings that are under way or wait for a slot.
type queue struct {
	most int

	mu    sync.Mutex
	long  int
	short chan struct{} // closed when it is no longer too long; nil if nobody waits for that
}

func (q *queue) enter() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.long++
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.long--; q.long < q.most && q.short != nil {
		close(q.short)
		q.short = nil
	}
}

// wait returns when the queue is not too long, or the context has ended.
func (q *queue) wait(ctx context.Context) {
	q.mu.Lock()
	if q.long < q.most {
		q.mu.Unlock()
		return
	}
	if q.short == nil {
		q.short = make(chan struct{})
	}
	short := q.short
	q.mu.Unlock()
	select {
	case <-short:
	case <-ctx.Done():
	}
}
