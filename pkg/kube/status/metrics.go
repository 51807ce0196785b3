package status

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Meter exports the metrics of one scheduler, as a collector. Counters are counted at the event. Present values (waiting gangs,
// reservations, the topology) are read from the cache at each scrape, gang by gang, and only while this process leads. The only names of
// users in labels are layers and plugins, of which there are few.
type Meter struct {
	clock   clock.PassiveClock
	cache   *cache.Cache // nil before SetSources
	filters func() int64 // number of Filter runs
	nodeOf  NodeOf       // the nodes of pods

	plans           *prometheus.HistogramVec
	preemptions     prometheus.Counter
	victims         prometheus.Counter
	filterRuns      prometheus.CounterFunc
	starts          *prometheus.HistogramVec
	extraDomains    *prometheus.HistogramVec
	cycles          *prometheus.HistogramVec
	gangRuns        *prometheus.HistogramVec
	evictions       *prometheus.CounterVec
	unusedEvictions prometheus.Counter
	degradedNodes   prometheus.Counter
	reservations    *prometheus.HistogramVec
	wakes           *prometheus.CounterVec
	refusals        *prometheus.CounterVec
	repairSteps     *prometheus.CounterVec
	repairs         prometheus.Histogram
	promisesMade    prometheus.Counter
	promisesKept    prometheus.Counter
	promisesMoved   *prometheus.CounterVec

	mu            sync.Mutex // locked also while the cache is read, so that states are recorded in their order
	waitingGangs  map[gang.Ref]*waitingGang
	incomplete    map[gang.Ref]gangRepair // incomplete gangs
	promises      map[gang.Ref]gang.Promise
	reservedSince map[gang.Ref]time.Time  // since when nodes are reserved, by group; zero for a reservation that was just taken
	freedNodes    map[gang.Ref]freedNodes // by group, nodes freed by evictions, until it runs
	freedForPods  map[string]*freedForPod
	backfill      map[types.UID]*v1.Pod // pods that were assumed on held capacity, until they are gone
	largestGangs  []place.InLayer
	largestTime   time.Time // when largestGangs was computed
}

// NodeOf returns the node of a pod, "" if it has none, and whether the pod still exists.
type NodeOf func(*v1.Pod) (node string, exists bool)

// NodesOf returns a NodeOf that reads the informer's pods.
func NodesOf(pods corelisters.PodLister) NodeOf {
	return func(pod *v1.Pod) (node string, exists bool) {
		current, err := pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || current.UID != pod.UID {
			return "", false
		}
		return current.Spec.NodeName, true
	}
}

// waitingGang has the counts of a gang until it has started.
type waitingGang struct {
	firstSeen   time.Time // by this process
	firstMember time.Time // creation of its first member; zero before it is needed
	started     bool      // it had started before, and has lost members since
	cycles      int
	filterRuns  int64
	spread      []place.Spread
}

// freedNodes maps a node to the number of pods that were evicted from it.
type freedNodes map[string]int

// freedForPod are the nodes freed for a pod without a gang.
type freedForPod struct {
	pod   *v1.Pod
	nodes freedNodes
}

// The causes of evictions.
const (
	causeGang  = "gang"  // capacity for a gang
	causePod   = "pod"   // capacity for a pod without one
	causeWhole = "whole" // other members of the victim's gang are evicted
	causeQuota = "quota" // the victim's quota exceeded its fair share for long
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

// waitingReasons are the reasons of waiting gangs.
var waitingReasons = []string{
	reasons.Binding, reasons.TopologySpecConflict, reasons.NeverFits, reasons.Preempting, reasons.Ready, reasons.Rejected,
	reasons.Unschedulable, reasons.Waiting,
}

// sizes are the size classes of gangs, each with its largest minMember.
var sizes = []struct {
	maxMembers int
	name       string
}{{1, "1"}, {8, "2-8"}, {64, "9-64"}, {512, "65-512"}, {math.MaxInt, "513-"}}

// sizeOf returns the name of the size class for a minMember.
func sizeOf(members int) string {
	for _, s := range sizes {
		if members <= s.maxMembers {
			return s.name
		}
	}
	return ""
}

// largestInterval is how often the largest gang that fits is computed.
const largestInterval = 10 * time.Second

// NewMeter returns a Meter. Before SetSources it exports counters only.
func NewMeter(now clock.PassiveClock) *Meter {
	m := &Meter{
		clock: now, filters: func() int64 { return 0 },
		waitingGangs: map[gang.Ref]*waitingGang{}, incomplete: map[gang.Ref]gangRepair{}, promises: map[gang.Ref]gang.Promise{},
		reservedSince: map[gang.Ref]time.Time{},
		freedNodes:    map[gang.Ref]freedNodes{}, freedForPods: map[string]*freedForPod{}, backfill: map[types.UID]*v1.Pod{},

		plans: histogram("muster_plan_duration_seconds", "Seconds to plan a whole gang, by result: planned, or refused (unschedulable).",
			prometheus.ExponentialBuckets(0.0001, 4, 10), "result"),
		preemptions: counter("muster_preemptions_total", "Reservations for which pods were evicted."),
		victims:     counter("muster_preemption_victims_total", "Pods that were evicted for a gang."),
		starts: histogram("muster_gang_start_duration_seconds",
			"Seconds from the creation of a gang's first member to the binding of its needed members, by number of needed members. "+
				"Restarted gangs are not counted.",
			prometheus.ExponentialBuckets(0.1, 3, 13), "size"),
		extraDomains: histogram("muster_gang_domains_above_least",
			"Domains that a starting gang uses beyond the fewest that free capacity allowed, by layer. "+
				"Gangs that start after an eviction are not counted.",
			[]float64{0, 1, 2, 4, 8, 16, 32, 64}, "layer"),
		cycles: histogram("muster_gang_cycles", "Scheduling cycles of a gang's members until the gang started, by number of needed members.",
			prometheus.ExponentialBuckets(1, 2, 15), "size"),
		gangRuns: histogram("muster_gang_filter_runs",
			"Filter runs for a gang until it started, by number of needed members. One run is all Filters on one node.",
			prometheus.ExponentialBuckets(1, 4, 11), "size"),
		evictions: counters("muster_evictions_total",
			"Evicted pods by cause: for a gang, for a pod without a gang (pod), together with their own gang (whole), "+
				"or because their quota borrowed for too long (quota).", "cause"),
		degradedNodes:   counter("muster_degraded_nodes_used_total", "Degraded nodes that plans of gangs use."),
		unusedEvictions: counter("muster_evictions_unused_total", "Pods evicted from nodes that the preemptor then did not use."),
		reservations: histogram("muster_reservation_duration_seconds",
			"Seconds for which nodes were reserved while victims terminated, by result: taken (the gang used the nodes) or given_up.",
			prometheus.ExponentialBuckets(0.25, 2, 14), "end"),
		wakes: counters("muster_wakeups_total",
			"Retries of unschedulable gangs by result: a plan or an eviction (helped), or unschedulable again (vain).", "result"),
		refusals: counters("muster_refusals_total",
			"Attempts that ended unschedulable, by the plugins that rejected members on nodes; none if no plugin did.", "plugin"),
		repairSteps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_repairs_total", Help: alpha + "Steps of the repair of incomplete gangs (hold, replace, evict), by result. Besides done, " +
				"these are failed (no capacity is left), expired (repairTimeout passed) and ended (the gang finished or was evicted).",
		}, []string{"step", "result"}),
		repairs: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "muster_repair_seconds", Help: alpha + "Seconds for which gangs were incomplete: from the loss of a member until minMember " +
				"members run again. Gangs that were not completed are not counted.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 15),
		}),
		promisesMade: counter("muster_start_promises_total",
			"Promised starts of gangs. A moved promise is another one. A restarted scheduler counts the promises that it takes over."),
		promisesKept: counter("muster_start_promises_kept_total",
			"Promised starts that were kept: the gang got nodes, or evicted pods on them, before the promise was moved."),
		promisesMoved: counters("muster_start_promises_moved_total",
			"Promised starts that were not kept, by cause. A pod outlived its declared end (overdue), a node was lost (node), "+
				"a pod of higher priority came (priority), or other.", "cause"),
	}
	m.filterRuns = prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "muster_filter_runs_total", Help: alpha + "Runs of all Filters of a profile on one node to count the capacity for a gang.",
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
		m.reservations.WithLabelValues(end)
	}
	for _, result := range []string{wakeHelped, wakeVain} {
		m.wakes.WithLabelValues(result)
	}
	m.refusals.WithLabelValues(NoPlugin)
	for _, step := range repairSteps {
		for _, result := range []string{repairDone, repairFailed, repairExpired, repairEnded} {
			m.repairSteps.WithLabelValues(step, result)
		}
	}
	for _, cause := range []string{gang.BrokenOverdue, gang.BrokenNode, gang.BrokenPriority, gang.BrokenOther} {
		m.promisesMoved.WithLabelValues(cause)
	}
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
	leadingDesc  = gauge("muster_leading", "1 if this process schedules pods (leader), 0 if it stands by.")
	topologyDesc = gauge("muster_topology_valid",
		"1 if the ClusterNetworkTopology is valid or does not exist; 0 if it is invalid. Then the last valid one is used, if any.")
	waitingDesc = gauge("muster_gangs_waiting",
		"Number of gangs that wait for needed members to be bound. The label reason is the reason of the PodGroup's condition. "+
			"Optional gangs of a gang group are not counted.", "reason")
	longestDesc = gauge("muster_gang_longest_wait_seconds",
		"Seconds that the longest-waiting gang has waited, by reason; 0 if no gang waits.", "reason")
	reservationsDesc = gauge("muster_reservations", "Gang groups with nodes that are reserved until victims have terminated.")
	oldestDesc       = gauge("muster_reservation_oldest_seconds", "Age of the oldest reservation in seconds; 0 if there is none.")
	heldDesc         = gauge("muster_held_nodes", "Nodes on which capacity is held for starving gangs, with or without a promised start.")
	backfilledDesc   = gauge("muster_backfilled_nodes",
		"Held nodes on which pods run that Muster started there as backfill. After a restart, only pods that started since then count.")
	largestDesc = gauge("muster_largest_gang",
		"Members that fit into one domain, by layer. It is the gang for which capacity was counted last.", "layer")
	overdueDesc = gauge("muster_repairs_overdue",
		"Incomplete gangs for whose missing members no capacity is held any more, because repairTimeout has passed.")
)

