package evict

import (
	"math"
	"math/bits"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// prices encodes costs under a ceiling as prices with the same order. They mostly fit into one number, which is much faster:
//
//	violations │ pods │ requeued  │ priorities
//
// Each field has as many bits as all victims together need. A priority counts in units above the lowest one, or above the lowest mean of
// a bundle: a bundle may have pods on other nodes. The order is unchanged: priorities matter only between sets of equal size.
type prices struct {
	packed bool // all prices fit into one number
	// Bits of a number, from the right, up to and including priorities, requeued pods, pods, and all fields.
	sum, requeued, pods, all int
	lowest, unit             int64
}

// newPrices returns the encoding for all victims of nodes. It also has space for budgets that are charged as exhausted later.
func newPrices(nodes []Node) prices {
	lowest, highest := int64(math.MaxInt32), int64(math.MinInt32)
	var violations, pods, requeued uint64
	for i := range nodes {
		for v := range nodes[i].Victims {
			victim := &nodes[i].Victims[v]
			c := victim.cost()
			violations += uint64(c.Violations)
			pods += uint64(c.Pods)
			requeued += uint64(c.Requeued)
			lowest, highest = min(lowest, c.meanPriority()), max(highest, int64(c.Highest))
			if victim.bundle == nil && !victim.Pending {
				violations += uint64(len(victim.Budgets))
			}
		}
	}
	p := prices{lowest: lowest, unit: max(priorityUnit(nodes, lowest), 1)}
	p.sum = bits.Len64((pods + requeued) * uint64(max(highest-lowest, 0)/p.unit))
	p.requeued = p.sum + bits.Len64(requeued)
	p.pods = p.requeued + bits.Len64(pods)
	p.all = max(p.pods+bits.Len64(violations), 1)
	p.packed = p.all <= mostBits
	return p
}

// mostBits is the usable bits of a number: the sign is not usable, and the sum of two prices must fit.
var mostBits = 62

// priorityUnit returns the greatest common divisor of all sums of priorities, each priority counted from the lowest.
func priorityUnit(nodes []Node, lowest int64) (unit int64) {
	last := int64(0)
	for i := range nodes {
		for v := range nodes[i].Victims {
			c := nodes[i].Victims[v].cost()
			sum := c.Sum - int64(c.victims())*lowest
			if unit == 1 || sum == last {
				continue
			}
			last = sum
			for a, b := unit, sum; ; a, b = b, a%b {
				if b == 0 {
					unit = a
					break
				}
			}
		}
	}
	return unit
}

// width returns the numbers per price.
func (p prices) width() int {
	if p.packed {
		return 1
	}
	return priceWidth
}

// add appends the price of cost c to a list of numbers.
func (p prices) add(to []int64, c Cost) []int64 {
	row := c.price()
	if !p.packed {
		return append(to, row...)
	}
	sum := (row[2] - int64(c.victims())*p.lowest) / p.unit
	pods, requeued := row[1]>>32, row[1]&math.MaxUint32
	return append(to, row[0]<<p.pods+pods<<p.requeued+requeued<<p.sum+sum)
}

// counts returns the part of a price that does not depend on priorities.
func (p prices) counts(price offer.Price) offer.Price {
	if !p.packed {
		return counts(price)
	}
	return offer.Price{price[0] >> p.sum}
}

// cost returns the cost that a price encodes. Highest is 0, and Sum is only good for comparison.
func (p prices) cost(price offer.Price) Cost {
	if !p.packed {
		return Cost{Violations: int(price[0]), Pods: int(price[1] >> 32), Requeued: int(price[1] & math.MaxUint32), Sum: price[2]}
	}
	part := func(from, to int) int { return int(price[0] >> from & (1<<(to-from) - 1)) }
	return Cost{
		Violations: int(price[0] >> p.pods), Pods: part(p.requeued, p.pods), Requeued: part(p.sum, p.requeued), Sum: price[0] & (1<<p.sum - 1),
	}
}
