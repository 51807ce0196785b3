// Package simulate runs Muster's scheduler over objects from files: the same framework, plugins and configuration, with a table in
// memory in place of an API server and nodes.
//
//	files ──► Set ──► cluster ──watch──► informers, scheduler, plugins
//	                     ▲                        │
//	                     └── bindings, status, ───┘     ──► Result
//	                         evictions
//
// Time is simulated too. The scheduler takes one pod at a time, and only when no other goroutine works.
//
// Invariants: a simulation does not wait in real time, and equal input produces equal output.
//
// The package makes no scheduling decisions, and does not depend on how the plugin makes them.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// Options are the options of a simulation.
type Options struct {
	// Config is a KubeSchedulerConfiguration; nil stands for the drop-in configuration, which serves muster-scheduler and koord-scheduler.
	Config []byte
	// VictimsStay keeps pods that are evicted, or deleted while they run, as terminating pods until a later set deletes them again.
	VictimsStay bool
	// Live says that the objects are a cluster's, at the first set's moment or else at the creation of its youngest object. The
	// scheduler starts as after a restart: it reads the status of objects. With VictimsStay, terminating pods still exist.
	Live bool
	// At moves the simulated time before the scheduler tries any pod. The zero value does not.
	At Moment
	// Changes are made to the first set before the scheduler tries any pod.
	Changes []Change
	// Tried and Unread are options of plugin.Options, and Plugins is one of family.Options.
	Tried   func(context.Context, plugin.Trial)
	Unread  bool
	Plugins frameworkruntime.Registry

	// intercept is api.intercept, for tests of failing requests.
	intercept func(clienttesting.Action, answer) (runtime.Object, error)
	// allServed says that all APIs are served, even APIs without objects.
	allServed bool
}

// Run simulates a cluster with the objects of first until it has settled. Then it applies each later set and lets the cluster settle
// again. Held pods are created when the cluster has settled, too. If ctx ends before, the error is an *UnsettledError. For objects
// or configurations that an API server or the scheduler would reject, it is an *InputError or a *ConfigError. For Options.At in the past
// it is a *MomentError.
//
// One process can run one simulation at a time, and must do nothing else during that time.
func Run(ctx context.Context, o Options, first *Set, later ...*Set) (*Result, error) {
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
		if len(later) == 0 {
			return w.result(), nil
		}
		w.cluster.warnings(w.recorder.sorted())
		if later[0].pause > 0 {
			err = w.pause(ctx, later[0].pause)
		} else {
			err = w.Apply(ctx, later[0])
		}
		if err != nil {
			return nil, err
		}
		later = later[1:]
	}
}

// UnsettledError says what a simulation was waiting for when its context ended.
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

	// Before the scheduler takes a pod, it increments turnsAsked and waits for turn. Each send on turn increments turnsGiven.
	turn       chan struct{}
	turnsAsked atomic.Int64
	turnsGiven int64
	gate       *gate
	activator  *delayedActivator
	stopped    chan struct{}

	binding atomic.Int64
	changed []ChangeReport

	early          func() bool // see SettleEarly
	awaitsRealTime bool        // at the last quiet moment, work in real time was going on
	allServed      bool        // all APIs are served
	tried          func(context.Context, plugin.Trial)
	unread         bool
	plugins        frameworkruntime.Registry
	settleTime     time.Duration
}

// start returns a simulation with the objects of first, except new pods: it returns these, and the caller must add them.
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
		clock: clock, gate: gate, allServed: o.allServed, tried: o.Tried, unread: o.Unread, plugins: o.Plugins,
		cluster: &cluster{
			youngest: begin, keepStatus: o.Live, unlisted: first.Unlisted, ranBefore: map[types.UID]bool{},
			positions: map[string]Position{}, reported: map[Event]reportedWarning{}, ownedBy: map[identity]*ownedObjects{},
			pairs: pairs{map[key][]string{}, map[string]key{}}, api: &api{
				server: newServer(), gate: gate, now: clock.Now, victimsStay: o.VictimsStay, intercept: o.intercept,
				order: map[types.UID]int{}, evicted: map[types.UID]*v1.Pod{},
			},
		},
		settleTime: max(gangRetry, time.Duration(cfg.PodMaxBackoffSeconds)*time.Second) + settleMargin,
	}
	s.observer.failed = &s.cluster.failed
	pods, err := s.cluster.apply(first)
	if err != nil {
		return nil, nil, err
	}
	s.advanceTo(s.cluster.setStart.Add(-time.Second))
	if err := s.boot(ctx, cfg); err != nil {
		return nil, nil, &ConfigError{err}
	}
	return s, pods, nil
}

