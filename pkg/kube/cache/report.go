package cache

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Report is what is published about one gang.
type Report struct {
	gang.State
	// Served says that this process reports the gang, and not another scheduler.
	Served   bool
	PodGroup *sigs.PodGroup // nil for a gang that its pods describe
	Resource schema.GroupVersionResource
	ReadOnly bool // Muster may write only Condition into its status
	// Condition is the type of the only condition that Muster writes if ReadOnly is true; "" if none.
	Condition   string
	EventMember *v1.Pod  // the member for events without a PodGroup, preferably a waiting one; may be nil
	Owners      []string // namespace/name of the members' controllers
	Members     int      // in total
	// Members by phase, finished ones included.
	Running, Succeeded, Failed int
	// Domain is the path of the smallest named domain that contains all bound members; "" if that is the whole cluster, or none is bound.
	Domain string
	// OneByOne names a StatefulSet that seems to create its pods one after another, so members are missing.
	OneByOne string
	// Misnamed is a text to append to Refusal: which name or label is probably wrong; "" if nothing is known.
	Misnamed string
	// TooSmall names the Jobs of the members if all Jobs together still run fewer pods at a time than Min; JobPods is that number. JobsEnding
	// says that some of their pods have completed, so that a Job runs fewer pods than before.
	TooSmall   []string
	JobPods    int
	JobsEnding bool
	// Creating names the Jobs of the members that have yet to create pods; nil if that is unknown.
	Creating []string
	// RepairDomain is the path of the domain in which MustGather keeps the members of an incomplete gang; "" is the whole cluster.
	RepairDomain string
	// Stuck are members of an incomplete gang that terminate on a node that is not ready, sorted by name. Their controller recreates them
	// only when they are gone.
	Stuck []StuckMember
}

// StuckMember is a terminating pod, its node, which is not ready, and the kind of its controller.
type StuckMember struct{ Pod, Node, Owner string }

// Tally is a gang in numbers.
type Tally struct {
	gang.State          // without the Refusal
	Served     bool     // as in Report
	Group      gang.Ref // the key of its group
	Members    int      // members that have not finished
}

// Tally returns the numbers of a gang. It is cheap, because it does not read the members. It returns false for an unknown gang.
func (c *Cache) Tally(ref gang.Ref) (Tally, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return Tally{}, false
	}
	return Tally{State: c.book.Numbers(ref), Served: c.servesGang(r), Group: c.book.GroupOfGang(ref)[0], Members: len(r.Pods)}, true
}

// State returns the state of a gang in the book.
func (c *Cache) State(ref gang.Ref) gang.State {
	return read(c, func() gang.State { return c.book.State(ref) })
}

// FirstMade returns when the gang's oldest member was created, in whole seconds; zero if it has none.
func (c *Cache) FirstMade(ref gang.Ref) (first time.Time) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return first
	}
	for _, pod := range r.Pods {
		if made := pod.CreationTimestamp.Time; first.IsZero() || made.Before(first) {
			first = made
		}
	}
	return first
}

// eventMemberBefore returns whether x is preferred to y as EventMember: pending members first, then by name.
func eventMemberBefore(x, y *v1.Pod) bool {
	if a, b := x.Spec.NodeName == "", y.Spec.NodeName == ""; a != b {
		return a
	}
	return topology.CompareNames(convert.PodKey(x), convert.PodKey(y)) < 0
}

