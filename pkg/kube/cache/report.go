package cache

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Report is what is published about one gang.
type Report struct {
	gang.State
	// Served says whether this process reports the gang, or another scheduler does.
	Served   bool
	PodGroup *sigs.PodGroup // nil for a gang that its pods describe
	Resource schema.GroupVersionResource
	ReadOnly bool // only Condition of its status is ours to write
	// Condition is the type of the one condition that we write if the status is not ours; "" if none.
	Condition   string
	EventMember *v1.Pod  // the member for events without a PodGroup, preferably a waiting one; may be nil
	Owners      []string // namespace/name of the members' controllers
	Members     int      // in total
	// Members by phase, finished ones included.
	Running, Succeeded, Failed int
	// Domain is the path of the deepest named domain that holds all bound members; "" if that is the whole cluster, or none is bound.
	Domain string
	// OneByOne names a StatefulSet that seems to create its pods one after another, so members are missing.
	OneByOne string
	// Misnamed ends the words of Refusal with what seems to be meant by a name or a label that is wrong; "" if nothing is known.
	Misnamed string
	// TooSmall names the Jobs of the members, if all of them together make fewer pods at a time than Min; JobPods is how many.
	TooSmall []string
	JobPods  int
}

// Tally is a gang in numbers.
type Tally struct {
	gang.State          // without the Refusal
	Served     bool     // as in Report
	Group      gang.Ref // the key of its group
	Members    int      // that have not finished
}

// Tally counts a gang without reading its members.
func (c *Cache) Tally(ref gang.Ref) (Tally, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return Tally{}, false
	}
	return Tally{State: c.book.Numbers(ref), Served: c.ours(r), Group: c.book.GroupOfGang(ref)[0], Members: len(r.Pods)}, true
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

// speaksBefore orders the candidates for EventMember: waiting members first, then by name.
func speaksBefore(x, y *v1.Pod) bool {
	if a, b := x.Spec.NodeName == "", y.Spec.NodeName == ""; a != b {
		return a
	}
	return topology.CompareNames(convert.PodKey(x), convert.PodKey(y)) < 0
}

// Report returns what is known about a gang now.
func (c *Cache) Report(ref gang.Ref) (Report, bool) {
	tree := c.Topology().Tree
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return Report{}, false
	}
	out := Report{State: c.book.State(ref), Members: len(r.Pods), PodGroup: r.Object, Served: c.ours(r)}
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
		if !convert.Finished(pod) && (out.EventMember == nil || speaksBefore(pod, out.EventMember)) {
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
	out.TooSmall, out.JobPods = c.jobsBelowMin(r, out.State)
	out.Owners = slices.SortedFunc(maps.Keys(owners), topology.CompareNames)
	return out, true
}

// missingObject names the missing object that keeps the first member of a gang from being tried; "" if none. c.mu
// is held.
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

// Gangs lists the known gangs.
func (c *Cache) Gangs() []gang.Ref { return read(c, func() []gang.Ref { return c.refs() }) }

// Bound says whether the API server has a node for the member.
func (c *Cache) Bound(pod *v1.Pod) bool {
	p := c.Pod(convert.PodKey(pod))
	return p != nil && p.Spec.NodeName != ""
}

// Counted says whether a member is bound, or assumed by the scheduler.
func (c *Cache) Counted(pod *v1.Pod) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	key := convert.PodKey(pod)
	p := c.pods[key]
	return p != nil && p.UID == pod.UID && (p.Spec.NodeName != "" || c.book.Assumed(key))
}

// Together lists the gangs of one group with ref, which is included.
func (c *Cache) Together(ref gang.Ref) []gang.Ref {
	return read(c, func() []gang.Ref { return slices.Clone(c.book.GroupOfGang(ref)) })
}

// Above returns the levels above an optional gang; nil if its group needs it.
func (c *Cache) Above(ref gang.Ref) []choice.Level {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.gangs[ref]; r != nil && r.Declared != nil {
		return r.Declared.Levels
	}
	return nil
}

// SubGroup is some members of a gang in one of its sub-groups.
type SubGroup struct {
	Part   gang.Ref // of the gang
	Policy int      // -1: no sub-group
	Size   int      // members of a complete sub-group
	Least  int      // sub-groups of its policy that the gang needs
	Pods   []*v1.Pod
}

