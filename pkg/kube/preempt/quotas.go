package preempt

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Quotas say who may be evicted for whom where teams have quotas: there priorities alone do not.
type Quotas interface {
	// Claim begins a search for those who may leave for a group, ClaimPod for a pod without a gang; nil if there are no quotas. Who leaves
	// already counts as gone if he is to be within a time.
	Claim(group *cache.Group, within time.Duration) Claim
	ClaimPod(*v1.Pod) Claim
	// Fits says whether the quotas have enough for a group that has its places reserved, when those have left who leave.
	Fits(group *cache.Group, leaves func(*v1.Pod) bool) bool
	// Told is another number whenever the quotas were told of something.
	Told() uint64
}

// Claim is what quotas say during one search.
type Claim interface {
	// May says whether a pod may be evicted, and its gang; lower is whether its priority is.
	May(pod *v1.Pod, lower bool) bool
	// QuotaOf is the quota of a member of the group, and Uses says whether members of a quota may use what a pod leaves: it may leave for others of the
	// group alone.
	QuotaOf(member *v1.Pod) string
	Uses(quota string, gone *v1.Pod) bool
	// OwnFirst has the claim count those, too, who may leave when others of the own quotas have; it says whether there are any.
	OwnFirst() bool
	// Several says whether members of several quotas ask, and Untried whether Enough has said no of some who were not judged.
	Several() bool
	Untried() bool
	// Short says whether something must be freed in a quota, and Frees whether a pod's leaving does that.
	Short() bool
	Frees(*v1.Pod) bool
	// Of is equal for those who ask the same of the same quotas.
	Of() string
	// Leaving are those who leave already, and count as gone.
	Leaving() []*v1.Pod
	// Enough says whether it is right that all these leave, and whether the quotas admit the others then.
	Enough(gone []*v1.Pod) bool
}

// claim asks the quotas about a group.
func (p *Preemptor) claim(group *cache.Group, within time.Duration) Claim {
	if p.Quotas == nil {
		return nil
	}
	return p.Quotas.Claim(group, within)
}

// own has the attempt tell members of several quotas apart where they may not all use what those leave who may leave for any of them.
func (c *candidates) own(ctx context.Context) (err error) {
	if c.claim == nil {
		return nil
	}
	var quotas []string
	for _, m := range c.Group.Pending {
		if of := c.claim.QuotaOf(c.Group.Pods[m.Pod]); !slices.Contains(quotas, of) {
			quotas = append(quotas, of)
		}
	}
	if len(quotas) == 1 {
		return nil
	}
	kept := map[types.UID][]string{} // from members of which quotas
	for _, here := range c.here {
		for _, pod := range here.pods {
			if from := slices.DeleteFunc(slices.Clone(quotas), func(of string) bool { return c.claim.Uses(of, pod) }); len(from) > 0 {
				kept[pod.UID] = from
			}
		}
	}
	if len(kept) > 0 {
		uses := func(of string, gone *v1.Pod) bool { return !slices.Contains(kept[gone.UID], of) }
		c.Attempt, err = c.Owned(ctx, &place.Owners{Of: c.claim.QuotaOf, Uses: uses})
	}
	return err
}

// MayLeave is what quotas say of who may be evicted for a group: of a pod, and whether its priority is lower. nil is that they
// have no say.
func (p *Preemptor) MayLeave(group *cache.Group) func(pod *v1.Pod, lower bool) bool {
	if claim := p.claim(group, forEver); claim != nil {
		return claim.May
	}
	return nil
}

// chooseWithin is chooseAmong where quotas decide as well: whom room is made of, and who leaves besides so that the quotas
// have enough. Of those who make room it is tried with all, with those alone whose leaving their quotas need, and from the other end:
// somebody leaves for the quotas, and then it is asked who else makes room.
func (p *Preemptor) chooseWithin(ctx context.Context, c *candidates) (*solution, Verdict) {
	if c.own(ctx) != nil {
		return nil, Untried
	}
	room, verdict := p.chooseAmong(ctx, c)
	if c.claim == nil || room == nil && verdict != Nobody && verdict != NoHelp {
		return room, verdict
	}
	best := c.covered(ctx, room)
	if c.claim.Short() {
		if found, _ := p.chooseAmong(ctx, c.only(c.claim.Frees)); found != nil {
			if other := c.covered(ctx, found); other != nil && (best == nil || other.before(best)) {
				best = other
			}
		}
	}
	if room != nil || c.claim.Short() { // else no eviction makes room, whoever leaves first
		best = p.fromQuotas(ctx, c, room, best)
	}
	if best == nil {
		c.lacking = room != nil
		if c.claim.Untried() || c.unsure {
			return nil, Untried
		}
		return nil, c.noHelp()
	}
	best.awaits = c.claim.Leaving()
	return best, Evicts
}

