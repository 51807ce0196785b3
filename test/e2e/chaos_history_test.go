package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// ledger follows all pods, in the order in which the API server changes them, and
// writes down what must not be at any time.
type ledger struct {
	nodes map[string]place

	mu      sync.Mutex
	pods    map[string]*v1.Pod
	used    map[string]int64           // millicores, by node.
	victims map[types.UID]*victim      // all that were evicted.
	places  map[string]string          // the nodes that members of jobs were nominated for last, until they are bound.
	ends    map[string]bool            // pods that terminate because the test deletes them, even if the scheduler evicted them first.
	movedBy map[string]map[string]bool // by job that gave up its nominated nodes: the jobs of higher priority that waited then.
	wrong   []string                   // forbidden states.
	story   []string                   // what has happened.
	steps   int                        // bindings, nominations and evictions until now.
	alarms  map[int]chan<- struct{}    // closed at these numbers of steps.
	counts  map[string]int             // of each kind of step.
}

// victim is a pod that was evicted.
type victim struct {
	name, node string
	priority   int32
	job        string          // the job that it was a member of, "" if of none.
	by         map[string]bool // the jobs that were nominated for its node then.
	places     []guest         // the nodes of the jobs in by, then.
	used       bool            // a job of higher priority has come to its node since.
	overtaken  bool            // a job of higher priority has taken a place of a job in by.
}

// guest is a pod that has a node, or is nominated for it.
type guest struct {
	job, node string
	priority  int32
	size      int64
	waits     bool
}

// jobOf is the job of a member, whose name is JOB-TEAM-NUMBER; "" for other pods.
func jobOf(pod *v1.Pod) string {
	job, _, _ := strings.Cut(pod.Labels[scheduling.LabelPodGroup], "-")
	return job
}

func newLedger(nodes []*v1.Node) *ledger {
	l := &ledger{
		nodes: map[string]place{}, pods: map[string]*v1.Pod{}, used: map[string]int64{}, victims: map[types.UID]*victim{},
		places: map[string]string{}, ends: map[string]bool{}, movedBy: map[string]map[string]bool{}, alarms: map[int]chan<- struct{}{},
		counts: map[string]int{},
	}
	for _, n := range nodes {
		l.nodes[n.Name] = placeOf(n)
	}
	return l
}

// follow watches until ctx ends. After an interruption it looks at what there is.
func (l *ledger) follow(ctx context.Context, pods corev1.PodInterface) {
	_ = poll(ctx, func() (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // the API server is away
		}
		l.replace(list.Items)
		w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return false, nil //nolint:nilerr // likewise
		}
		defer w.Stop()
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*v1.Pod)
			if !ok {
				break
			}
			l.apply(event.Type, pod)
		}
		return false, nil
	})
}

func (l *ledger) apply(what watch.EventType, pod *v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if what == watch.Deleted {
		l.gone(pod.Name)
		return
	}
	l.seen(pod)
}

// replace replaces the known pods by a new list: first it removes missing pods, then it adds the listed ones.
func (l *ledger) replace(pods []v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := map[string]bool{}
	for i := range pods {
		there[pods[i].Name] = true
	}
	for name := range maps.Clone(l.pods) {
		if !there[name] {
			l.gone(name)
		}
	}
	for i := range pods {
		l.seen(&pods[i])
	}
}

func (l *ledger) gone(name string) {
	old := l.pods[name]
	if old == nil {
		return
	}
	if node := old.Spec.NodeName; node != "" {
		if evicted(old) && l.victims[old.UID] == nil && !l.ends[name] {
			l.evict(old, node)
		}
		if !ended(old) {
			l.used[node] -= sizeOf(old)
		}
		l.tell("%s is gone from %s", name, node)
	}
	delete(l.pods, name)
	delete(l.places, name)
	delete(l.ends, name)
}

