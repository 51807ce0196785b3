package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// fault is a rule that a history breaks.
type fault struct{ rule, what string }

func (f *fault) Error() string { return "[" + f.rule + "] " + f.what }

func wrong(rule, format string, args ...any) error { return &fault{rule, fmt.Sprintf(format, args...)} }

// world is a simulation of a history, with the state of the judge: all of it comes from the cluster or the
// history, except the scheduler's reservations.
type world struct {
	s      *simulation
	ctx    context.Context
	cfg    *schedulerconfig.KubeSchedulerConfiguration
	cancel func()

	counts map[string]int // events that happened, and what came of them
	trace  []string       // what the scheduler did
	turns  int            // of the processes that are over

	gangs   map[string]*gangSpec // that are declared, by key
	members map[string]string    // gang, by pod
	layers  []string             // in effect
	good    bool                 // the topology exists and is valid
	exists  bool                 // the topology exists

	seen    int64
	losses  int64 // requests that were lost, ever
	nodes   map[string]*v1.Node
	pods    map[string]*v1.Pod // by key
	nodeOf  map[types.UID]string
	whole   map[string]bool      // gangs that were whole since they last had no member
	moved   map[string]bool      // group: the ground moved under a plan that is being carried out
	stirred map[string]bool      // groups whose members, specs or nodes changed after the first was bound
	told    map[Event]int        // events seen so far
	victims map[string]bool      // the victims of the latest events
	asked   map[types.UID]int    // victims
	last    map[string]*eviction // by group
	apiOf   map[string]string    // by gang
	held    map[types.UID]hold   // pods that wait at Permit
	change  int                  // events so far

	wire         wire
	lost         map[types.UID]lostBinding // members whose binding was lost, since the last change
	unasked      map[types.UID]int         // victims whose eviction was lost, since then
	postponed    map[types.UID]bool        // victims whose eviction was ever lost
	since        map[types.UID]time.Time   // for members whose binding was lost: the latest start of their group's wait
	patient      map[string]time.Time      // when the first binding of a group with reservations was lost
	delayed      map[string]string         // the reservations of groups whose victims are evicted late, since a request was lost
	untold       map[types.UID]bool        // pods with a lost status write
	anew         map[string]int            // groups that were planned again since their nodes are taken, by the event
	loose        bool                      // the binding of a pod without a gang was lost, since then
	looseAt      map[string]time.Time      // when such a binding to a node was lost
	retried      map[types.UID]bool        // members whose binding was lost once
	comesLate    map[types.UID]bool        // pods without a gang whose binding was lost, and that were not bound since
	halfway      map[string]bool           // groups that may be bound in part: bindings were lost
	uneven       map[string]bool           // groups of which bindings were lost since the first of them was bound
	theirs       map[string]string         // gang of another scheduler, by pod
	foreignSeen  bool
	specs        map[string]*podSpec // of members, by name
	late         map[string]bool     // replacements of members
	replaced     int
	chosen       string             // gang
	reached      map[string]bool    // gangs that have started, as objects say
	evictedWhole map[string]bool    // gangs of which all running members were evicted, and still terminate
	unwritten    map[string]bool    // replacements that no PodGroup reports
	gone         map[types.UID]bool // evicted pods that the judge has seen
	halves       map[types.UID]bool // the remaining members of partly evicted gangs

	quotas         map[string]*quotaSpec // by what they are called in the tree
	admittedBefore map[string]bool       // pods that had a node when quotas, or their use, changed otherwise
}

// eviction is the last eviction of a group.
type eviction struct {
	change int
	gone   []types.UID
	lowest int32              // priority of its members
	nodes  map[string]bool    // on which it evicted, or had reservations
	robbed bool               // a pod of higher priority took one of them: the group is planned again
	marked map[types.UID]bool // pods that were marked for eviction by then
	bound  []string           // its members that were bound by then
}

// alone has one goroutine run at a time, and no garbage collected, until what it returns is called:
// to find out that nothing moves is cheap then.
func alone() (end func()) {
	procs, percent := goruntime.GOMAXPROCS(1), debug.SetGCPercent(-1)
	return func() {
		debug.SetGCPercent(percent)
		goruntime.GOMAXPROCS(procs)
	}
}