// boot starts a scheduler as a new process would start: it knows only the objects in the cluster. It stops when ctx ends.
func (s *simulation) boot(ctx context.Context, cfg *schedulerconfig.KubeSchedulerConfiguration) error {
	s.turnsAsked.Store(0)
	s.turnsGiven = 0
	s.activator = &delayedActivator{gate: s.gate, waiting: map[string]*v1.Pod{}}
	s.turn = make(chan struct{})
	s.stopped = make(chan struct{})
	s.shared = nil
	if err := s.build(ctx, cfg); err != nil {
		return err
	}
	if s.shared == nil {
		return errors.New("no profile runs the plugin " + plugin.Name)
	}
	s.informers.StartWithContext(ctx)
	go func() {
		defer close(s.stopped)
		s.scheduler.Run(ctx)
	}()
	return nil
}

// connect returns the function that connects a scheduler to the cluster. An API of another project counts as served only if the
// cluster has objects of it (or with allServed): the files may have its pods without its objects.
func (s *simulation) connect(custom dynamic.Interface) func(context.Context, fwk.Handle) (cache.Source, error) {
	return func(ctx context.Context, h fwk.Handle) (cache.Source, error) {
		src, err := connect.FromClient(custom)(ctx, h)
		src.Served = func(r schema.GroupVersionResource) (bool, error) {
			return !source.Foreign(r) && !convert.Beside(r) || s.allServed || s.cluster.hasObjects(r), nil
		}
		return src, err
	}
}

