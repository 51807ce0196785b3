package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Result is one drain: a backlog, from letting the scheduler go until the last bind.
type Result struct {
	Contender string  `json:"contender"`
	Shape     Shape   `json:"shape"`
	Nodes     int     `json:"nodes"`
	Running   bool    `json:"running"` // pods were created while the scheduler ran
	Seconds   float64 `json:"seconds"`
	PodsPerS  float64 `json:"podsPerSecond"`
	// P50 and P99 of the gangs: from the start (of the drain; when pods come while the
	// scheduler runs, from the gang's last pod) until its last bind, in seconds.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Writes per pod, by "VERB resource".
	Writes map[string]float64 `json:"writesPerPod"`
	// FilterRuns per pod are how often pods were checked against nodes; PlanningRuns are the Filter runs of Muster's plans
	// among them. nil is unknown.
	FilterRuns   *float64 `json:"filterRunsPerPod,omitempty"`
	PlanningRuns *float64 `json:"planningFilterRunsPerPod,omitempty"`
	CPU          float64  `json:"cpuSeconds"`
	// Until is processor time until the last bind, in ms a pod, by the program's name; the bench is one.
	Until    map[string]float64 `json:"msPerPodUntilLastBind,omitempty"`
	PeakMB   float64            `json:"peakMB"`
	RSSMB    float64            `json:"rssMB"`
	Failures []string           `json:"failures,omitempty"`
}

// drain creates a backlog and has it bound. Without running, the scheduler is stopped
// while the backlog is made. p is nil for the contender without a scheduler.
func (b *bench) drain(ctx context.Context, c contender, s Shape, p *scheduler, running bool) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	b.drains++
	name := fmt.Sprintf("d%d", b.drains)
	gangs := s.gangs(name)
	pods := s.pods(name, gangs)

	seen, err := b.watch(ctx, name, len(pods), nil)
	if err != nil {
		return nil, err
	}
	defer seen.stop()
	if running && p == nil {
		seen.came = make(chan string, len(pods))
	}
	seen.begin()
	counted, err := p.counts(ctx) // now: once stopped it does not answer
	if err != nil {
		return nil, err
	}
	create := func() error { return b.create(ctx, c, s, gangs, pods) }
	if !running {
		if p != nil {
			if err := p.Pause(); err != nil {
				return nil, err
			}
		}
		if err := create(); err != nil {
			return nil, err
		}
		if err := seen.all(ctx, seen.created); err != nil {
			return nil, fmt.Errorf("not all pods were created: %w", err)
		}
	}
	if err := b.collectGarbage(ctx); err != nil {
		return nil, err
	}
	before, err := b.measureOutside(ctx, p)
	if err != nil {
		return nil, err
	}
	before.counts = counted
	if c.watches {
		stop, err := b.inform(ctx)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	spent, err := processors()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	switch {
	case running && p == nil:
		err = b.bindWhileTheyCome(ctx, create, pods, s, seen)
	case running:
		err = create()
	case p != nil:
		err = p.Resume()
	default:
		err = b.bindAll(ctx, pods, s)
	}
	if err != nil {
		return nil, err
	}
	if err := seen.all(ctx, seen.bound); err != nil {
		return nil, fmt.Errorf("%s, %s: %d of %d pods are bound: %w", c.name, s, seen.count(), len(pods), err)
	}
	r := &Result{Contender: c.name, Shape: s, Nodes: b.nodes, Running: running}
	if r.Until, err = sinceThen(spent, len(pods)); err != nil {
		return nil, err
	}
	r.times(began, seen, running)
	after, err := b.settled(ctx, p)
	if err != nil {
		return nil, err
	}
	r.usage(before, after)
	r.Failures = b.check(c, s, seen)
	wrong, err := b.checkClaims(ctx, name, s, seen)
	if err != nil {
		return nil, err
	}
	r.Failures = append(r.Failures, wrong...)
	return r, b.clean(ctx, c, s, name)
}