// play has a history happen and returns the first rule that is broken.
func play(ctx context.Context, h history) (w *world, err error) {
	defer alone()()
	w = &world{
		ctx: ctx, counts: map[string]int{}, gangs: map[string]*gangSpec{}, members: map[string]string{},
		nodeOf: map[types.UID]string{}, whole: map[string]bool{}, moved: map[string]bool{}, stirred: map[string]bool{},
		told: map[Event]int{}, asked: map[types.UID]int{}, last: map[string]*eviction{}, apiOf: map[string]string{}, held: map[types.UID]hold{},
		lost: map[types.UID]lostBinding{}, unasked: map[types.UID]int{}, postponed: map[types.UID]bool{}, anew: map[string]int{},
		untold: map[types.UID]bool{}, delayed: map[string]string{}, since: map[types.UID]time.Time{}, patient: map[string]time.Time{},
		halfway: map[string]bool{}, uneven: map[string]bool{}, comesLate: map[types.UID]bool{}, retried: map[types.UID]bool{},
		theirs: map[string]string{},
		specs:  map[string]*podSpec{}, late: map[string]bool{}, reached: map[string]bool{}, evictedWhole: map[string]bool{}, unwritten: map[string]bool{},
		gone: map[types.UID]bool{}, looseAt: map[string]time.Time{},
		halves: map[types.UID]bool{},
	}
	w.wire.written = map[string][]string{}
	if w.cfg, err = readConfig(nil); err != nil {
		return w, err
	}
	life, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	if w.s, _, err = start(life, Options{VictimsStay: true, intercept: w.wire.pass, allServed: true}, &Set{}); err != nil {
		cancel()
		return w, err
	}
	defer func() { w.s.stop(w.cancel) }()
	if err := w.s.waitReady(ctx); err != nil {
		return w, err
	}
	for i, e := range h {
		w.change = i
		done, err := w.happen(e)
		if err != nil {
			return w, fmt.Errorf("event %d, %s: %w", i, e, err)
		}
		if done {
			w.counts[e.kind]++
		}
	}
	return w, nil
}

// happen does one event and says whether there was anything to do.
func (w *world) happen(e event) (bool, error) {
	switch e.kind {
	case turnsGiven, timePassed:
		return true, w.pass(e)
	case settledDown, longTimeLeft:
		defer w.wire.fail(nil)
		return true, w.pass(e)
	case requestsFail:
		w.wire.fail(e.fail)
		return true, nil
	case restarted:
		unasked := maps.Clone(w.unasked) // what the process that ends has asked for may be seen after its end
		w.settledGround()
		w.unasked = unasked
		err := w.restart()
		clear(w.unasked)
		return true, err
	}
	w.settledGround()
	done, err := w.write(e)
	if err != nil || !done {
		return done, err
	}
	return true, w.look()
}

// pass lets the scheduler work.
func (w *world) pass(e event) error {
	switch e.kind {
	case turnsGiven:
		return w.run(until{turns: e.n})
	case timePassed:
		return w.run(until{time: time.Duration(e.n) * time.Second, by: 2 * time.Second})
	case settledDown:
		return w.settle()
	}
	return w.end()
}

// end lets time pass until nothing waits for time.
func (w *world) end() error {
	for {
		if err := w.run(until{time: longTime, by: 7 * time.Second}); err != nil {
			return err
		}
		if err := w.settle(); err != nil {
			return err
		}
		if len(w.leaving()) == 0 {
			return w.judgeEnd()
		}
	}
}

// longTime is longer than every wait: for victims that do not terminate, for a node that rejected a member.
const longTime = 420 * time.Second

