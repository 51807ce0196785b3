package place

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Some plugins keep what pods have taken beside the snapshot: volumes, devices. They let
// more members of a plan pass than there is room for, and refuse one of them in its own
// cycle. What that tells of the node is kept: it takes as many members as it had by then.
// With every refusal a node takes fewer, so the plan is a right one in the end.

// limits are what refusals have told of nodes.
type limits struct {
	mu    sync.Mutex
	known map[limitKey]limit
}

// limitKey says which members of which group are limited, and where.
type limitKey struct {
	group gang.Ref
	shape string // see convert.Shape
	node  string
}

// limit is how many such members a node takes.
type limit struct {
	most   int
	why    string
	plugin string
	pod    *v1.Pod // the member that was refused
	others string  // whoever was on the node besides, and the node itself, as they were
	until  time.Time
}

// longestLimit is when a limit ends although nothing was seen to change: what makes room may
// be in no object that a node or an event shows.
const longestLimit = 5 * time.Minute

// Limit notes that a plugin has refused a member on its node in its own cycle. It says
// whether that tells how many members the node takes.
func (p *Planner) Limit(group *cache.Group, pod *v1.Pod, node string, refused *fwk.Status) bool {
	if !fit.Limits(refused.Plugin()) {
		return false
	}
	n, err := p.profile.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return false
	}
	shape := convert.Shape(pod)
	l := limit{why: refused.Message(), plugin: refused.Plugin(), pod: pod, until: p.cache.Clock.Now().Add(longestLimit)}
	l.most, l.others = p.look(n, pod, shape)
	p.limits.put(limitKey{group.Key, shape, node}, l, p.cache.Clock.Now())
	return true
}

// Cured ends the limits that a plugin's refusals have set, since it has heard of something
// that may make room.
func (p *Planner) Cured(plugin string) { p.limits.forget(plugin) }

// Heard ends the limits that a plugin's refusals have set of members which it may let pass now,
// and says of which groups.
func (p *Planner) Heard(plugin string, may func(refused *v1.Pod) bool) (groups []gang.Ref) {
	for key, is := range p.limits.by(plugin) {
		if may(is.pod) && p.limits.drop(key, is) && !slices.Contains(groups, key.group) {
			groups = append(groups, key.group)
		}
	}
	return groups
}

// look counts the members of a shape on a node, of the group of one of its members, and
// says who else is there: of the group itself all come and go.
func (p *Planner) look(n fwk.NodeInfo, of *v1.Pod, shape string) (members int, others string) {
	var uids []types.UID
	for _, info := range n.GetPods() {
		switch pod := info.GetPod(); {
		case !p.cache.SameGroup(pod, of):
			uids = append(uids, pod.UID)
		case convert.Shape(pod) == shape:
			members++
		}
	}
	slices.Sort(uids)
	others = string(n.Node().UID) + " " + n.Node().ResourceVersion
	for _, uid := range uids {
		others += " " + string(uid)
	}
	return members, others
}

func (l *limits) put(at limitKey, is limit, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, old := range l.known {
		if !now.Before(old.until) {
			delete(l.known, key)
		}
	}
	if l.known == nil {
		l.known = map[limitKey]limit{}
	}
	l.known[at] = is
}

func (l *limits) forget(plugin string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, is := range l.known {
		if is.plugin == plugin {
			delete(l.known, key)
		}
	}
}

// by are the limits that a plugin's refusals have set.
func (l *limits) by(plugin string) map[limitKey]limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out map[limitKey]limit
	for key, is := range l.known {
		if is.plugin == plugin {
			if out == nil {
				out = map[limitKey]limit{}
			}
			out[key] = is
		}
	}
	return out
}

// drop forgets a limit, if it is still that one, and says whether it is.
func (l *limits) drop(key limitKey, is limit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[key] != is {
		return false
	}
	delete(l.known, key)
	return true
}

// get returns a limit if it holds now: the node is as it was, but for members of the group.
func (l *limits) get(at limitKey, others string, now time.Time) (limit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is, ok := l.known[at]
	if ok && (is.others != others || !now.Before(is.until)) {
		delete(l.known, at)
		ok = false
	}
	return is, ok
}

// of lists the nodes on which something is known of a group's members.
func (l *limits) of(group gang.Ref) (keys []limitKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.known {
		if key.group == group {
			keys = append(keys, key)
		}
	}
	return keys
}

// limited is what an attempt knows of limits.
type limited struct {
	shapes []int // by kind
	// left is by node index and shape how many members the node takes yet.
	left map[int]map[int]offer.Slots
	why  map[int]limit // by node index, one of the reasons
}

