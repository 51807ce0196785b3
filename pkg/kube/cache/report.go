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

// Report is what people may be told about one gang.
type Report struct {
	gang.State
	// Served says whether this process may tell anybody about the gang, or must leave that to
	// another scheduler.
	Served   bool
	PodGroup *sigs.PodGroup // nil for a gang that its pods describe
	Resource schema.GroupVersionResource
	ReadOnly bool // its status is not ours to write, but for Condition
	// Condition is the type of the one condition that is ours to write where others are not; "" if
	// there is none.
	Condition string
	Speaker   *v1.Pod  // a member to tell instead where there is no PodGroup, one that waits if any does; may be nil
	Owners    []string // namespace/name of the members' controllers
	Members   int      // all of them
	// Members by phase; finished ones count.
	Running, Succeeded, Failed int
	// Domain is the path of the deepest named domain that holds all bound members; ""
	// if that is the whole cluster, or none is bound.
	Domain string
	// OneByOne names a StatefulSet that may be why members are missing: it seems to make its
	// pods one after another.
	OneByOne string
}

// Tally is a gang in numbers.
type Tally struct {
	gang.State          // without the Refusal
	Served     bool     // as Report's
	Group      gang.Ref // the key of its group
	Members    int      // all of them that have not finished
}

// Tally counts a gang, without looking at its members one by one.
func (c *Cache) Tally(ref gang.Ref) (Tally, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return Tally{}, false
	}
	return Tally{State: c.book.Numbers(ref), Served: c.ours(r), Group: c.book.Together(ref)[0], Members: len(r.Pods)}, true
}

// State returns the state of a gang, as the book has it.
func (c *Cache) State(ref gang.Ref) gang.State {
	return read(c, func() gang.State { return c.book.State(ref) })
}

// FirstMade is when the first of a gang's members was made, in whole seconds; zero if it has none.
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

// speaksBefore says which of two members is told about their gang: one that waits, the
// first by name.
func speaksBefore(x, y *v1.Pod) bool {
	if a, b := x.Spec.NodeName == "", y.Spec.NodeName == ""; a != b {
		return a
	}
	return topology.CompareNames(convert.PodKey(x), convert.PodKey(y)) < 0
}

// Report returns what is known of a gang now.
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
			out.Resource.Version = r.Object.GroupVersionKind().Version // of several that which is read
		}
	}
	owners := map[string]bool{}
	var bound []int // node indexes
	for _, pod := range r.Pods {
		if !convert.Finished(pod) && (out.Speaker == nil || speaksBefore(pod, out.Speaker)) {
			out.Speaker = pod
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
	if why := c.lacking(r, out.State); why != "" {
		out.Refusal = gang.Refusal{By: gang.Missing, Words: why}
	}
	domain, _ := tree.Enclosing(slices.Values(bound))
	out.Domain = tree.Path(domain)
	out.OneByOne = c.oneByOne(out.State)
	out.Owners = slices.SortedFunc(maps.Keys(owners), topology.CompareNames)
	return out, true
}

// lacking says what the first member of a gang lacks for which a gang is not tried that waits for nothing else;
// "" if nothing. c.mu is held.
func (c *Cache) lacking(r *record, s gang.State) string {
	if c.Lacks == nil || s.Refusal.Is() || s.Planned > 0 || s.Reserved || s.Bound+s.Done >= s.Min {
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

// Object is what declares a gang; nil if nothing does. It must not be changed.
func (c *Cache) Object(ref gang.Ref) *sigs.PodGroup {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.gangs[ref]; r != nil {
		return r.Object
	}
	return nil
}

// Gangs lists the gangs that are known.
func (c *Cache) Gangs() []gang.Ref { return read(c, func() []gang.Ref { return c.refs() }) }

// Bound says whether a member has a node for the API server, and not only a place that
// is being taken.
func (c *Cache) Bound(pod *v1.Pod) bool {
	p := c.Pod(convert.PodKey(pod))
	return p != nil && p.Spec.NodeName != ""
}

// Counted says whether a member has a node, or the scheduler counts it on one.
func (c *Cache) Counted(pod *v1.Pod) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	key := convert.PodKey(pod)
	p := c.pods[key]
	return p != nil && p.UID == pod.UID && (p.Spec.NodeName != "" || c.book.Assumed(key))
}

// Together lists the gangs of one GangGroup with the named one, itself among them.
func (c *Cache) Together(ref gang.Ref) []gang.Ref {
	return read(c, func() []gang.Ref { return slices.Clone(c.book.Together(ref)) })
}

// Above returns the levels above a gang where its group may run without some of its gangs; nil if
// it cannot do without this one.
func (c *Cache) Above(ref gang.Ref) []choice.Level {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.gangs[ref]; r != nil && r.Declared != nil {
		return r.Declared.Above
	}
	return nil
}

// SubGroup is some members of a gang by the policies of its sub-groups.
type SubGroup struct {
	Part   gang.Ref // of the gang
	Policy int      // -1 is none: they are in no sub-group
	Size   int      // how many members it has when it is whole
	Least  int      // so many sub-groups of its policy the gang needs
	Pods   []*v1.Pod
}

// SubGroups sorts members of a gang by its sub-groups, in the order of the policies and the members; nil if
// it has no policies. Last come those who are in none.
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
		at := slices.IndexFunc(out, func(s SubGroup) bool { return s.Part == part })
		if at < 0 {
			at = len(out)
			out = append(out, SubGroup{Part: part, Policy: policy})
			if policy >= 0 {
				out[at].Size, out[at].Least = r.Declared.SubGroups[policy].Size, r.Declared.SubGroups[policy].Least
			}
		}
		out[at].Pods = append(out[at].Pods, p)
	}
	slices.SortStableFunc(out, func(a, b SubGroup) int { return cmp.Compare(uint(a.Policy), uint(b.Policy)) })
	return out
}

