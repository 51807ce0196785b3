// Package fit counts with the Filter plugins of a profile how many members of a gang a node takes. A member is counted only if the Filters
// accept it on the node beside the members counted before. The package uses the scheduler framework, but no topology and no plans.
// Invariant: a count never exceeds what the Filters accept.
package fit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/offer"
)

type whatIfKey struct{}

// IsWhatIf returns whether this package calls a plugin, and not a scheduling cycle.
// The Coscheduling plugin then ignores its plan, because the plan depends on the result.
func IsWhatIf(ctx context.Context) bool { return ctx.Value(whatIfKey{}) != nil }

// maxSlots bounds the members counted on one node, in case a Filter never rejects.
const maxSlots = 4096

// runs is the value of FilterRuns.
var runs atomic.Int64

// FilterRuns returns how often this process has run all Filters for a pod on a node.
func FilterRuns() int64 { return runs.Load() }

// Counter counts how many members with equal requirements (one pod template) a node takes.
type Counter struct {
	profile      framework.Framework
	plugins      *config.Plugins
	member       fwk.PodInfo
	asked        *v1.Pod // the member as shown to the plugins
	need         fwk.Resource
	scalars      []scalar
	state        fwk.CycleState
	allowedNodes sets.Set[string] // nodes that PreFilter allows; nil for all
	restrictedBy []string         // the plugins that restrict nodes in PreFilter
	rejected     *fwk.Status      // set if PreFilter rejects the template on all nodes
	reads        reads
	fills        *fills         // remembered numbers; nil if not only resources decide
	rejectedBy   *pluginSet     // plugins that rejected the template on some node
	pages        Pages          // pages that concern the template
	afterFirst   fwk.CycleState // skips plugins covered by the pages
	afterRelease fwk.CycleState // skips plugins that do not know of released allocations
	closed       ClosedDomains  // domains that the members must not use, whatever the Filters return
}

// NewCounter returns a counter for members like template. It runs the profile's PreFilter plugins. pages are from Open.
// The error is a plugin's failure. A rejection by a PreFilter is no error: then every count is zero.
func NewCounter(ctx context.Context, profile framework.Framework, template *v1.Pod, pages ...opened) (*Counter, error) {
	info, err := framework.NewPodInfo(template)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", klog.KObj(template), err)
	}
	c := &Counter{
		profile: profile, plugins: profile.ListPlugins(), member: info, asked: Pages(pages).asked(template),
		need: info.CalculateResource().Resource, state: framework.NewCycleState(), rejectedBy: &pluginSet{},
	}
	c.scalars = scalarsOf(c.need)
	ctx = context.WithValue(ctx, whatIfKey{}, true)
	result, status, with := profile.RunPreFilterPlugins(ctx, c.state, c.asked)
	switch {
	case status.IsRejected():
		c.rejected = status
		c.rejectedBy.add(append(sets.List(with), status.Plugin())...)
	case !status.IsSuccess():
		return nil, status.AsError()
	case !result.AllNodes():
		c.allowedNodes, c.restrictedBy = result.NodeNames, sets.List(with)
	}
	c.pages = Pages(pages).about(template)
	c.afterFirst, c.afterRelease = c.pages.without(c.state), c.pages.withoutFreeing(c.state)
	c.reads = c.readsOf()
	if c.reads.resources {
		c.fills = &fills{}
	}
	return c, nil
}

// CloseDomains sets the domains that the members must not use. Call it before counting.
func (c *Counter) CloseDomains(closed ClosedDomains) { c.closed = closed }

// ClosedDomains returns the domains that the members must not use.
func (c *Counter) ClosedDomains() ClosedDomains { return c.closed }

// WithoutClosedDomains returns a counter without closed domains.
func (c *Counter) WithoutClosedDomains() *Counter {
	if c.closed == nil {
		return c
	}
	anywhere := *c
	anywhere.closed = nil
	return &anywhere
}

// closedStatus returns the rejection of a node in a closed domain; nil if the node is in none.
func (c *Counter) closedStatus(node fwk.NodeInfo) *fwk.Status {
	if c.closed == nil {
		return nil
	}
	if holder, isClosed := c.closed.Closes(node.Node()); isClosed {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are in a domain reserved for "+holder+" (anti-affinity)")
	}
	return nil
}

// NodeLocal returns a counter with only the Filters that read nothing except the node and the fields in nodeKey of the pod.
// Its counts are upper bounds for all Filters together, whatever ledgers and other nodes contain.
func (c *Counter) NodeLocal() *Counter {
	var unkeyed []string
	for _, p := range slices.Concat(c.plugins.PreFilter.Enabled, c.plugins.Filter.Enabled) {
		if !facts[p.Name].keyed {
			unkeyed = append(unkeyed, p.Name)
		}
	}
	alone := *c
	alone.state = skipping(c.state, unkeyed)
	alone.afterFirst, alone.afterRelease = alone.state, alone.state
	alone.allowedNodes = nil
	alone.restrictedBy = nil
	alone.pages = nil
	alone.rejectedBy = &pluginSet{}
	alone.fills = nil
	if alone.reads = alone.readsOf(); alone.reads.resources {
		alone.fills = &fills{}
	}
	return &alone
}

