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

// limits remembers rejections that contradict the counts.
// Some plugins keep state beside the snapshot, such as volumes and devices. They may reject a member that the plan counted.
// The node then takes at most as many members as it had. Each rejection lowers a limit, so plans become correct.
type limits struct {
	mu    sync.Mutex
	known map[limitKey]limit
}

// limitKey identifies the limited members of a group, and the node.
type limitKey struct {
	group gang.Ref
	shape string // see convert.Shape
	node  string
}

// limit is how many such members a node takes.
type limit struct {
	most         int
	why          string
	plugin       string
	pod          *v1.Pod // the rejected member
	surroundings string  // state of the node and its other pods when the member was rejected
	until        time.Time
}

// longestLimit ends a limit without any visible change: the cause may be in no object that Muster watches.
const longestLimit = 5 * time.Minute

// Limit records that a plugin rejected a member on its node in its own cycle. It returns whether that limits the node.
func (p *Planner) Limit(group *cache.Group, pod *v1.Pod, node string, status *fwk.Status) bool {
	if !fit.Limits(status.Plugin()) {
		return false
	}
	n, err := p.profile.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return false
	}
	shape := convert.Shape(pod)
	l := limit{why: status.Message(), plugin: status.Plugin(), pod: pod, until: p.cache.Clock.Now().Add(longestLimit)}
	l.most, l.surroundings = p.countOnNode(n, pod, shape)
	p.limits.put(limitKey{group.Key, shape, node}, l, p.cache.Clock.Now())
	return true
}

// ForgetLimits ends the limits set by a plugin after an event that may free capacity.
func (p *Planner) ForgetLimits(plugin string) { p.limits.forget(plugin) }

// RecheckLimits ends the limits set by a plugin for members that it may accept now, and returns their groups.
func (p *Planner) RecheckLimits(plugin string, mayPass func(refused *v1.Pod) bool) (groups []gang.Ref) {
	for key, set := range p.limits.setBy(plugin) {
		if mayPass(set.pod) && p.limits.drop(key, set) && !slices.Contains(groups, key.group) {
			groups = append(groups, key.group)
		}
	}
	return groups
}

// countOnNode counts the members of one shape on a node, of the group of member. surroundings identifies the other pods there.
func (p *Planner) countOnNode(n fwk.NodeInfo, member *v1.Pod, shape string) (members int, surroundings string) {
	var uids []types.UID
	for _, info := range n.GetPods() {
		switch pod := info.GetPod(); {
		case !p.cache.SameGroup(pod, member):
			uids = append(uids, pod.UID)
		case convert.Shape(pod) == shape:
			members++
		}
	}
	slices.Sort(uids)
	surroundings = string(n.Node().UID) + " " + n.Node().ResourceVersion
	for _, uid := range uids {
		surroundings += " " + string(uid)
	}
	return members, surroundings
}

func (l *limits) put(key limitKey, set limit, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for oldKey, old := range l.known {
		if !now.Before(old.until) {
			delete(l.known, oldKey)
		}
	}
	if l.known == nil {
		l.known = map[limitKey]limit{}
	}
	l.known[key] = set
}

func (l *limits) forget(plugin string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, set := range l.known {
		if set.plugin == plugin {
			delete(l.known, key)
		}
	}
}

// setBy returns the limits set by a plugin.
func (l *limits) setBy(plugin string) map[limitKey]limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out map[limitKey]limit
	for key, set := range l.known {
		if set.plugin == plugin {
			if out == nil {
				out = map[limitKey]limit{}
			}
			out[key] = set
		}
	}
	return out
}

// drop forgets a limit unless it has changed, and returns whether it did.
func (l *limits) drop(key limitKey, set limit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[key] != set {
		return false
	}
	delete(l.known, key)
	return true
}

// get returns a limit while the node is unchanged, except for members of the group.
func (l *limits) get(key limitKey, surroundings string, now time.Time) (limit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.known[key]
	if ok && (found.surroundings != surroundings || !now.Before(found.until)) {
		delete(l.known, key)
		ok = false
	}
	return found, ok
}

// forGroup lists the limits of a group's members.
func (l *limits) forGroup(group gang.Ref) (keys []limitKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.known {
		if key.group == group {
			keys = append(keys, key)
		}
	}
	return keys
}