func (l *ledger) seen(pod *v1.Pod) {
	old := l.pods[pod.Name]
	if old == nil {
		old = &v1.Pod{}
	}
	l.pods[pod.Name] = pod
	if node := pod.Spec.NodeName; node != "" && old.Spec.NodeName == "" {
		l.boundTo(pod, node)
	}
	if ended(pod) && !ended(old) {
		l.used[pod.Spec.NodeName] -= sizeOf(pod)
		l.tell("%s has ended on %s", pod.Name, pod.Spec.NodeName)
	}
	if node := pod.Status.NominatedNodeName; node != "" && node != old.Status.NominatedNodeName && pod.Spec.NodeName == "" {
		l.step("nominations")
		l.tell("%s is nominated for %s", pod.Name, node)
		if jobOf(pod) != "" {
			l.moves(pod, node)
			l.places[pod.Name] = node
		}
		l.overtake(node)
	}
	if node := old.Status.NominatedNodeName; node != "" && pod.Status.NominatedNodeName == "" && pod.Spec.NodeName == "" {
		l.tell("%s is no longer nominated for %s", pod.Name, node)
	}
	// A pod with the condition DisruptionTarget but no deletion stays if the API server or the scheduler stops then.
	if evicted(pod) && pod.DeletionTimestamp != nil && l.victims[pod.UID] == nil && !l.ends[pod.Name] {
		l.evict(pod, pod.Spec.NodeName)
	}
}

// endsOf says that the test has some pods leave from now on: a scheduler that was killed may have marked them, and then
// they are no victims yet.
func (l *ledger) endsOf(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		l.ends[name] = true
	}
}

func (l *ledger) evict(pod *v1.Pod, node string) {
	v := &victim{name: pod.Name, node: node, priority: priorityOf(pod), job: jobOf(pod), by: map[string]bool{}}
	l.victims[pod.UID] = v
	l.step("evictions")
	l.tell("%s is evicted from %s", pod.Name, node)
	for name, at := range l.places {
		if p := l.pods[name]; at == node && priorityOf(p) > v.priority {
			v.by[jobOf(p)] = true
		}
	}
	for name, at := range l.places {
		if p := l.pods[name]; v.by[jobOf(p)] {
			v.places = append(v.places, guest{jobOf(p), at, priorityOf(p), sizeOf(p), true})
			l.overtake(at)
		}
	}
}

// moves notes the waiting jobs of higher priority when a member gives up its nominated node. A member may move before
// the job that it makes way for is nominated, since that job has its devices written first.
func (l *ledger) moves(pod *v1.Pod, to string) {
	if at := l.places[pod.Name]; at == "" || at == to {
		return
	}
	moved := jobOf(pod)
	if l.movedBy[moved] == nil {
		l.movedBy[moved] = map[string]bool{}
	}
	for _, p := range l.pods {
		if p.Spec.NodeName == "" && jobOf(p) != "" && priorityOf(p) > priorityOf(pod) {
			l.movedBy[moved][jobOf(p)] = true
		}
	}
}

// overtakeMoved finds victims with no remaining use. The pod is on a node that jobs gave up for its job, and their
// members no longer fit there.
func (l *ledger) overtakeMoved(pod *v1.Pod, node string) {
	for _, v := range l.victims {
		size := sizeOf(pod)
		var moved bool
		for _, g := range v.places {
			if g.node == node && l.movedBy[g.job][jobOf(pod)] {
				size, moved = size+g.size, true
			}
		}
		v.overtaken = v.overtaken || moved && size > wholeNode
	}
}

// overtake notes jobs that no longer fit on a node since jobs of higher priority have come, or will. Their victims were
// not evicted in vain: the preemptor was overtaken.
func (l *ledger) overtake(node string) {
	var guests []guest
	for name, p := range l.pods {
		staying := p.Spec.NodeName == node && p.DeletionTimestamp == nil && !evicted(p)
		if waits := p.Spec.NodeName == "" && l.places[name] == node; staying || waits {
			guests = append(guests, guest{jobOf(p), node, priorityOf(p), sizeOf(p), waits})
		}
	}
	for _, g := range guests {
		above, all := false, int64(0)
		for _, other := range guests {
			if other.priority >= g.priority {
				all += other.size
				above = above || other.priority > g.priority
			}
		}
		if !g.waits || !above || all <= wholeNode {
			continue
		}
		for _, v := range l.victims {
			if v.by[g.job] {
				v.overtaken = true
			}
		}
	}
}