// collectGarbage has the API server collect its garbage before a drain. The garbage comes from listing the nodes for a
// scheduler that started, or from cleaning up the last drain. One collection takes as much processor time there as a
// third of a drain of 512 pods, and would count for the next drain.
func (b *bench) collectGarbage(ctx context.Context) error {
	_, err := b.client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(ctx)
	return err
}

// Events and the like may come after the last binding: they count, too.
const (
	settledLook  = time.Second
	settledAfter = 2 * settledLook
)

// settled measures once nothing has been written for a while.
func (b *bench) settled(ctx context.Context, p *scheduler) (usage, error) {
	last, err := b.measure(ctx, p)
	for since := time.Now(); err == nil && time.Since(since) < settledAfter; {
		if err := wait(ctx, settledLook); err != nil {
			return last, err
		}
		var now usage
		if now, err = b.measure(ctx, p); err == nil && !maps.Equal(now.writes, last.writes) {
			since = time.Now()
		}
		last = now
	}
	return last, err
}

// bindAll posts one binding after another, as many at a time as the bench's clients, each after what its pod's claim has.
func (b *bench) bindAll(ctx context.Context, pods []*v1.Pod, s Shape) error {
	var claims map[string]*resourceapi.ResourceClaim
	if s.Claims {
		var err error
		if claims, err = b.claimsOf(ctx, pods[0].Labels[perfLabel]); err != nil {
			return err
		}
	}
	return inParallel(ctx, len(pods), func(i int) error {
		name, node := pods[i].Name, nodeOf(i, s)
		if c := claims[name]; c != nil {
			if err := b.allocate(ctx, c, s, node, deviceOf(i, s)); err != nil {
				return err
			}
		}
		return b.bind(ctx, pods[i].Namespace, name, node)
	})
}

