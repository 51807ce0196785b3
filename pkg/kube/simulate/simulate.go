// Package simulate runs Muster's scheduler over objects from files: the same framework,
// the same plugins, the same configuration, and in place of an API server and nodes a
// table in memory.
//
//	files ──► Set ──► cluster ──watch──► informers, scheduler, plugins
//	                     ▲                        │
//	                     └── bindings, status, ───┘     ──► Result
//	                         evictions
//
// Time is make-believe too, and the scheduler takes one pod at a time, only when
// nothing else moves: so a simulation takes no longer than the work in it, and equal
// input gives equal output.
//
// It decides nothing and must not know how the plugin does.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/family"
	"github.com/muster-scheduler/muster/pkg/kube/pace"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Options say how to simulate.
type Options struct {
	// Config is a KubeSchedulerConfiguration; nil stands for the drop-in configuration,
	// which serves muster-scheduler and koord-scheduler.
	Config []byte
	// VictimsStay keeps pods that are evicted, or deleted while they run, where they are,
	// terminating, until a later set deletes them once more.
	VictimsStay bool
	// Live says that the objects are those of a cluster at one moment, the first set's (if it has none,
	// when its youngest object was made), of which a scheduler that is
	// restarted then makes what it can: their status counts. Pods that are leaving are still there if
	// VictimsStay.
	Live bool
	// Changes are made to what the first set holds before the scheduler does anything.
	Changes []Change
	// Tried and Unread are plugin.Options' own, and Plugins is family.Options'.
	Tried   func(context.Context, plugin.Trial)
	Unread  bool
	Plugins frameworkruntime.Registry

	// between is api's, for tests of what happens when requests fail.
	between func(clienttesting.Action, answer) (runtime.Object, error)
	// allServed has all APIs served, whether or not there are objects of them yet.
	allServed bool
}

// Run simulates until the cluster of the first set has settled, then brings in the
// other sets, one after the other, each when all before it has settled. Pods that their
// controller makes when others run come when what was there has settled, too. When ctx ends
// before that, the error is an *UnsettledError. Objects and configurations that an API
// server or the scheduler would not take are an *InputError or a *ConfigError.
//
// One process can run one simulation at a time, and must do nothing else meanwhile.
func Run(ctx context.Context, o Options, first *Set, then ...*Set) (*Result, error) {
	w, err := Open(ctx, o, first)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := w.Change(ctx, o.Changes); err != nil {
		return nil, err
	}
	for {
		if err := w.Settle(ctx, nil); err != nil {
			return nil, err
		}
		if len(then) == 0 {
			return w.result(), nil
		}
		w.cluster.warnings(w.recorder.all())
		pods, err := w.cluster.apply(then[0])
		if err != nil {
			return nil, err
		}
		if err := w.come(ctx, pods); err != nil {
			return nil, err
		}
		then = then[1:]
	}
}

// UnsettledError says what a simulation was waiting for when its time was over.
type UnsettledError struct{ Waiting []string }

func (e *UnsettledError) Error() string {
	return "the simulation has not settled; it waits for " + strings.Join(e.Waiting, "; ")
}

// simulation is one run.
type simulation struct {
	cluster   *cluster
	clock     *clocktesting.FakeClock
	observer  observer
	recorder  recorder
	informers informers.SharedInformerFactory
	scheduler *scheduler.Scheduler
	shared    *plugin.Shared

	// The scheduler asks for a turn before it takes a pod.
	turn  chan struct{}
	asked atomic.Int64
	given int64
	gate  *gate
	late  *late
	ended chan struct{}

	binding atomic.Int64
	changed []Changed

	early    func() bool // SettleOr's
	awaits   bool        // something goes on in real time, or did when it was last quiet
	served   bool        // all APIs are
	tried    func(context.Context, plugin.Trial)
	unread   bool
	plugins  frameworkruntime.Registry
	patience time.Duration
}

// start makes a cluster and a scheduler that has not begun. It returns the pods that
// come then.
func start(ctx context.Context, o Options, first *Set) (*simulation, []object, error) {
	cfg, err := readConfig(o.Config)
	if err != nil {
		return nil, nil, err
	}
	begin := epoch
	if !first.moment.IsZero() {
		begin = first.moment
	}
	clock, gate := clocktesting.NewFakeClock(begin.Add(-time.Second)), &gate{}
	s := &simulation{
		clock: clock, gate: gate, served: o.allServed, tried: o.Tried, unread: o.Unread, plugins: o.Plugins,
		cluster: &cluster{born: begin, live: o.Live, missed: first.Missed, ran: map[types.UID]bool{}, from: map[string]Position{}, told: map[Event]warned{}, owned: map[identity]*owned{}, pairs: pairs{map[key][]string{}, map[string]key{}}, api: &api{
			server: newServer(), gate: gate, now: clock.Now, victimsStay: o.VictimsStay, between: o.between,
			order: map[types.UID]int{}, evicted: map[types.UID]*v1.Pod{},
		}},
		patience: max(retryAfter, time.Duration(cfg.PodMaxBackoffSeconds)*time.Second) + littleMore,
	}
	s.observer.refused = &s.cluster.refused
	pods, err := s.cluster.apply(first)
	if err != nil {
		return nil, nil, err
	}
	s.until(s.cluster.fresh.Add(-time.Second))
	if err := s.boot(ctx, cfg); err != nil {
		return nil, nil, &ConfigError{err}
	}
	return s, pods, nil
}

