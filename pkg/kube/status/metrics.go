package status

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Meter exports the metrics of one scheduler, as a collector. Counters are counted at the event. Present values (waiting gangs,
// reservations, the topology) are read from the cache at each scrape, gang by gang, and only while this process leads. Labels hold no names
// of users, except layers and plugins, of which there are few.
type Meter struct {
	clock   clock.PassiveClock
	cache   *cache.Cache // nil before About
	filters func() int64 // number of Filter runs
	nodeOf  NodeOf       // of pods without a gang

	plans       *prometheus.HistogramVec
	preemptions prometheus.Counter
	victims     prometheus.Counter
	filterRuns  prometheus.CounterFunc
	starts      *prometheus.HistogramVec
	beyond      *prometheus.HistogramVec
	cycles      *prometheus.HistogramVec
	gangRuns    *prometheus.HistogramVec
	evictions   *prometheus.CounterVec
	unused      prometheus.Counter
	kept        *prometheus.HistogramVec
	wakes       *prometheus.CounterVec
	refusals    *prometheus.CounterVec

	mu      sync.Mutex // held while the cache is read, so that readings are recorded in their order
	waits   map[gang.Ref]*waitingGang
	held    map[gang.Ref]time.Time // since when nodes are reserved, by group; zero for a reservation that was just taken
	freed   map[gang.Ref]freed     // by group, nodes freed by evictions, until it runs
	forPod  map[string]*freedForPod
	largest []place.InLayer
	looked  time.Time // when largest was computed
}

// NodeOf returns whether a pod exists, and its node; "" if none.
type NodeOf func(*v1.Pod) (node string, there bool)

// NodesOf returns a NodeOf that reads the informer's pods.
func NodesOf(pods corelisters.PodLister) NodeOf {
	return func(p *v1.Pod) (node string, there bool) {
		is, err := pods.Pods(p.Namespace).Get(p.Name)
		if err != nil || is.UID != p.UID {
			return "", false
		}
		return is.Spec.NodeName, true
	}
}

// waitingGang holds the counts of a gang until it has started.
type waitingGang struct {
	seen    time.Time // by this process
	first   time.Time // creation of its first member; zero before it is needed
	started bool      // it was started, and has lost members since
	cycles  int
	runs    int64
	spread  []place.Spread
}

// freed are nodes, with the numbers of pods evicted from them.
type freed map[string]int

// freedForPod is freed for a pod without a gang.
type freedForPod struct {
	pod *v1.Pod
	on  freed
}

// The causes of evictions.
const (
	causeGang  = "gang"  // capacity for a gang
	causePod   = "pod"   // capacity for a pod without one
	causeWhole = "whole" // the rest of their own gang is evicted
	causeQuota = "quota" // their quota exceeded its fair share for long
)

// The results of a reservation, and of a retry.
const (
	endTaken   = "taken"
	endGivenUp = "given_up"
	wakeHelped = "helped"
	wakeVain   = "vain"
)

// NoPlugin labels refusals without a known plugin.
const NoPlugin = "none"

// reasons are the reasons of waiting gangs.
var reasons = []string{
	ReasonBinding, ReasonConflict, ReasonNeverFits, ReasonPreempting, ReasonReady, ReasonRejected, ReasonUnschedulable, ReasonWaiting,
}

// sizes are classes of gangs, by the largest minMember.
var sizes = []struct {
	most int
	name string
}{{1, "1"}, {8, "2-8"}, {64, "9-64"}, {512, "65-512"}, {math.MaxInt, "513-"}}

func sizeOf(members int) string {
	for _, s := range sizes {
		if members <= s.most {
			return s.name
		}
	}
	return ""
}

// lookAgain is how often the largest gang that fits is computed.
const lookAgain = 10 * time.Second

// NewMeter returns a Meter. Before About it exports counters only.
func NewMeter(now clock.PassiveClock) *Meter {
	m := &Meter{
		clock: now, filters: func() int64 { return 0 },
		waits: map[gang.Ref]*waitingGang{}, held: map[gang.Ref]time.Time{}, freed: map[gang.Ref]freed{}, forPod: map[string]*freedForPod{},

		plans:       histogram("muster_plan_duration_seconds", "Time to plan a whole gang, by result (planned, refused).", prometheus.ExponentialBuckets(0.0001, 4, 10), "result"),
		preemptions: counter("muster_preemptions_total", "Reservations for which victims were asked to leave."),
		victims:     counter("muster_preemption_victims_total", "Pods that were evicted for a gang."),
		starts: histogram("muster_gang_start_duration_seconds", "Time from a gang's first member to the binding of as many as it needs, by how many those are. Gangs that start again do not count.",
			prometheus.ExponentialBuckets(0.1, 3, 13), "size"),
		beyond: histogram("muster_gang_domains_above_least", "Domains that a gang touches at its start beyond the fewest that free places allowed, by layer. Gangs that others were evicted for do not count.",
			[]float64{0, 1, 2, 4, 8, 16, 32, 64}, "layer"),
		cycles: histogram("muster_gang_cycles", "Scheduling cycles of a gang's members until it started, by how many members it needs.", prometheus.ExponentialBuckets(1, 2, 15), "size"),
		gangRuns: histogram("muster_gang_filter_runs", "Filter runs for a gang until it started, by how many members it needs; all Filters for a node are one run.",
			prometheus.ExponentialBuckets(1, 4, 11), "size"),
		evictions: counters("muster_evictions_total", "Pods whose eviction the API server has taken, by cause: for a gang, for a pod without a gang, with the rest of their own gang, or since their quota borrowed for too long.", "cause"),
		unused:    counter("muster_evictions_unused_total", "Pods that were evicted from nodes that their preemptors then did not use."),
		kept: histogram("muster_reservation_duration_seconds", "How long places were reserved until victims had left, by how that ended (taken, given_up).",
			prometheus.ExponentialBuckets(0.25, 2, 14), "end"),
		wakes:    counters("muster_wakeups_total", "Gangs that were refused and tried again, by what came of it: places or an eviction (helped), or another refusal (vain).", "result"),
		refusals: counters("muster_refusals_total", "Refusals of gangs, by the plugins that refused members on some nodes; none if no plugin did.", "plugin"),
	}
	m.filterRuns = prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "muster_filter_runs_total", Help: alpha + "How often the profiles' Filters were run for a node to count the slots of a gang.",
	}, func() float64 { return float64(m.filters()) })
	for _, result := range []string{"planned", "refused"} {
		m.plans.WithLabelValues(result)
	}
	for _, s := range sizes {
		m.starts.WithLabelValues(s.name)
		m.cycles.WithLabelValues(s.name)
		m.gangRuns.WithLabelValues(s.name)
	}
	for _, cause := range []string{causeGang, causePod, causeWhole, causeQuota} {
		m.evictions.WithLabelValues(cause)
	}
	for _, end := range []string{endTaken, endGivenUp} {
		m.kept.WithLabelValues(end)
	}
	for _, result := range []string{wakeHelped, wakeVain} {
		m.wakes.WithLabelValues(result)
	}
	m.refusals.WithLabelValues(NoPlugin)
	return m
}