// Report returns what is to be published about a gang now. It returns false for an unknown gang.
func (c *Cache) Report(ref gang.Ref) (Report, bool) {
	tree := c.Topology().Tree
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return Report{}, false
	}
	out := Report{State: c.book.State(ref), Members: len(r.Pods), PodGroup: r.Object, Served: c.servesGang(r)}
	if o := source.ObjectOf(ref.Source); o != nil {
		out.Resource, out.ReadOnly = o.Resource, o.ReadOnly
		if o.Condition != nil && r.Object != nil {
			out.Condition = o.Condition(r.Object)
			out.Resource.Version = r.Object.GroupVersionKind().Version // of several versions the one that is read
		}
	}
	owners := map[string]bool{}
	var bound []int // node indexes
	for _, pod := range r.Pods {
		if !convert.Finished(pod) && (out.EventMember == nil || eventMemberBefore(pod, out.EventMember)) {
			out.EventMember = pod
		}
		if o := metav1.GetControllerOf(pod); o != nil {
			owners[convert.Key(pod.Namespace, o.Name)] = true
		}
		switch {
		case pod.Status.Phase == v1.PodSucceeded:
			out.Succeeded++
		case pod.Status.Phase == v1.PodFailed:
			out.Failed++
		case pod.DeletionTimestamp != nil:
		case pod.Status.Phase == v1.PodRunning:
			out.Running++
		}
		if i, ok := tree.NodeIndex(pod.Spec.NodeName); ok && !convert.Finished(pod) {
			bound = append(bound, i)
		}
	}
	for _, pod := range r.Finished {
		if o := metav1.GetControllerOf(pod); o != nil {
			owners[convert.Key(pod.Namespace, o.Name)] = true
		}
		if pod.Status.Phase == v1.PodSucceeded {
			out.Succeeded++
		} else {
			out.Failed++
		}
	}
	if why := c.missingObject(r, out.State); why != "" {
		out.Refusal = gang.Obstacle{By: gang.Missing, Words: why}
	}
	domain, _ := tree.Enclosing(slices.Values(bound))
	out.Domain = tree.Path(domain)
	out.OneByOne = c.oneByOne(out.State)
	out.Misnamed = c.misnamed(r)
	c.setJobs(r, &out)
	out.Owners = slices.SortedFunc(maps.Keys(owners), topology.CompareNames)
	if out.Repair.Missing > 0 && len(bound) > 0 {
		out.RepairDomain = repairDomain(tree, r.Gather(), slices.Min(bound))
	}
	if out.Bound+out.Done < out.Min {
		out.Stuck = c.stuckMembers(r)
	}
	return out, true
}

// repairDomain returns the path of the smallest domain that all members must share by a gang's MustGather constraints, if one of them is
// on node. The path is "" for the whole cluster. g may be nil.
func repairDomain(tree *topology.Tree, g *scheduling.GatherSpec, node int) string {
	must := 0
	if g != nil {
		for _, rule := range g.Rules {
			if layer, ok := tree.LayerIndex(rule.Layer); ok && rule.Strategy == scheduling.MustGather {
				must = max(must, layer)
			}
		}
	}
	return tree.Path(tree.Ancestor(tree.Node(node), must))
}

// recreatesLate are the kinds of controllers that recreate a pod only when its object is gone, since the names of their pods are fixed.
// The pods of a LeaderWorkerSet have a StatefulSet as their controller.
var recreatesLate = []string{"StatefulSet", "LeaderWorkerSet"}

// stuckMembers returns the Stuck members of a gang. Deleted nodes and nodes with the taint out-of-service are left out: Kubernetes deletes
// their pods. c.mu is locked.
func (c *Cache) stuckMembers(r *record) (all []StuckMember) {
	for _, pod := range r.Pods {
		node, owner := c.nodes[pod.Spec.NodeName], metav1.GetControllerOfNoCopy(pod)
		if owner != nil && slices.Contains(recreatesLate, owner.Kind) && convert.Terminating(pod) &&
			node != nil && !c.isReady(node.Name) && !isOutOfService(node) {
			all = append(all, StuckMember{Pod: pod.Name, Node: node.Name, Owner: owner.Kind})
		}
	}
	slices.SortFunc(all, func(x, y StuckMember) int { return topology.CompareNames(x.Pod, y.Pod) })
	return all
}

// isOutOfService returns whether a node has the taint that makes Kubernetes delete its terminating pods.
func isOutOfService(node *v1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == v1.TaintNodeOutOfService })
}

// missingObject returns a text about an object that a member names and that does not exist, if the gang waits for that; else "". c.mu is
// locked.
func (c *Cache) missingObject(r *record, s gang.State) string {
	if c.Lacks == nil || s.Refusal.Exists() || s.Planned > 0 || s.Reserved || s.Bound+s.Done >= s.Min {
		return ""
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames) {
		if p := r.Pods[key]; p.Spec.NodeName == "" && len(p.Spec.ResourceClaims) > 0 {
			if why := c.Lacks(p); why != "" {
				return fmt.Sprintf("member %s names %s, which does not exist", key, why)
			}
		}
	}
	return ""
}

// Object returns the object that declares a gang, or nil. It must not be changed.
func (c *Cache) Object(ref gang.Ref) *sigs.PodGroup {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.gangs[ref]; r != nil {
		return r.Object
	}
	return nil
}

// Gangs returns all known gangs, sorted by name.
func (c *Cache) Gangs() []gang.Ref { return read(c, func() []gang.Ref { return c.refs() }) }

// Bound returns whether a member has a node in the API server.
func (c *Cache) Bound(pod *v1.Pod) bool {
	p := c.Pod(convert.PodKey(pod))
	return p != nil && p.Spec.NodeName != ""
}

// Counted returns whether a member is bound, or assumed by the scheduler.
func (c *Cache) Counted(pod *v1.Pod) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	key := convert.PodKey(pod)
	p := c.pods[key]
	return p != nil && p.UID == pod.UID && (p.Spec.NodeName != "" || c.book.Assumed(key))
}

