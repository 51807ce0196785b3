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

// Ledger knows allocations that no NodeInfo shows, such as volumes and devices. Their Filter plugins accept any number of members,
// because an assumed member has allocated nothing. A ledger is asked beside the Filters for every count, trial and victim search.
type Ledger interface {
	// Plugins are the Filter plugins that the ledger replaces for all members but the first.
	Plugins() []string
	// Frees says that terminated pods release allocations unknown to the plugins, so the plugins are skipped for nodes with victims.
	Frees() bool
	// Open reads the current state. It returns nil if these members need nothing from the ledger.
	Open(ctx context.Context, members []Demand) (Page, error)
}

// Demand is members of a group with equal requirements, and their number.
type Demand struct {
	Pod     *v1.Pod // one of them
	Members int
}

// Page is the state of a ledger at one moment. It must allow parallel calls.
type Page interface {
	// Entry returns a key for what a pod needs: pods with equal entries allocate equally on every node. "" means nothing.
	Entry(pod *v1.Pod) string
	// Far returns whether an allocation on one node may prevent one on another, so that nodes cannot be counted separately.
	Far(pod *v1.Pod) bool
	// State returns a key for the ledger's state of a node. With equal keys, nodes and pods, all answers are equal.
	State(node fwk.NodeInfo) string
	// Rehearse begins a rehearsal from the current state. One goroutine uses it.
	Rehearse() Rehearsal
}

// Rehearsal is a what-if copy of the ledger.
type Rehearsal interface {
	// Release releases what only terminated pods have. Call it before Take.
	Release(pod *v1.Pod)
	// Take allocates for a pod on a node. The node does not include earlier pods of the rehearsal. Without enough capacity
	// nothing changes, and the status names one of the ledger's plugins. A second Take for one pod counts an equal pod.
	Take(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status
	// Undo releases the last allocation.
	Undo()
}

// distinguisher is a ledger that distinguishes equal members by what one of them has already.
type distinguisher interface {
	// Apart returns a key that is equal for equal members while they allocate equally; mostly "". It is called before Open for each
	// member.
	Apart(pod *v1.Pod) string
}

// MemberKey returns the ledgers' keys that distinguish a member from equal ones.
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
	// Count returns how many members like pod, at most most, could allocate on a node, and why if none. It changes nothing.
	Count(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo, most int) (int, *fwk.Status)
}

// Shortage is a need that exceeds the free amount.
type Shortage struct {
	What       string
	Need, Free int64
	// Waits describes something still unknown, instead of numbers.
	Waits string
}

// stock is a page that knows amounts.
type stock interface {
	// Short lists what members need together and nodes lack, by name.
	Short(members []Demand, nodes []fwk.NodeInfo) []Shortage
}

// settler is a page that knows allocations of terminated pods that are not yet released.
type settler interface {
	// Settled returns the page after their release; nil if there are none.
	Settled() Page
}

// optimist is a page that assumes the worst while members' allocations are unknown.
type optimist interface {
	// Hopeful returns the page that assumes the best; nil if it is equal.
	Hopeful() Page
}

// promiser is a page that knows objects still to be created for the pods.
type promiser interface {
	// Asked returns the pod without references to such objects, for the plugins; pod itself if there are none. The UID stays.
	Asked(pod *v1.Pod) *v1.Pod
}

// locator is a page with members that should be near each other without a topology constraint.
type locator interface {
	// Near returns the node label of the domain to stay in; "" if there is none.
	Near() string
}

// Near returns the node label of the domain that members should stay in; "" if there is none.
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

// sharer is a page with shared ResourceClaims that must be written before the first member's cycle.
type sharer interface {
	// Joint returns the members' shared claims, in the order in which they are written, beside pods with reserved nodes.
	// The status says why some member does not get what the plan expects.
	Joint(ctx context.Context, beside, members []Put) ([]*resourceapi.ResourceClaim, *fwk.Status)
}

// orderer is a page for which the order of members on a node matters.
type orderer interface {
	// Ordered returns whether members must bind in the order of the rehearsal.
	Ordered() bool
}

// Ordered returns whether the order of members on a node matters.
func (p Pages) Ordered() bool {
	return slices.ContainsFunc(p, func(page opened) bool { o, ok := page.Page.(orderer); return ok && o.Ordered() })
}

// Pages are the pages of all ledgers that concern a group.
type Pages []opened

type opened struct {
	Page
	plugins []string
	frees   bool
	settled bool // its plugins do not know of the released allocations
}

// Open returns the pages of all ledgers; nil if the members need nothing from them.
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

// Short lists what members need together and nodes lack, as far as amounts are known.
func (p Pages) Short(members []Demand, nodes []fwk.NodeInfo) (all []Shortage) {
	for _, page := range p {
		if s, ok := page.Page.(stock); ok {
			all = append(all, s.Short(members, nodes)...)
		}
	}
	return all
}

// AfterRelease returns the pages after all allocations of terminated pods are released; nil if there are none.
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

// Optimistic returns the pages that assume the best while allocations are unknown; nil if they are equal.
func (p Pages) Optimistic() Pages {
	pages, _ := p.replace(func(page Page) Page {
		if h, ok := page.(optimist); ok {
			return h.Hopeful()
		}
		return nil
	})
	return pages
}

// replace returns the pages with some replaced, and their indexes; nil if none is.
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

// SharedClaims returns the members' shared claims, in the order in which they are written.
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

// asked returns a pod as shown to the plugins.
func (p Pages) asked(pod *v1.Pod) *v1.Pod {
	for _, page := range p {
		if promised, ok := page.Page.(promiser); ok {
			pod = promised.Asked(pod)
		}
	}
	return pod
}

// anySettled returns whether some page differs from what its plugins know.
func (p Pages) anySettled() bool {
	return slices.ContainsFunc(p, func(page opened) bool { return page.settled })
}

// about returns the pages that concern a pod.
func (p Pages) about(pod *v1.Pod) (concerned Pages) {
	for _, page := range p {
		if page.Entry(pod) != "" {
			concerned = append(concerned, page)
		}
	}
	return concerned
}

// entry returns the entries of a pod in all pages.
func (p Pages) entry(pod *v1.Pod) string {
	var b strings.Builder
	for _, page := range p {
		b.WriteByte('\n')
		b.WriteString(page.Entry(pod))
	}
	return b.String()
}

// state returns the states of a node in all pages.
func (p Pages) state(node fwk.NodeInfo) string {
	var b strings.Builder
	for _, page := range p {
		b.WriteByte('\n')
		b.WriteString(page.State(node))
	}
	return b.String()
}

// far returns whether Far is true for some page.
func (p Pages) far(pod *v1.Pod) bool {
	return slices.ContainsFunc(p, func(page opened) bool { return page.Far(pod) })
}

// covers returns whether some page replaces a plugin.
func (p Pages) covers(plugin string) bool {
	return slices.ContainsFunc(p, func(page opened) bool { return slices.Contains(page.plugins, plugin) })
}

// without returns a state that skips the plugins replaced by the pages.
func (p Pages) without(state fwk.CycleState) fwk.CycleState {
	var plugins []string
	for _, page := range p {
		plugins = append(plugins, page.plugins...)
	}
	return skipping(state, plugins)
}

// withoutFreeing returns a state that skips plugins that do not know of released allocations.
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

// rehearse begins a rehearsal on all pages.
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

// take returns how many of most members the ledgers can serve beside the given pods and without gone, and why if none.
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