// filter runs the Filters for the member on a node. It records the plugin that rejects the member.
func (c *Counter) filter(ctx context.Context, state fwk.CycleState, node fwk.NodeInfo) *fwk.Status {
	runs.Add(1)
	s := c.profile.RunFilterPlugins(ctx, state, c.asked, node)
	if !s.IsSuccess() {
		c.rejectedBy.add(s.Plugin())
	}
	return s
}

// RejectingPlugins returns the plugins that rejected a member of this template on any node, sorted. Their events may free capacity.
func (c *Counter) RejectingPlugins() []string { return c.rejectedBy.list() }

// Key returns a text that is equal for templates that the Filters treat equally. It is "" if the Filters read more than the node and the
// fields in nodeKey of the pod.
func (c *Counter) Key() string {
	if c.reads.checksAntiAffinity {
		return ""
	}
	return c.reads.key
}

// Local returns whether the Filters read only the node with its pods, and the labels of the member and of its namespace.
func (c *Counter) Local() bool { return c.reads.key != "" && len(c.pages) == 0 }

// RejectedOnAllNodes returns whether a PreFilter rejects the template on all nodes.
func (c *Counter) RejectedOnAllNodes() bool { return c.rejected != nil }

// pluginSet is a set of plugin names.
type pluginSet struct{ names memo.Map[string, bool] }

func (r *pluginSet) add(names ...string) {
	for _, name := range names {
		if name != "" {
			r.names.Add(name, true)
		}
	}
}

func (r *pluginSet) list() []string { return slices.Sorted(maps.Keys(r.names.All())) }

// Pods are pods that count as present on a node although the snapshot lacks them.
type Pods []fwk.PodInfo

// Member returns the counted member.
func (c *Counter) Member() fwk.PodInfo { return c.member }

// Count returns how many members the node takes beside its own pods and others. If it takes none, it also returns the Filters' messages.
func (c *Counter) Count(ctx context.Context, node fwk.NodeInfo, others Pods) (offer.Slots, []string) {
	return c.CountWithout(ctx, node, others, nil)
}

// CountWithout is Count as if the pods in gone had terminated.
func (c *Counter) CountWithout(ctx context.Context, node fwk.NodeInfo, others Pods, gone []*v1.Pod) (offer.Slots, []string) {
	if c.rejected != nil {
		return 0, c.rejected.Reasons()
	}
	if s := c.closedStatus(node); s != nil {
		return 0, s.Reasons()
	}
	if c.allowedNodes != nil && !c.allowedNodes.Has(node.Node().Name) {
		c.rejectedBy.add(c.restrictedBy...)
		return 0, []string{"node(s) didn't match the pod's required nodes"}
	}
	w, status := c.whatIf(ctx, node, others, gone)
	if status.IsSuccess() {
		status = c.filter(ctx, w.state, w.node)
	}
	if !status.IsSuccess() {
		return 0, status.Reasons()
	}
	w.skipLedgerPlugins()
	slots, status := c.take(ctx, node, others, gone, w.countMembers(ctx))
	if slots == 0 {
		return 0, status.Reasons()
	}
	return slots, nil
}

// Fits returns the Filters' status for one member on the node, beside the node's own pods and others.
func (c *Counter) Fits(ctx context.Context, node fwk.NodeInfo, others Pods) *fwk.Status {
	return c.FitsWithout(ctx, node, others, nil)
}

// FitsWithout is Fits as if the pods in gone had terminated.
func (c *Counter) FitsWithout(ctx context.Context, node fwk.NodeInfo, others Pods, gone []*v1.Pod) *fwk.Status {
	if c.rejected != nil {
		return c.rejected
	}
	if s := c.closedStatus(node); s != nil {
		return s
	}
	if c.allowedNodes != nil && !c.allowedNodes.Has(node.Node().Name) {
		c.rejectedBy.add(c.restrictedBy...)
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't match the pod's required nodes")
	}
	w, status := c.whatIf(ctx, node, others, gone)
	if !status.IsSuccess() {
		return status
	}
	if status = c.filter(ctx, w.state, w.node); !status.IsSuccess() {
		return status
	}
	_, status = c.take(ctx, node, others, gone, 1)
	return status
}

// whatIf is a node with added or removed pods, and the matching state of plugins.
type whatIf struct {
	*Counter
	node   fwk.NodeInfo
	state  fwk.CycleState
	copied bool // node and state are copies, which may be changed
}

