package fit

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Ledger counts allocations that no NodeInfo shows, such as volumes and devices. Their Filter plugins accept too many members, because an
// assumed member has no allocation yet. So each count, trial and victim search also uses the ledgers.
type Ledger interface {
	// Plugins returns the Filter plugins that the ledger replaces for all members except the first one.
	Plugins() []string
	// Frees returns whether the plugins ignore that victims release their allocations. Then the plugins are skipped for nodes with victims.
	Frees() bool
	// Open reads the current state. It returns nil if these members need nothing from the ledger.
	Open(ctx context.Context, members []Demand) (Page, error)
}

// Demand is a number of members of a group with equal requirements.
type Demand struct {
	Pod     *v1.Pod // one of them
	Members int
}

// Page is the state of a ledger at one moment, for the members of one group. It must allow parallel calls.
type Page interface {
	// Entry returns a key for what a pod needs from the ledger: pods with equal keys allocate equally on each node. "" means nothing.
	Entry(pod *v1.Pod) string
	// Far returns whether an allocation for the pod on one node may prevent one on another node. Then nodes cannot be counted separately.
	Far(pod *v1.Pod) bool
	// State returns a key for the ledger's state of a node. With equal keys, nodes and pods, all results are equal.
	State(node fwk.NodeInfo) string
	// Rehearse returns a what-if copy of the page. Only one goroutine may use it.
	Rehearse() Rehearsal
}

