// Package fit asks a profile's own Filter plugins how many members of a gang a node
// takes. A slot is counted only if the Filters pass with the members before it in
// place, so no rule of the profile is known here and none can be forgotten.
//
// It knows the scheduler framework and counts; it does not know topology, plans or
// who asks.
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

// Asking says that a plugin is called on behalf of this package and not for a
// scheduling cycle. The Coscheduling plugin steps aside then: it would answer the
// question with a plan, which is what the question is asked for.
func Asking(ctx context.Context) bool { return ctx.Value(asking{}) != nil }

// most bounds the slots of one node, against a Filter that never refuses.
const most = 4096

// runs counts for the metric.
var runs atomic.Int64

// Runs is how often this process has run the Filters for a node and a template. All
// Filters of a profile together are one run.
func Runs() int64 { return runs.Load() }

// Counter counts for one pod template: the members that need the same.
type Counter struct {
	profile framework.Framework
	plugins *config.Plugins
	member  fwk.PodInfo
	asked   *v1.Pod // the member as the plugins can be asked about it
	need    fwk.Resource
	scalars []scalar
	state   fwk.CycleState
	only    sets.Set[string] // nodes that PreFilter leaves; nil means all
	onlyBy  []string         // whose PreFilters leave no others
	refused *fwk.Status      // PreFilter refuses the template everywhere
	reads   reads
	fills   *fills         // nil if it is not only resources that decide
	by      *refusers      // who has refused it somewhere
	pages   Pages          // that have something to say of the template
	rest    fwk.CycleState // in which plugins are not asked that the pages stand for
	left    fwk.CycleState // in which those are not asked that do not know what is given back
	off     Off            // where no member may be, whatever the Filters say
}

// NewCounter runs the profile's PreFilter plugins once for a template. The error is
// a plugin's failure, not its refusal: that makes every count zero. Pages are what the
// ledgers say of members like this one.
func NewCounter(ctx context.Context, profile framework.Framework, template *v1.Pod, pages ...opened) (*Counter, error) {
	info, err := framework.NewPodInfo(template)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", klog.KObj(template), err)
	}
	c := &Counter{
		profile: profile, plugins: profile.ListPlugins(), member: info, asked: Pages(pages).asked(template),
		need: info.CalculateResource().Resource, state: framework.NewCycleState(), by: &refusers{},
	}
	c.scalars = scalarsOf(c.need)
	ctx = context.WithValue(ctx, asking{}, true)
	result, status, with := profile.RunPreFilterPlugins(ctx, c.state, c.asked)
	switch {
	case status.IsRejected():
		c.refused = status
		c.by.add(append(sets.List(with), status.Plugin())...)
	case !status.IsSuccess():
		return nil, status.AsError()
	case !result.AllNodes():
		c.only, c.onlyBy = result.NodeNames, sets.List(with)
	}
	c.pages = Pages(pages).about(template)
	c.rest, c.left = c.pages.without(c.state), c.pages.afterLeaving(c.state)
	c.reads = c.readsOf()
	if c.reads.resources {
		c.fills = &fills{}
	}
	return c, nil
}

// KeepOff has the counter count nobody in some domains. It is to be said before anything is counted.
func (c *Counter) KeepOff(off Off) { c.off = off }

// Off are the domains in which nobody is counted.
func (c *Counter) Off() Off { return c.off }

// Anywhere is a counter for which no domain is closed.
func (c *Counter) Anywhere() *Counter {
	if c.off == nil {
		return c
	}
	anywhere := *c
	anywhere.off = nil
	return &anywhere
}

// closed says that a node is in a domain in which nobody is counted; nil if it is not.
func (c *Counter) closed(node fwk.NodeInfo) *fwk.Status {
	if c.off == nil {
		return nil
	}
	if whom, closed := c.off.Closes(node.Node()); closed {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are in a domain reserved for "+whom+" (anti-affinity)")
	}
	return nil
}

// Alone is a counter that asks no others than the Filters of which it is known what they read of a pod,
// and that beside it they look at nothing but the node. What it counts nobody exceeds, whatever ledgers
// have and pods on other nodes bring: all Filters together let no more pass.
func (c *Counter) Alone() *Counter {
	var others []string
	for _, p := range slices.Concat(c.plugins.PreFilter.Enabled, c.plugins.Filter.Enabled) {
		if !facts[p.Name].keyed {
			others = append(others, p.Name)
		}
	}
	alone := *c
	alone.state = skipping(c.state, others)
	alone.rest, alone.left = alone.state, alone.state
	alone.only, alone.onlyBy, alone.pages, alone.by, alone.fills = nil, nil, nil, &refusers{}, nil
	if alone.reads = alone.readsOf(); alone.reads.resources {
		alone.fills = &fills{}
	}
	return &alone
}

// filter runs the Filters for a node as it is.
func (c *Counter) filter(ctx context.Context, state fwk.CycleState, node fwk.NodeInfo) *fwk.Status {
	runs.Add(1)
	s := c.profile.RunFilterPlugins(ctx, state, c.asked, node)
	if !s.IsSuccess() {
		c.by.add(s.Plugin())
	}
	return s
}

// Refusers are the plugins that have refused a member of this template on some node, or one
// more beside others, sorted: what they hear of may make room.
func (c *Counter) Refusers() []string { return c.by.list() }