func (l *ledger) boundTo(pod *v1.Pod, node string) {
	l.used[node] += sizeOf(pod)
	l.tell("%s is bound to %s", pod.Name, node)
	if l.used[node] > wholeNode {
		l.wrong = append(l.wrong, fmt.Sprintf("%s is overfull with %dm: %v", node, l.used[node], l.on(node)))
	}
	if pod.Labels[scheduling.LabelPodGroup] == "" {
		return
	}
	l.moves(pod, node)
	delete(l.places, pod.Name)
	l.overtake(node)
	l.overtakeMoved(pod, node)
	l.step("bindings")
	for _, v := range l.victims {
		if v.node == node && v.priority < priorityOf(pod) {
			v.used = true
		}
	}
}

// ended says whether a pod has run to its end on a node.
func ended(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodSucceeded && pod.Spec.NodeName != "" }

// podNames lists all existing pods.
func (l *ledger) podNames() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.pods))
}

// lacks says that fewer pods are there; "" if they are.
func (l *ledger) lacks(n int) string {
	if all := l.podNames(); len(all) < n {
		return fmt.Sprintf("%d of %d pods are there", len(all), n)
	}
	return ""
}

// waits says that a pod is not there without a node; "" if it is.
func (l *ledger) waits(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pods[name]; p == nil || p.Spec.NodeName != "" {
		return name + " is not there yet"
	}
	return ""
}

// begins says which of some pods do not run yet; "" if all do.
func (l *ledger) begins(names []string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		if p := l.pods[name]; p == nil || p.Status.Phase == v1.PodPending {
			return name + " does not run yet"
		}
	}
	return ""
}

// evictors counts the jobs that have evicted pods.
func (l *ledger) evictors() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	by := map[string]bool{}
	for _, v := range l.victims {
		maps.Copy(by, v.by)
	}
	return len(by)
}

// inTheMiddle says what is going on.
func (l *ledger) inTheMiddle(jobs []*job) (what []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	leaving := false
	for _, p := range l.pods {
		leaving = leaving || p.DeletionTimestamp != nil
	}
	if leaving {
		what = append(what, "while victims leave")
	}
	if len(l.places) > 0 {
		what = append(what, "with nominations")
	}
	for _, j := range jobs {
		if _, bound := l.membersOf(j); bound > 0 && bound < j.size() {
			return append(what, "while a gang is bound in part")
		}
	}
	return what
}

// again forgets what has happened, when no pod exists any more.
func (l *ledger) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.victims)
	clear(l.places)
	clear(l.ends)
	clear(l.movedBy)
	clear(l.alarms)
	clear(l.used)
	l.wrong, l.story, l.steps = nil, nil, 0
}