var registerOnce sync.Once

// Register exports the metrics and collectors at the process's /metrics. Only the first call in a process has an effect.
func (m *Meter) Register(collectors ...prometheus.Collector) {
	registerOnce.Do(func() { legacyregistry.RawMustRegister(append(collectors, m)...) })
}

// SetSources sets what the Meter reads: the cache, the number of Filter runs, and the nodes of pods.
func (m *Meter) SetSources(c *cache.Cache, filterRuns func() int64, nodeOf NodeOf) {
	m.cache = c
	m.filters = filterRuns
	m.nodeOf = nodeOf
}

// collectors returns the metrics that are counted at the event.
func (m *Meter) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.plans, m.preemptions, m.victims, m.filterRuns, m.starts, m.extraDomains, m.cycles, m.gangRuns, m.evictions, m.unusedEvictions,
		m.degradedNodes, m.reservations, m.wakes, m.refusals, m.repairSteps, m.repairs,
		m.promisesMade, m.promisesKept, m.promisesMoved,
	}
}

// Describe implements prometheus.Collector.
func (m *Meter) Describe(descriptions chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(descriptions)
	}
	for _, d := range []*prometheus.Desc{
		leadingDesc, topologyDesc, waitingDesc, longestDesc, overdueDesc, reservationsDesc, oldestDesc, heldDesc, backfilledDesc,
		largestDesc,
	} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector. It must not read whether this process leads from the registry, which would call Collect.