// Key is equal for templates which the Filters treat alike wherever they look at nothing but
// the node, and "" for those of which they look further.
func (c *Counter) Key() string {
	if c.reads.apart {
		return ""
	}
	return c.reads.key
}

// Local says that the Filters look at nothing but the node, with the pods on it, and the labels
// of the member and of its namespace.
func (c *Counter) Local() bool { return c.reads.key != "" && len(c.pages) == 0 }

// Everywhere says whether a PreFilter refuses the template on all nodes.
func (c *Counter) Everywhere() bool { return c.refused != nil }

// refusers are names of plugins.
type refusers struct{ names memo.Map[string, bool] }

func (r *refusers) add(names ...string) {
	for _, name := range names {
		if name != "" {
			r.names.Add(name, true)
		}
	}
}

func (r *refusers) list() []string { return slices.Sorted(maps.Keys(r.names.All())) }

// Pods counts as present, or as gone, besides what the scheduler's snapshot holds.
type Pods []fwk.PodInfo

// Member is what is counted.
func (c *Counter) Member() fwk.PodInfo { return c.member }

// Count returns how many members the node takes beside those others, and if it is
// none, the Filters' reasons.
func (c *Counter) Count(ctx context.Context, node fwk.NodeInfo, others Pods) (offer.Slots, []string) {
	return c.CountWithout(ctx, node, others, nil)
}

// CountWithout is Count as if the pods in gone had left the node.
func (c *Counter) CountWithout(ctx context.Context, node fwk.NodeInfo, others Pods, gone []*v1.Pod) (offer.Slots, []string) {
	if c.refused != nil {
		return 0, c.refused.Reasons()
	}
	if s := c.closed(node); s != nil {
		return 0, s.Reasons()
	}
	if c.only != nil && !c.only.Has(node.Node().Name) {
		c.by.add(c.onlyBy...)
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

// Fits says whether the member itself passes the Filters on the node beside others.
func (c *Counter) Fits(ctx context.Context, node fwk.NodeInfo, others Pods) *fwk.Status {
	return c.FitsWithout(ctx, node, others, nil)
}

// FitsWithout is Fits as if the pods in gone had left the node.
func (c *Counter) FitsWithout(ctx context.Context, node fwk.NodeInfo, others Pods, gone []*v1.Pod) *fwk.Status {
	if c.refused != nil {
		return c.refused
	}
	if s := c.closed(node); s != nil {
		return s
	}
	if c.only != nil && !c.only.Has(node.Node().Name) {
		c.by.add(c.onlyBy...)
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

// world is one node as it would be, with the plugins' state to match. Neither is
// shared with the snapshot once something was changed.
type world struct {
	*Counter
	node  fwk.NodeInfo
	state fwk.CycleState
	own   bool
}

func (c *Counter) world(ctx context.Context, node fwk.NodeInfo, others Pods, gone []*v1.Pod) (*world, *fwk.Status) {
	w := &world{Counter: c, node: node, state: c.state}
	if len(gone) > 0 || c.pages.ahead() {
		w.state = c.left
	}
	for _, p := range gone {
		w.copy()
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

func (w *world) copy() {
	if !w.own {
		w.node, w.state, w.own = w.node.Snapshot(), w.state.Clone(), true
	}
}

// forMore has the world answer for members after the first.
func (w *world) forMore() {
	if w.own {
		w.state = w.pages.without(w.state)
	} else {
		w.state = w.rest
	}
}

func (w *world) add(ctx context.Context, p fwk.PodInfo) *fwk.Status {
	w.copy()
	w.node.AddPodInfo(p)
	s := w.profile.RunPreFilterExtensionAddPod(ctx, w.state, w.asked, p, w.node)
	if !s.IsSuccess() {
		w.by.add(s.Plugin())
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

// fillFrom starts from a guess, which only saves work: adding members makes no Filter
// more lenient, so if the guessed last member passes all before it do, and if not,
// counting starts from one.
func (w *world) fillFrom(ctx context.Context, guess offer.Slots) offer.Slots {
	start, node, state := w, w.node, w.state
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

// Question asks whether a pod that is in a scheduling cycle fits a node.
type Question struct {
	Pod    *v1.Pod
	Node   fwk.NodeInfo
	Others []*v1.Pod // who is to be counted there too, if it is not there already
}

// Beside answers with the state of the pod's own cycle, which it does not change.
func Beside(ctx context.Context, profile framework.Framework, state fwk.CycleState, q Question) *fwk.Status {
	info, err := framework.NewPodInfo(q.Pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	c := &Counter{profile: profile, member: info, asked: q.Pod, state: state, by: &refusers{}}
	return c.Fits(context.WithValue(ctx, asking{}, true), q.Node, q.absent())
}

// absent are the others whom the scheduler has not put there already: it does so with pods that
// are nominated for the node.
func (q Question) absent() (others Pods) {
	there := map[types.UID]bool{}
	for _, info := range q.Node.GetPods() {
		there[info.GetPod().UID] = true
	}
	for _, o := range q.Others {
		if there[o.UID] {
			continue
		}
		if info, err := framework.NewPodInfo(o); err == nil {
			others = append(others, info)
		}
	}
	return others
}
