package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// Configuration is what differs between two plays of a trace, a column of the table.
type Configuration struct {
	Name string
	Args string // of the plugin Coscheduling
	// Anywhere recreates lost members as pods without a gang: they go to any node, as the pods of kube-scheduler do.
	Anywhere bool
	Declares float64 // part of the jobs that declare their run time
	// Player plays the trace without the scheduler, if it is not nil.
	Player func(Trace) Result
}

// A simulation is quiet between two events. The clock then advances by as long as no pod was bound or evicted, within these bounds.
const (
	leastStep = time.Second
	mostStep  = time.Minute
)

// member is a pod of a job, which is recreated under another name.
type member struct {
	*run
	number  int
	pod     string // its name; "" while there is none
	made    int    // pods so far
	node    int    // unbound if none
	noGang  bool   // the pod is no member for the scheduler.
	fills   bool   // its node was held when it was bound
	waiting []*Outcome
}

const unbound = -1

// run is a job that has come and has not ended.
type run struct {
	*Job
	wait    *Wait
	key     gang.Ref
	promise gang.Promise // as it was last read
	members []*member
	started bool
	spine   int // of the first start
	left    time.Duration
	resumed time.Duration // since when all pods run
	stops   int           // how often it has stopped: the end of an earlier run does not count
	whole   bool
}

// Outcome is a fault that a running gang had.
type Outcome struct {
	Job      string
	Nodes    int
	At       time.Duration
	Dead     bool
	Whole    bool          // all members run again
	After    time.Duration // until then; if it is not, until the gang or the history has ended
	InDomain bool          // the replacement is in the gang's spine
}

// Result is what one configuration made of its traces.
type Result struct {
	Faults       int // of nodes
	Outcomes     []Outcome
	Waits        []*Wait  // of all jobs
	Gangs        int      // that have started
	Broken       []string // gangs with a member outside of their Must
	PodsEvicted  int
	GangsEvicted int
	Used         time.Duration // × nodes: pods of jobs all of whose pods run
	Waiting      time.Duration // × nodes: pods of gangs that wait for missing members
	Held         time.Duration // × nodes: free capacity that is held for missing members
	Holds        time.Duration // × nodes: held for gangs that wait for their start, with or without a promise
	Backfilled   time.Duration // × nodes: of Holds, used by pods that were bound while the node was held
}

// add adds the figures of another trace.
func (r *Result) add(o Result) {
	r.Faults, r.Gangs = r.Faults+o.Faults, r.Gangs+o.Gangs
	r.PodsEvicted, r.GangsEvicted = r.PodsEvicted+o.PodsEvicted, r.GangsEvicted+o.GangsEvicted
	r.Used, r.Waiting, r.Held = r.Used+o.Used, r.Waiting+o.Waiting, r.Held+o.Held
	r.Holds, r.Backfilled = r.Holds+o.Holds, r.Backfilled+o.Backfilled
	r.Outcomes, r.Broken = append(r.Outcomes, o.Outcomes...), append(r.Broken, o.Broken...)
	r.Waits = append(r.Waits, o.Waits...)
}

// play is one configuration's history.
type play struct {
	Configuration
	trace  Trace
	world  *simulate.World
	begin  time.Time
	now    time.Duration
	agenda agenda
	runs   map[string]*run
	pods   map[string]*member // by pod name
	on     [][]*member        // by node
	held   map[string]bool    // nodes held for waiting gangs when time last passed
	queue  []*run             // gangs that wait, the first one first.
	probe  *v1.Pod            // of another gang, to ask what is reserved
	Result
}

// Play plays a trace to a configuration.
func Play(ctx context.Context, c Configuration, t Trace) (r Result, err error) {
	if c.Player != nil {
		return c.Player(t), nil
	}
	// The simulation waits again and again until nothing moves, which is sooner on one thread and with few collections.
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	p := &play{
		Configuration: c, trace: t, runs: map[string]*run{}, pods: map[string]*member{}, on: make([][]*member, t.Nodes),
		probe: pod("probe", "", WholeNode),
	}
	p.Result.Faults = len(t.Breaks)
	set, err := t.cluster()
	if err != nil {
		return r, err
	}
	if p.world, err = simulate.Open(ctx, simulate.Options{Config: p.config()}, set); err != nil {
		return r, err
	}
	defer p.world.Close()
	p.begin = p.world.Now()
	if err := p.perform(ctx); err != nil {
		return r, err
	}
	p.finish()
	return p.Result, nil
}

