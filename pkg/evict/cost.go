package evict

import (
	"cmp"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Cost is the cost of a victim set. The zero Cost evicts no pod.
//
// Invariants for every field: it is a sum over victims, or a maximum that ceilings handle, as Highest is. It is never negative.
// costRules, compareCount, comparePrice, price and prices.go order it alike. The cost of a gang is the sum of CostOf its members.
// It does not change during a search.
type Cost struct {
	Violations int   // one for each victim and each budget that does not allow it
	Pods       int   // evicted pods
	Requeued   int   // pods that do not run yet and go back to the queue
	Highest    int32 // the highest victim priority; 0 without victims
	Sum        int64 // sum of victim priorities

	// Released is the sum of the victims' sizes. Cost comparison ignores it. Among sets with equal cost and plan, less is better.
	Released int64
}

// costRules is the order of costs. Package plan's rules follow for equal costs.
var costRules = []struct {
	name    Rule
	compare func(a, b Cost) int
}{
	{ByBudgets, func(a, b Cost) int { return cmp.Compare(a.Violations, b.Violations) }},
	{ByPods, func(a, b Cost) int { return cmp.Compare(a.Pods, b.Pods) }},
	{ByRequeued, func(a, b Cost) int { return cmp.Compare(a.Requeued, b.Requeued) }},
	{ByHighest, func(a, b Cost) int { return cmp.Compare(a.Highest, b.Highest) }},
	{BySum, func(a, b Cost) int { return cmp.Compare(a.Sum, b.Sum) }},
}

// Compare returns a negative number if c is lower than o by costRules, 0 if they are equal.
func (c Cost) Compare(o Cost) int {
	_, order := c.decide(o)
	return order
}

// decide returns the first rule by which two costs differ, and a negative number if c is lower; "" and 0 if they are equal.
func (c Cost) decide(o Cost) (Rule, int) {
	for _, r := range costRules {
		if order := r.compare(c, o); order != 0 {
			return r.name, order
		}
	}
	return "", 0
}

// compareCount compares violations, pods and requeued pods: the cost without priorities.
func (c Cost) compareCount(o Cost) int {
	return cmp.Or(cmp.Compare(c.Violations, o.Violations), cmp.Compare(c.Pods, o.Pods), cmp.Compare(c.Requeued, o.Requeued))
}

// comparePrice compares costs under a ceiling, where the highest priority does not matter.
func (c Cost) comparePrice(o Cost) int {
	return cmp.Or(c.compareCount(o), cmp.Compare(c.Sum, o.Sum))
}

// victims returns the number of victims, running or not.
func (c Cost) victims() int { return c.Pods + c.Requeued }

// meanPriority returns the mean of the victims' priorities, rounded down.
func (c Cost) meanPriority() int64 {
	n := int64(max(c.victims(), 1))
	return (c.Sum - (c.Sum%n+n)%n) / n
}

// under returns whether no victim has a priority above the ceiling.
func (c Cost) under(ceiling int32) bool { return c.victims() == 0 || c.Highest <= ceiling }

// Add returns the sum of two costs.
func (c Cost) Add(o Cost) Cost {
	sum := Cost{
		Violations: c.Violations + o.Violations, Pods: c.Pods + o.Pods, Requeued: c.Requeued + o.Requeued,
		Highest: max(c.Highest, o.Highest), Sum: c.Sum + o.Sum, Released: c.Released + o.Released,
	}
	switch {
	case c.victims() == 0:
		sum.Highest = o.Highest
	case o.victims() == 0:
		sum.Highest = c.Highest
	}
	return sum
}

// price returns the cost under a ceiling, where the highest priority no longer matters: violations, pods and the sum of priorities.
// All pods requeued together weigh less than one running pod.
func (c Cost) price() offer.Price {
	return offer.Price{int64(c.Violations), int64(c.Pods)<<32 + int64(c.Requeued), c.Sum}
}

const priceWidth = 3

// counts returns the part of a price that does not depend on priorities.
func counts(p offer.Price) offer.Price { return p[:2] }

// cost returns the cost of evicting v by itself, or of its whole bundle if that is charged. Shared budgets are added later.
func (v Victim) cost() Cost {
	if v.bundle != nil {
		return *v.bundle
	}
	c := Cost{Pods: 1, Highest: v.Priority, Sum: int64(v.Priority), Released: v.Size}
	if v.Pending {
		c.Pods, c.Requeued = 0, 1
		return c // it does not run, so no budget counts it
	}
	if v.Violates {
		c.Violations = 1
	}
	c.Violations += exhausted(v.Budgets)
	return c
}

// CostOf returns the cost of one victim by itself.
func CostOf(v Victim) Cost { return v.cost() }

// costOf returns the summed cost of the victims with the indexes gone.
func costOf(victims []Victim, gone []int) (c Cost) {
	for _, v := range gone {
		c = c.Add(victims[v].cost())
	}
	return c
}
