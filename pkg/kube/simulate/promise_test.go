package simulate

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

var (
	promiseSeed   = flag.Uint64("promise.seed", 1, "the first history of TestPromises")
	promiseWorlds = flag.Int("promise.worlds", 1000, "the number of histories of TestPromises")
)

// promiseConfig makes gangs starve after 15 seconds.
const promiseConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {starvationTimeout: 15s}
`

// job is a pod or a gang of a history. It ends at a true time, which is at most the declared one.
type job struct {
	name     string
	members  int
	arrives  int           // step
	declared time.Duration // 0: it declares no end
	lasts    time.Duration
	spine    bool // MustGather
	may      bool // it is Evictable
	high     bool // its priority is higher
	started  bool
	ended    bool
	promised gang.Promise
	moved    bool // a promise was not kept, with a cause that the contract allows
}

// promises is one history: jobs come, run and end, and at most one node is lost.
type promises struct {
	*World
	t       *testing.T
	rng     *rand.Rand
	ctx     context.Context
	begin   time.Time
	jobs    []*job
	nodes   []string
	lost    int // the step in which a node is lost; negative: never
	counts  map[string]int
	history []string
}

// TestPromises plays random histories in which all jobs end when they declare or before. No gang starts after its promise, unless a node was
// lost or a gang of higher priority came, and then the promise says so. Evictions for the gang may take their grace period.
//
// With one thread a history takes half the processor time, and is the same history: see TestTwice.
func TestPromises(t *testing.T) {
	quietLogs(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	histories := *promiseWorlds
	if testing.Short() {
		histories = min(histories, 20)
	}
	counts := map[string]int{}
	for i := range histories {
		playPromises(t, *promiseSeed+uint64(i), counts)
	}
	t.Logf("%d histories from -promise.seed=%d: %v", histories, *promiseSeed, counts)
	if histories >= 1000 {
		for _, what := range []string{"promised", "kept", "earlier", "moved", "evicted when due"} {
			require.Positive(t, counts[what], "%s: %v", what, counts)
		}
	}
}

// TestSeedsThatBrokePromises plays the histories that once broke a promise.
func TestSeedsThatBrokePromises(t *testing.T) {
	quietLogs(t)
	for seed, why := range map[uint64]string{
		785848236: "a pod of higher priority has a node and is not bound yet: its end was unknown",
		979969530: "a job of higher priority takes the nodes of a gang whose promise has fallen due (the judge's)",
	} {
		t.Run(why, func(t *testing.T) { playPromises(t, seed, map[string]int{}) })
	}
}

func playPromises(t *testing.T, number uint64, counts map[string]int) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p := &promises{t: t, ctx: ctx, rng: rand.New(rand.NewPCG(number, 7)), counts: counts, lost: -1}
	defer func() {
		if t.Failed() {
			t.Logf("again: go test ./pkg/kube/simulate -run '^TestPromises$' -args -promise.seed=%d -promise.worlds=1\n%s",
				number, strings.Join(p.history, "\n"))
		}
	}()
	w, err := Open(ctx, Options{Config: []byte(promiseConfig)}, setOf(t, p.draw()))
	require.NoError(t, err)
	defer w.Close()
	p.World, p.begin = w, w.Now()
	waits := func(j *job) bool { return j.members > 1 && !j.started }
	for step := 0; step < 20 && slices.ContainsFunc(p.jobs, waits); step++ {
		p.step(step)
		if t.Failed() {
			t.FailNow()
		}
	}
	counts["evicted when due"] += len(p.Result().Evicted)
}

// draw returns the nodes, and draws the jobs.
func (p *promises) draw() string {
	docs := []string{
		`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 9}`,
		`{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: ClusterNetworkTopology, metadata: {name: default}, spec: {networkTopologySpec: [` +
			`{labelKey: [example.com/spine], topologyLayer: SpineLayer}, ` +
			`{parentTopologyLayer: SpineLayer, topologyLayer: NodeTopologyLayer}]}}`,
	}
	size := 2 + p.rng.IntN(2)
	for i := range (1 + p.rng.IntN(3)) * size {
		p.nodes = append(p.nodes, fmt.Sprint("n", i))
		docs = append(docs, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: n%d, labels: {example.com/spine: s%d}}, status: {allocatable: {cpu: %d}}}`,
			i, i/size, 1+p.rng.IntN(2)))
	}
	declares, disturbed := []int{0, 1, 1, 2, 2, 2}[p.rng.IntN(6)], p.rng.IntN(4) == 0 // which jobs declare an end: none, half, all
	if disturbed && p.rng.IntN(2) == 0 {
		p.lost = 3 + p.rng.IntN(8)
	}
	for i := range 2*len(p.nodes) + p.rng.IntN(6) {
		j := &job{name: fmt.Sprint("j", i), members: 1, arrives: p.rng.IntN(8), lasts: time.Duration(8+p.rng.IntN(100)) * time.Second}
		if p.rng.IntN(3) == 0 {
			j.members = 2 + p.rng.IntN(size)
			j.spine = p.rng.IntN(2) == 0
		}
		if declares > 0 && (declares == 2 || p.rng.IntN(2) == 0) {
			j.declared = j.lasts + time.Duration(p.rng.IntN(3)*p.rng.IntN(50))*time.Second
		}
		j.may = j.members == 1 && p.rng.IntN(5) == 0
		j.high = disturbed && p.lost < 0 && p.rng.IntN(8) == 0
		p.jobs = append(p.jobs, j)
	}
	return strings.Join(docs, "\n---\n")
}

