package gang

import "slices"

// Members that depend on one another enter the scheduler in turn. Whose turn it is, is
// kept: those before have entered, or have no place any more.

// inTurn sets the order in which the members of the plan enter; nil for none.
func (b *Book) inTurn(g *group, turn []string) {
	g.turn, g.next = turn, 0
	for i, pod := range slices.Backward(turn) { // if it is said twice, the first counts
		if m := b.pods[pod]; m != nil {
			m.turn = int32(i)
		}
	}
	b.advance(g)
}

// advance passes over members that need not enter any more.
func (b *Book) advance(g *group) {
	for ; g.next < len(g.turn); g.next++ {
		pod := g.turn[g.next]
		if m := b.pods[pod]; m != nil && g.plan[pod] != "" && !m.assumed {
			return
		}
	}
}

// goBack is for a member of the plan that the scheduler does not count any longer: it
// must enter again.
func (g *group) goBack(m *member) {
	if i := int(m.turn); i < g.next && g.turn[i] == m.Pod {
		g.next = i
	}
}

// whoseTurn is the member whose turn it is to enter, "" if all have or there is no order.
func (g *group) whoseTurn() string {
	if g.next == len(g.turn) {
		return ""
	}
	return g.turn[g.next]
}

// wakeNext lets the next member enter, where they do so in turn.
func (g *group) wakeNext() []Effect {
	if pod := g.whoseTurn(); pod != "" && !g.waiting {
		return []Effect{{Verb: Wake, Pod: pod}}
	}
	return nil
}

func (g *group) lets(m *member) (ok bool, why string) {
	if next := g.whoseTurn(); next != "" && next != m.Pod && !m.assumed {
		return false, "waits for " + next + ", which must be placed before it"
	}
	return true, ""
}