func (m *Meter) Collect(metrics chan<- prometheus.Metric) {
	open := m.cache != nil && m.cache.Open()
	if open {
		m.sweep()
	}
	for _, c := range m.collectors() {
		c.Collect(metrics)
	}
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	send(leadingDesc, number(open))
	if !open {
		return
	}
	send(topologyDesc, number(m.cache.Topology().Problem == ""))
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	waiting, longest := m.countWaiting(now)
	for _, reason := range waitingReasons {
		send(waitingDesc, float64(waiting[reason]), reason)
		send(longestDesc, longest[reason].Seconds(), reason)
	}
	oldest, groups := now, 0
	for _, since := range m.reservedSince {
		if since.IsZero() {
			continue
		}
		groups++
		if since.Before(oldest) {
			oldest = since
		}
	}
	send(overdueDesc, m.overdueRepairs())
	send(reservationsDesc, float64(groups))
	send(oldestDesc, now.Sub(oldest).Seconds())
	held := m.cache.HeldNodes()
	send(heldDesc, float64(len(held)))
	send(backfilledDesc, float64(len(m.backfilled(held))))
	for _, layer := range m.largestGangs {
		send(largestDesc, float64(layer.N), layer.Layer)
	}
}

// number returns 1 for true and 0 for false.
func number(value bool) float64 {
	if value {
		return 1
	}
	return 0
}