// build creates s.scheduler, whose NextEntity waits for a turn before each pod.
func (s *simulation) build(ctx context.Context, cfg *schedulerconfig.KubeSchedulerConfiguration) error {
	if err := connect.SetGates(); err != nil {
		return err
	}
	typed, custom := s.cluster.clients(ctx)
	s.informers = newSerialFactory(scheduler.NewInformerFactory(typed, 0, nil))
	registry := family.Factories(family.Options{Plugins: s.plugins, Options: plugin.Options{
		Connect: s.connect(custom), Clock: s.clock, Settle: -1, Writers: 1, ListenerRatio: 1,
		Started: func(shared *plugin.Shared) { s.shared = shared }, Tried: s.tried, NoGangStatus: s.unread,
		// Works that are due at the same time change the same state. So they start one at a time, in the order of their names.
		BeforeWrite: func(ctx context.Context, name string) { _ = s.gate.pass(ctx, "work "+name) },
		Unanswered:  pace.Unanswered,
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
		// The queue looks every 30 s of real time for pods that have waited for so long; a long simulation would be random.
		scheduler.WithPodMaxInUnschedulablePodsDuration(math.MaxInt64),
		scheduler.WithClock(&queueClock{FakeClock: s.clock}),
	)
	if err != nil {
		return err
	}
	if s.shared != nil { // some profile has the plugin
		s.shared.Complete(sched)
	}
	pace.ReadAnswers(sched)
	s.activator.PodActivator = sched.SchedulingQueue
	for name, p := range sched.Profiles {
		p.SetPodActivator(s.activator)
		sched.Profiles[name] = &profile{p, &s.binding, s.gate}
	}
	nextEntity, turn := sched.NextEntity, s.turn // of this process, whose loop may outlive it briefly
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		if ctx.Err() != nil {
			return nil, nil
		}
		s.gate.setScheduler(goroutineID())
		s.turnsAsked.Add(1)
		select {
		case <-turn:
			return nextEntity(logger)
		case <-ctx.Done():
			return nil, nil
		}
	}
	s.scheduler = sched
	return nil
}

// advanceTo moves the clock forward to t; it never moves back.
func (s *simulation) advanceTo(t time.Time) {
	if t.After(s.clock.Now()) {
		s.clock.SetTime(t)
	}
}

// waitReady returns when the scheduler has seen all objects.
func (s *simulation) waitReady(ctx context.Context) error {
	for {
		if err := s.waitQuiet(ctx); err != nil {
			return &UnsettledError{s.waiting()}
		}
		if s.ready() {
			s.advanceTo(s.cluster.setStart)
			return nil
		}
		s.clock.Step(100 * time.Millisecond)
	}
}

// addPods stores new pods in order. Before a pod without a gang it waits until nothing moves, and sets the clock to the pod's creation
// time: the queue orders these pods by arrival. It orders members by the creation of their gang, so they need no wait.
func (s *simulation) addPods(ctx context.Context, pods []object) error {
	afterMember := true
	for _, o := range pods {
		switch {
		case !source.GangOf(o.Object.(*v1.Pod)).IsZero():
			afterMember = true
		case afterMember:
			if err := s.waitQuiet(ctx); err != nil {
				return &UnsettledError{s.waiting()}
			}
			s.advanceTo(creationTime(o))
			afterMember = false
		}
		if err := s.cluster.put(o); err != nil {
			return &InputError{o.at, err}
		}
	}
	if err := s.waitQuiet(ctx); err != nil {
		return &UnsettledError{s.waiting()}
	}
	s.advanceTo(s.cluster.youngest)
	return nil
}

// A simulation has settled when nothing has changed for settleTime: the longest backoff or the longest retry of a gang (10 s), plus a
// margin. By then the scheduler has retried every pod.
const (
	timeStep     = time.Second
	gangRetry    = 10 * time.Second
	settleMargin = 5 * time.Second
)

// settle runs the scheduler until nothing has changed for settleTime, or until enough (if not nil) returns true.
func (s *simulation) settle(ctx context.Context, enough func() bool) error {
	changes, since := s.cluster.changes(), s.clock.Now()
	for {
		if err := s.waitQuiet(ctx); err != nil {
			return &UnsettledError{s.waiting()}
		}
		if now := s.cluster.changes(); now != changes {
			changes, since = now, s.clock.Now()
		}
		switch {
		case enough != nil && enough():
			return nil
		case s.runStep(ctx):
		case s.clock.Since(since) >= s.settleTime && !s.shared.RevokesLater():
			return nil
		default:
			s.clock.Step(timeStep)
		}
	}
}

// runStep lets the scheduler take one pod, or sleeps for a millisecond while work in real time runs. It returns false if there is
// neither. It ignores the end of ctx, which the next call of waitQuiet reports.
func (s *simulation) runStep(ctx context.Context) bool {
	switch {
	case s.awaitsRealTime:
		_ = sleep(ctx, time.Millisecond)
	case len(s.scheduler.SchedulingQueue.PodsInActiveQ()) > 0:
		select {
		case s.turn <- struct{}{}:
			s.turnsGiven++
		case <-ctx.Done():
		}
	default:
		return false
	}
	return true
}

// ready says whether the scheduler has seen all objects.
func (s *simulation) ready() bool { return s.shared.Cache.Open() }

// busy says whether work in real time runs: a volume binding, a retried write, or an eviction that waits for a member.
func (s *simulation) busy() bool {
	return s.binding.Load() > 0 || !s.shared.Writer.Idle() || s.shared.ChecksProgress()
}

// waitQuiet returns when the scheduler waits for its turn and no goroutine has work. Until then it releases writers and watchers one
// at a time, so that their order is not random. Writes during a turn reach the scheduler only after it: the queue treats a pod that is
// being tried differently from a requeued pod. If s.early returns true, waitQuiet returns without releasing them.
func (s *simulation) waitQuiet(ctx context.Context) error {
	for tries := -spins; s.turnsAsked.Load() == s.turnsGiven; tries++ {
		if tries < 0 {
			letOthersRun()
			continue
		}
		if err := sleep(ctx, 20*time.Microsecond); err != nil {
			return err
		}
		if tries%100 == 99 && s.observer.quiet() { // the scheduler itself waits for another goroutine
			s.gate.releaseNext()
		}
	}
	if s.early != nil && s.early() { // a cheap check first
		if err := s.observer.wait(ctx); err != nil {
			return err
		}
		if s.early() {
			return nil
		}
	}
	next := func() bool { return s.gate.releaseNext() || s.cluster.deliverNext() || s.activator.activateWaiting() }
	for released := true; released; {
		for more := true; more; more = next() {
			if err := s.observer.waitCheaply(ctx); err != nil {
				return err
			}
		}
		if err := s.observer.wait(ctx); err != nil {
			return err
		}
		s.awaitsRealTime = s.busy() // before next: finished real-time work may have left something to release
		released = next()
	}
	return nil
}

// sleep waits for d, or until ctx ends; then it returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// waiting lists what the simulation still waits for, in words.
func (s *simulation) waiting() (what []string) {
	name := func(label string, pods []*v1.Pod) {
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
		what = append(what, label+" "+strings.Join(names, ", "))
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

// stop calls cancel, and waits until the scheduler and its goroutines have ended.
func (s *simulation) stop(cancel func()) {
	cancel()
	<-s.stopped
	for _, p := range s.scheduler.Profiles {
		p.IterateOverWaitingPods(func(w fwk.WaitingPod) { w.Reject(plugin.Name, "the scheduler stops") }) // otherwise they go on waiting
	}
	s.informers.Shutdown()
	// The plugin's own goroutines end by themselves, almost at once.
	ctx, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	_ = s.observer.wait(ctx)
}