// InPart are those of some members that are in a part of a gang.
func (c *Cache) InPart(part gang.Ref, members []*v1.Pod) []*v1.Pod {
	for _, s := range c.SubGroups(part.Whole(), members) {
		if s.Part == part {
			return s.Pods
		}
	}
	return nil
}

// Running returns the members of a gang that have a node and are neither done nor asked to
// leave, and how many of them it needs: none if nothing declares it, all if they leave together.
func (c *Cache) Running(ref gang.Ref) (pods []*v1.Pod, least int) {
	return c.stay(ref, func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
}

// Placed returns Running's and those that are about to run: the scheduler counts them on a
// node.
func (c *Cache) Placed(ref gang.Ref) (pods []*v1.Pod, least int) {
	return c.stay(ref, func(p *v1.Pod) bool { return p.Spec.NodeName != "" || c.book.Assumed(convert.PodKey(p)) })
}

func (c *Cache) stay(ref gang.Ref, there func(*v1.Pod) bool) (pods []*v1.Pod, least int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return nil, 0
	}
	pods, least = r.members(func(p *v1.Pod) bool { return there(p) && !c.leaves(p) }), c.book.Numbers(ref).Min
	if r.Declared != nil && r.Declared.Whole {
		least = max(len(pods), least)
	}
	return pods, least
}

// members are those members of a gang that have not finished and for which keep holds, by name.
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

// Asked returns the members of a gang that run, and were asked to leave, which was not seen
// yet.
func (c *Cache) Asked(ref gang.Ref) (pods []*v1.Pod) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.gangs[ref].members(func(p *v1.Pod) bool { return p.Spec.NodeName != "" && p.DeletionTimestamp == nil && c.leaves(p) })
}

// Started says whether a gang was whole once, and some member is left.
func (c *Cache) Started(ref gang.Ref) bool {
	return read(c, func() bool { return c.book.Numbers(ref).Started })
}

// Short says whether fewer members of a gang run, or have finished, than it needs.
func (c *Cache) Short(ref gang.Ref) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.book.Numbers(ref)
	return s.Bound+s.Done < s.Min
}

// Misses says whether a gang lists one that does not exist, without which it does not start.
func (c *Cache) Misses(ref gang.Ref) bool { return read(c, func() bool { return c.book.Misses(ref) }) }

// Pending returns the members of a gang that wait for a node.
func (c *Cache) Pending(ref gang.Ref) []*v1.Pod {
	return read(c, func() []*v1.Pod { return c.gangs[ref].members(func(p *v1.Pod) bool { return p.Spec.NodeName == "" }) })
}

// TriedFor returns the member that was tried for a gang's group, the first by rank; nil if none was
// that waits.
func (c *Cache) TriedFor(ref gang.Ref) *v1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	group, ok := c.book.GroupOf(c.book.Together(ref)[0])
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

// Pod returns a member.
func (c *Cache) Pod(key string) *v1.Pod { return read(c, func() *v1.Pod { return c.pods[key] }) }
