// Package fit asks the Filter plugins of a profile how many members of a gang a node takes.
// A slot counts only if the Filters accept it beside the members before it.
// The package knows the scheduler framework, but no topology, plans or callers.
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

type asking struct{}

// IsWhatIf returns whether a plugin is called by this package instead of a scheduling cycle.
// The Coscheduling plugin then does not answer with a plan, because the plan depends on the answer.
func IsWhatIf(ctx context.Context) bool { return ctx.Value(asking{}) != nil }

// most bounds the slots of one node, in case a Filter never rejects.
const most = 4096

// runs is the value of Runs.
var runs atomic.Int64

// FilterRuns returns how often this process has run all Filters for a node and a template.
func FilterRuns() int64 { return runs.Load() }

// Counter counts for one pod template: members with equal requirements.
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
	fills        *fills         // nil if more than resources decides
	rejectedBy   *pluginSet     // plugins that rejected the template on some node
	pages        Pages          // pages that concern the template
	afterFirst   fwk.CycleState // skips plugins covered by the pages
	afterRelease fwk.CycleState // skips plugins that do not know of released allocations
	off          ClosedDomains  // domains closed to the members, whatever the Filters say
}

// NewCounter runs the profile's PreFilter plugins once for a template. pages are the ledgers' pages for such members.
// The error is a plugin's failure. A rejection is no error: it makes every count zero.
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
	ctx = context.WithValue(ctx, asking{}, true)
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

// CloseDomains closes some domains to the members. Call it before counting.
func (c *Counter) CloseDomains(off ClosedDomains) { c.off = off }

// ClosedDomains returns the closed domains.
func (c *Counter) ClosedDomains() ClosedDomains { return c.off }

// WithoutClosedDomains returns a counter without closed domains.
func (c *Counter) WithoutClosedDomains() *Counter {
	if c.off == nil {
		return c
	}
	anywhere := *c
	anywhere.off = nil
	return &anywhere
}

// closedStatus returns the rejection of a node in a closed domain; nil if the node is open.
func (c *Counter) closedStatus(node fwk.NodeInfo) *fwk.Status {
	if c.off == nil {
		return nil
	}
	if holder, closed := c.off.Closes(node.Node()); closed {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are in a domain reserved for "+holder+" (anti-affinity)")
	}
	return nil
}

// NodeLocal returns a counter that asks only Filters known to read nothing but the node and keyed fields of the pod.
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

// filter runs the Filters for a node.
func (c *Counter) filter(ctx context.Context, state fwk.CycleState, node fwk.NodeInfo) *fwk.Status {
	runs.Add(1)
	s := c.profile.RunFilterPlugins(ctx, state, c.asked, node)
	if !s.IsSuccess() {
		c.rejectedBy.add(s.Plugin())
	}
	return s
}

// RejectingPlugins returns the plugins that rejected a member of this template on some node, sorted. Their events may free capacity.
func (c *Counter) RejectingPlugins() []string { return c.rejectedBy.list() }

// Key is equal for templates that the Filters treat equally; it is "" if the Filters read more than the node.
func (c *Counter) Key() string {
	if c.reads.apart {
		return ""
	}
	return c.reads.key
}

// Local returns whether the Filters read only the node with its pods, and the labels of the member and its namespace.
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

// Pods are pods that count as present beside the snapshot.
type Pods []fwk.PodInfo

// Member returns the counted member.
func (c *Counter) Member() fwk.PodInfo { return c.member }

// Count returns how many members the node takes beside the given pods, and the Filters' reasons if there are none.
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
	w, status := c.world(ctx, node, others, gone)
	if status.IsSuccess() {
		status = c.filter(ctx, w.state, w.node)
	}
	if !status.IsSuccess() {
		return 0, status.Reasons()
	}
	w.forMore()
	slots, status := c.take(ctx, node, others, gone, w.fill(ctx))
	if slots == 0 {
		return 0, status.Reasons()
	}
	return slots, nil
}

