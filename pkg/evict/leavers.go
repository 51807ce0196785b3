package evict

import (
	"slices"
	"sort"
)

// Leavers are parties, each of which may leave alone or with others, and the search for some that are enough at little cost. What is enough is up to who
// asks. It may be dear to say, and more need not be enough where fewer are. One or two are compared with all ones and twos; of more there are too many sets.
type Leavers struct {
	Costs  []Cost                // of each, the least first
	Enough func(some []int) bool // is never asked of nobody
}

// MostPaired bounds of how many parties all pairs are tried.
const MostPaired = 64

// OnesAndPairs are the sets of one, and of two of the first MostPaired. Those that cost least come first; of equal ones, one before two.
func (l Leavers) OnesAndPairs() (sets [][]int) {
	for i := range l.Costs {
		sets = append(sets, []int{i})
	}
	few := min(len(l.Costs), MostPaired)
	for i := range few {
		for j := i + 1; j < few; j++ {
			sets = append(sets, []int{i, j})
		}
	}
	slices.SortStableFunc(sets, func(x, y []int) int { return l.Cost(x).Compare(l.Cost(y)) })
	return sets
}

// Cost is what it costs that some leave.
func (l Leavers) Cost(some []int) (sum Cost) {
	for _, i := range some {
		sum = sum.Add(l.Costs[i])
	}
	return sum
}

// Few are the one or two that cost least of those that are enough, if that is less than others cost that are known to be enough. Else it is
// those; nil if there are none.
func (l Leavers) Few(known []int) []int {
	for _, some := range l.OnesAndPairs() {
		if known != nil && l.Cost(some).Compare(l.Cost(known)) >= 0 {
			break
		}
		if l.Enough(some) {
			return some
		}
	}
	return known
}

// Many are as many of an order as are enough, but for those without whom the others are, too. The first ones of the order are tried without the rest
// before any of the rest are: of those too many may leave. nil is that no number of them was enough.
func (l Leavers) Many(order []int, first int) []int {
	n := l.fewest(order, 0, first)
	if n == 0 {
		n = l.fewest(order, first, len(order))
	}
	some := slices.Clone(order[:n])
	for at := n - 1; at >= 0 && len(some) > 1; at-- {
		if without := slices.Delete(slices.Clone(some), at, at+1); l.Enough(without) {
			some = without
		}
	}
	if n == 0 {
		return nil
	}
	return some
}

// fewest is how many of an order are enough, of more than some and no more than others; 0 if none are. It is found as if more always were where fewer
// are, and where that finds nothing one by one, as far as there are few.
func (l Leavers) fewest(order []int, above, most int) int {
	enough := func(n int) bool { return l.Enough(order[:n]) }
	if n := above + 1 + sort.Search(most-above, func(i int) bool { return enough(above + 1 + i) }); n <= most {
		return n
	}
	for n := above + 1; n <= min(most, above+MostPaired); n++ {
		if enough(n) {
			return n
		}
	}
	return 0
}