// countWaiting returns the numbers of waiting gangs and the longest waits, by reason. m.mu is held.
func (m *Meter) countWaiting(now time.Time) (counts map[string]int, longest map[string]time.Duration) {
	counts, longest = map[string]int{}, map[string]time.Duration{}
	for ref, w := range m.waitingGangs {
		t, ok := m.cache.Tally(ref)
		if !ok || !isWaiting(t) || m.cache.DoesWithout(ref) {
			continue
		}
		reason := Condition(m.cache.State(ref), "").Reason
		counts[reason]++
		longest[reason] = max(longest[reason], now.Sub(m.firstMemberTime(ref, w)))
	}
	return counts, longest
}

// isWaiting says whether a gang that this scheduler serves is below its minimum and has members without a node.
func isWaiting(t cache.Tally) bool {
	return t.Served && t.Members > t.Bound && (t.Min == 0 || t.Bound+t.Done < t.Min)
}

// firstMemberTime returns when the first member of a waiting gang was created. Creation times are whole seconds, so the time when
// this process saw the member is returned if it is earlier than the next second. m.mu is held.
func (m *Meter) firstMemberTime(ref gang.Ref, w *waitingGang) time.Time {
	if w.firstMember.IsZero() {
		w.firstMember = w.firstSeen
		if created := m.cache.FirstMade(ref); !w.started && !created.IsZero() && created.Add(time.Second).Before(w.firstMember) {
			w.firstMember = created.Add(time.Second)
		}
	}
	return w.firstMember
}

// Gang updates the counts after a change of gang ref: whether it waits, has started, or has a reservation.
func (m *Meter) Gang(ref gang.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.cache.Tally(ref)
	m.followRepair(ref, t)
	if !ok {
		delete(m.waitingGangs, ref)
		delete(m.promises, ref)
		m.setReserved(ref, false)
		m.settle(ref)
		return
	}
	m.followPromise(ref, t)
	m.setReserved(t.Group, t.Reserved)
	waiting := isWaiting(t)
	w := m.waitingGangs[ref]
	switch {
	case waiting && w == nil:
		m.waitingGangs[ref] = &waitingGang{firstSeen: m.clock.Now(), started: t.Started}
	case !waiting:
		delete(m.waitingGangs, ref)
	}
	if w == nil || waiting {
		return
	}
	if t.Min > 0 && t.Bound+t.Done >= t.Min && !w.started && m.cache.Open() {
		m.countStart(ref, t, w)
	}
	m.settle(t.Group)
}