// alpha is how Kubernetes marks metrics that may change.
const alpha = "[ALPHA] "

func histogram(name, help string, buckets []float64, label string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: alpha + help, Buckets: buckets}, []string{label})
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: alpha + help})
}

func counters(name, help, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: alpha + help}, []string{label})
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, alpha+help, labels, nil)
}

// The present values.
var (
	leadingNow      = gauge("muster_leading", "1 if this process schedules, 0 if it stands by.")
	topologyNow     = gauge("muster_topology_valid", "1 if the ClusterNetworkTopology that is used can be, or there is none; 0 if an older one is used instead, or none.")
	waitingNow      = gauge("muster_gangs_waiting", "Gangs with pending members that they need, by reason of the PodGroup's condition. Gangs that their group can do without are not counted.", "reason")
	longestNow      = gauge("muster_gang_longest_wait_seconds", "How long that gang waits which waits longest, by reason; 0 if none does.", "reason")
	reservationsNow = gauge("muster_reservations", "Gang groups with nodes that are reserved until victims have terminated.")
	oldestNow       = gauge("muster_reservation_oldest_seconds", "How long the oldest of them is held; 0 if there is none.")
	largestNow      = gauge("muster_largest_gang", "Members of the gang that was counted last that fit into one domain, by layer, at the last attempt to place a gang.", "layer")
)