// limit finds out which limits hold for the attempt's members.
func (p *Planner) limit(a *Attempt) {
	keys := p.limits.of(a.Group.Key)
	if len(keys) == 0 || a.unlimited {
		return
	}
	known := map[string]int{}
	for _, k := range a.kinds {
		shape := convert.Shape(k.pod)
		if _, ok := known[shape]; !ok {
			known[shape] = len(known)
		}
		a.limited.shapes = append(a.limited.shapes, known[shape])
	}
	a.limited.left, a.limited.why = map[int]map[int]offer.Slots{}, map[int]limit{}
	for _, key := range keys {
		shape, wanted := known[key.shape]
		i, ok := a.Net.Tree.NodeIndex(key.node)
		if !wanted || !ok || a.Nodes[i] == nil {
			continue
		}
		there, others := p.look(a.Nodes[i], a.Group.Pods[a.Group.Pending[0].Pod], key.shape)
		is, ok := p.limits.get(key, others, p.cache.Clock.Now())
		if !ok {
			continue
		}
		if a.limited.left[i] == nil {
			a.limited.left[i] = map[int]offer.Slots{}
		}
		a.limited.left[i][shape] = offer.Slots(max(0, is.most-there))
		a.limited.why[i] = is
	}
}

// allow is how many members of a kind a node takes beside a load, if counting says slots.
func (l *limited) allow(node, kind int, load []offer.Slots, slots offer.Slots) offer.Slots {
	by, ok := l.left[node]
	if !ok {
		return slots
	}
	shape := l.shapes[kind]
	left, ok := by[shape]
	if !ok {
		return slots
	}
	for k, n := range load {
		if l.shapes[k] == shape {
			left -= n
		}
	}
	return min(slots, max(0, left))
}

// Limited says whether some node is thought to take fewer members than its Filters let pass.
func (a *Attempt) Limited() bool { return len(a.limited.left) > 0 }

// Hindered says whether nothing stands in the gang's way but what is remembered of nodes that
// refused a member: there would be a plan with those that were left out, and with as many
// members on each as its Filters let pass, or when all is given back that nobody has any more.
// Then the gang waits for that, and nobody else need leave.
func (a *Attempt) Hindered(ctx context.Context) bool {
	switch {
	case !a.counted:
		return false
	case a.settles(ctx):
		return true
	case !a.leftOut && !a.Limited():
		return false
	}
	b := *a
	b.Nodes, b.kinds, b.limited, b.unlimited = a.all, slices.Clone(a.kinds), limited{}, true
	_, refusal, err := b.Plan(ctx)
	return refusal == nil && err == nil
}

// limitedTrial is a trial on which limits hold, too.
type limitedTrial struct {
	mixed.Trial
	*limited
	load map[int][]offer.Slots // by node index, who was put there, by kind
	puts []mixed.Put           // Class is the kind
}

func (t *limitedTrial) Fits(kind, node int) bool {
	return t.allow(node, kind, t.load[node], 1) > 0 && t.Trial.Fits(kind, node)
}

func (t *limitedTrial) Put(kind, node int) {
	if t.load[node] == nil {
		t.load[node] = make([]offer.Slots, len(t.shapes))
	}
	t.load[node][kind]++
	t.puts = append(t.puts, mixed.Put{Class: kind, Node: node})
	t.Trial.Put(kind, node)
}

func (t *limitedTrial) Undo() {
	last := t.puts[len(t.puts)-1]
	t.puts = t.puts[:len(t.puts)-1]
	t.load[last.Node][last.Class]--
	t.Trial.Undo()
}

// onTrial has limits hold on a trial.
func (a *Attempt) onTrial(s mixed.Trial) mixed.Trial {
	if !a.Limited() {
		return s
	}
	return &limitedTrial{Trial: s, limited: &a.limited, load: map[int][]offer.Slots{}}
}

// Sees says whether the next attempt will know by itself that a node, which has refused a member
// of a group, does not take those whom the plan has put there: somebody has come since. Then
// nobody need avoid the node, and it is used again as soon as that has changed.
func (p *Planner) Sees(ctx context.Context, group *cache.Group, node string) bool {
	nodes, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return false
	}
	there := *group
	there.Group = group.On(node)
	a := p.NewAttempt(&there, nodes, nil)
	i, ok := a.Net.Tree.NodeIndex(node)
	if !ok || a.Nodes[i] == nil || len(there.Pending) == 0 {
		return false
	}
	is := a.Nodes[i]
	if a.sortKinds(ctx) != nil {
		return false
	}
	back := make([][]*v1.Pod, len(a.Nodes)) // those who have come before it will return
	for _, info := range is.GetPods() {
		if there.IsPending(convert.PodKey(info.GetPod())) {
			back[i] = append(back[i], info.GetPod())
		}
	}
	_, why := a.PlacesFit(ctx, back)
	return why != ""
}