// on lists the pods on a node.
func (l *ledger) on(node string) (names []string) {
	for name, p := range l.pods {
		if p.Spec.NodeName == node {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// tell adds a line to the story.
func (l *ledger) tell(format string, args ...any) {
	l.story = append(l.story, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// note adds what others have done.
func (l *ledger) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell("%s", what)
}

// step counts what the scheduler has done.
func (l *ledger) step(kind string) {
	l.steps++
	l.counts[kind]++
	if c := l.alarms[l.steps]; c != nil {
		close(c)
		delete(l.alarms, l.steps)
	}
}

// after returns a channel that is closed after so many more steps.
func (l *ledger) after(steps int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	l.alarms[l.steps+steps] = c
	return c
}

// membersOf counts the existing members of a job, and the bound ones.
func (l *ledger) membersOf(j *job) (there, bound int) {
	for _, t := range j.teams {
		for _, name := range t.members() {
			if p := l.pods[name]; p != nil {
				there++
				if p.Spec.NodeName != "" {
					bound++
				}
			}
		}
	}
	return there, bound
}

// whole lists the jobs that run.
func (l *ledger) whole(jobs []*job) (out []*job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range jobs {
		if _, bound := l.membersOf(j); bound == j.size() {
			out = append(out, j)
		}
	}
	return out
}

// unsettled says what is not yet as it must be in the end; "" if nothing.
func (l *ledger) unsettled(jobs []*job) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	held := slices.ContainsFunc(jobs, l.incomplete) // capacity, for their missing members
	for _, name := range slices.Sorted(maps.Keys(l.pods)) {
		p := l.pods[name]
		if p.DeletionTimestamp != nil {
			out = append(out, name+" is leaving")
		}
		if p.Spec.NodeName == "" && p.Status.NominatedNodeName != "" {
			out = append(out, name+" is nominated for "+p.Status.NominatedNodeName)
		}
		if p.Spec.NodeName == "" && p.Labels[scheduling.LabelPodGroup] == "" && !held {
			if _, ok := newRooms(l.nodes, l.used).all().take(team{half: 1}); ok && sizeOf(p) == halfNode {
				out = append(out, name+" waits although there is room")
			}
		}
	}
	for _, j := range jobs {
		if j.finished {
			continue
		}
		there, bound := l.membersOf(j)
		switch {
		case l.evicted(j):
			if bound > 0 { // a job that was bound in part may have other members, which wait
				out = append(out, fmt.Sprintf("%v is evicted in part: %d of %d run", j, bound, j.size()))
			}
		case !j.submitted.Load() || there < j.size():
			out = append(out, fmt.Sprintf("%v: %d of %d members exist", j, there, j.size()))
		case bound == j.size():
		case l.incomplete(j):
			if l.roomFor(j).repairs(j, l) {
				out = append(out, fmt.Sprintf("%v is not repaired although it fits: %d of %d run", j, bound, j.size()))
			}
		case bound > 0:
			out = append(out, fmt.Sprintf("%v is bound in part: %d of %d", j, bound, j.size()))
		case l.roomFor(j).fits(j):
			out = append(out, fmt.Sprintf("%v waits although it fits", j))
		}
	}
	return strings.Join(out, "\n")
}

// evicted says whether members of a job were evicted.
func (l *ledger) evicted(j *job) bool {
	for _, v := range l.victims {
		if v.job == j.name {
			return true
		}
	}
	return false
}

// evictedJobs counts them.
func (l *ledger) evictedJobs(jobs []*job) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range jobs {
		if !j.finished && l.evicted(j) {
			n++
		}
	}
	return n
}

// roomFor is what a job finds free: the places of pods that it may evict, too. For
// unlike members gangs need not be considered: that is too much to try.
func (l *ledger) roomFor(j *job) rooms {
	used := maps.Clone(l.used)
	priority := priorityOf(l.pods[j.teams[0].members()[0]])
	for _, p := range l.pods {
		if p.Spec.NodeName != "" && priorityOf(p) < priority && p.Labels[scheduling.LabelDisablePreemptible] == "" &&
			(jobOf(p) == "" || j.alike()) {
			used[p.Spec.NodeName] -= sizeOf(p)
		}
	}
	return newRooms(l.nodes, used)
}

// apart says how a running job breaks its topology constraint; "" if it does not. Finished members do not count.
func (l *ledger) apart(j *job) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	spines := map[string]bool{}
	for _, t := range j.teams {
		blocks := map[string]bool{}
		for _, name := range t.members() {
			p := l.pods[name]
			if p == nil || p.Spec.NodeName == "" || ended(p) {
				continue
			}
			at := l.nodes[p.Spec.NodeName]
			spines[at.spine], blocks[at.block] = true, true
		}
		if len(blocks) > 1 && (j.rule == oneBlock || j.rule == teamBlocks) {
			return fmt.Sprintf("team %s of %v is in blocks %v", t.name, j, slices.Sorted(maps.Keys(blocks)))
		}
	}
	if len(spines) > 1 && j.rule >= oneSpine {
		return fmt.Sprintf("%v is in spines %v", j, slices.Sorted(maps.Keys(spines)))
	}
	return ""
}

// faults lists what was wrong at any time, and evictions that were good for nothing.
func (l *ledger) faults() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.wrong)
	used := map[string]bool{} // jobs of which one victim's node was of use: a gang leaves whole
	for _, v := range l.victims {
		if v.used || v.overtaken {
			used[v.job] = true
		}
	}
	for _, v := range l.victims {
		switch {
		case v.used, v.job != "" && used[v.job]:
		case v.overtaken:
			l.counts["overtaken"]++
		default:
			out = append(out, fmt.Sprintf("%s was evicted from %s, and no gang of higher priority came", v.name, v.node))
		}
	}
	return out
}