// Together returns all gangs of ref's group, with ref.
func (c *Cache) Together(ref gang.Ref) []gang.Ref {
	return read(c, func() []gang.Ref { return slices.Clone(c.book.GroupOfGang(ref)) })
}

// Above returns the levels of the group that contain an optional gang; nil for a gang that its group needs.
func (c *Cache) Above(ref gang.Ref) []choice.Level {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.gangs[ref]; r != nil && r.Declared != nil {
		return r.Declared.Levels
	}
	return nil
}

// SubGroups returns members of a gang grouped by sub-group (group.Record.SubGroupsOf); nil for an unknown gang.
func (c *Cache) SubGroups(ref gang.Ref, members []*v1.Pod) []group.SubGroup {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.gangs[ref]; r != nil {
		return r.SubGroupsOf(members)
	}
	return nil
}

// InPart returns those of the members that are in the given sub-group of a gang.
func (c *Cache) InPart(part gang.Ref, members []*v1.Pod) []*v1.Pod {
	for _, s := range c.SubGroups(part.Whole(), members) {
		if s.Part == part {
			return s.Pods
		}
	}
	return nil
}

// Running returns the bound members of a gang that have not finished and are not being evicted. least is how many members the gang needs:
// 0 without a declaration, all of them if it is always evicted whole.
func (c *Cache) Running(ref gang.Ref) (pods []*v1.Pod, least int) {
	return c.remainingMembers(ref, func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
}

// Placed is Running, with assumed members in addition to bound ones.
func (c *Cache) Placed(ref gang.Ref) (pods []*v1.Pod, least int) {
	return c.remainingMembers(ref, func(p *v1.Pod) bool { return p.Spec.NodeName != "" || c.book.Assumed(convert.PodKey(p)) })
}

func (c *Cache) remainingMembers(ref gang.Ref, placed func(*v1.Pod) bool) (pods []*v1.Pod, least int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return nil, 0
	}
	pods, least = r.members(func(p *v1.Pod) bool { return placed(p) && !c.isEvicted(p) }), c.book.Numbers(ref).Min
	if r.Declared != nil && r.Declared.EvictWhole {
		least = max(len(pods), least)
	}
	return pods, least
}

// members returns the members of a gang that have not finished and for which keep returns true, sorted by name. r may be nil.
func (r *record) members(keep func(*v1.Pod) bool) (pods []*v1.Pod) {
	if r == nil {
		return nil
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames) {
		if p := r.Pods[key]; !convert.Finished(p) && keep(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

func (c *Cache) isEvicted(p *v1.Pod) bool { return c.Leaves != nil && c.Leaves(p) }

// Terminating returns the bound members of a gang that are being evicted and whose object does not show this yet.
func (c *Cache) Terminating(ref gang.Ref) (pods []*v1.Pod) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.gangs[ref].members(func(p *v1.Pod) bool { return p.Spec.NodeName != "" && p.DeletionTimestamp == nil && c.isEvicted(p) })
}

// Started returns whether a gang was complete once and still has a member.
func (c *Cache) Started(ref gang.Ref) bool {
	return read(c, func() bool { return c.book.Numbers(ref).Started })
}

// BelowMinimum returns whether the bound and the succeeded members of a gang are fewer than minMember.
func (c *Cache) BelowMinimum(ref gang.Ref) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.book.Numbers(ref)
	return s.Bound+s.Done < s.Min
}

// Misses returns whether a gang needs a gang of its group that does not exist.
func (c *Cache) Misses(ref gang.Ref) bool {
	return read(c, func() bool { return c.book.MissesListedGang(ref) })
}

// Pending returns the members of a gang that have no node yet.
func (c *Cache) Pending(ref gang.Ref) []*v1.Pod {
	return read(c, func() []*v1.Pod { return c.gangs[ref].members(func(p *v1.Pod) bool { return p.Spec.NodeName == "" }) })
}

// TriedFor returns the first pending member by rank that was the representative of a gang's group in a search; nil if there is none.
func (c *Cache) TriedFor(ref gang.Ref) *v1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	whole, ok := c.book.GroupOf(c.book.GroupOfGang(ref)[0])
	if !ok {
		return nil
	}
	for _, m := range whole.Pending {
		if c.book.Tried(m.Pod) {
			return c.pods[m.Pod]
		}
	}
	return nil
}

// Pod returns a member, or nil.
func (c *Cache) Pod(key string) *v1.Pod { return read(c, func() *v1.Pod { return c.pods[key] }) }