var registerOnce sync.Once

// Register exports the metrics at the process's /metrics, with additional collectors. Only the first registered Meter is exported, since a
// process runs one scheduler.
func (m *Meter) Register(others ...prometheus.Collector) {
	registerOnce.Do(func() { legacyregistry.RawMustRegister(append(others, m)...) })
}

// SetSources sets what the Meter reads: the cache, the number of Filter runs, and the nodes of pods without a gang.
func (m *Meter) SetSources(c *cache.Cache, filterRuns func() int64, nodeOf NodeOf) {
	m.cache, m.filters, m.nodeOf = c, filterRuns, nodeOf
}

func (m *Meter) counted() []prometheus.Collector {
	return []prometheus.Collector{
		m.plans, m.preemptions, m.victims, m.filterRuns, m.starts, m.beyond, m.cycles, m.gangRuns, m.evictions, m.unused, m.kept, m.wakes, m.refusals,
	}
}

// Describe implements prometheus.Collector.
func (m *Meter) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.counted() {
		c.Describe(to)
	}
	for _, d := range []*prometheus.Desc{leadingNow, topologyNow, waitingNow, longestNow, reservationsNow, oldestNow, largestNow} {
		to <- d
	}
}

// Collect implements prometheus.Collector. It must not ask whether this process leads, since that question itself asks all collectors.
func (m *Meter) Collect(to chan<- prometheus.Metric) {
	open := m.cache != nil && m.cache.Open()
	if open {
		m.sweep()
	}
	for _, c := range m.counted() {
		c.Collect(to)
	}
	say := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	say(leadingNow, number(open))
	if !open {
		return
	}
	say(topologyNow, number(m.cache.Topology().Problem == ""))
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	waiting, longest := m.waiting(now)
	for _, reason := range reasons {
		say(waitingNow, float64(waiting[reason]), reason)
		say(longestNow, longest[reason].Seconds(), reason)
	}
	oldest, held := now, 0
	for _, since := range m.held {
		if since.IsZero() {
			continue
		}
		held++
		if since.Before(oldest) {
			oldest = since
		}
	}
	say(reservationsNow, float64(held))
	say(oldestNow, now.Sub(oldest).Seconds())
	for _, at := range m.largest {
		say(largestNow, float64(at.N), at.Layer)
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// waiting returns the numbers of waiting gangs and the longest waits, by reason. m.mu is held.
func (m *Meter) waiting(now time.Time) (many map[string]int, longest map[string]time.Duration) {
	many, longest = map[string]int{}, map[string]time.Duration{}
	for ref, w := range m.waits {
		t, ok := m.cache.Tally(ref)
		if !ok || !waits(t) || m.cache.DoesWithout(ref) {
			continue
		}
		reason := Condition(m.cache.State(ref), "").Reason
		many[reason]++
		longest[reason] = max(longest[reason], now.Sub(m.firstOf(ref, w)))
	}
	return many, longest
}

// waits returns whether members that a gang needs are waiting.
func waits(t cache.Tally) bool {
	return t.Served && t.Members > t.Bound && (t.Min == 0 || t.Bound+t.Done < t.Min)
}

// firstOf returns when the first member of a waiting gang was created, or seen if that was before: creation times are whole seconds. m.mu
// is held.
func (m *Meter) firstOf(ref gang.Ref, w *waitingGang) time.Time {
	if w.first.IsZero() {
		w.first = w.seen
		if made := m.cache.FirstMade(ref); !w.started && !made.IsZero() && made.Add(time.Second).Before(w.first) {
			w.first = made.Add(time.Second)
		}
	}
	return w.first
}

// Gang updates the counts after a change of a gang.
func (m *Meter) Gang(ref gang.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.cache.Tally(ref)
	if !ok {
		delete(m.waits, ref)
		m.reserved(ref, false)
		m.settle(ref)
		return
	}
	m.reserved(t.Group, t.Reserved)
	is := waits(t)
	w := m.waits[ref]
	switch {
	case is && w == nil:
		m.waits[ref] = &waitingGang{seen: m.clock.Now(), started: t.Started}
	case !is:
		delete(m.waits, ref)
	}
	if w == nil || is {
		return
	}
	if t.Min > 0 && t.Bound+t.Done >= t.Min && !w.started && m.cache.Open() {
		m.started(ref, t, w)
	}
	m.settle(t.Group)
}

// started counts a gang that has its minimum for the first time. m.mu is held.
func (m *Meter) started(ref gang.Ref, t cache.Tally, w *waitingGang) {
	size := sizeOf(t.Min)
	m.starts.WithLabelValues(size).Observe(m.clock.Since(m.firstOf(ref, w)).Seconds())
	if ref != t.Group {
		return // the costs of its group are counted with its first gang
	}
	m.cycles.WithLabelValues(size).Observe(float64(w.cycles))
	m.gangRuns.WithLabelValues(size).Observe(float64(w.runs))
	for _, at := range w.spread {
		m.beyond.WithLabelValues(at.Layer).Observe(float64(at.Touched - at.Least))
	}
}

// Cycle counts a scheduling cycle for a group.
func (m *Meter) Cycle(group gang.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.waits[group]; w != nil {
		w.cycles++
	}
}

// Attempt counts an attempt to plan a group, with its duration. ran is the number of Filter runs before.
func (m *Meter) Attempt(group gang.Ref, planned bool, took time.Duration, ran int64) {
	result := "refused"
	if planned {
		result = "planned"
	}
	m.plans.WithLabelValues(result).Observe(took.Seconds())
	m.Ran(group, ran)
}

// Runs returns the number of Filter runs.
func (m *Meter) Runs() int64 { return m.filters() }

// Ran counts the Filter runs for a group since Runs was before.
func (m *Meter) Ran(group gang.Ref, before int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.waits[group]; w != nil {
		w.runs += m.filters() - before
	}
}

// Placed counts an attempt with a plan: its spread, and what fits besides it.
func (m *Meter) Placed(a *place.Attempt, places []gang.Assignment, spread []place.Spread) {
	m.mu.Lock()
	if w := m.waits[a.Group.Key]; w != nil {
		w.spread = spread
	}
	m.mu.Unlock()
	m.fits(a, places)
}

// Refused counts an attempt without a plan, by plugin; nil if a plugin has failed.
func (m *Meter) Refused(a *place.Attempt, why *place.Refusal) {
	if why == nil || len(why.Plugins) == 0 {
		m.refusals.WithLabelValues(NoPlugin).Inc()
	} else {
		for _, plugin := range why.Plugins {
			m.refusals.WithLabelValues(plugin).Inc()
		}
	}
	m.fits(a, nil)
}

// fits computes the largest gang that fits, at intervals.
func (m *Meter) fits(a *place.Attempt, places []gang.Assignment) {
	now := m.clock.Now()
	m.mu.Lock()
	due := m.looked.IsZero() || now.Sub(m.looked) >= lookAgain
	m.mu.Unlock()
	if !due || !a.CapacityKnown() {
		return
	}
	largest := a.Largest(places)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.largest, m.looked = largest, now
}

// TriedAgain counts the retry of a refused group after a change.
func (m *Meter) TriedAgain(helped bool) {
	result := wakeVain
	if helped {
		result = wakeHelped
	}
	m.wakes.WithLabelValues(result).Inc()
}

// Preemption counts a reservation and its victims.
func (m *Meter) Preemption(n int) {
	m.preemptions.Inc()
	m.victims.Add(float64(n))
}

// Taken counts a group whose reserved nodes are free and are taken.
func (m *Meter) Taken(group gang.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if since := m.held[group]; !since.IsZero() {
		m.held[group] = time.Time{}
		m.kept.WithLabelValues(endTaken).Observe(m.clock.Since(since).Seconds())
	}
}

// reserved records whether nodes are reserved for a group. m.mu is held.
func (m *Meter) reserved(group gang.Ref, is bool) {
	since, known := m.held[group]
	switch {
	case is && !known:
		m.held[group] = m.clock.Now()
	case !is:
		delete(m.held, group)
		if !since.IsZero() {
			m.kept.WithLabelValues(endGivenUp).Observe(m.clock.Since(since).Seconds())
		}
	}
}

// Revoked counts an eviction from a quota above its fair share.
func (m *Meter) Revoked() { m.evictions.WithLabelValues(causeQuota).Inc() }

// Evicted counts a pod whose eviction the API server has accepted, by its preemptor. room says that it frees capacity, and is not only
// evicted with its gang.
func (m *Meter) Evicted(victim, by *v1.Pod, room bool) {
	node := victim.Spec.NodeName
	switch {
	case !room:
		m.evictions.WithLabelValues(causeWhole).Inc()
	case source.GangOf(by).IsZero():
		m.evictions.WithLabelValues(causePod).Inc()
		m.mu.Lock()
		defer m.mu.Unlock()
		f := m.forPod[string(by.UID)]
		if f == nil {
			f = &freedForPod{pod: by, on: freed{}}
			m.forPod[string(by.UID)] = f
		}
		f.on[node]++
	default:
		m.evictions.WithLabelValues(causeGang).Inc()
		group := m.cache.GroupKey(by)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.freed[group] == nil {
			m.freed[group] = freed{}
		}
		m.freed[group][node]++
	}
}

// settle counts, for a group that runs or is gone, the nodes freed for it that it did not take. m.mu is held.
func (m *Meter) settle(group gang.Ref) {
	nodes := m.freed[group]
	if nodes == nil {
		return
	}
	comes := m.cache.AwaitsMembers(group)
	g, refusal := m.cache.GroupOf(group)
	taken := map[string]bool{}
	if !refusal.Exists() {
		comes = comes || g.Need() > 0 && len(g.Pending) > 0
		for _, member := range g.Bound {
			taken[member.Node] = true
		}
	}
	maps.DeleteFunc(nodes, func(node string, _ int) bool { return taken[node] })
	if !comes {
		delete(m.freed, group)
		m.unused.Add(nodes.without(func(string) bool { return false }))
	}
}

// without returns the number of pods evicted from nodes that were not taken.
func (f freed) without(taken func(node string) bool) (n float64) {
	for node, pods := range f {
		if !taken(node) {
			n += float64(pods)
		}
	}
	return n
}

// Bound records the node of a pod without a gang.
func (m *Meter) Bound(pod *v1.Pod, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bound(pod, node)
}

// bound is Bound with m.mu held.
func (m *Meter) bound(pod *v1.Pod, node string) {
	if f := m.forPod[string(pod.UID)]; f != nil {
		delete(m.forPod, string(pod.UID))
		m.unused.Add(f.on.without(func(n string) bool { return n == node }))
	}
}

// sweep ends what no event ends: deleted pods, and groups whose gangs have formed other groups.
func (m *Meter) sweep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for group := range m.freed {
		m.settle(group)
	}
	for group := range m.held {
		if !m.cache.Reserved(group) {
			m.reserved(group, false)
		}
	}
	for _, f := range m.forPod {
		if node, there := m.nodeOf(f.pod); !there || node != "" {
			m.bound(f.pod, node)
		}
	}
}