// SubGroups sorts members of a gang into its sub-groups, by policy and member. Members without a sub-group come
// last. It returns nil for a gang without policies.
func (c *Cache) SubGroups(ref gang.Ref, members []*v1.Pod) (out []SubGroup) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil || r.Declared == nil || len(r.Declared.SubGroups) == 0 {
		return nil
	}
	for _, p := range members {
		name, policy := r.Declared.SubGroupOf(p)
		part := ref.Part(name)
		index := slices.IndexFunc(out, func(s SubGroup) bool { return s.Part == part })
		if index < 0 {
			index = len(out)
			out = append(out, SubGroup{Part: part, Policy: policy})
			if policy >= 0 {
				out[index].Size, out[index].Least = r.Declared.SubGroups[policy].Size, r.Declared.SubGroups[policy].MinSubGroups
			}
		}
		out[index].Pods = append(out[index].Pods, p)
	}
	slices.SortStableFunc(out, func(a, b SubGroup) int { return cmp.Compare(uint(a.Policy), uint(b.Policy)) })
	return out
}

// InPart returns the members that are in a part of a gang.
func (c *Cache) InPart(part gang.Ref, members []*v1.Pod) []*v1.Pod {
	for _, s := range c.SubGroups(part.Whole(), members) {
		if s.Part == part {
			return s.Pods
		}
	}
	return nil
}

// Running returns the bound members of a gang that are neither done nor being evicted. least is how many of them it
// needs: 0 without a declaration, all if they are evicted together.
func (c *Cache) Running(ref gang.Ref) (pods []*v1.Pod, least int) {
	return c.staying(ref, func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
}

// Placed is Running with the members that the scheduler counts on a node.
func (c *Cache) Placed(ref gang.Ref) (pods []*v1.Pod, least int) {
	return c.staying(ref, func(p *v1.Pod) bool { return p.Spec.NodeName != "" || c.book.Assumed(convert.PodKey(p)) })
}

func (c *Cache) staying(ref gang.Ref, placed func(*v1.Pod) bool) (pods []*v1.Pod, least int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return nil, 0
	}
	pods, least = r.members(func(p *v1.Pod) bool { return placed(p) && !c.leaves(p) }), c.book.Numbers(ref).Min
	if r.Declared != nil && r.Declared.EvictWhole {
		least = max(len(pods), least)
	}
	return pods, least
}

// members returns the unfinished members of a gang for which keep holds, by name.
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

func (c *Cache) leaves(p *v1.Pod) bool { return c.Leaves != nil && c.Leaves(p) }

// Terminating returns the running members of a gang whose eviction is not visible yet.
func (c *Cache) Terminating(ref gang.Ref) (pods []*v1.Pod) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.gangs[ref].members(func(p *v1.Pod) bool { return p.Spec.NodeName != "" && p.DeletionTimestamp == nil && c.leaves(p) })
}

// Started says whether a gang was complete once, and some member is left.
func (c *Cache) Started(ref gang.Ref) bool {
	return read(c, func() bool { return c.book.Numbers(ref).Started })
}

// BelowMinimum says whether fewer members of a gang run or have finished than it needs.
func (c *Cache) BelowMinimum(ref gang.Ref) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.book.Numbers(ref)
	return s.Bound+s.Done < s.Min
}

// Misses says whether a gang lists a gang that does not exist and that it needs.
func (c *Cache) Misses(ref gang.Ref) bool {
	return read(c, func() bool { return c.book.MissesListedGang(ref) })
}

// Pending returns the members of a gang that wait for a node.
func (c *Cache) Pending(ref gang.Ref) []*v1.Pod {
	return read(c, func() []*v1.Pod { return c.gangs[ref].members(func(p *v1.Pod) bool { return p.Spec.NodeName == "" }) })
}

// TriedFor returns the pending member that was tried for a gang's group, the first by rank; nil if none was.
func (c *Cache) TriedFor(ref gang.Ref) *v1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	group, ok := c.book.GroupOf(c.book.GroupOfGang(ref)[0])
	if !ok {
		return nil
	}
	for _, m := range group.Pending {
		if c.book.Tried(m.Pod) {
			return c.pods[m.Pod]
		}
	}
	return nil
}

// Pod returns a member, or nil.
func (c *Cache) Pod(key string) *v1.Pod { return read(c, func() *v1.Pod { return c.pods[key] }) }