// whatIf returns a node without the pods in gone and with the pods in others, and the matching state of plugins.
func (c *Counter) whatIf(ctx context.Context, node fwk.NodeInfo, others Pods, gone []*v1.Pod) (*whatIf, *fwk.Status) {
	w := &whatIf{Counter: c, node: node, state: c.state}
	if len(gone) > 0 || c.pages.anySettled() {
		w.state = c.afterRelease
	}
	for _, p := range gone {
		w.copyOnce()
		if err := w.node.RemovePod(klog.FromContext(ctx), p); err != nil {
			return w, fwk.AsStatus(err)
		}
		info, err := framework.NewPodInfo(p)
		if err != nil {
			return w, fwk.AsStatus(err)
		}
		if s := c.profile.RunPreFilterExtensionRemovePod(ctx, w.state, c.asked, info, w.node); !s.IsSuccess() {
			return w, s
		}
	}
	for _, p := range others {
		if s := w.add(ctx, p); !s.IsSuccess() {
			return w, s
		}
	}
	return w, nil
}

func (w *whatIf) copyOnce() {
	if !w.copied {
		w.node, w.state, w.copied = w.node.Snapshot(), w.state.Clone(), true
	}
}

// skipLedgerPlugins makes the state skip the plugins that ledgers replace: for members after the first one.
func (w *whatIf) skipLedgerPlugins() {
	if w.copied {
		w.state = w.pages.without(w.state)
	} else {
		w.state = w.afterFirst
	}
}

func (w *whatIf) add(ctx context.Context, p fwk.PodInfo) *fwk.Status {
	w.copyOnce()
	w.node.AddPodInfo(p)
	s := w.profile.RunPreFilterExtensionAddPod(ctx, w.state, w.asked, p, w.node)
	if !s.IsSuccess() {
		w.rejectedBy.add(s.Plugin())
	}
	return s
}

// countMembers returns how many members the node takes by the Filters, at least one: the caller has checked the first.
func (w *whatIf) countMembers(ctx context.Context) offer.Slots {
	resourceSlots, used, exact := w.slotsPerResource(w.node)
	if w.fills == nil || !exact {
		return w.countFrom(ctx, resourceSlots.least(used))
	}
	n, ok := w.fills.get(resourceSlots, used)
	if !ok {
		n = w.countFrom(ctx, resourceSlots.least(used))
		w.fills.put(resourceSlots, used, n)
	}
	return n
}

// countFrom is countMembers, starting with guess members to save work. If the Filters accept the last of these, they accept the ones
// before: more members on a node never make a Filter accept more. If they reject it, the count starts with one member.
func (w *whatIf) countFrom(ctx context.Context, guess offer.Slots) offer.Slots {
	start := w
	node := w.node
	state := w.state
	if guess > 1 {
		w = &whatIf{Counter: start.Counter, node: node, state: state}
		if !w.addMembers(ctx, guess-1) || !w.memberFits(ctx) {
			w, guess = &whatIf{Counter: start.Counter, node: node, state: state}, 1
		}
	} else {
		guess = 1
	}
	n := guess
	for n < maxSlots && w.addMembers(ctx, 1) && w.memberFits(ctx) {
		n++
	}
	return n
}

func (w *whatIf) addMembers(ctx context.Context, n offer.Slots) bool {
	for range n {
		if !w.add(ctx, w.member).IsSuccess() {
			return false
		}
	}
	return true
}

func (w *whatIf) memberFits(ctx context.Context) bool {
	return w.filter(ctx, w.state, w.node).IsSuccess()
}

// Question is the input of Beside: does Pod, which is in a scheduling cycle, fit Node?
type Question struct {
	Pod    *v1.Pod
	Node   fwk.NodeInfo
	Others []*v1.Pod // further pods that count on the node
}

// Beside returns the Filters' status for a question. It uses a copy of the state of the pod's cycle.
func Beside(ctx context.Context, profile framework.Framework, state fwk.CycleState, q Question) *fwk.Status {
	info, err := framework.NewPodInfo(q.Pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	c := &Counter{profile: profile, member: info, asked: q.Pod, state: state, rejectedBy: &pluginSet{}}
	return c.Fits(context.WithValue(ctx, whatIfKey{}, true), q.Node, q.absent())
}

// absent returns the pods of Others that the node does not contain yet. The scheduler may have added nominated pods to the node.
func (q Question) absent() (others Pods) {
	present := map[types.UID]bool{}
	for _, info := range q.Node.GetPods() {
		present[info.GetPod().UID] = true
	}
	for _, o := range q.Others {
		if present[o.UID] {
			continue
		}
		if info, err := framework.NewPodInfo(o); err == nil {
			others = append(others, info)
		}
	}
	return others
}