// mostRooms bounds how often it is asked who else makes room, on few nodes, and the nodes that are looked at for it in all.
const mostRooms, mostRoomNodes = 64, 20_000

// fromQuotas looks for a cheaper solution than the best one that is known, nil if none is: first some leave for the quotas, one party or
// two, the cheapest ones first, and then as many more as make room, and as the quotas still need. It finds something also where nothing is
// short in the quotas, but those who make room at the least cost may not all leave: after some of them nobody has too much any more. Room alone is what making room costs whatever
// quotas say: nothing is cheaper than that, nor than those who leave first.
func (p *Preemptor) fromQuotas(ctx context.Context, c *candidates, room, best *solution) *solution {
	if best != nil && room != nil && !room.before(best) {
		return best
	}
	parties := c.parties(nil)
	parties = parties[:min(len(parties), mostParties)]
	var sets []party
	for i, u := range parties {
		sets = append(sets, u)
		is := uids([][]*v1.Pod{u.pods})
		for _, o := range parties[i+1:] {
			if !slices.ContainsFunc(o.pods, func(pod *v1.Pod) bool { return is[pod.UID] }) {
				sets = append(sets, party{pods: slices.Concat(u.pods, o.pods), cost: u.cost.Add(o.cost), since: max(u.since, o.since)})
			}
		}
	}
	sortParties(sets)
	for range min(mostRooms, max(1, mostRoomNodes/max(1, len(c.Nodes)))) {
		if len(sets) == 0 || best != nil && sets[0].cost.Compare(best.cost) >= 0 {
			break
		}
		first := sets[0]
		sets = sets[1:]
		if found, _ := p.chooseAmong(ctx, c.after(first.pods)); found != nil {
			found.gone, found.cost, found.why = append(slices.Clone(first.pods), found.gone...), found.cost.Add(first.cost), nil
			if found = c.covered(ctx, found); found != nil && (best == nil || found.before(best)) {
				best = found
			}
		}
	}
	if best == nil && c.ownFirst {
		best = p.afterOwn(ctx, c)
	}
	return best
}

// afterOwn is who leaves if all leave first who may of the own quotas, and then as many others as make room. Where others have too much only until
// some of them have left, those whose leaving costs least may be too many. Own ones stay who need not leave.
func (p *Preemptor) afterOwn(ctx context.Context, c *candidates) *solution {
	own := c.ofOwn(c.parties(nil))
	e, _ := p.chooseAmong(ctx, c.after(c.with(&solution{}, own).gone))
	if e == nil {
		return nil
	}
	must := whoMust(own, func(some ...party) bool {
		all := c.with(e, some)
		return !c.tears(own, all.gone) && c.claim.Enough(all.gone) && c.holds(ctx, all)
	})
	if must == nil || c.claim.Untried() {
		return nil
	}
	return c.with(e, must)
}

// tears says whether somebody of some parties would stay of a group of gangs of which one loses more than it can spare: that group leaves whole.
func (c *candidates) tears(some []party, gone []*v1.Pod) bool {
	leaves, stays := uids([][]*v1.Pod{gone}), map[types.UID]bool{}
	for _, u := range some {
		for _, pod := range u.pods {
			stays[pod.UID] = !leaves[pod.UID]
		}
	}
	loses, keeps := map[int]bool{}, map[int]bool{} // by group
	for g, is := range c.gangs {
		lost := 0
		for _, pod := range c.whole[g] { // of a gang other objects are known than those on the nodes
			if leaves[pod.UID] {
				lost++
			}
			keeps[is.Group] = keeps[is.Group] || stays[pod.UID]
		}
		loses[is.Group] = loses[is.Group] || lost > is.Spare
	}
	for group := range loses {
		if loses[group] && keeps[group] {
			return true
		}
	}
	return false
}

// ofOwn are those of some parties who may leave since they are of the own quota.
func (c *candidates) ofOwn(some []party) []party {
	return slices.DeleteFunc(slices.Clone(some), func(u party) bool { return !c.isOwn(u) })
}

// isOwn says whether all of a party are of the quota of those who ask, who are of one.
func (c *candidates) isOwn(u party) bool {
	own := c.claim.QuotaOf(c.Group.Pods[c.Group.Pending[0].Pod])
	return !slices.ContainsFunc(u.pods, func(pod *v1.Pod) bool { return c.claim.QuotaOf(pod) != own })
}

// after are the candidates when some have left, whole groups or members whom a gang can spare.
func (c *candidates) after(gone []*v1.Pod) *candidates {
	left := uids([][]*v1.Pod{gone}) // of a gang other objects are known than those on the nodes
	some := c.only(func(pod *v1.Pod) bool { return !left[pod.UID] })
	some.any = true
	some.gangs, some.whole = slices.Clone(c.gangs), slices.Clone(c.whole)
	for i := range some.here {
		leaving := slices.Clone(c.here[i].leaving)
		for v, pod := range c.here[i].pods {
			if left[pod.UID] {
				leaving = append(leaving, pod)
				some.spare(c.here[i].victims[v].Gang, left)
			}
		}
		some.here[i].leaving = leaving
	}
	return some
}

