package preempt

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Quotas say who may be evicted for whom where teams have quotas: there priorities alone do not.
type Quotas interface {
	// Claim begins a search for those who may leave for a group, ClaimPod for a pod without a gang; nil if there are no quotas.
	Claim(*cache.Group) Claim
	ClaimPod(*v1.Pod) Claim
}

// Claim is what quotas say during one search.
type Claim interface {
	// May says whether a pod may be evicted, and its gang; lower is whether its priority is.
	May(pod *v1.Pod, lower bool) bool
	// Short says whether something must be freed in a quota, and Frees whether a pod's leaving does that.
	Short() bool
	Frees(*v1.Pod) bool
	// Enough says whether it is right that all these leave, and whether the quotas admit the others then.
	Enough(gone []*v1.Pod) bool
}

// claim asks the quotas about a group.
func (p *Preemptor) claim(group *cache.Group) Claim {
	if p.Quotas == nil {
		return nil
	}
	return p.Quotas.Claim(group)
}

// chooseWithin is chooseAmong where quotas decide as well: whom room is made of, and who leaves besides so that the quotas
// have enough. Of those who make room it is tried with all, and with those alone whose leaving their quotas need.
func (p *Preemptor) chooseWithin(ctx context.Context, c *candidates) (*solution, Verdict) {
	best, verdict := p.chooseAmong(ctx, c)
	if c.claim == nil || best == nil && verdict != Nobody && verdict != NoHelp {
		return best, verdict
	}
	best = c.cover(best)
	if c.claim.Short() {
		if found, _ := p.chooseAmong(ctx, c.only(c.claim.Frees)); found != nil {
			if other := c.cover(found); other != nil && (best == nil || other.before(best)) {
				best = other
			}
		}
	}
	if best == nil {
		return nil, c.noHelp()
	}
	return best, Evicts
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
	leaves := map[*v1.Pod]bool{}
	for _, pod := range e.gone {
		leaves[pod] = true
	}
	parties := c.parties(leaves)
	add := c.fewest(e, parties)
	if add == nil {
		return nil
	}
	more := *e
	more.gone, more.why = slices.Clone(e.gone), nil
	for _, u := range add {
		more.gone, more.cost = append(more.gone, u.pods...), more.cost.Add(u.cost)
	}
	return &more
}

// fewest is who leaves besides: one party, or two, of all that are enough those that cost least; where more are needed, the cheapest
// ones as long as they are needed. nil is nobody.
func (c *candidates) fewest(e *solution, parties []party) []party {
	enough := func(some ...party) bool {
		gone := slices.Clone(e.gone)
		for _, u := range some {
			gone = append(gone, u.pods...)
		}
		return c.claim.Enough(gone)
	}
	for i := range parties {
		if enough(parties[i]) {
			return parties[i : i+1]
		}
	}
	var best []party
	var least evict.Cost
	for i := range min(len(parties), mostParties) {
		for j := i + 1; j < min(len(parties), mostParties); j++ {
			cost := parties[i].cost.Add(parties[j].cost)
			if (best == nil || cost.Compare(least) < 0) && enough(parties[i], parties[j]) {
				best, least = []party{parties[i], parties[j]}, cost
			}
		}
	}
	if best != nil {
		return best
	}
	var some []party
	for _, u := range parties {
		if some = append(some, u); !enough(some...) {
			continue
		}
		for at := len(some) - 1; at >= 0; at-- {
			if without := slices.Delete(slices.Clone(some), at, at+1); enough(without...) {
				some = without
			}
		}
		return some
	}
	return nil
}

// parties are those who may leave by themselves, but for those who leave already, the cheapest first: pods without a gang, members that
// a gang can spare, and groups of gangs whole.
func (c *candidates) parties(leaves map[*v1.Pod]bool) (all []party) {
	add := func(pods []*v1.Pod) {
		u := party{pods: slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return leaves[p] })}
		if len(u.pods) == 0 || !slices.ContainsFunc(u.pods, c.claim.Frees) {
			return
		}
		for _, p := range u.pods {
			u.cost, u.since = u.cost.Add(evict.CostOf(c.victim(p))), max(u.since, convert.Started(p))
		}
		all = append(all, u)
	}
	groups := map[int][]*v1.Pod{}
	stays := map[int]bool{}
	var order []int
	for g, is := range c.gangs {
		if groups[is.Group] == nil {
			order = append(order, is.Group)
		}
		groups[is.Group] = append(groups[is.Group], c.whole[g]...)
		stays[is.Group] = stays[is.Group] || !is.Whole
	}
	for _, g := range order {
		if !stays[g] {
			add(groups[g])
		}
	}
	for _, here := range c.here {
		for v, pod := range here.pods {
			if n := here.victims[v].Gang; n == 0 || c.gangs[n-1].Spare > 0 {
				add([]*v1.Pod{pod})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y party) int {
		return cmp.Or(x.cost.Compare(y.cost), cmp.Compare(y.since, x.since))
	})
	return all
}
