package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Churn is what a backlog costs that does not fit, and whether it is bound once it does. On a cluster that is nearly
// full the backlog
//
//	refused    is made, and found unschedulable;
//	idle       waits while nothing happens;
//	replaced   waits while others come and go on the same nodes: no better and no worse;
//	moved      waits while others move so that something else is best, but still too little;
//	one        gets capacity for a single gang, in the midst of such changes: seconds are until it is whole;
//	room       is bound, since all others have left; gangs that are whole end;
//	drain      is made once more while the scheduler is stopped, and bound: what room is
//	           to be compared with.
type Churn struct {
	Contender string `json:"contender"`
	Shape     Shape  `json:"shape"`
	Nodes     int    `json:"nodes"`
	// Free is how many nodes of a spine were free at the most, at rest.
	Free     int      `json:"mostFreePerSpine"`
	Phases   []*Phase `json:"phases"`
	Longest  Message  `json:"longestMessage"`
	PeakMB   float64  `json:"peakMB"`
	Failures []string `json:"failures,omitempty"`
}

// Phase is one of these; figures are of all gangs.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // until the scheduler did the last thing
	Changes int     `json:"changes"`
	// PodsPerS is how fast pods were bound, where they were.
	PodsPerS float64 `json:"podsPerSecond,omitempty"`
	// Writes of the scheduler, by "VERB resource".
	Writes map[string]float64 `json:"writes"`
	CPU    float64            `json:"cpuSeconds"` // of the scheduler, also while it was waited for
	// Cycles are attempts to schedule a pod, Plans are attempts to place a gang as one. nil is unknown.
	Cycles     *float64 `json:"cycles,omitempty"`
	Plans      *float64 `json:"plans,omitempty"`
	FilterRuns *float64 `json:"filterRuns,omitempty"`
}

const (
	idleFor = 30 * time.Second
	// quietFor is longer than a scheduler's longest backoff, ten seconds: one that has done
	// nothing for so long waits for something to happen.
	quietFor  = 12 * time.Second
	quietLook = 2 * time.Second
)

// churning is a Churn under way.
type churning struct {
	*bench
	contender contender
	shape     Shape
	name      string // of the drain
	p         *scheduler
	taken     *occupancy
	occupants *occupants
	seen      *seen
	ending    *ending
	earlier   int64 // pods of another backlog that ending has counted
	out       *Churn
}

// churn measures one contender. An error is a failure, too: a scheduler that has ended
// has not done what is asked of it.
func (b *bench) churn(ctx context.Context, c contender, s Shape, during time.Duration) *Churn {
	b.drains++
	r := &churning{
		bench: b, contender: c, shape: s, name: fmt.Sprintf("d%d", b.drains),
		taken: newOccupancy(nodes(b.nodes), b.spines, c, s), occupants: &occupants{bench: b, names: map[string]string{}},
		ending: newEnding(b, c, s),
	}
	if b.vain {
		r.occupants.less = r.taken.less()
	}
	r.out = &Churn{Contender: c.name, Shape: s, Nodes: b.nodes, Free: r.taken.most()}
	err := errors.Join(r.launched(ctx, during), r.occupants.leave(ctx), b.clean(ctx, c, s, r.name))
	if err != nil {
		r.fails("%v", err)
	}
	return r.out
}

// launched has the contender's scheduler running, and the watchers that follow it.
func (r *churning) launched(ctx context.Context, during time.Duration) (err error) {
	if r.p, err = r.launch(ctx, r.contender); err != nil {
		return err
	}
	defer r.p.Stop()
	said, err := r.listen(ctx, r.contender, r.name)
	if err != nil {
		return err
	}
	err = r.run(ctx, during)
	r.out.Longest = said.stop()
	if r.contender.program == musterProgram && r.out.Longest.Bytes > mostMessage {
		r.fails("a message of %d bytes: %s", r.out.Longest.Bytes, r.out.Longest.Of)
	}
	return err
}