// Rehearsal is a what-if copy of a page.
type Rehearsal interface {
	// Release records that a pod has terminated, and releases allocations that no other pod uses. Call it before Take.
	Release(pod *v1.Pod)
	// Take allocates for a pod on a node, which does not contain pods of earlier calls. Without enough capacity nothing changes, and the
	// status names one of the ledger's plugins. A second call with the same pod allocates for another, equal pod.
	Take(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status
	// Undo releases the last allocation.
	Undo()
}

// distinguisher is a ledger for which equal pods may differ, because one of them already has an allocation.
type distinguisher interface {
	// Apart returns a key that differs for equal pods if they allocate differently; mostly "". It is called before Open for each member.
	Apart(pod *v1.Pod) string
}

// MemberKey returns the keys by which the ledgers distinguish a member from equal pods.
func MemberKey(ledgers []Ledger, pod *v1.Pod) (all string) {
	for _, l := range ledgers {
		if p, ok := l.(distinguisher); ok {
			all += p.Apart(pod)
		}
	}
	return all
}

// bulkCounter is a rehearsal that counts equal members at once.
type bulkCounter interface {
	// Count returns how many pods like pod, at most most, could allocate on a node. If none could, the status says why. It changes nothing.
	Count(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo, most int) (int, *fwk.Status)
}

// Shortage is a need of members that exceeds the free amount.
type Shortage struct {
	What       string // the resource, for messages
	Need, Free int64
	// Waits describes something for which members wait, instead of numbers.
	Waits string
}

// stock is a page that can count amounts.
type stock interface {
	// Short returns the resources of which all members together need more than the nodes have free, sorted by name.
	Short(members []Demand, nodes []fwk.NodeInfo) []Shortage
}

// settler is a page that may have allocations of terminated pods that are not released yet.
type settler interface {
	// Settled returns the page after the release of such allocations; nil if there are none.
	Settled() Page
}

// optimist is a page that assumes the least capacity as long as allocations for members are unknown.
type optimist interface {
	// Hopeful returns a page that assumes the most capacity; nil if it is equal.
	Hopeful() Page
}

// promiser is a page for pods that name objects which are still to be created.
type promiser interface {
	// Asked returns a copy of the pod without references to such objects, for the plugins; pod itself if there are none.
	Asked(pod *v1.Pod) *v1.Pod
}

// locator is a page with members that should be near each other without a topology constraint.
type locator interface {
	// Near returns the node label by which all members should have one value; "" if there is none.
	Near() string
}

// Near returns the node label by which all members should have one value (of one domain); "" if there is none.
func (p Pages) Near() string {
	for _, page := range p {
		if n, ok := page.Page.(locator); ok && n.Near() != "" {
			return n.Near()
		}
	}
	return ""
}

// Put is a member and its node.
type Put struct {
	Pod  *v1.Pod
	Node fwk.NodeInfo
}

// sharer is a page with ResourceClaims that members share, and that must be written before the first member's cycle.
type sharer interface {
	// Joint returns the allocated claims that members share, in the order in which to write them. beside are other pods with reserved nodes.
	// If a member does not get what the plan expects, the status says why.
	Joint(ctx context.Context, beside, members []Put) ([]*resourceapi.ResourceClaim, *fwk.Status)
}

// orderer is a page for which the order of members on a node matters.
type orderer interface {
	// Ordered returns whether members must bind in the order in which they were added to a Rehearsal.
	Ordered() bool
}

// Ordered returns whether members must bind in the order of the plan.
func (p Pages) Ordered() bool {
	return slices.ContainsFunc(p, func(page opened) bool { o, ok := page.Page.(orderer); return ok && o.Ordered() })
}

// Pages are the pages of all ledgers from which the members of a group need something.
type Pages []opened

type opened struct {
	Page
	plugins []string
	frees   bool
	settled bool // it assumes released allocations that its plugins still count
}

// Open returns the current pages of the ledgers for these members; nil if they need nothing from any ledger.
func Open(ctx context.Context, ledgers []Ledger, members []Demand) (Pages, error) {
	var pages Pages
	for _, l := range ledgers {
		page, err := l.Open(ctx, members)
		if err != nil {
			return nil, err
		}
		if page != nil {
			pages = append(pages, opened{Page: page, plugins: l.Plugins(), frees: l.Frees()})
		}
	}
	return pages, nil
}

// Short returns the resources of which all members together need more than the nodes have free, as far as pages can count amounts.
func (p Pages) Short(members []Demand, nodes []fwk.NodeInfo) (all []Shortage) {
	for _, page := range p {
		if s, ok := page.Page.(stock); ok {
			all = append(all, s.Short(members, nodes)...)
		}
	}
	return all
}

// AfterRelease returns the pages after terminated pods have released their allocations; nil if there are no such allocations.
func (p Pages) AfterRelease() (settled Pages) {
	settled, replaced := p.replace(func(page Page) Page {
		if s, ok := page.(settler); ok {
			return s.Settled()
		}
		return nil
	})
	for _, i := range replaced {
		settled[i].settled = true
	}
	return settled
}

// Optimistic returns the pages that assume the most capacity as long as allocations are unknown; nil if they are equal to p.
func (p Pages) Optimistic() Pages {
	pages, _ := p.replace(func(page Page) Page {
		if h, ok := page.(optimist); ok {
			return h.Hopeful()
		}
		return nil
	})
	return pages
}

// replace returns a copy of p in which pages are replaced by the result of other, unless that is nil, and the indexes of these. It returns
// nil if none is replaced.
func (p Pages) replace(other func(Page) Page) (pages Pages, replaced []int) {
	for i, page := range p {
		if o := other(page.Page); o != nil {
			if pages == nil {
				pages = slices.Clone(p)
			}
			pages[i].Page, replaced = o, append(replaced, i)
		}
	}
	return pages, replaced
}

// SharedClaims returns the allocated claims that members share, in the order in which to write them, see sharer.
func (p Pages) SharedClaims(ctx context.Context, beside, members []Put) (all []*resourceapi.ResourceClaim, s *fwk.Status) {
	for _, page := range p {
		if j, ok := page.Page.(sharer); ok {
			claims, s := j.Joint(ctx, beside, members)
			if !s.IsSuccess() {
				return nil, s
			}
			all = append(all, claims...)
		}
	}
	return all, nil
}

// asked returns the pod to pass to plugins: without references to objects that are still to be created.
func (p Pages) asked(pod *v1.Pod) *v1.Pod {
	for _, page := range p {
		if promised, ok := page.Page.(promiser); ok {
			pod = promised.Asked(pod)
		}
	}
	return pod
}

// anySettled returns whether any page assumes released allocations that its plugins still count.
func (p Pages) anySettled() bool {
	return slices.ContainsFunc(p, func(page opened) bool { return page.settled })
}

// about returns the pages from which a pod needs something.
func (p Pages) about(pod *v1.Pod) (concerned Pages) {
	for _, page := range p {
		if page.Entry(pod) != "" {
			concerned = append(concerned, page)
		}
	}
	return concerned
}

// entry returns a key of what a pod needs from all pages.
func (p Pages) entry(pod *v1.Pod) string {
	var b strings.Builder
	for _, page := range p {
		b.WriteByte('\n')
		b.WriteString(page.Entry(pod))
	}
	return b.String()
}

// state returns a key of the state of a node in all pages.
func (p Pages) state(node fwk.NodeInfo) string {
	var b strings.Builder
	for _, page := range p {
		b.WriteByte('\n')
		b.WriteString(page.State(node))
	}
	return b.String()
}

// far returns whether an allocation for the pod may prevent one on another node, in any page.
func (p Pages) far(pod *v1.Pod) bool {
	return slices.ContainsFunc(p, func(page opened) bool { return page.Far(pod) })
}

// covers returns whether any page replaces the plugin.
func (p Pages) covers(plugin string) bool {
	return slices.ContainsFunc(p, func(page opened) bool { return slices.Contains(page.plugins, plugin) })
}

// without returns a copy of the state that skips the plugins that the pages replace.
func (p Pages) without(state fwk.CycleState) fwk.CycleState {
	var plugins []string
	for _, page := range p {
		plugins = append(plugins, page.plugins...)
	}
	return skipping(state, plugins)
}

// withoutFreeing returns a copy of the state that skips the plugins that ignore released allocations, see Ledger.Frees.
func (p Pages) withoutFreeing(state fwk.CycleState) fwk.CycleState {
	var plugins []string
	for _, page := range p {
		if page.frees {
			plugins = append(plugins, page.plugins...)
		}
	}
	return skipping(state, plugins)
}

func skipping(state fwk.CycleState, plugins []string) fwk.CycleState {
	if len(plugins) == 0 {
		return state
	}
	state = state.Clone()
	state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Clone().Insert(plugins...))
	return state
}