// boot starts a scheduler process, which ends with ctx and knows only what is in the
// cluster.
func (s *simulation) boot(ctx context.Context, cfg *schedulerconfig.KubeSchedulerConfiguration) error {
	s.asked.Store(0)
	s.given, s.late, s.turn, s.ended, s.shared = 0, &late{gate: s.gate, waiting: map[string]*v1.Pod{}}, make(chan struct{}), make(chan struct{}), nil
	if err := s.build(ctx, cfg); err != nil {
		return err
	}
	if s.shared == nil {
		return errors.New("no profile runs the plugin " + plugin.Name)
	}
	s.informers.StartWithContext(ctx)
	go func() {
		defer close(s.ended)
		s.scheduler.Run(ctx)
	}()
	return nil
}

// connect has a scheduler see what is in the cluster. The objects of other projects are served if
// there are any: who writes their pods only need not write them.
func (s *simulation) connect(custom dynamic.Interface) func(context.Context, fwk.Handle) (cache.Source, error) {
	return func(ctx context.Context, h fwk.Handle) (cache.Source, error) {
		src, err := connect.Given(custom)(ctx, h)
		src.Served = func(r schema.GroupVersionResource) (bool, error) {
			return !source.Foreign(r) && !convert.Beside(r) || s.served || s.cluster.any(r), nil
		}
		return src, err
	}
}

// build makes the scheduler.
func (s *simulation) build(ctx context.Context, cfg *schedulerconfig.KubeSchedulerConfiguration) error {
	if err := connect.SetGates(); err != nil {
		return err
	}
	typed, custom := s.cluster.clients(ctx)
	s.informers = newInTurn(scheduler.NewInformerFactory(typed, 0, nil))
	registry := family.Factories(family.Options{Plugins: s.plugins, Options: plugin.Options{
		Connect: s.connect(custom), Clock: s.clock, Settle: -1, Writers: 1, Started: func(shared *plugin.Shared) { s.shared = shared }, Tried: s.tried, Unread: s.unread, Narrow: 1,
		// Asked before a gang's status is read: not while it changes.
		Busy: func() bool { _ = s.gate.pass(ctx, "status"); return false }, Unanswered: pace.Unanswered,
	}})
	if err := family.CheckConfig(cfg.Profiles, registry); err != nil {
		return &ConfigError{err}
	}
	recorder := func(string) events.EventRecorderLogger { return &s.recorder }
	sched, err := scheduler.New(ctx, typed, s.informers, nil, recorder,
		scheduler.WithComponentConfigVersion(cfg.APIVersion),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithParallelism(cfg.Parallelism),
		scheduler.WithClock(&queueClock{FakeClock: s.clock}),
	)
	if err != nil {
		return err
	}
	if s.shared != nil { // some profile has the plugin
		s.shared.Complete(sched)
	}
	pace.ReadAnswers(sched)
	s.late.PodActivator = sched.SchedulingQueue
	for name, p := range sched.Profiles {
		p.SetPodActivator(s.late)
		sched.Profiles[name] = &profile{p, &s.binding, s.gate}
	}
	take, turn := sched.NextEntity, s.turn // of this process; its loop may outlive it a little
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		if ctx.Err() != nil {
			return nil, nil
		}
		s.gate.own(goroutine())
		s.asked.Add(1)
		select {
		case <-turn:
			return take(logger)
		case <-ctx.Done():
			return nil, nil
		}
	}
	s.scheduler = sched
	return nil
}

// until lets time go on to t. It never goes back.
func (s *simulation) until(t time.Time) {
	if t.After(s.clock.Now()) {
		s.clock.SetTime(t)
	}
}

// open waits until the scheduler has seen everything once.
func (s *simulation) open(ctx context.Context) error {
	for {
		if err := s.quiet(ctx); err != nil {
			return &UnsettledError{s.waiting()}
		}
		if s.ready() {
			s.until(s.cluster.fresh)
			return nil
		}
		s.clock.Step(100 * time.Millisecond)
	}
}

// come brings in new pods, the oldest first, and makes it now what it was when they were
// made: among pods of equal priority the queue goes by the time at which a pod came, and
// for members of gangs by the time at which their gang was made. Pods that come one
// after the other, with no gang in between, may come together.
func (s *simulation) come(ctx context.Context, pods []object) error {
	gang := true
	for _, o := range pods {
		switch {
		case !source.Of(o.Object.(*v1.Pod)).IsZero():
			gang = true
		case gang:
			if err := s.quiet(ctx); err != nil {
				return &UnsettledError{s.waiting()}
			}
			s.until(made(o))
			gang = false
		}
		if err := s.cluster.put(o); err != nil {
			return &InputError{o.at, err}
		}
	}
	if err := s.quiet(ctx); err != nil {
		return &UnsettledError{s.waiting()}
	}
	s.until(s.cluster.born)
	return nil
}