// write changes the cluster as a user or a controller does.
func (w *world) write(e event) (bool, error) {
	switch e.kind {
	case nodePut:
		if old := w.nodes[e.node.name]; old != nil && (old.Labels["spine"] != e.node.spine || old.Labels["block"] != e.node.block) {
			w.stir()
		}
		return true, w.put(e.node.object())
	case nodeDeleted:
		w.stir()
		return w.remove("Node", e.name, nil)
	case nodeCleared:
		return w.clear(e.name)
	case gangPut, gangAnew, runningAnew, strangerPut:
		return w.putGang(e)
	case foreignPut, foreignGang, foreignNominated, foreignBound, foreignTold:
		return w.writeForeign(e)
	case memberFinished, memberReplaced:
		return w.leave(e)
	case gangDeleted:
		g := w.gangs[e.name]
		if g == nil || g.byPods || g.owned() {
			return false, nil
		}
		w.stirGang(e.name)
		w.unwritten[e.name] = true
		group := w.groupOf(e.name)
		halfway := w.halfway[groupKey(group)]
		delete(w.gangs, e.name)
		for _, other := range group { // the rest is another group now
			w.stirGang(other)
			if halfway && other != e.name {
				w.halfway[groupKey(w.groupOf(other))] = true
			}
		}
		return w.removeObject(g.resource(), key{"default", e.name}, nil)
	case gangMin:
		g := w.gangs[e.name]
		if g == nil || g.byPods || g.min == e.n || g.api != "" && apis[g.api].all {
			return false, nil
		}
		w.stirGang(e.name)
		delete(w.reached, e.name)
		changed := *g
		changed.min = e.n
		w.gangs[e.name] = &changed
		return true, w.put(changed.object())
	case memberPut, podPut, memberRuns, memberByHand:
		return w.putPod(e.pod)
	case podDeleted:
		w.stirPod(e.name)
		return w.remove("Pod", e.name, func(o runtime.Object) runtime.Object {
			if pod := o.(*v1.Pod); pod.Spec.NodeName != "" && pod.Status.Phase == v1.PodRunning {
				return terminating(pod, w.s.clock.Now())
			}
			return nil
		})
	case podFinished:
		pod := w.pods["default/"+e.name]
		if pod == nil || pod.Spec.NodeName == "" || convert.Finished(pod) {
			return false, nil
		}
		w.stirPod(e.name)
		return w.remove("Pod", e.name, func(o runtime.Object) runtime.Object {
			out := o.(*v1.Pod).DeepCopy()
			out.Status.Phase = v1.PodSucceeded
			return out
		})
	case topologySet:
		return w.setTopology(e.layers)
	case quotaPut, quotaLess, quotaMore, quotaDeleted, quotaAnew:
		return w.putQuota(e)
	}
	return false, errors.New("unknown event")
}

// put makes or replaces an object.
func (w *world) put(text string) error {
	set := &Set{}
	if err := set.Add("history", []byte(text)); err != nil {
		return err
	}
	pods, err := w.s.cluster.apply(set)
	if err != nil {
		return err
	}
	return w.s.addPods(w.ctx, pods)
}

// remove deletes an object, or replaces it by the result of left.
func (w *world) remove(kind, name string, left func(runtime.Object) runtime.Object) (done bool, err error) {
	gvr, k := pods, key{"default", name}
	switch kind {
	case "Node":
		gvr, k = v1.SchemeGroupVersion.WithResource("nodes"), key{name: name}
	case "ClusterNetworkTopology":
		gvr, k = koordinator.ClusterNetworkTopologies, key{name: name}
	}
	return w.removeObject(gvr, k, left)
}

func (w *world) removeObject(gvr schema.GroupVersionResource, k key, left func(runtime.Object) runtime.Object) (done bool, err error) {
	_, err = w.s.cluster.change(gvr, k, func(old runtime.Object) (runtime.Object, error) {
		done = old != nil
		if !done || left == nil {
			return nil, nil
		}
		return left(old), nil
	})
	if err != nil {
		return done, err
	}
	return done, w.s.waitQuiet(w.ctx)
}

// clear deletes the pods of a deleted node.
func (w *world) clear(node string) (done bool, err error) {
	if w.nodes[node] != nil {
		return false, nil
	}
	for _, p := range w.sorted() {
		if p.Spec.NodeName == node {
			w.stirPod(p.Name)
			done = true
			if _, err := w.remove("Pod", p.Name, nil); err != nil {
				return true, err
			}
		}
	}
	return done, nil
}