// countStart records the metrics of a gang that reached its minimum for the first time. m.mu is held.
func (m *Meter) countStart(ref gang.Ref, t cache.Tally, w *waitingGang) {
	size := sizeOf(t.Min)
	m.starts.WithLabelValues(size).Observe(m.clock.Since(m.firstMemberTime(ref, w)).Seconds())
	if ref != t.Group {
		return // the costs of its group are counted with its first gang
	}
	m.cycles.WithLabelValues(size).Observe(float64(w.cycles))
	m.gangRuns.WithLabelValues(size).Observe(float64(w.filterRuns))
	for _, layer := range w.spread {
		m.extraDomains.WithLabelValues(layer.Layer).Observe(float64(layer.Touched - layer.Least))
	}
}

// Cycle counts a scheduling cycle of a member of group.
func (m *Meter) Cycle(group gang.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.waitingGangs[group]; w != nil {
		w.cycles++
	}
}

// Attempt counts an attempt to plan a group, with its duration. runsBefore is the number of Filter runs before it.
func (m *Meter) Attempt(group gang.Ref, planned bool, duration time.Duration, runsBefore int64) {
	result := "refused"
	if planned {
		result = "planned"
	}
	m.plans.WithLabelValues(result).Observe(duration.Seconds())
	m.Ran(group, runsBefore)
}

// Runs returns the number of Filter runs.
func (m *Meter) Runs() int64 { return m.filters() }

// Ran counts the Filter runs for a group since Runs was runsBefore.
func (m *Meter) Ran(group gang.Ref, runsBefore int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.waitingGangs[group]; w != nil {
		w.filterRuns += m.filters() - runsBefore
	}
}

// Placed records an attempt with a plan: its spread, and the largest gang that fits besides it.
func (m *Meter) Placed(a *place.Attempt, places []gang.Assignment, spread []place.Spread) {
	m.mu.Lock()
	if w := m.waitingGangs[a.Group.Key]; w != nil {
		w.spread = spread
	}
	m.mu.Unlock()
	m.updateLargest(a, places)
}

// UsesDegraded counts the degraded nodes that an attempt's members get.
func (m *Meter) UsesDegraded(a *place.Attempt, places []gang.Assignment) {
	m.degradedNodes.Add(float64(a.DegradedNodes(places)))
}

// Refused counts an attempt without a plan, by the plugins that rejected nodes. refusal is nil if a plugin has failed.
func (m *Meter) Refused(a *place.Attempt, refusal *place.Refusal) {
	if refusal == nil || len(refusal.Plugins) == 0 {
		m.refusals.WithLabelValues(NoPlugin).Inc()
	} else {
		for _, plugin := range refusal.Plugins {
			m.refusals.WithLabelValues(plugin).Inc()
		}
	}
	m.updateLargest(a, nil)
}

// updateLargest computes the largest gang that fits beside places, at most once per largestInterval.
func (m *Meter) updateLargest(a *place.Attempt, places []gang.Assignment) {
	now := m.clock.Now()
	m.mu.Lock()
	due := m.largestTime.IsZero() || now.Sub(m.largestTime) >= largestInterval
	m.mu.Unlock()
	if !due || !a.CapacityKnown() {
		return
	}
	largest := a.Largest(places)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.largestGangs, m.largestTime = largest, now
}

// TriedAgain counts the retry of a refused group after a change. helped says that it found a plan or an eviction.
func (m *Meter) TriedAgain(helped bool) {
	result := wakeVain
	if helped {
		result = wakeHelped
	}
	m.wakes.WithLabelValues(result).Inc()
}

// Preemption counts a reservation with n victims.
func (m *Meter) Preemption(n int) {
	m.preemptions.Inc()
	m.victims.Add(float64(n))
}

// Taken counts the end of a group's reservation whose nodes are free and which the group now takes.
func (m *Meter) Taken(group gang.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if since := m.reservedSince[group]; !since.IsZero() {
		m.reservedSince[group] = time.Time{}
		m.reservations.WithLabelValues(endTaken).Observe(m.clock.Since(since).Seconds())
	}
}

