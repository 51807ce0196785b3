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

// limits remembers by node that a plugin rejected a member although the plan counted on capacity there. Some plugins have state that the
// snapshot lacks, such as volumes and devices. Afterwards plans put no more members of that shape on the node than it has.
type limits struct {
	mu    sync.Mutex
	known map[limitKey]limit
}

// limitKey identifies a limit: for members of this shape in this group, on this node.
type limitKey struct {
	group gang.Ref
	shape string // see convert.Shape
	node  string
}

// limit is why and until when a node takes no more than most members of the group and shape.
type limit struct {
	most         int
	why          string
	plugin       string
	pod          *v1.Pod // the rejected member
	surroundings string  // state of the node and its other pods when the member was rejected
	until        time.Time
}

// longestLimit is how long a limit lasts if nothing changes on its node. Its cause may be in an object that Muster does not watch.
const longestLimit = 5 * time.Minute

// Limit records that a plugin rejected a member on the node of its plan. It returns false if rejections by this plugin set no limit.
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

// ForgetLimits removes all limits of a plugin. It is called after an event that may free capacity.
func (p *Planner) ForgetLimits(plugin string) { p.limits.forget(plugin) }

// RecheckLimits removes the limits of a plugin whose rejected pod satisfies mayPass, and returns their groups.
func (p *Planner) RecheckLimits(plugin string, mayPass func(refused *v1.Pod) bool) (groups []gang.Ref) {
	for key, set := range p.limits.setBy(plugin) {
		if mayPass(set.pod) && p.limits.drop(key, set) && !slices.Contains(groups, key.group) {
			groups = append(groups, key.group)
		}
	}
	return groups
}

// countOnNode counts the pods of member's group and of shape on a node. surroundings is a key for the node's version and its other pods.
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

// setBy returns a copy of the limits of a plugin; nil if there are none.
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

// drop removes a limit if it is still set, and returns whether it removed it.
func (l *limits) drop(key limitKey, set limit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[key] != set {
		return false
	}
	delete(l.known, key)
	return true
}

// get returns a limit. It removes the limit and returns false if its time is over, or if the node or its pods of other groups have changed.
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

// forGroup returns the keys of a group's limits.
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

// activeLimits are the limits that apply to an attempt. The zero value has none.
type activeLimits struct {
	shapes []int // by kind, the number of its shape
	// remaining is, by node index and shape, how many more members the node takes.
	remaining map[int]map[int]offer.Slots
	reasons   map[int]limit // by node index, one limit of the node
}

// applyLimits sets a.limited to the limits of the attempt's members, unless the attempt ignores limits.
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

// allow returns how many members of a kind a node takes beside a load (by kind) under the limits. slots is the number without limits.
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

// Limited returns whether any remembered limit applies to the attempt.
func (a *Attempt) Limited() bool { return len(a.limited.remaining) > 0 }

// OnlyLimitsPreventPlan returns whether there is a plan, without evictions, without limits and excluded nodes, or after terminated pods
// have released their allocations. The gang then waits for these, and evicts no pod.
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
	b.Nodes, b.spares = a.allNodes, nil
	b.kinds = slices.Clone(a.kinds)
	b.limited = activeLimits{}
	b.ignoreLimits = true
	b.closeForMaintenance()
	_, refusal, err := b.Plan(ctx)
	return refusal == nil && err == nil
}

// limitedTrial is a trial of package mixed in which nodes take no more members than the limits allow.
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

// limitTrial returns the trial s with the attempt's limits; s itself if there are none.
func (a *Attempt) limitTrial(s mixed.Trial) mixed.Trial {
	if !a.Limited() {
		return s
	}
	return &limitedTrial{Trial: s, activeLimits: &a.limited, load: map[int][]offer.Slots{}}
}

// DetectsMisfit returns whether the Filters now reject the group's assignments on the node. The next attempt then avoids the node by
// itself. So the caller need not exclude the node, and the group can use it as soon as the Filters accept it.
func (p *Planner) DetectsMisfit(ctx context.Context, group *cache.Group, node string) bool {
	nodes, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return false
	}
	groupOnNode := *group
	groupOnNode.Group = group.On(node)
	a := p.NewAttempt(&groupOnNode, nodes, nil)
	i, ok := a.Net.Tree.NodeIndex(node)
	if _, closed := a.maintained.closed[i]; ok && closed {
		return true
	}
	if !ok || a.Nodes[i] == nil || len(groupOnNode.Pending) == 0 {
		return false
	}
	target := a.Nodes[i]
	if a.groupIntoKinds(ctx) != nil {
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
