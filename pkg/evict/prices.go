package evict

import (
	"math"
	"math/bits"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// prices writes costs under a ceiling as prices that are ordered as the costs are. Mostly they fit into one
// number, which is added and compared in a fraction of the time:
//
//	violations │ pods │ sent back │ priorities
//
// Each has as many bits as all victims together need. A priority counts as so many units above the lowest one there
// is: which of two costs is lower depends on priorities only where as many leave, so it is the same.
type prices struct {
	one bool // they fit into one number
	// The bits of priorities; of these and who is sent back; of these and pods; of all.
	sum, back, pods, all int
	lowest, unit         int64
}

// newPrices looks at all victims there may be. A budget may be said to allow nobody later.
func newPrices(nodes []Node) prices {
	lowest, highest := int64(math.MaxInt32), int64(math.MinInt32)
	var violations, pods, back uint64
	for i := range nodes {
		for v := range nodes[i].Victims {
			victim := &nodes[i].Victims[v]
			lowest, highest = min(lowest, int64(victim.Priority)), max(highest, int64(victim.Priority))
			if c := victim.bundle; c != nil {
				violations, pods, back = violations+uint64(c.Violations), pods+uint64(c.Pods), back+uint64(c.Back)
				highest = max(highest, int64(c.Highest))
				continue
			}
			if victim.Waits {
				back++
				continue
			}
			pods++
			violations += uint64(len(victim.Budgets))
			if victim.Violates {
				violations++
			}
		}
	}
	p := prices{lowest: lowest, unit: max(priorityUnit(nodes, lowest), 1)}
	p.sum = bits.Len64((pods + back) * uint64(max(highest-lowest, 0)/p.unit))
	p.back = p.sum + bits.Len64(back)
	p.pods = p.back + bits.Len64(pods)
	p.all = max(p.pods+bits.Len64(violations), 1)
	p.one = p.all <= mostBits
	return p
}

// mostBits is how many a number has for prices: its sign is not one of them, and the sum of two must fit.
var mostBits = 62

// priorityUnit is the greatest number of which all priorities are so many above the lowest.
func priorityUnit(nodes []Node, lowest int64) (all int64) {
	last := lowest
	for i := range nodes {
		for v := range nodes[i].Victims {
			priority := int64(nodes[i].Victims[v].Priority)
			if all == 1 || priority == last {
				continue
			}
			last = priority
			for a, b := all, priority-lowest; ; a, b = b, a%b {
				if b == 0 {
					all = a
					break
				}
			}
		}
	}
	return all
}

// width is how many numbers a price has.
func (p prices) width() int {
	if p.one {
		return 1
	}
	return priceWidth
}

// add appends the price of a cost.
func (p prices) add(to []int64, c Cost) []int64 {
	row := c.price()
	if !p.one {
		return append(to, row...)
	}
	sum := (row[2] - int64(c.victims())*p.lowest) / p.unit
	pods, back := row[1]>>32, row[1]&math.MaxUint32
	return append(to, row[0]<<p.pods+pods<<p.back+back<<p.sum+sum)
}

// counts is the part of a price that does not depend on priorities.
func (p prices) counts(price offer.Price) offer.Price {
	if !p.one {
		return counts(price)
	}
	return offer.Price{price[0] >> p.sum}
}

// cost is the cost of a price, but for the highest priority; of the sum of priorities only the order is kept.
func (p prices) cost(price offer.Price) Cost {
	if !p.one {
		return Cost{Violations: int(price[0]), Pods: int(price[1] >> 32), Back: int(price[1] & math.MaxUint32), Sum: price[2]}
	}
	part := func(from, to int) int { return int(price[0] >> from & (1<<(to-from) - 1)) }
	return Cost{Violations: int(price[0] >> p.pods), Pods: part(p.back, p.pods), Back: part(p.sum, p.back), Sum: price[0] & (1<<p.sum - 1)}
}