// bindWhileTheyCome creates pods and binds each as soon as the watch has shown it, with as many requests at a time for either:
// what a scheduler could do that needs no time to decide.
func (b *bench) bindWhileTheyCome(ctx context.Context, create func() error, pods []*v1.Pod, s Shape, seen *seen) error {
	at := map[string]int{}
	for i, p := range pods {
		at[p.Name] = i
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	created := make(chan error, 1)
	go func() {
		err := create()
		if err != nil {
			cancel(err) // the others would be waited for in vain
		}
		created <- err
	}()
	bound := inParallel(ctx, len(pods), func(int) error {
		select {
		case name := <-seen.came:
			i := at[name]
			return b.bind(ctx, pods[i].Namespace, name, nodeOf(i, s))
		case <-seen.ended:
			return seen.err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return errors.Join(<-created, bound)
}

// bind posts one binding.
func (b *bench) bind(ctx context.Context, namespace, name, node string) error {
	return b.binder.CoreV1().Pods(namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// seen is what the watch has shown of a drain's pods.
type seen struct {
	events  watch.Interface
	want    int
	each    func(pod string, at place) // told when a pod is bound; may be nil
	came    chan string                // gets the names of pods when they come, and has room for all; may be nil
	places  map[string]place
	created chan struct{} // closed when all pods exist
	bound   chan struct{} // closed when all pods are bound
	ended   chan struct{}
	err     error
}

type place struct {
	gang, node  string
	came, bound time.Time
}

// watch opens a watch of a drain's pods; begin has it read.
func (b *bench) watch(ctx context.Context, drain string, want int, each func(pod string, at place)) (*seen, error) {
	of := metav1.ListOptions{LabelSelector: perfLabel + "=" + drain}
	api := b.client.CoreV1().Pods(metav1.NamespaceDefault)
	none, err := api.List(ctx, of)
	if err != nil {
		return nil, err
	}
	// The API server ends a watch that is read too slowly, and does so on a busy machine.
	events, err := watchtools.NewRetryWatcherWithContext(ctx, none.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = of.LabelSelector
			return api.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	s := &seen{
		events: events, want: want, each: each, places: map[string]place{},
		created: make(chan struct{}), bound: make(chan struct{}), ended: make(chan struct{}),
	}
	return s, nil
}

func (s *seen) begin() { go s.run() }

func (s *seen) run() {
	defer close(s.ended)
	bound := 0
	for event := range s.events.ResultChan() {
		pod, ok := event.Object.(*v1.Pod)
		if !ok {
			s.err = fmt.Errorf("watch pods: %v", event.Object)
			return
		}
		if event.Type == watch.Deleted {
			continue
		}
		at, known := s.places[pod.Name]
		if !known {
			at = place{gang: pod.Labels[gangLabel], came: time.Now()}
			if s.came != nil {
				s.came <- pod.Name
			}
		}
		if at.node == "" && pod.Spec.NodeName != "" {
			at.node, at.bound = pod.Spec.NodeName, time.Now()
			bound++
			if s.each != nil {
				s.each(pod.Name, at)
			}
		}
		s.places[pod.Name] = at
		if !known && len(s.places) == s.want {
			close(s.created)
		}
		if bound == s.want {
			close(s.bound)
			return
		}
	}
	s.err = errors.New("watch pods: it ended")
}

// all waits for one of the two moments.
func (s *seen) all(ctx context.Context, moment <-chan struct{}) error {
	select {
	case <-moment:
		return nil
	default:
	}
	select {
	case <-moment:
		return nil
	case <-s.ended:
		select {
		case <-moment:
			return nil
		default:
		}
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *seen) stop() { s.events.Stop(); <-s.ended }

// count stops the watch and counts the pods that are bound.
func (s *seen) count() (bound int) {
	s.stop()
	for _, at := range s.places {
		if at.node != "" {
			bound++
		}
	}
	return bound
}

// times fills in what clocks say; all pods are bound.
func (r *Result) times(began time.Time, s *seen, running bool) {
	last := began
	ends, starts := map[string]time.Time{}, map[string]time.Time{}
	for _, at := range s.places {
		if at.bound.After(last) {
			last = at.bound
		}
		if at.bound.After(ends[at.gang]) {
			ends[at.gang] = at.bound
		}
		if at.came.After(starts[at.gang]) {
			starts[at.gang] = at.came
		}
	}
	r.Seconds = last.Sub(began).Seconds()
	r.PodsPerS = float64(len(s.places)) / r.Seconds
	var waits []float64
	for gang, end := range ends {
		from := began
		if running {
			from = starts[gang]
		}
		waits = append(waits, max(end.Sub(from).Seconds(), 0))
	}
	slices.Sort(waits)
	r.P50, r.P99 = quantile(waits, 0.5), quantile(waits, 0.99)
}

// quantile returns the smallest value that so large a part of the sorted values does
// not exceed.
func quantile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(part * float64(len(sorted)))
	return sorted[min(i, len(sorted)-1)]
}

// check says what is wrong with the places: nodes with too many pods, and gangs that
// left the spine that their contender promises. All pods are bound.
func (b *bench) check(c contender, s Shape, all *seen) (wrong []string) {
	perNode := map[string]int{}
	for _, at := range all.places {
		perNode[at.node]++
	}
	for node, n := range perNode {
		if n > gpusPerNode/s.GPUs {
			wrong = append(wrong, fmt.Sprintf("%s has %d pods", node, n))
		}
	}
	wrong = append(wrong, b.apart(c, s, all)...)
	slices.Sort(wrong)
	return wrong
}

// apart names the gangs that left the spine that their contender promises.
func (b *bench) apart(c contender, s Shape, all *seen) (wrong []string) {
	if !c.gathers || s.Prefer {
		return nil
	}
	spines := map[string]map[string]bool{}
	for _, at := range all.places {
		if spines[at.gang] == nil {
			spines[at.gang] = map[string]bool{}
		}
		spines[at.gang][b.spines[at.node]] = true
	}
	for gang, in := range spines {
		if len(in) > 1 {
			wrong = append(wrong, fmt.Sprintf("gang %s is in %d spines", gang, len(in)))
		}
	}
	slices.Sort(wrong)
	return wrong
}