// setReserved records whether nodes are reserved for a group. A reservation that ends without Taken counts as given up. m.mu is held.
func (m *Meter) setReserved(group gang.Ref, reserved bool) {
	since, known := m.reservedSince[group]
	switch {
	case reserved && !known:
		m.reservedSince[group] = m.clock.Now()
	case !reserved:
		delete(m.reservedSince, group)
		if !since.IsZero() {
			m.reservations.WithLabelValues(endGivenUp).Observe(m.clock.Since(since).Seconds())
		}
	}
}

// Revoked counts an eviction from a quota above its fair share.
func (m *Meter) Revoked() { m.evictions.WithLabelValues(causeQuota).Inc() }

// Evicted counts a victim whose eviction the API server has accepted, and records the node that it frees for preemptor.
// freesCapacity is false for a victim that is evicted only because other members of its gang are.
func (m *Meter) Evicted(victim, preemptor *v1.Pod, freesCapacity bool) {
	node := victim.Spec.NodeName
	switch {
	case !freesCapacity:
		m.evictions.WithLabelValues(causeWhole).Inc()
	case source.GangOf(preemptor).IsZero():
		m.evictions.WithLabelValues(causePod).Inc()
		m.mu.Lock()
		defer m.mu.Unlock()
		f := m.freedForPods[string(preemptor.UID)]
		if f == nil {
			f = &freedForPod{pod: preemptor, nodes: freedNodes{}}
			m.freedForPods[string(preemptor.UID)] = f
		}
		f.nodes[node]++
	default:
		m.evictions.WithLabelValues(causeGang).Inc()
		group := m.cache.GroupKey(preemptor)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.freedNodes[group] == nil {
			m.freedNodes[group] = freedNodes{}
		}
		m.freedNodes[group][node]++
	}
}

// settle counts the evictions on nodes that were freed for group and that it did not use, once it has started or is gone.
// While members may still use a node, only the nodes in use are dropped. m.mu is held.
func (m *Meter) settle(group gang.Ref) {
	nodes := m.freedNodes[group]
	if nodes == nil {
		return
	}
	mayUse := m.cache.AwaitsMembers(group)
	g, refusal := m.cache.GroupOf(group)
	usedNodes := map[string]bool{}
	if !refusal.Exists() {
		mayUse = mayUse || g.Need() > 0 && len(g.Pending) > 0
		for _, member := range g.Bound {
			usedNodes[member.Node] = true
		}
	}
	maps.DeleteFunc(nodes, func(node string, _ int) bool { return usedNodes[node] })
	if !mayUse {
		delete(m.freedNodes, group)
		m.unusedEvictions.Add(nodes.podsExcept(func(string) bool { return false }))
	}
}

// podsExcept returns the number of pods evicted from the nodes for which isUsed is false.
func (f freedNodes) podsExcept(isUsed func(node string) bool) (n float64) {
	for node, pods := range f {
		if !isUsed(node) {
			n += float64(pods)
		}
	}
	return n
}

// Bound records that a pod without a gang is bound to node, and counts the evictions for it on other nodes.
func (m *Meter) Bound(pod *v1.Pod, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.podBound(pod, node)
}

// podBound is Bound with m.mu held.
func (m *Meter) podBound(pod *v1.Pod, node string) {
	if f := m.freedForPods[string(pod.UID)]; f != nil {
		delete(m.freedForPods, string(pod.UID))
		m.unusedEvictions.Add(f.nodes.podsExcept(func(n string) bool { return n == node }))
	}
}

// sweep drops records that no event ends: of deleted pods, and of groups whose gangs have formed other groups.
func (m *Meter) sweep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for group := range m.freedNodes {
		m.settle(group)
	}
	for group := range m.reservedSince {
		if !m.cache.Reserved(group) {
			m.setReserved(group, false)
		}
	}
	for _, f := range m.freedForPods {
		if node, exists := m.nodeOf(f.pod); !exists || node != "" {
			m.podBound(f.pod, node)
		}
	}
}
