package evict

// Budget is a disruption budget that several victims may share. Each victim beyond Allowed is a violation. Names are unique.
type Budget struct {
	Name    string
	Allowed int
}

// budgetCounts is the number of evicted victims by budget. Budgets that allow no eviction are left out: Cost.Violations has them.
type budgetCounts map[Budget]int

// add counts one evicted pod towards its budgets.
func (l budgetCounts) add(budgets []Budget) {
	for _, b := range budgets {
		if b.Allowed > 0 {
			l[b]++
		}
	}
}

// violations returns how many evictions exceed what their budgets allow.
func (l budgetCounts) violations() (n int) {
	for b, many := range l {
		n += max(0, many-b.Allowed)
	}
	return n
}

// exhausted returns the number of budgets that allow no eviction.
func exhausted(budgets []Budget) (n int) {
	for _, b := range budgets {
		if b.Allowed <= 0 {
			n++
		}
	}
	return n
}
