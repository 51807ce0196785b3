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

// A Ledger knows what pods take that no NodeInfo shows: volumes, devices. The Filter plugins that
// look after these things let any number of members pass, since a member that is only supposed to
// be somewhere has taken nothing. A ledger is asked beside the Filters wherever members are
// counted, rehearsed or weighed against victims.
type Ledger interface {
	// Plugins are the Filter plugins instead of which it is asked about several members. About the
	// first one they have the first word.
	Plugins() []string
	// Frees says that pods which leave give back what the plugins do not know of, so that the plugins
	// are not asked about a node that somebody has left.
	Frees() bool
	// Open reads what is written down now. It returns nil if these members take nothing of it.
	Open(ctx context.Context, members []Demand) (Page, error)
}

// Demand is members of a group that are alike, and how many there are.
type Demand struct {
	Pod     *v1.Pod // one of them
	Members int
}

// Page is what a ledger says at one moment. It is asked from several goroutines.
type Page interface {
	// Entry says what a pod takes: pods with equal entries take alike wherever they go. It is ""
	// for a pod that takes nothing.
	Entry(pod *v1.Pod) string
	// Far says that what such members take on one node others may lack on another, so that nodes
	// cannot be counted one by one.
	Far(pod *v1.Pod) bool
	// State tells apart what is written down of a node, beside the node itself and the pods on it:
	// as long as both are the same, so is every answer.
	State(node fwk.NodeInfo) string
	// Rehearse begins with what is written down. A rehearsal is one goroutine's.
	Rehearse() Rehearsal
}