// manifest returns the objects of a job.
func (j *job) manifest() string {
	annotations, class, group := "", "", ""
	if j.declared > 0 {
		annotations += fmt.Sprintf("muster.sh/max-runtime: %s, ", j.declared)
	}
	if j.may {
		annotations += "muster.sh/backfill: Evictable, "
	}
	if j.high {
		class = "priorityClassName: high, "
	}
	var docs []string
	if j.members > 1 {
		group = "pod-group.scheduling.sigs.k8s.io: " + j.name
		rule := ""
		if j.spine {
			rule = `gang.scheduling.koordinator.sh/network-topology-spec: '{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}'`
		}
		docs = append(docs, fmt.Sprintf(`{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s, annotations: {%s}}, spec: {minMember: %d}}`,
			j.name, rule, j.members))
	}
	for i := range j.members {
		docs = append(docs, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s-%d, annotations: {%s}, labels: {%s}}, `+
			`spec: {schedulerName: muster-scheduler, %scontainers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}`,
			j.name, i, annotations, group, class))
	}
	return strings.Join(docs, "\n---\n")
}

// step plays 15 seconds.
func (p *promises) step(number int) {
	for _, j := range p.jobs {
		if j.arrives == number {
			p.say("%s comes: %+v", j.name, *j)
			require.NoError(p.t, p.Apply(p.ctx, setOf(p.t, j.manifest())))
		}
	}
	if number == p.lost {
		node := p.nodes[p.rng.IntN(len(p.nodes))]
		p.say("node %s is lost", node)
		gone := fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, deletionTimestamp: '2026-01-01T00:00:00Z'}}", node)
		for _, pod := range p.Pods() {
			if pod.Spec.NodeName == node {
				gone += fmt.Sprintf("\n---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {containers: [{name: c, image: i}]}}",
					pod.Name)
			}
		}
		require.NoError(p.t, p.Apply(p.ctx, setOf(p.t, gone)))
	}
	for range 3 {
		p.clock.Step(look)
		idle := func() bool { return !p.awaitsRealTime && len(p.scheduler.SchedulingQueue.PodsInActiveQ()) == 0 }
		require.NoError(p.t, p.Settle(p.ctx, idle))
		p.judge()
		p.endJobs()
	}
}

// running returns, by job, how many pods have a node and have not ended, and when the last of them got it.
func (p *promises) running() (pods map[string]int, since map[string]time.Time) {
	pods, since = map[string]int{}, map[string]time.Time{}
	for _, pod := range p.Pods() {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			continue
		}
		name, _, _ := strings.Cut(pod.Name, "-")
		pods[name]++
		for _, c := range pod.Status.Conditions {
			if at := c.LastTransitionTime.Time; c.Type == "PodScheduled" && at.After(since[name]) {
				since[name] = at
			}
		}
	}
	return pods, since
}

// endJobs ends the jobs whose true end has come. A job ends as a whole.
func (p *promises) endJobs() {
	running, started := p.running()
	var ends []string
	for _, j := range p.jobs {
		if j.ended || running[j.name] == 0 || p.Now().Add(look).Before(started[j.name].Add(j.lasts)) {
			continue // it would outlive its true end if it ended at the next look
		}
		j.ended = true
		p.say("%s ends", j.name)
		for i := range j.members {
			ends = append(ends, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s-%d}, spec: {containers: [{name: c, image: i}]}, status: {phase: Succeeded}}",
				j.name, i))
		}
	}
	if len(ends) > 0 {
		require.NoError(p.t, p.Apply(p.ctx, setOf(p.t, strings.Join(ends, "\n---\n"))))
	}
}

// look is the time between two looks. slack is how much later than promised a gang may start. A job ends at the look after its end. The gang
// may have been tried just before, and is then tried again 10 s later. Its start is seen at the next look.
const (
	look  = 5 * time.Second
	slack = 4 * look
)

// judge compares the promises with those at the last look, and with the gangs that have started.
func (p *promises) judge() {
	bound, since := p.running()
	refs := map[string]gang.Ref{}
	for _, pod := range p.Pods() {
		name, _, _ := strings.Cut(pod.Name, "-")
		refs[name] = source.GangOf(pod)
	}
	for _, j := range p.jobs {
		if j.members == 1 || j.ended {
			continue
		}
		if bound[j.name] >= j.members {
			j.started = true
			if j.promised.Exists() {
				p.count(j, "kept")
				if since[j.name].After(j.promised.At.Add(slack)) && !j.moved {
					p.t.Errorf("%s was promised %s, and starts at %s", j.name, p.since(j.promised.At), p.since(since[j.name]))
				}
				j.promised = gang.Promise{}
			}
			continue
		}
		r, ok := p.Shared().Cache.Report(refs[j.name])
		if !ok {
			continue
		}
		now, old := r.State.Promise, j.promised
		if now != old {
			p.say("%s: %s %q until %s", j.name, now.Domain, now.Cause, p.since(now.At))
		}
		switch {
		case now.Exists() && !old.Exists():
			p.count(j, "promised")
		case now.Exists() && now.At.Before(old.At):
			p.count(j, "earlier")
		case old.Exists() && !now.Exists() && now.Cause == "" && r.State.Planned > 0:
			now = old // it is being bound, or its victims terminate
		case old.Exists() && (!now.Exists() || now.At.After(old.At.Add(slack)) || now.At.After(old.At) && now.Cause != old.Cause):
			p.count(j, "moved")
			j.moved = true
			allowed := slices.ContainsFunc([]string{"cannot be used", "is cordoned", "of higher priority", "is reserved for gang"},
				func(s string) bool { return strings.Contains(now.Cause, s) })
			// A gang whose nodes a job of higher priority took after the promise had fallen due has none, and no cause, until its next attempt.
			allowed = allowed || now.Cause == "" && slices.ContainsFunc(p.jobs, func(o *job) bool {
				return o.high && since[o.name].After(p.Now().Add(-2*look))
			})
			if p.lost < 0 && !slices.ContainsFunc(p.jobs, func(j *job) bool { return j.high }) || !allowed {
				p.t.Errorf("%s was promised %s, and now %s: %q", j.name, p.since(old.At), p.since(now.At), now.Cause)
			}
		}
		if now.Exists() && !now.At.Add(slack).After(p.Now()) && !j.moved {
			p.t.Errorf("%s was promised %s, and waits at %s", j.name, p.since(now.At), p.since(p.Now()))
		}
		if now.Exists() && old.Exists() && now.At.After(old.At) && !j.moved {
			now.At = old.At // the gang must start by the first promise
		}
		if now.Exists() || j.moved {
			j.promised = now
		}
	}
}

func (p *promises) since(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Sub(p.begin).Round(time.Second).String()
}

func (p *promises) count(j *job, what string) {
	p.counts[what]++
	p.say("%s: %s", j.name, what)
}

func (p *promises) say(format string, args ...any) {
	now := time.Duration(0)
	if p.World != nil {
		now = p.Now().Sub(p.begin)
	}
	p.history = append(p.history, fmt.Sprintf("%s ", now)+fmt.Sprintf(format, args...))
}