// activeLimits holds the limits that apply to an attempt.
type activeLimits struct {
	shapes []int // by kind
	// remaining is, by node index and shape, how many more members the node takes.
	remaining map[int]map[int]offer.Slots
	reasons   map[int]limit // by node index, one limit of the node
}

// applyLimits finds the limits for the attempt's members.
func (p *Planner) applyLimits(a *Attempt) {
	keys := p.limits.forGroup(a.Group.Key)
	if len(keys) == 0 || a.ignoreLimits {
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
	a.limited.remaining, a.limited.reasons = map[int]map[int]offer.Slots{}, map[int]limit{}
	for _, key := range keys {
		shape, wanted := known[key.shape]
		i, ok := a.Net.Tree.NodeIndex(key.node)
		if !wanted || !ok || a.Nodes[i] == nil {
			continue
		}
		present, surroundings := p.countOnNode(a.Nodes[i], a.Group.Pods[a.Group.Pending[0].Pod], key.shape)
		found, ok := p.limits.get(key, surroundings, p.cache.Clock.Now())
		if !ok {
			continue
		}
		if a.limited.remaining[i] == nil {
			a.limited.remaining[i] = map[int]offer.Slots{}
		}
		a.limited.remaining[i][shape] = offer.Slots(max(0, found.most-present))
		a.limited.reasons[i] = found
	}
}

// allow returns how many members of a kind a node takes beside a load. slots is the count without limits.
func (l *activeLimits) allow(node, kind int, load []offer.Slots, slots offer.Slots) offer.Slots {
	byShape, ok := l.remaining[node]
	if !ok {
		return slots
	}
	shape := l.shapes[kind]
	remaining, ok := byShape[shape]
	if !ok {
		return slots
	}
	for k, n := range load {
		if l.shapes[k] == shape {
			remaining -= n
		}
	}
	return min(slots, max(0, remaining))
}

// Limited returns whether some node takes fewer members than its Filters allow.
func (a *Attempt) Limited() bool { return len(a.limited.remaining) > 0 }

// OnlyLimitsPreventPlan returns whether only remembered limits, excluded nodes or allocations of terminated pods prevent a plan.
// The gang then waits, and no further eviction helps.
func (a *Attempt) OnlyLimitsPreventPlan(ctx context.Context) bool {
	switch {
	case !a.counted:
		return false
	case a.plansOnceReleased(ctx):
		return true
	case !a.excluded && !a.Limited():
		return false
	}
	b := *a
	b.Nodes = a.allNodes
	b.kinds = slices.Clone(a.kinds)
	b.limited = activeLimits{}
	b.ignoreLimits = true
	_, refusal, err := b.Plan(ctx)
	return refusal == nil && err == nil
}

// limitedTrial is a trial that respects limits.
type limitedTrial struct {
	mixed.Trial
	*activeLimits
	load map[int][]offer.Slots // by node index, the members placed there by kind
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

// limitTrial makes a trial respect the limits.
func (a *Attempt) limitTrial(s mixed.Trial) mixed.Trial {
	if !a.Limited() {
		return s
	}
	return &limitedTrial{Trial: s, activeLimits: &a.limited, load: map[int][]offer.Slots{}}
}

// DetectsMisfit returns whether the next attempt will detect that the node no longer takes the members of its plan.
// The node then needs no exclusion, and is used again once that changes.
func (p *Planner) DetectsMisfit(ctx context.Context, group *cache.Group, node string) bool {
	nodes, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return false
	}
	groupOnNode := *group
	groupOnNode.Group = group.On(node)
	a := p.NewAttempt(&groupOnNode, nodes, nil)
	i, ok := a.Net.Tree.NodeIndex(node)
	if !ok || a.Nodes[i] == nil || len(groupOnNode.Pending) == 0 {
		return false
	}
	target := a.Nodes[i]
	if a.sortKinds(ctx) != nil {
		return false
	}
	gone := make([][]*v1.Pod, len(a.Nodes)) // pending members on the node return to the queue before it is tried
	for _, info := range target.GetPods() {
		if groupOnNode.IsPending(convert.PodKey(info.GetPod())) {
			gone[i] = append(gone[i], info.GetPod())
		}
	}
	_, why := a.PlacesFit(ctx, gone)
	return why != ""
}