// run goes through the phases.
func (r *churning) run(ctx context.Context, during time.Duration) (err error) {
	if err := r.occupants.fill(ctx, r.taken.taken()); err != nil {
		return err
	}
	if r.seen, err = r.watch(ctx, r.name, r.shape.Total(), r.ending.bound); err != nil {
		return err
	}
	r.seen.begin()
	defer func() { r.seen.stop() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.ending.run(ctx)
	if _, err := r.quiet(ctx); err != nil {
		return err
	}
	for _, phase := range r.phases(during) {
		if err := r.measured(ctx, phase.name, phase.do); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	return nil
}

// phase is what happens in a Phase.
type phase struct {
	name string
	do   func(context.Context, *Phase) error
}

// phases lists them. A contender that binds pods one by one would take every node that is free for a moment, so no pod
// moves there.
func (r *churning) phases(during time.Duration) []phase {
	all := []phase{{"refused", r.refused}, {"idle", r.idle}}
	if r.contender.gathers {
		during /= 2
	}
	all = append(all, phase{"replaced", r.changes(r.taken.replace, during)})
	if r.contender.gathers {
		all = append(all, phase{"moved", r.changes(r.taken.move, during)}, phase{"one", r.one})
	}
	return append(all, phase{"room", r.room}, phase{"drain", r.drain})
}

// measured does one phase.
func (r *churning) measured(ctx context.Context, name string, do func(context.Context, *Phase) error) error {
	out := &Phase{Name: name}
	before, err := r.measure(ctx, r.p)
	if err != nil {
		return err
	}
	if err := do(ctx, out); err != nil {
		return err
	}
	after, err := r.measure(ctx, r.p)
	if err != nil {
		return err
	}
	out.Writes, out.CPU = after.writesSince(before), after.cpu-before.cpu
	out.Cycles = after.counts.since(before.counts, cycles)
	out.Plans = after.counts.since(before.counts, plans)
	out.FilterRuns = after.counts.since(before.counts, filterRuns)
	r.out.Phases, r.out.PeakMB = append(r.out.Phases, out), after.peak
	progress("%-20s %-8s %6.1f s, %.0f writes", r.contender.name, name, out.Seconds, sum(out.Writes))
	return nil
}

func (r *churning) refused(ctx context.Context, out *Phase) error {
	began := time.Now()
	gangs := r.shape.gangs(r.name)
	if err := r.create(ctx, r.contender, r.shape, gangs, r.backlog(gangs)); err != nil {
		return err
	}
	return r.settle(ctx, out, began)
}

// backlog makes the pods of the gangs. Where these are unlike, each asks for a thousandth of a processor more than the one before.
func (r *churning) backlog(gangs []string) []*v1.Pod {
	pods := r.shape.pods(r.name, gangs)
	if r.unlike {
		for i, p := range pods {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(1+i/r.shape.Pods), resource.DecimalSI)
		}
	}
	return pods
}

func (r *churning) idle(ctx context.Context, out *Phase) error {
	out.Seconds = idleFor.Seconds()
	return wait(ctx, idleFor)
}

// changes has something change every second.
func (r *churning) changes(next func() (to, from string), during time.Duration) func(context.Context, *Phase) error {
	return func(ctx context.Context, out *Phase) error {
		began := time.Now()
		err := r.keepChanging(ctx, out, next, func() bool { return time.Since(began) >= during })
		if err != nil {
			return err
		}
		return r.settle(ctx, out, began)
	}
}

// keepChanging has something change again and again until it is enough.
func (r *churning) keepChanging(ctx context.Context, out *Phase, next func() (to, from string), enough func() bool) error {
	every := time.NewTicker(r.every)
	defer every.Stop()
	for !enough() {
		to, from := next()
		if err := r.occupants.change(ctx, to, from); err != nil {
			return err
		}
		out.Changes++
		select {
		case <-every.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ones is how many times there is room for a single gang.
const ones = 5

// one has several times just so many nodes of a spine become free that one gang fits, while others are replaced elsewhere. When it
// is whole it ends, and others come to its nodes again. Seconds are the longest that a gang took to be whole.
func (r *churning) one(ctx context.Context, out *Phase) error {
	for i := range ones {
		free := r.taken.room(i, r.shape.Pods)
		before, began := r.ending.gangs.Load(), time.Now()
		if err := r.occupants.leaveNodes(ctx, free); err != nil {
			return err
		}
		whole := func() bool { return r.ending.gangs.Load() > before }
		err := r.keepChanging(ctx, out, r.taken.replaceBeside(i), func() bool { return whole() || time.Since(began) > r.timeout })
		if err != nil {
			return err
		}
		if !whole() {
			r.fails("a gang that fits did not start within %s", r.timeout)
			return nil
		}
		out.Seconds = max(out.Seconds, time.Unix(0, r.ending.last.Load()).Sub(began).Seconds())
		if err := r.occupants.fill(ctx, free); err != nil {
			return err
		}
		// Another gang may have come first; it ends, too.
		if _, err := r.quiet(ctx); err != nil {
			return err
		}
	}
	r.earlier = r.ending.count.Load()
	return nil
}

// settle waits until the scheduler is quiet.
func (r *churning) settle(ctx context.Context, out *Phase, began time.Time) error {
	last, err := r.quiet(ctx)
	if err != nil {
		return err
	}
	out.Seconds = max(last.Sub(began).Seconds(), 0)
	if n := r.ending.count.Load(); n > 0 && len(r.out.Failures) == 0 {
		r.fails("%d pods were bound before there was room", n)
	}
	return nil
}

// quiet waits until the scheduler does nothing, and returns when it last did something.
// One that never rests is a failure, not an error: its figures say how busy it was.
func (r *churning) quiet(ctx context.Context) (last time.Time, err error) {
	began := time.Now()
	last = began
	var before counts
	for time.Since(last) < quietFor {
		if time.Since(began) > r.timeout {
			r.fails("the scheduler did not come to rest within %s", r.timeout)
			return last, nil
		}
		now, err := r.p.counts(ctx)
		if err != nil {
			return last, err
		}
		if before != nil && now.busySince(before) {
			last = time.Now()
		}
		before = now
		if err := wait(ctx, quietLook); err != nil {
			return last, err
		}
	}
	return last, nil
}

// busySince says whether a scheduler has tried or written anything.
func (c counts) busySince(earlier counts) bool {
	for _, what := range []counter{cycles, plans, requests} {
		if c[what] != earlier[what] {
			return true
		}
	}
	return false
}

// room has all others leave.
func (r *churning) room(ctx context.Context, out *Phase) error {
	began := time.Now()
	if err := r.occupants.leave(ctx); err != nil {
		return err
	}
	return r.bound(ctx, out, began, "all others had left")
}

// drain has a backlog of the same kind bound on the empty cluster.
func (r *churning) drain(ctx context.Context, out *Phase) (err error) {
	select {
	case <-r.seen.bound:
	default:
		return nil // the first one is there still
	}
	if err := r.clean(ctx, r.contender, r.shape, r.name); err != nil {
		return err
	}
	r.drains++
	r.name, r.earlier = fmt.Sprintf("d%d", r.drains), r.ending.count.Load()
	r.seen.stop()
	if r.seen, err = r.watch(ctx, r.name, r.shape.Total(), r.ending.bound); err != nil {
		return err
	}
	r.seen.begin()
	if err := r.p.Pause(); err != nil {
		return err
	}
	gangs := r.shape.gangs(r.name)
	err = r.create(ctx, r.contender, r.shape, gangs, r.backlog(gangs))
	if err == nil {
		err = r.seen.all(ctx, r.seen.created)
	}
	began := time.Now()
	if err := errors.Join(err, r.p.Resume()); err != nil {
		return err
	}
	return r.bound(ctx, out, began, "the scheduler went on")
}

// bound waits until the backlog is bound, and says how fast that was. One that is not bound
// is a failure.
func (r *churning) bound(ctx context.Context, out *Phase, began time.Time, since string) error {
	limit, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err := r.seen.all(limit, r.seen.bound)
	out.Seconds = time.Since(began).Seconds()
	n := r.ending.count.Load() - r.earlier
	out.PodsPerS = float64(n) / out.Seconds
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		r.fails("%d of %d pods were bound within %s after %s", n, r.shape.Total(), r.timeout, since)
		return nil
	}
	if err == nil {
		r.out.Failures = append(r.out.Failures, r.apart(r.contender, r.shape, r.seen)...)
	}
	return err
}

func (r *churning) fails(format string, args ...any) {
	r.out.Failures = append(r.out.Failures, fmt.Sprintf(format, args...))
}

func wait(ctx context.Context, long time.Duration) error {
	select {
	case <-time.After(long):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ending ends gangs that are whole, as jobs end, for the backlog may be larger than the
// cluster. Pods that are no gang end one by one.
type ending struct {
	*bench
	size  int
	pods  map[string][]string // that are bound, by gang
	whole chan []string
	count atomic.Int64 // pods that are bound
	gangs atomic.Int64 // gangs that were whole
	last  atomic.Int64 // when the last of them was, in nanoseconds
}

func newEnding(b *bench, c contender, s Shape) *ending {
	e := &ending{bench: b, size: 1, pods: map[string][]string{}, whole: make(chan []string, s.Total())}
	if c.whole {
		e.size = s.Pods
	}
	return e
}

// bound is called for every bound pod, one after the other.
func (e *ending) bound(pod string, at place) {
	e.count.Add(1)
	e.pods[at.gang] = append(e.pods[at.gang], pod)
	if all := e.pods[at.gang]; len(all) == e.size {
		delete(e.pods, at.gang)
		e.last.Store(at.bound.UnixNano())
		e.gangs.Add(1)
		e.whole <- all
	}
}

// run ends them until ctx ends.
func (e *ending) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case pods := <-e.whole:
			err := inParallel(ctx, len(pods), func(i int) error { return e.delete(ctx, pods[i]) })
			if err != nil && ctx.Err() == nil {
				progress("gangs that are whole do not end: %v", err)
			}
		}
	}
}
