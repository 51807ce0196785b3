package evict

import (
	"cmp"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Cost is what a set of victims costs. The zero Cost evicts nobody.
//
// A further field must obey what the search relies on: it adds up over victims (Add), or is a maximum that ceilings handle, as
// Highest is; it is never negative, so that fewer victims never cost more; costRules, compareCount, comparePrice, price and
// prices.go order it alike; the cost of a gang is the sum of CostOf its members; and it does not change during a search.
type Cost struct {
	Violations int   // one for each victim and each budget that does not allow it
	Pods       int   // that are evicted
	Back       int   // that do not run yet, and go back to the queue
	Highest    int32 // the highest victim priority; 0 without victims
	Sum        int64 // of victim priorities

	// Released is the sum of the victims' sizes. No rule for costs reads it: among sets that cost the same, and whose plans are as
	// good, the one that releases the least comes first.
	Released int64
}

// costRules is the order of costs. Plans are compared by package plan's rules where costs
// are equal.
var costRules = []struct {
	name    Rule
	compare func(a, b Cost) int
}{
	{ByBudgets, func(a, b Cost) int { return cmp.Compare(a.Violations, b.Violations) }},
	{ByPods, func(a, b Cost) int { return cmp.Compare(a.Pods, b.Pods) }},
	{ByBack, func(a, b Cost) int { return cmp.Compare(a.Back, b.Back) }},
	{ByHighest, func(a, b Cost) int { return cmp.Compare(a.Highest, b.Highest) }},
	{BySum, func(a, b Cost) int { return cmp.Compare(a.Sum, b.Sum) }},
}

// Compare orders costs by the rules for them.
func (c Cost) Compare(o Cost) int {
	_, order := c.decide(o)
	return order
}

// decide says which of two costs comes first, and by which rule; "" if they are equal.
func (c Cost) decide(o Cost) (Rule, int) {
	for _, r := range costRules {
		if order := r.compare(c, o); order != 0 {
			return r.name, order
		}
	}
	return "", 0
}

func (c Cost) compareCount(o Cost) int {
	return cmp.Or(cmp.Compare(c.Violations, o.Violations), cmp.Compare(c.Pods, o.Pods), cmp.Compare(c.Back, o.Back))
}

// comparePrice orders costs under a ceiling.
func (c Cost) comparePrice(o Cost) int {
	return cmp.Or(c.compareCount(o), cmp.Compare(c.Sum, o.Sum))
}

// victims is how many lose their places.
func (c Cost) victims() int { return c.Pods + c.Back }

// under says that no victim is above the ceiling.
func (c Cost) under(ceiling int32) bool { return c.victims() == 0 || c.Highest <= ceiling }

// Add returns the cost of both.
func (c Cost) Add(o Cost) Cost {
	sum := Cost{c.Violations + o.Violations, c.Pods + o.Pods, c.Back + o.Back, max(c.Highest, o.Highest), c.Sum + o.Sum, c.Released + o.Released}
	switch {
	case c.victims() == 0:
		sum.Highest = o.Highest
	case o.victims() == 0:
		sum.Highest = c.Highest
	}
	return sum
}

// price is the cost under a ceiling, where the highest priority no longer matters:
// violations, pods and the sum of priorities. Who goes back counts as so little of a pod that
// all of them together are none.
func (c Cost) price() offer.Price {
	return offer.Price{int64(c.Violations), int64(c.Pods)<<32 + int64(c.Back), c.Sum}
}

const priceWidth = 3

// counts is the part of a price that does not depend on priorities.
func counts(p offer.Price) offer.Price { return p[:2] }

func (v Victim) cost() Cost {
	if v.bundle != nil {
		return *v.bundle
	}
	c := Cost{Pods: 1, Highest: v.Priority, Sum: int64(v.Priority), Released: v.Size}
	if v.Waits {
		c.Pods, c.Back = 0, 1
		return c // it is not running, so no budget counts it
	}
	if v.Violates {
		c.Violations = 1
	}
	c.Violations += outright(v.Budgets)
	return c
}

// CostOf returns the cost of one victim, whoever else leaves.
func CostOf(v Victim) Cost { return v.cost() }

// costOf returns the cost of some of a node's victims.
func costOf(victims []Victim, gone []int) (c Cost) {
	for _, v := range gone {
		c = c.Add(victims[v].cost())
	}
	return c
}
