package preempt

import (
	"cmp"
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// within looks for victims where quotas decide as well: for those who make room, and those who leave besides so that the quotas have enough, at the least cost
// of both. Package evict knows nothing of quotas. So it is asked more than once who makes room, each time of other candidates, and then it is
// seen who else must leave.
type within struct {
	*candidates
	p    *Preemptor
	best *solution // the cheapest that was found
}

// chooseWithin is chooseAmong where quotas decide as well. Of those who make room it is tried with all, and with those alone whose leaving their
// quotas need; then from the other end; and if nobody was found so, with those who may leave together.
func (p *Preemptor) chooseWithin(ctx context.Context, c *candidates) (*solution, Verdict) {
	if c.own(ctx) != nil {
		return nil, Untried
	}
	room, verdict := p.chooseAmong(ctx, c)
	if c.claim == nil || room == nil && verdict != Nobody && verdict != NoHelp {
		return room, verdict
	}
	s := within{candidates: c, p: p}
	s.consider(ctx, room)
	if c.claim.Short() {
		found, _ := p.chooseAmong(ctx, c.only(c.claim.Frees))
		s.consider(ctx, found)
	}
	if room != nil || c.claim.Short() { // else no eviction makes room, whoever leaves first
		s.before(ctx, room)
	}
	if s.best == nil {
		s.byRight(ctx, room)
	}
	if s.best == nil {
		c.lacking = room != nil
		if c.claim.Untried() || c.unsure || s.asked() {
			return nil, Untried
		}
		return nil, c.noHelp()
	}
	s.best.awaits = c.claim.Leaving()
	return s.best, Evicts
}

// consider has as many more leave as the quotas need, and keeps that if nothing cheaper was found. e is nil if nobody makes room.
func (s *within) consider(ctx context.Context, e *solution) {
	if e == nil {
		return
	}
	if e = s.covered(ctx, e); e != nil && (s.best == nil || e.before(s.best)) {
		s.best = e
	}
}

// mostRooms bounds how often it is asked in one way who makes room, on few nodes, and mostRoomNodes the nodes that are looked at for it in all.
const mostRooms, mostRoomNodes = 64, 20_000

func (c *candidates) mostRooms() int {
	return min(mostRooms, max(1, mostRoomNodes/max(1, len(c.Nodes))))
}

// mostAsked bounds of how many pods in all the quotas are asked whether they are enough, each as often as it is one of some, before it is asked no more who
// else makes room: all gangs wait for the answer, which takes the longer the more there are who may leave.
const mostAsked = 500_000

// asked says whether the quotas have been asked of as many as they may be.
func (s *within) asked() bool {
	r, counts := s.claim.(*remembering)
	return counts && r.asked >= mostAsked
}

// before looks from the other end: first one party or two leave for the quotas, the cheapest first, and then as many more as make room, and as the quotas still
// need. So those are found who are good for both, and others where not all may leave who make room at the least cost. Room alone is what making
// room costs whatever quotas say: nothing is cheaper than that, nor than those who leave first.
func (s *within) before(ctx context.Context, room *solution) {
	if s.best != nil && room != nil && !room.before(s.best) {
		return
	}
	parties := s.parties(nil)
	l := asLeavers(parties[:min(len(parties), evict.MostPaired)])
	rooms := s.mostRooms()
	for _, some := range l.OnesAndPairs() {
		if rooms == 0 || s.asked() || s.best != nil && l.Cost(some).Compare(s.best.cost) >= 0 {
			return
		}
		first := s.with(&solution{}, pick(parties, some))
		if first.cost != l.Cost(some) {
			continue // one of the two is in the other one
		}
		rooms--
		if found, _ := s.p.chooseAmong(ctx, s.after(first.gone)); found != nil {
			found.gone, found.cost, found.why = slices.Concat(first.gone, found.gone), found.cost.Add(first.cost), nil
			s.consider(ctx, found)
		}
	}
}

// byRight is for where those who make room are more than may leave: others have too much only until some of them have left. Those of whom there are too
// many stay then, and so do, as long as there is room without them, all who may not leave when the rest of those has; and it is asked who else makes room.
func (s *within) byRight(ctx context.Context, room *solution) {
	rooms := s.mostRooms()
	among := func(some *candidates) *solution {
		rooms--
		found, _ := s.p.chooseAmong(ctx, some)
		if found != nil {
			found.why = nil // it is not known who else there is
		}
		return found
	}
	for all, some := s.candidates, s.candidates; room != nil && rooms > 0 && !s.asked(); {
		if right, also := s.inTurn(room.gone); len(right) < len(room.gone) {
			gone := eligible.UIDs([][]*v1.Pod{room.gone})
			all = all.keeping(func(pod *v1.Pod) bool { return gone[pod.UID] && !right[pod.UID] })
			some = some.keeping(func(pod *v1.Pod) bool { return !right[pod.UID] && !also(pod) })
			room = among(some)
		} else {
			room = nil // they may leave, and the quotas have too little then
		}
		if room == nil && some != all { // on other nodes there may be fewer of the same quotas
			some = all
			room = among(some)
		}
		if s.consider(ctx, room); s.best != nil {
			return
		}
	}
}

// inTurn says who of some may leave one after another, and also whether somebody else may when they have. Gangs of few leave before gangs of many: who is
// the last may be of any size.
func (c *candidates) inTurn(gone []*v1.Pod) (right map[types.UID]bool, also func(*v1.Pod) bool) {
	var gangs [][]*v1.Pod
	at := map[gang.Ref]int{}
	for _, pod := range gone {
		of := source.Of(pod).Whole()
		i, known := at[of]
		if of.IsZero() || !known {
			i = len(gangs)
			at[of], gangs = i, append(gangs, nil)
		}
		gangs[i] = append(gangs[i], pod)
	}
	slices.SortStableFunc(gangs, func(x, y []*v1.Pod) int { return cmp.Compare(len(x), len(y)) })
	right = map[types.UID]bool{}
	may, leave := c.claim.Turns()
	for _, pods := range gangs {
		if may(pods) {
			leave(pods)
			maps.Copy(right, eligible.UIDs([][]*v1.Pod{pods}))
		}
	}
	return right, func(pod *v1.Pod) bool { return may([]*v1.Pod{pod}) }
}