// A simulation has settled when nothing has changed for so long that the scheduler has
// tried everything again: the longest backoff, or the longest retry of a gang (10 s),
// and a little more.
const (
	stepBy     = time.Second
	retryAfter = 10 * time.Second
	littleMore = 5 * time.Second
)

// settle runs the scheduler until there is nothing left to do, or until it is enough; nil never
// says so.
func (s *simulation) settle(ctx context.Context, enough func() bool) error {
	changes, since := s.cluster.changes(), s.clock.Now()
	for {
		if err := s.quiet(ctx); err != nil {
			return &UnsettledError{s.waiting()}
		}
		if now := s.cluster.changes(); now != changes {
			changes, since = now, s.clock.Now()
		}
		switch {
		case enough != nil && enough():
			return nil
		case s.work(ctx):
		case s.clock.Since(since) >= s.patience && !s.shared.RevokesLater():
			return nil
		default:
			s.clock.Step(stepBy)
		}
	}
}

// work lets the scheduler take one pod, or waits a moment for what goes on in real time.
// It says whether there was anything to do. When ctx ends, quiet says so.
func (s *simulation) work(ctx context.Context) bool {
	switch {
	case s.awaits:
		_ = sleep(ctx, time.Millisecond)
	case len(s.scheduler.SchedulingQueue.PodsInActiveQ()) > 0:
		select {
		case s.turn <- struct{}{}:
			s.given++
		case <-ctx.Done():
		}
	default:
		return false
	}
	return true
}

// ready says whether the scheduler has seen everything once.
func (s *simulation) ready() bool { return s.shared.Cache.Open() }

// busy says whether something goes on that waits for real time: a volume that is being
// bound, a write that is tried again, a member on its way for which an eviction waits.
func (s *simulation) busy() bool {
	return s.binding.Load() > 0 || !s.shared.Writer.Idle() || s.shared.Looks()
}

// quiet waits until the scheduler asks for its turn and nothing moves. What others do
// while the scheduler has its turn reaches it afterwards: whether a pod is being tried
// at that moment, or has just been put back, makes a difference to the queue, and which
// it is would be left to chance. So would be the order in which others do it, and in which
// they hear of it: one goes on at a time, until nothing moves again. Nobody goes on if it is early enough.
func (s *simulation) quiet(ctx context.Context) error {
	for tries := 0; s.asked.Load() == s.given; tries++ {
		if err := sleep(ctx, 20*time.Microsecond); err != nil {
			return err
		}
		if tries%100 == 99 && s.observer.quiet() { // the scheduler itself waits for others
			s.gate.next()
		}
	}
	if s.early != nil && s.early() { // at first by the way
		if err := s.observer.wait(ctx); err != nil {
			return err
		}
		if s.early() {
			return nil
		}
	}
	next := func() bool { return s.gate.next() || s.cluster.tell() || s.late.next() }
	for again := true; again; {
		for more := true; more; more = next() {
			if err := s.observer.calm(ctx); err != nil {
				return err
			}
		}
		if err := s.observer.wait(ctx); err != nil {
			return err
		}
		s.awaits = s.busy() // first: what has just been done in real time may have left something
		again = next()
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// waiting lists what is not done.
func (s *simulation) waiting() (what []string) {
	name := func(of string, pods []*v1.Pod) {
		if len(pods) == 0 {
			return
		}
		names := make([]string, 0, len(pods))
		for _, p := range pods {
			names = append(names, p.Namespace+"/"+p.Name)
		}
		slices.Sort(names)
		if len(names) > 5 {
			names = append(names[:5], fmt.Sprintf("%d more", len(names)-5))
		}
		what = append(what, of+" "+strings.Join(names, ", "))
	}
	if !s.ready() {
		what = append(what, "the first list of all objects")
	}
	queue := s.scheduler.SchedulingQueue
	name("the scheduling of", queue.PodsInActiveQ())
	name("the backoff of", queue.PodsInBackoffQ())
	name("the binding of", queue.InFlightPods())
	if !s.shared.Writer.Idle() {
		what = append(what, "status to be written")
	}
	if len(what) == 0 {
		what = append(what, "things to stop changing")
	}
	return what
}

// stop ends everything that was started.
func (s *simulation) stop(cancel func()) {
	cancel()
	<-s.ended
	for _, p := range s.scheduler.Profiles {
		p.IterateOverWaitingPods(func(w fwk.WaitingPod) { w.Reject(plugin.Name, "the scheduler stops") }) // else they wait on
	}
	s.informers.Shutdown()
	// The plugin's own goroutines end by themselves, in no time.
	ctx, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	_ = s.observer.wait(ctx)
}