// Fits returns the Filters' status for the member itself on the node, beside the given pods.
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
	w, status := c.world(ctx, node, others, gone)
	if !status.IsSuccess() {
		return status
	}
	if status = c.filter(ctx, w.state, w.node); !status.IsSuccess() {
		return status
	}
	_, status = c.take(ctx, node, others, gone, 1)
	return status
}

// world is one changed node with matching plugin state. own says that both are copies of the snapshot's.
type world struct {
	*Counter
	node   fwk.NodeInfo
	state  fwk.CycleState
	copied bool
}

func (c *Counter) world(ctx context.Context, node fwk.NodeInfo, others Pods, gone []*v1.Pod) (*world, *fwk.Status) {
	w := &world{Counter: c, node: node, state: c.state}
	if len(gone) > 0 || c.pages.anySettled() {
		w.state = c.afterRelease
	}
	for _, p := range gone {
		w.detach()
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

func (w *world) detach() {
	if !w.copied {
		w.node, w.state, w.copied = w.node.Snapshot(), w.state.Clone(), true
	}
}

// forMore prepares the world for members after the first.
func (w *world) forMore() {
	if w.copied {
		w.state = w.pages.without(w.state)
	} else {
		w.state = w.afterFirst
	}
}

func (w *world) add(ctx context.Context, p fwk.PodInfo) *fwk.Status {
	w.detach()
	w.node.AddPodInfo(p)
	s := w.profile.RunPreFilterExtensionAddPod(ctx, w.state, w.asked, p, w.node)
	if !s.IsSuccess() {
		w.rejectedBy.add(s.Plugin())
	}
	return s
}

// fill counts members on a node that takes at least one.
func (w *world) fill(ctx context.Context) offer.Slots {
	room, used, exact := w.roomOn(w.node)
	if w.fills == nil || !exact {
		return w.fillFrom(ctx, room.least(used))
	}
	n, ok := w.fills.get(room, used)
	if !ok {
		n = w.fillFrom(ctx, room.least(used))
		w.fills.put(room, used, n)
	}
	return n
}

// fillFrom starts with a guess, which only saves work. Adding members never makes a Filter more lenient:
// if the guessed member passes, all before it do. Otherwise counting starts from one.
func (w *world) fillFrom(ctx context.Context, guess offer.Slots) offer.Slots {
	start := w
	node := w.node
	state := w.state
	if guess > 1 {
		w = &world{Counter: start.Counter, node: node, state: state}
		if !w.put(ctx, guess-1) || !w.passes(ctx) {
			w, guess = &world{Counter: start.Counter, node: node, state: state}, 1
		}
	} else {
		guess = 1
	}
	n := guess
	for n < most && w.put(ctx, 1) && w.passes(ctx) {
		n++
	}
	return n
}

func (w *world) put(ctx context.Context, n offer.Slots) bool {
	for range n {
		if !w.add(ctx, w.member).IsSuccess() {
			return false
		}
	}
	return true
}

func (w *world) passes(ctx context.Context) bool {
	return w.filter(ctx, w.state, w.node).IsSuccess()
}

// Question asks whether a pod in a scheduling cycle fits a node.
type Question struct {
	Pod    *v1.Pod
	Node   fwk.NodeInfo
	Others []*v1.Pod // further pods that count there
}

// Beside answers with the state of the pod's own cycle, without changing it.
func Beside(ctx context.Context, profile framework.Framework, state fwk.CycleState, q Question) *fwk.Status {
	info, err := framework.NewPodInfo(q.Pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	c := &Counter{profile: profile, member: info, asked: q.Pod, state: state, rejectedBy: &pluginSet{}}
	return c.Fits(context.WithValue(ctx, asking{}, true), q.Node, q.absent())
}

// absent returns the pods of Others that are not on the node yet. The scheduler may have added nominated pods.
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
