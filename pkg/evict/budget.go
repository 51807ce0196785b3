package evict

// Budget is a disruption budget that several victims may share: as many as it allows may
// leave, and each one more is a violation. Budgets are told apart by their names.
type Budget struct {
	Name    string
	Allowed int
}

// leaving counts, by budget, who of some victims leaves; budgets that allow nobody do not
// count: a victim's own cost has them.
type leaving map[Budget]int

func (l leaving) add(budgets []Budget) {
	for _, b := range budgets {
		if b.Allowed > 0 {
			l[b]++
		}
	}
}

// violations is how often budgets are violated.
func (l leaving) violations() (n int) {
	for b, many := range l {
		n += max(0, many-b.Allowed)
	}
	return n
}

// outright is how many of the budgets allow nobody to leave.
func outright(budgets []Budget) (n int) {
	for _, b := range budgets {
		if b.Allowed <= 0 {
			n++
		}
	}
	return n
}
