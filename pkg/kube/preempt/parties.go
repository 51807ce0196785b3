package preempt

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// party is pods that leave together.
type party struct {
	pods  []*v1.Pod
	cost  evict.Cost
	since int64 // when the last of them began
}

// asLeavers are some parties as package evict sees them.
func asLeavers(parties []party) (l evict.Leavers) {
	for _, u := range parties {
		l.Costs = append(l.Costs, u.cost)
	}
	return l
}

// pick are those of some parties who were picked; nil if nobody was.
func pick(parties []party, picked []int) (some []party) {
	for _, i := range picked {
		some = append(some, parties[i])
	}
	return some
}

// isOwn says whether all of a party are of the quota of those who ask, who are of one.
func (c *candidates) isOwn(u party) bool {
	own := c.claim.QuotaOf(c.Group.Pods[c.Group.Pending[0].Pod])
	return !slices.ContainsFunc(u.pods, func(pod *v1.Pod) bool { return c.claim.QuotaOf(pod) != own })
}

// parties are those who may leave by themselves, but for those who leave already, the cheapest first, of equal ones those who began last: pods without a gang, as many
// members as a gang can spare, and groups of gangs whole; where something is short in a quota, those who free it. Any of them may leave together.
func (c *candidates) parties(leaves map[types.UID]bool) (all []party) {
	frees := func(pod *v1.Pod) bool { return !c.claim.Short() || c.claim.Frees(pod) }
	for _, pods := range append(c.wholeGroups(), c.alone(leaves, frees)...) {
		if u := c.party(pods, leaves); slices.ContainsFunc(u.pods, frees) {
			all = append(all, u)
		}
	}
	slices.SortStableFunc(all, func(x, y party) int {
		return cmp.Or(x.cost.Compare(y.cost), cmp.Compare(y.since, x.since))
	})
	return all
}

// alone are those of whom something is true and who may leave without others, each by himself: pods without a gang, and of each gang as many as it can spare,
// the cheapest ones. Whoever leaves already is one of those whom it can.
func (c *candidates) alone(leaves map[types.UID]bool, is func(*v1.Pod) bool) (all [][]*v1.Pod) {
	of := make([][]*v1.Pod, len(c.gangs)+1) // by gang
	for _, here := range c.here {
		for v, pod := range here.pods {
			of[here.victims[v].Gang] = append(of[here.victims[v].Gang], pod)
		}
	}
	for g, pods := range of {
		spare := len(pods)
		if g > 0 {
			spare = c.gangs[g-1].Spare
		}
		slices.SortStableFunc(pods, func(x, y *v1.Pod) int {
			return cmp.Or(evict.CostOf(c.unshaped(x)).Compare(evict.CostOf(c.unshaped(y))), cmp.Compare(convert.Started(y), convert.Started(x)))
		})
		may := slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
			if leaves[pod.UID] {
				spare--
			}
			return leaves[pod.UID] || !is(pod)
		})
		for _, pod := range may[:max(0, min(spare, len(may)))] {
			all = append(all, []*v1.Pod{pod})
		}
	}
	return all
}

// party is some pods without those who leave already.
func (c *candidates) party(pods []*v1.Pod, leaves map[types.UID]bool) (u party) {
	for _, p := range pods {
		if !leaves[p.UID] {
			u.pods = append(u.pods, p)
			u.cost, u.since = u.cost.Add(evict.CostOf(c.unshaped(p))), max(u.since, convert.Started(p))
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