func (w *world) putGang(e event) (bool, error) {
	if e.kind == runningAnew {
		name := w.choose(e)
		if name == "" {
			return false, nil
		}
		e.kind, e.gang = gangAnew, w.gangs[name]
	}
	g := *e.gang
	if e.kind == gangAnew {
		if w.gangs[g.name] == nil || g.byPods {
			return false, nil
		}
		w.stirGang(g.name)
		w.unwritten[g.name] = true
		if _, err := w.removeObject(g.resource(), key{"default", g.name}, nil); err != nil {
			return true, err
		}
	}
	w.gangs[g.name], w.apiOf[g.name] = &g, g.api
	if g.byPods {
		return true, nil
	}
	if g.inTree() {
		if err := w.put(g.treeObject()); err != nil {
			return true, err
		}
	}
	return true, w.put(g.object())
}

func (w *world) putPod(p *podSpec) (bool, error) {
	if w.pods["default/"+p.name] != nil {
		return false, nil
	}
	var g *gangSpec
	if p.gang != "" {
		// A gang whose PodGroup was deleted keeps its name.
		if g = w.gangs[p.gang]; g == nil {
			g = &gangSpec{name: p.gang, api: w.apiOf[p.gang]}
		}
		if _, bound := w.membersOf(p.gang); len(bound) > 0 {
			w.stirGang(p.gang)
		}
	}
	if p.node == anyNode {
		at := slices.IndexFunc(w.ready(), func(node string) bool { return !w.free(node).minus(w.reserved(node, nil, -1<<31, false)).less(p.room) })
		if at < 0 {
			return false, nil
		}
		there := *p
		there.node = w.ready()[at]
		p = &there
	}
	if p.node != "" && w.free(p.node).minus(w.reserved(p.node, nil, -1<<31, false)).less(p.room) {
		return false, nil
	}
	if p.node != "" {
		w.quotaMoves()
	}
	if p.gang != "" {
		w.members[p.name], w.specs[p.name] = p.gang, p
	}
	if p.gang != "" && p.node != "" {
		for _, name := range w.groupOf(p.gang) {
			w.stirred[name] = true
		}
	}
	return true, w.put(p.object(g))
}

func (w *world) setTopology(layers []string) (bool, error) {
	w.stir()
	w.exists, w.good = layers != nil, layers != nil && !slices.Contains(layers, invalidLayer)
	if w.good || layers == nil {
		w.layers = layers
	}
	if layers == nil {
		return w.remove("ClusterNetworkTopology", "default", nil)
	}
	return true, w.put(topologyObject(layers))
}

// restart kills the scheduler and starts another one.
func (w *world) restart() error {
	w.turns += int(w.s.turnsGiven)
	if slices.ContainsFunc(w.groups(), func(g []string) bool { return w.heldOf(g) > 0 }) {
		w.counts[restartedMidway]++
	}
	w.s.stop(w.cancel)
	if w.exists && !w.good {
		w.layers = nil // the last valid layers are unknown
	}
	w.forgetUnwritten()
	clear(w.held)
	clear(w.moved)
	clear(w.last)
	life, cancel := context.WithCancel(w.ctx)
	w.cancel = cancel
	if err := w.s.boot(life, w.cfg); err != nil {
		return err
	}
	if err := w.s.waitReady(w.ctx); err != nil {
		return err
	}
	w.forgetHalves()
	return w.look()
}

// until says when run has done enough: after so many turns, after so much time, or when
// nothing has changed for so long that the scheduler has tried everything again.
type until struct {
	turns   int
	time    time.Duration
	by      time.Duration // steps of time; a second if it is 0
	settled bool
}

// run lets the scheduler work and time pass. The judge looks after each turn.
func (w *world) run(u until) error {
	given, began := w.s.turnsGiven, w.s.clock.Now()
	changes, since := w.happened(), began
	for {
		if err := w.s.waitQuiet(w.ctx); err != nil {
			return &UnsettledError{w.s.waiting()}
		}
		if err := w.look(); err != nil {
			return err
		}
		if now := w.happened(); now != changes {
			changes, since = now, w.s.clock.Now()
		}
		turns, passed := int(w.s.turnsGiven-given), w.s.clock.Since(began)
		if most := 200 + 20*len(w.pods) + int(passed/time.Second); turns > most {
			return wrong("restless", "%d turns in %s and no end", turns, passed)
		}
		if passed > time.Hour {
			return wrong("restless", "nothing has settled in %s", passed)
		}
		switch {
		case u.turns > 0 && turns >= u.turns:
			return nil
		case w.s.runStep(w.ctx):
			continue
		}
		if err := w.judgeIdle(); err != nil {
			return err
		}
		switch {
		case w.kubelet():
		case u.turns > 0, u.time > 0 && passed >= u.time, u.settled && w.s.clock.Since(since) >= w.rest(u.by):
			return nil
		default:
			w.s.clock.Step(cmp.Or(u.by, timeStep))
		}
	}
}