// spare takes from a gang one of those whom it can spare, and those who have left from all who leave with it; 0 is no gang.
func (c *candidates) spare(of int, left map[types.UID]bool) {
	if of == 0 {
		return
	}
	g := &c.gangs[of-1]
	g.Spare = max(0, g.Spare-1)
	c.whole[of-1] = slices.DeleteFunc(slices.Clone(c.whole[of-1]), func(pod *v1.Pod) bool { return left[pod.UID] })
	g.Cost, g.Budgets = evict.Cost{}, nil
	for _, pod := range c.whole[of-1] {
		v := c.unshaped(pod)
		g.Cost, g.Budgets = g.Cost.Add(evict.CostOf(v)), append(g.Budgets, v.Budgets...)
	}
}

// only are the candidates of whom something is true.
func (c *candidates) only(is func(*v1.Pod) bool) *candidates {
	some := *c
	some.here = make([]onNode, len(c.here))
	for i, here := range c.here {
		some.here[i].leaving = here.leaving
		for v, pod := range here.pods {
			if is(pod) {
				some.here[i].victims, some.here[i].pods = append(some.here[i].victims, here.victims[v]), append(some.here[i].pods, pod)
			}
		}
	}
	return &some
}

// keeping are the candidates if some stay: so does, of a gang that would leave whole with one of them, everybody.
func (c *candidates) keeping(stays func(*v1.Pod) bool) *candidates {
	some := c.only(func(pod *v1.Pod) bool { return !stays(pod) })
	some.gangs = slices.Clone(c.gangs)
	for g, all := range c.whole {
		some.gangs[g].Whole = some.gangs[g].Whole && !slices.ContainsFunc(all, stays)
	}
	return some
}

// party is pods that leave together.
type party struct {
	pods  []*v1.Pod
	cost  evict.Cost
	since int64 // when the last of them began
}

// mostParties bounds of how many parties all pairs are tried.
const mostParties = 64

// cover has more leave, anywhere, until the quotas have enough; nil if that cannot be. Nobody leaves who need not.
func (c *candidates) cover(e *solution) *solution {
	if e == nil || c.claim.Enough(e.gone) {
		return e
	}
	add := c.fewest(e, c.parties(uids([][]*v1.Pod{e.gone})))
	if add == nil {
		return nil
	}
	return c.with(e, add)
}

// with is a solution if some leave besides.
func (c *candidates) with(e *solution, add []party) *solution {
	leaves := uids([][]*v1.Pod{e.gone})
	more := *e
	more.gone, more.why = slices.Clone(e.gone), nil
	for _, u := range add {
		u = c.party(u.pods, leaves) // somebody may be in two of them: spared, and of a group that leaves
		for _, pod := range u.pods {
			leaves[pod.UID] = true
		}
		more.gone, more.cost = append(more.gone, u.pods...), more.cost.Add(u.cost)
	}
	return &more
}

// covered is cover, but nobody leaves for the quotas without whom the members cannot take their places: of those who depend on others some must be
// near him, or spread as long as he is there.
func (c *candidates) covered(ctx context.Context, e *solution) *solution {
	more := c.cover(e)
	if more == nil || !c.Dependent() || len(more.gone) == len(e.gone) || c.holds(ctx, more) {
		return more
	}
	if more = c.keeping(c.Seek).cover(e); more != nil && c.holds(ctx, more) {
		return more
	}
	c.unsure = true
	return nil
}

// holds says whether members that depend on one another can take their places when all have left who are to.
func (c *candidates) holds(ctx context.Context, e *solution) bool {
	gone := c.gone(nil)
	for _, pod := range e.gone {
		if i, ok := c.Net.Tree.NodeIndex(pod.Spec.NodeName); ok {
			gone[i] = append(gone[i], pod)
		}
	}
	return c.Fits(ctx, e.Places, gone)
}