// Rehearsal is the ledger as it would be if pods came and went.
type Rehearsal interface {
	// Leave gives back what only pods have that have left. It comes before anybody takes.
	Leave(pod *v1.Pod)
	// Take has a pod take what it needs on a node, on which nobody counts who has taken before in
	// this rehearsal. If there is not enough nothing is taken, and the status, of one of the
	// ledger's plugins, says what is missing. A pod that takes again is another one like it.
	Take(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status
	// Undo gives back what was taken last.
	Undo()
}

// parting is a ledger that knows what tells members apart that are written alike: what one of them has already.
type parting interface {
	// Apart is equal for members that are written alike as long as they take alike; "" as a rule. It is asked before Open, about
	// each member.
	Apart(pod *v1.Pod) string
}

// Apart is what ledgers say that tells a member apart from others that are written alike.
func Apart(ledgers []Ledger, pod *v1.Pod) (all string) {
	for _, l := range ledgers {
		if p, ok := l.(parting); ok {
			all += p.Apart(pod)
		}
	}
	return all
}

// counting is a rehearsal that can say at once how many members that are alike it has enough for.
type counting interface {
	// Count says how many members like a pod, at most so many, could take what they need on a node,
	// and if that is none, why. Nothing is taken.
	Count(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo, most int) (int, *fwk.Status)
}

// Shortage is what members need more of than is free.
type Shortage struct {
	What       string
	Need, Free int64
	// Waits says in words for what is to be told yet, instead of numbers.
	Waits string
}

// stock is a page that can say how much there is of what members need.
type stock interface {
	// Short lists what members need together and nodes have less of, by name.
	Short(members []Demand, nodes []fwk.NodeInfo) []Shortage
}

// settling is a page that knows what is about to be given back: whoever had it has gone, and nobody has
// written that down yet.
type settling interface {
	// Settled is the page as it will be then; nil if nothing is about to be given back.
	Settled() Page
}

// hoping is a page that expects the worst where it is not known what members will be given.
type hoping interface {
	// Hopeful is the page that expects the best; nil if that makes no difference.
	Hopeful() Page
}

// promising is a page that knows what is still to be made for pods that do not exist yet.
type promising interface {
	// Asked is a pod as the plugins can be asked about it, without what is still to be made; the pod itself if
	// that is nothing. It keeps its UID.
	Asked(pod *v1.Pod) *v1.Pod
}

// nearing is a page whose members had better be near one another, though nobody has said so.
type nearing interface {
	// Near is the node label of the domains that they had better not leave; "" if there are none.
	Near() string
}

// Near is the node label of the domains that members had better not leave; "" if there are none.
func (p Pages) Near() string {
	for _, page := range p {
		if n, ok := page.Page.(nearing); ok && n.Near() != "" {
			return n.Near()
		}
	}
	return ""
}

// Put is a member and the node of its place.
type Put struct {
	Pod  *v1.Pod
	Node fwk.NodeInfo
}

// joining is a page whose members may have something together that their own cycles find only if it was written down
// before the first of them.
type joining interface {
	// Joint are the claims that members have together, as they are to be written before these come to their nodes, in
	// this order and beside others who have places. The status says why somebody does not get what the plan gives it.
	Joint(ctx context.Context, beside, members []Put) ([]*resourceapi.ResourceClaim, *fwk.Status)
}

// ordering is a page to which it makes a difference who of several members comes first to a node.
type ordering interface {
	// Ordered says that they are to come in the order in which they were rehearsed.
	Ordered() bool
}

// Ordered says whether it makes a difference who of several members comes first to a node.
func (p Pages) Ordered() bool {
	return slices.ContainsFunc(p, func(page opened) bool { o, ok := page.Page.(ordering); return ok && o.Ordered() })
}

// Pages are what all ledgers say that have something to say of a group.
type Pages []opened

type opened struct {
	Page
	plugins []string
	frees   bool
	settled bool // the plugins do not know what it says
}

// Open asks all ledgers for a page; it returns nil if the members take nothing of any of them.
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

// Short lists what members need more of than nodes have together, as far as that can be said in numbers.
func (p Pages) Short(members []Demand, nodes []fwk.NodeInfo) (all []Shortage) {
	for _, page := range p {
		if s, ok := page.Page.(stock); ok {
			all = append(all, s.Short(members, nodes)...)
		}
	}
	return all
}

// Settled are the pages as they will be when all is given back that nobody has any more; nil if they are
// so now.
func (p Pages) Settled() (settled Pages) {
	settled, replaced := p.instead(func(page Page) Page {
		if s, ok := page.(settling); ok {
			return s.Settled()
		}
		return nil
	})
	for _, i := range replaced {
		settled[i].settled = true
	}
	return settled
}

// Hopeful are the pages that expect the best where it is not known what members will be given; nil if that makes no
// difference.
func (p Pages) Hopeful() Pages {
	pages, _ := p.instead(func(page Page) Page {
		if h, ok := page.(hoping); ok {
			return h.Hopeful()
		}
		return nil
	})
	return pages
}

// instead are the pages with others in the place of some, which are named by index; nil if there are none.
func (p Pages) instead(other func(Page) Page) (pages Pages, replaced []int) {
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

// Joint are the claims that members have together, as they are to be written before these come to their nodes.
func (p Pages) Joint(ctx context.Context, beside, members []Put) (all []*resourceapi.ResourceClaim, s *fwk.Status) {
	for _, page := range p {
		if j, ok := page.Page.(joining); ok {
			some, s := j.Joint(ctx, beside, members)
			if !s.IsSuccess() {
				return nil, s
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

// asked is a pod as the plugins can be asked about it.
func (p Pages) asked(pod *v1.Pod) *v1.Pod {
	for _, page := range p {
		if of, ok := page.Page.(promising); ok {
			pod = of.Asked(pod)
		}
	}
	return pod
}

// ahead says that some page is not what its plugins know.
func (p Pages) ahead() bool {
	return slices.ContainsFunc(p, func(page opened) bool { return page.settled })
}

// about are the pages that have something to say of a pod.
func (p Pages) about(pod *v1.Pod) (some Pages) {
	for _, page := range p {
		if page.Entry(pod) != "" {
			some = append(some, page)
		}
	}
	return some
}

// entry says what a pod takes of all ledgers.
func (p Pages) entry(pod *v1.Pod) string {
	var b strings.Builder
	for _, page := range p {
		b.WriteByte('\n')
		b.WriteString(page.Entry(pod))
	}
	return b.String()
}

// state tells apart what all ledgers say of a node.
func (p Pages) state(node fwk.NodeInfo) string {
	var b strings.Builder
	for _, page := range p {
		b.WriteByte('\n')
		b.WriteString(page.State(node))
	}
	return b.String()
}

// far says that some page does.
func (p Pages) far(pod *v1.Pod) bool {
	return slices.ContainsFunc(p, func(page opened) bool { return page.Far(pod) })
}

// cover says that a plugin's word is had from some page instead.
func (p Pages) cover(plugin string) bool {
	return slices.ContainsFunc(p, func(page opened) bool { return slices.Contains(page.plugins, plugin) })
}

// without is a state in which the plugins that the pages stand for are not asked.
func (p Pages) without(state fwk.CycleState) fwk.CycleState {
	var plugins []string
	for _, page := range p {
		plugins = append(plugins, page.plugins...)
	}
	return skipping(state, plugins)
}

// afterLeaving is a state in which the plugins are not asked that do not know what is given back.
func (p Pages) afterLeaving(state fwk.CycleState) fwk.CycleState {
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

// rehearsals are a Rehearsal on several pages.
type rehearsals []Rehearsal

func (r rehearsals) Leave(pod *v1.Pod) {
	for _, one := range r {
		one.Leave(pod)
	}
}

func (r rehearsals) Take(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	for i, one := range r {
		if s := one.Take(ctx, pod, node); !s.IsSuccess() {
			r[:i].Undo()
			return s
		}
	}
	return nil
}

func (r rehearsals) Undo() {
	for _, one := range r {
		one.Undo()
	}
}

// take is how many of so many members the ledgers have enough for, beside others and when some
// have left, and if that is none, why.
func (c *Counter) take(ctx context.Context, node fwk.NodeInfo, others Pods, gone []*v1.Pod, most offer.Slots) (offer.Slots, *fwk.Status) {
	if len(c.pages) == 0 {
		return most, nil
	}
	r := c.pages.rehearse()
	for _, p := range gone {
		r.Leave(p)
	}
	for _, p := range others {
		r.Take(ctx, p.GetPod(), node) // who has not enough has nothing, and its place is not ours to judge
	}
	var inTurn rehearsals
	for _, one := range r {
		count, ok := one.(counting)
		if !ok {
			inTurn = append(inTurn, one)
			continue
		}
		n, s := count.Count(ctx, c.member.GetPod(), node, int(most))
		if offer.Slots(n) < most {
			c.by.add(s.Plugin())
			most = offer.Slots(n)
		}
		if n == 0 {
			return 0, s
		}
	}
	if len(inTurn) == 0 {
		return most, nil
	}
	for n := range most {
		if s := inTurn.Take(ctx, c.member.GetPod(), node); !s.IsSuccess() {
			c.by.add(s.Plugin())
			return n, s
		}
	}
	return most, nil
}