// rest returns how long nothing changes in a settled world: a retry and the backoff after it end with a step. A pod that is
// still in backoff, or a binding on its way, is tried once more.
func (w *world) rest(step time.Duration) time.Duration {
	if queue := w.s.scheduler.SchedulingQueue; len(queue.PodsInBackoffQ())+len(queue.InFlightPods()) > 0 {
		return 2*w.s.settleTime + 2*step
	}
	return w.s.settleTime + 2*step
}

// happened counts changes and lost requests: lost requests are sent again, after an invisible backoff.
func (w *world) happened() int64 { return w.s.cluster.changes() + w.losses }

func (w *world) settle() error {
	if err := w.run(until{settled: true, by: 3 * time.Second}); err != nil {
		return err
	}
	return w.judgeSettled()
}

// kubelet ends pods whose grace period is over, and reports whether there were any.
func (w *world) kubelet() (ended bool) {
	now := w.s.clock.Now()
	for _, p := range w.sorted() {
		if p.DeletionTimestamp == nil {
			continue
		}
		at := p.DeletionTimestamp.Time
		if p.Annotations[stuck] != "" {
			at = at.Add(longTime - time.Minute)
		}
		if now.Before(at) {
			continue
		}
		_, _ = w.s.cluster.change(pods, key{p.Namespace, p.Name}, func(runtime.Object) (runtime.Object, error) { return nil, nil })
		ended = true
	}
	return ended
}

// look reads the cluster and judges what is new.
func (w *world) look() error {
	lost, written := w.wire.news()
	w.losses += int64(len(lost))
	w.noteLost(lost)
	w.noteUnasked(lost) // further evictions may have been requested and carried out since
	if err := w.read(written); err != nil {
		return err
	}
	w.noteUnasked(lost) // and by pods that were made since
	return nil
}