// rehearse returns a what-if copy of all pages.
func (p Pages) rehearse() rehearsals {
	out := make(rehearsals, len(p))
	for i, page := range p {
		out[i] = page.Rehearse()
	}
	return out
}

// rehearsals is a Rehearsal on several pages.
type rehearsals []Rehearsal

func (r rehearsals) Release(pod *v1.Pod) {
	for _, rehearsal := range r {
		rehearsal.Release(pod)
	}
}

func (r rehearsals) Take(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	for i, rehearsal := range r {
		if s := rehearsal.Take(ctx, pod, node); !s.IsSuccess() {
			r[:i].Undo()
			return s
		}
	}
	return nil
}

func (r rehearsals) Undo() {
	for _, rehearsal := range r {
		rehearsal.Undo()
	}
}

// take returns for how many members, at most most, the ledgers have capacity on a node: beside the pods in others and without the pods in
// gone. If there are none, the status says why.
func (c *Counter) take(ctx context.Context, node fwk.NodeInfo, others Pods, gone []*v1.Pod, most offer.Slots) (offer.Slots, *fwk.Status) {
	if len(c.pages) == 0 {
		return most, nil
	}
	r := c.pages.rehearse()
	for _, p := range gone {
		r.Release(p)
	}
	for _, p := range others {
		r.Take(ctx, p.GetPod(), node) // a pod that does not fit allocates nothing; its reservation is checked elsewhere
	}
	var sequential rehearsals
	for _, rehearsal := range r {
		count, ok := rehearsal.(bulkCounter)
		if !ok {
			sequential = append(sequential, rehearsal)
			continue
		}
		n, s := count.Count(ctx, c.member.GetPod(), node, int(most))
		if offer.Slots(n) < most {
			c.rejectedBy.add(s.Plugin())
			most = offer.Slots(n)
		}
		if n == 0 {
			return 0, s
		}
	}
	if len(sequential) == 0 {
		return most, nil
	}
	for n := range most {
		if s := sequential.Take(ctx, c.member.GetPod(), node); !s.IsSuccess() {
			c.rejectedBy.add(s.Plugin())
			return n, s
		}
	}
	return most, nil
}