// fewest is who leaves besides: of all that are enough, alone or in pairs, those that cost least; where more are needed, the cheapest
// ones as long as they are needed. nil is nobody.
func (c *candidates) fewest(e *solution, parties []party) []party {
	enough := func(some ...party) bool {
		gone := slices.Clone(e.gone)
		for _, u := range some {
			gone = append(gone, u.pods...)
		}
		return c.claim.Enough(gone)
	}
	var best []party
	var least evict.Cost
	if c.ownFirst { // each question is dear, and few may be asked: so many leave that they are enough, and then it is looked for fewer
		first := c.ofOwn(parties) // before others: of those too many may leave
		own := len(first)
		first = append(first, slices.DeleteFunc(slices.Clone(parties), c.isOwn)...)
		are := func(n int) bool { return enough(first[:n+1]...) }
		n := sort.Search(own, are)
		for few := 0; n == own && few < min(own, mostParties); few++ { // fewer may be enough where more are not: what their quota asks for, others may be entitled to
			if are(few) {
				n = few
				break
			}
		}
		if n == own {
			n += sort.Search(len(first)-own, func(more int) bool { return are(own + more) })
		}
		if best = whoMust(first[:min(n+1, len(first))], enough); best == nil || c.claim.Untried() {
			return nil
		}
		for _, u := range best {
			least = least.Add(u.cost)
		}
	}
	cheaper := func(cost evict.Cost) bool { return best == nil || cost.Compare(least) < 0 }
	if i := slices.IndexFunc(parties, func(u party) bool { return cheaper(u.cost) && enough(u) }); i >= 0 { // they are in the order of their costs
		best, least = parties[i:i+1], parties[i].cost
	}
	for i := range min(len(parties), mostParties) {
		for j := i + 1; j < min(len(parties), mostParties); j++ {
			cost := parties[i].cost.Add(parties[j].cost)
			if cheaper(cost) && enough(parties[i], parties[j]) {
				best, least = []party{parties[i], parties[j]}, cost
			}
		}
	}
	if best != nil {
		return best
	}
	for n := range parties {
		if some := whoMust(parties[:n+1], enough); some != nil {
			return some
		}
	}
	return nil
}

// whoMust are those of some parties, the cheapest of whom come first, without whom the others are too few; nil if all are too few.
func whoMust(parties []party, enough func(...party) bool) []party {
	some := slices.Clone(parties)
	if !enough(some...) {
		return nil
	}
	for at := len(some) - 1; at >= 0; at-- {
		if without := slices.Delete(slices.Clone(some), at, at+1); enough(without...) {
			some = without
		}
	}
	return some
}

// parties are those who may leave by themselves, but for those who leave already, the cheapest first: pods without a gang, as many members
// as a gang can spare, and groups of gangs whole; where something is short in a quota, those who free it. Any of them may leave together.
func (c *candidates) parties(leaves map[types.UID]bool) (all []party) {
	add := func(pods []*v1.Pod) {
		if u := c.party(pods, leaves); len(u.pods) > 0 && (!c.claim.Short() || slices.ContainsFunc(u.pods, c.claim.Frees)) {
			all = append(all, u)
		}
	}
	for _, group := range c.wholeGroups() {
		add(group)
	}
	spared := make([][]*v1.Pod, len(c.gangs)+1)
	for _, here := range c.here {
		for v, pod := range here.pods {
			spared[here.victims[v].Gang] = append(spared[here.victims[v].Gang], pod)
		}
	}
	for g, pods := range spared {
		spare := len(pods)
		if g > 0 {
			spare = c.gangs[g-1].Spare
		}
		slices.SortStableFunc(pods, func(x, y *v1.Pod) int {
			return cmp.Or(evict.CostOf(c.victim(x)).Compare(evict.CostOf(c.victim(y))), cmp.Compare(convert.Started(y), convert.Started(x)))
		})
		for _, pod := range pods { // who leaves already is one of those that are spared
			if leaves[pod.UID] {
				spare--
			}
		}
		for _, pod := range pods {
			if spare > 0 && !leaves[pod.UID] {
				spare--
				add([]*v1.Pod{pod})
			}
		}
	}
	sortParties(all)
	return all
}

// sortParties brings parties into the order of their costs, of equal ones those who began last first.
func sortParties(all []party) {
	slices.SortStableFunc(all, func(x, y party) int {
		return cmp.Or(x.cost.Compare(y.cost), cmp.Compare(y.since, x.since))
	})
}

// party is some pods without those who leave already.
func (c *candidates) party(pods []*v1.Pod, leaves map[types.UID]bool) (u party) {
	for _, p := range pods {
		if !leaves[p.UID] {
			u.pods = append(u.pods, p)
			u.cost, u.since = u.cost.Add(evict.CostOf(c.victim(p))), max(u.since, convert.Started(p))
		}
	}
	return u
}

// wholeGroups are all who run of each group of gangs that may leave whole.
func (c *candidates) wholeGroups() (all [][]*v1.Pod) {
	at := map[int]int{}
	stays := map[int]bool{}
	for g, is := range c.gangs {
		i, known := at[is.Group]
		if !known {
			i = len(all)
			at[is.Group], all = i, append(all, nil)
		}
		all[i], stays[i] = append(all[i], c.whole[g]...), stays[i] || !is.Whole
	}
	for i := range all {
		if stays[i] {
			all[i] = nil
		}
	}
	return all
}
