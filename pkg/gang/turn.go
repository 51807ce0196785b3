package gang

import "slices"

// Interdependent members enter the scheduler in turn.
// Invariant: every member before the next one has entered, or has no assignment any more.

// setTurn sets the order in which the members of the plan enter; nil for none.
func (b *Book) setTurn(g *group, turn []string) {
	g.turn, g.next = turn, 0
	for i, pod := range slices.Backward(turn) { // the first of duplicates counts
		if m := b.pods[pod]; m != nil {
			m.turnIndex = int32(i)
		}
	}
	b.advance(g)
}

// advance moves next past members that need not enter any more: deleted, without an assignment, or assumed.
func (b *Book) advance(g *group) {
	for ; g.next < len(g.turn); g.next++ {
		pod := g.turn[g.next]
		if m := b.pods[pod]; m != nil && g.plan[pod] != "" && !m.assumed {
			return
		}
	}
}

// rewind moves next back to a member that the scheduler does not count any longer.
func (g *group) rewind(m *member) {
	if i := int(m.turnIndex); i < g.next && g.turn[i] == m.Pod {
		g.next = i
	}
}

// nextInTurn returns the member that may enter; "" if all have entered or there is no order.
func (g *group) nextInTurn() string {
	if g.next == len(g.turn) {
		return ""
	}
	return g.turn[g.next]
}

// wakeNext wakes the next member, if there is an order and the plan is confirmed.
func (g *group) wakeNext() []Effect {
	if pod := g.nextInTurn(); pod != "" && !g.unconfirmed {
		return []Effect{{Verb: Wake, Pod: pod}}
	}
	return nil
}

// mayEnter returns whether it is the member's turn to enter, and if not, why.
func (g *group) mayEnter(m *member) (ok bool, why string) {
	if next := g.nextInTurn(); next != "" && next != m.Pod && !m.assumed {
		return false, "waits for " + next + ", which must be placed before it"
	}
	return true, ""
}