// read is look without what was lost.
func (w *world) read(written map[string][]string) error {
	if now := w.s.cluster.changes(); now == w.seen {
		return nil
	} else {
		w.seen = now
	}
	w.nodes, w.pods = map[string]*v1.Node{}, map[string]*v1.Pod{}
	all, _ := w.s.cluster.list(v1.SchemeGroupVersion.WithResource("nodes"), "", nil)
	for _, o := range all {
		n := o.(*v1.Node)
		w.nodes[n.Name] = n
	}
	all, _ = w.s.cluster.list(pods, "", nil)
	fresh := map[string][]*v1.Pod{} // by node
	for _, o := range all {
		p := o.(*v1.Pod)
		w.pods[convert.PodKey(p)] = p
		was, known := w.nodeOf[p.UID]
		w.nodeOf[p.UID] = p.Spec.NodeName
		if known && was == "" && p.Spec.NodeName != "" {
			fresh[p.Spec.NodeName] = append(fresh[p.Spec.NodeName], p)
			w.say("bound " + p.Name + " to " + p.Spec.NodeName)
			w.counts[podsBound]++
		}
	}
	w.noteWhole()
	w.forgetReached()
	w.endPatience()
	for key := range w.halfway {
		w.excused(strings.Split(key, ","))
	}
	w.forgetReplanned()
	for _, judge := range []func() error{
		func() error { return w.judgeForeign(written) },
		func() error { return w.judgeQuotas(fresh) },
		func() error { return w.judgeBindings(fresh) },
		w.judgeLeaving, w.judgeEvictions,
	} {
		if err := judge(); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) say(what string) {
	w.trace = append(w.trace, fmt.Sprintf("%s %s", w.s.clock.Since(epoch).Round(time.Millisecond), what))
}

func (w *world) sorted() []*v1.Pod {
	return slices.SortedFunc(maps.Values(w.pods), func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
}

// stir records a change under all plans that are being carried out. Plans that wait for victims are checked
// again first.
func (w *world) stir() {
	for _, g := range w.groups() {
		if places, waiting := w.placesOf(g); len(places) > 0 && !waiting || w.heldOf(g) > 0 {
			w.moved[groupKey(g)] = true
		}
		w.stirGang(g[0])
	}
}

// stirGang notes that a group which has begun to run is no longer what was planned.
func (w *world) stirGang(name string) {
	group := w.groupOf(name)
	places, _ := w.placesOf(group)
	began := len(places) > 0 || w.heldOf(group) > 0
	for _, other := range group {
		_, bound := w.membersOf(other)
		began = began || len(bound) > 0
	}
	if began {
		for _, other := range group { // which may be in another group next
			w.stirred[other] = true
		}
	}
}

func (w *world) stirPod(name string) {
	if g := w.members[name]; g != "" {
		w.stirGang(g)
	}
}

// groupOf returns the gangs that start with this one, by name: the gangs that it lists and that list it, and
// so on (spec 5.8).
func (w *world) groupOf(name string) []string {
	group := []string{name}
	for i := 0; i < len(group); i++ {
		for _, other := range w.gangs[group[i]].groupOrNil() {
			o := w.gangs[other]
			if w.declared(w.gangs[group[i]]) && w.declared(o) && slices.Contains(o.group, group[i]) && !slices.Contains(group, other) {
				group = append(group, other)
			}
		}
	}
	slices.Sort(group)
	return group
}

// declared says whether anything declares a gang: its PodGroup, or one of its pods.
func (w *world) declared(g *gangSpec) bool {
	return g != nil && (!g.byPods || slices.ContainsFunc(w.sorted(), func(p *v1.Pod) bool { return w.members[p.Name] == g.name }))
}

func groupKey(names []string) string { return strings.Join(names, ",") }

// groups lists the groups of which any pod exists.
func (w *world) groups() (out [][]string) {
	done := map[string]bool{}
	for _, p := range w.sorted() {
		name := w.members[p.Name]
		if name == "" || done[name] {
			continue
		}
		group := w.groupOf(name)
		for _, o := range group {
			done[o] = true
		}
		out = append(out, group)
	}
	return out
}

// membersOf returns the unfinished members of a gang, by name: pending and bound ones.
func (w *world) membersOf(name string) (pending, bound []*v1.Pod) {
	for _, p := range w.sorted() {
		switch {
		case w.members[p.Name] != name || convert.Finished(p):
		case p.Spec.NodeName == "":
			pending = append(pending, p)
		default:
			bound = append(bound, p)
		}
	}
	return pending, bound
}

// placesOf returns the nodes that are reserved for members of a group, and whether it waits for victims.
func (w *world) placesOf(group []string) (places map[string]string, waiting bool) {
	places = map[string]string{}
	for _, name := range group {
		pending, _ := w.membersOf(name)
		for _, p := range pending {
			if node, confirmed := w.s.shared.Cache.Place(p); node != "" {
				places[convert.PodKey(p)] = node
				waiting = waiting || !confirmed
			}
		}
	}
	return places, waiting
}

// permits calls do with every pod that waits in Permit.
func (w *world) permits(do func(fwk.WaitingPod)) {
	if p := w.s.scheduler.Profiles["muster-scheduler"]; p != nil {
		p.IterateOverWaitingPods(do)
	}
}

func (w *world) heldOf(group []string) (n int) {
	w.permits(func(p fwk.WaitingPod) {
		if slices.Contains(group, w.members[p.GetPod().Name]) {
			n++
		}
	})
	return n
}

func (w *world) noteWhole() {
	for _, g := range w.gangs {
		pending, bound := w.membersOf(g.name)
		finished := len(w.finishedOf(g.name))
		switch {
		case len(pending)+len(bound)+finished == 0:
			delete(w.whole, g.name)
		case len(bound)+finished >= g.min:
			if !w.whole[g.name] {
				w.counts[gangsWhole]++
				w.counts[wholeOf(g.api)]++
				if g.byLabels() {
					w.counts[wholeByLabels]++
				}
			}
			w.whole[g.name] = true
		}
	}
}

// result is what came of it, for comparison.
func (w *world) result() string {
	out, _ := json.Marshal(w.s.result())
	return strings.Join(w.trace, "\n") + "\n" + string(out)
}