// config returns the scheduler's configuration.
func (p *play) config() []byte {
	return fmt.Appendf(nil, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: %s
  pluginConfig:
  - name: Coscheduling
    args: {%s}
`, profile, p.Args)
}

// perform plays the trace until its end.
func (p *play) perform(ctx context.Context) error {
	for _, f := range p.trace.Breaks {
		p.agenda.add(f.At, func() error { return p.fail(ctx, f) })
	}
	p.next(ctx, 0)
	step := leastStep
	for p.now < p.trace.During() {
		changed, err := p.world.Work(ctx)
		if err != nil {
			return err
		}
		if step = min(2*step, mostStep); changed && p.look(ctx) {
			step = leastStep
		}
		if p.Declares > 0 {
			p.readPromises()
		}
		until := min(p.now+step, p.trace.During())
		if len(p.agenda) > 0 {
			until = min(until, max(p.agenda[0].at, p.now))
		}
		p.pass(until - p.now)
		p.now = until
		p.world.AdvanceTo(p.begin.Add(until))
		for len(p.agenda) > 0 && p.agenda[0].at <= p.now {
			step = leastStep
			if err := p.agenda.pop()(); err != nil {
				return err
			}
		}
	}
	return nil
}

// next has job i come at its time, and then the next one.
func (p *play) next(ctx context.Context, i int) {
	if i < len(p.trace.Jobs) {
		p.agenda.add(p.trace.Jobs[i].At, func() error {
			p.next(ctx, i+1)
			return p.come(ctx, &p.trace.Jobs[i])
		})
	}
}

// pass adds to the figures what is true for a while.
func (p *play) pass(d time.Duration) {
	for _, m := range slices.Concat(p.on...) {
		switch {
		case m.whole:
			p.Used += d * time.Duration(m.GPUs) / WholeNode
		case m.started:
			p.Waiting += d * time.Duration(m.GPUs) / WholeNode
		}
	}
	reserved := p.world.Shared().Cache
	p.held = reserved.HeldNodes()
	p.Holds += d * time.Duration(len(p.held))
	for n, members := range p.on {
		if p.held[nodeName(n)] && slices.ContainsFunc(members, func(m *member) bool { return m.fills }) {
			p.Backfilled += d
		}
	}
	for n := 0; n < len(p.on) && reserved.AnyPlaces(); n++ {
		for _, member := range reserved.PlacesOn(nodeName(n), p.probe) {
			if reserved.Pod(convert.PodKey(member)) == nil { // a stand-in of a missing member
				p.Held += d
			}
		}
	}
}

// apply changes objects of the cluster.
func (p *play) apply(ctx context.Context, objects ...runtime.Object) error {
	set, err := setOf(objects...)
	if err != nil {
		return err
	}
	return p.world.Apply(ctx, set)
}

// come creates the pods of a job.
func (p *play) come(ctx context.Context, j *Job) error {
	r := &run{Job: j, wait: &Wait{Job: *j}, left: j.Lasts}
	p.Waits = append(p.Waits, r.wait)
	p.runs[j.Name] = r
	var objects []runtime.Object
	if j.Nodes > 1 {
		objects = append(objects, podGroup(j))
		p.queue = append(p.queue, r)
	}
	for i := range j.Nodes {
		m := &member{run: r, number: i, node: unbound}
		r.members = append(r.members, m)
		objects = append(objects, p.newPod(m))
	}
	return p.apply(ctx, objects...)
}

// newPod returns a new pod for a member.
func (p *play) newPod(m *member) *v1.Pod {
	m.pod = fmt.Sprintf("%s-%d-%d", m.Name, m.number, m.made)
	m.noGang = m.Nodes == 1 || p.Anywhere && m.started
	m.made++
	p.pods[m.pod] = m
	return p.object(m)
}

// object returns the member's pod as it was created.
func (p *play) object(m *member) *v1.Pod {
	out := pod(m.pod, m.Name, m.GPUs)
	if m.noGang {
		out = pod(m.pod, "", m.GPUs)
	}
	if m.Declarer < p.Declares {
		out.Annotations = map[string]string{scheduling.AnnotationMaxRuntime: m.Limit.String()}
	}
	out.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "batch/v1", Kind: "Job", Name: m.Name, UID: types.UID(m.Name), Controller: new(true),
	}}
	return out
}

// fail has a fault happen, and its node return later.
func (p *play) fail(ctx context.Context, f Fault) error {
	taint := v1.TaintNodeUnschedulable
	if f.Dead {
		taint = v1.TaintNodeNotReady
	}
	if err := p.apply(ctx, p.trace.node(f.Node, taint)); err != nil {
		return err
	}
	p.agenda.add(f.At+f.Down, func() error { return p.apply(ctx, p.trace.node(f.Node, "")) })
	for _, m := range p.on[f.Node] {
		if m.started && m.Nodes > 1 {
			m.waiting = append(m.waiting, &Outcome{Job: m.Name, Nodes: m.Nodes, At: p.now, Dead: f.Dead})
		}
		p.stop(m.run)
		wait := time.Duration(0)
		if f.Dead {
			wait = toleration
		}
		name := m.pod
		p.agenda.add(p.now+wait, func() error {
			if p.pods[name] != m { // the job has ended
				return nil
			}
			object := p.object(m)
			p.lose(ctx, m, f.Delay)
			return p.apply(ctx, deleted(object, p.world.Now()))
		})
	}
	return nil
}

// stop ends the work of a run: a pod of it does not work.
func (p *play) stop(r *run) {
	if r.whole {
		r.whole = false
		r.left -= p.now - r.resumed
		r.stops++
	}
}

// lose takes a member's pod from the books. Its controller recreates the pod after a delay.
func (p *play) lose(ctx context.Context, m *member, delay time.Duration) {
	p.stop(m.run)
	p.forget(m)
	if !p.Anywhere && !slices.ContainsFunc(m.members, func(m *member) bool { return m.node != unbound }) {
		m.started = false // no member fixes the gang's domain any more: it starts again
	}
	p.agenda.add(p.now+delay, func() error {
		if p.runs[m.Name] != m.run {
			return nil
		}
		return p.apply(ctx, p.newPod(m))
	})
}

// forget takes a member's pod from the books.
func (p *play) forget(m *member) {
	delete(p.pods, m.pod)
	if m.node != unbound {
		p.on[m.node] = slices.DeleteFunc(p.on[m.node], func(other *member) bool { return other == m })
	}
	m.pod, m.node = "", unbound
}

// look reads which pods are bound, and which were evicted. It returns whether there are any that it had not seen.
func (p *play) look(ctx context.Context) (news bool) {
	seen := map[string]bool{}
	for _, pod := range p.world.Pods() {
		seen[pod.Name] = true
		m := p.pods[pod.Name]
		if m == nil || m.node != unbound || pod.Spec.NodeName == "" {
			continue
		}
		if _, err := fmt.Sscanf(pod.Spec.NodeName, "node-%d", &m.node); err != nil {
			panic(err)
		}
		p.on[m.node], news = append(p.on[m.node], m), true
		m.fills = p.held[pod.Spec.NodeName]
		if m.started && p.trace.SpineOf(m.node) != m.spine && !m.noGang {
			p.Broken = append(p.Broken, m.Name)
		}
		if !slices.ContainsFunc(m.members, func(m *member) bool { return m.node == unbound }) {
			p.resume(ctx, m.run)
		}
	}
	gangs := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(p.pods)) {
		if m := p.pods[name]; !seen[name] {
			p.PodsEvicted++
			news = true
			if m.Nodes > 1 {
				gangs[m.Name] = true
			}
			p.lose(ctx, m, leastDelay)
		}
	}
	p.GangsEvicted += len(gangs)
	return news
}

// resume begins the work of a run all pods of which have a node.
func (p *play) resume(ctx context.Context, r *run) {
	if !r.started {
		r.started, r.spine = true, p.trace.SpineOf(r.members[0].node)
		if slices.ContainsFunc(r.members, func(m *member) bool { return p.trace.SpineOf(m.node) != r.spine }) {
			p.Broken = append(p.Broken, r.Name)
		}
		if !r.wait.Started {
			r.wait.Started, r.wait.For = true, p.now-r.At
		}
		if r.Nodes > 1 {
			p.Gangs++
			p.queue = slices.DeleteFunc(p.queue, func(other *run) bool { return other == r })
		}
	}
	p.judge(r, true)
	r.whole, r.resumed = true, p.now
	stops := r.stops
	p.agenda.add(p.now+r.left, func() error {
		if r.stops != stops {
			return nil
		}
		return p.end(ctx, r)
	})
}

// judge closes the faults that a gang waits after.
func (p *play) judge(r *run, whole bool) {
	for _, m := range r.members {
		for _, o := range m.waiting {
			o.Whole, o.After, o.InDomain = whole, p.now-o.At, whole && p.trace.SpineOf(m.node) == r.spine
			p.Outcomes = append(p.Outcomes, *o)
		}
		m.waiting = nil
	}
}

// end has the pods of a run succeed, and removes them.
func (p *play) end(ctx context.Context, r *run) error {
	delete(p.runs, r.Name)
	var done, gone []runtime.Object
	for _, m := range r.members {
		succeeded := p.object(m)
		succeeded.Spec.NodeName, succeeded.Status.Phase = nodeName(m.node), v1.PodSucceeded
		done, gone = append(done, succeeded), append(gone, deleted(p.object(m), p.world.Now()))
		p.forget(m)
	}
	if r.Nodes > 1 {
		gone = append(gone, deleted(podGroup(r.Job), p.world.Now()))
	}
	return errors.Join(p.apply(ctx, done...), p.apply(ctx, gone...))
}

// finish closes the faults of gangs that are not whole, and the waits of jobs that have not started, when the history ends.
func (p *play) finish() {
	for _, w := range p.Waits {
		if !w.Started {
			w.For = p.now - w.At
		}
	}
	for _, j := range p.trace.Jobs {
		if r := p.runs[j.Name]; r != nil {
			p.judge(r, false)
		}
	}
}
