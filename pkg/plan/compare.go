package plan

import (
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Judge compares plans for one request that hold on worlds which differ only in Free: other
// pods have left. How large domains are is then as Room has it, which the world must say.
type Judge struct {
	Ground
	request Request
	penalty []int64
	// Last is the last rule that counts; "" is all of them.
	Last Rule
}

// NewJudge prepares to compare.
func NewJudge(w World, r Request) *Judge {
	w.Free = w.Room
	return &Judge{Ground: NewGround(w, r.Multiple.Steps(w.Tree.Depth()+1), r.Must, nil), request: r, penalty: w.Penalty}
}

// Decide says which of two plans comes first, and by which rule; "" if they are equal.
func (j *Judge) Decide(a, b *Plan) (Rule, int) {
	return j.Order(j.draft(a), j.draft(b), j.Last)
}

func (j *Judge) draft(p *Plan) *Draft {
	var sums []offer.Slots
	members := func() []offer.Slots {
		if sums == nil {
			sums = members(j.tree, p.Places)
		}
		return sums
	}
	d := &Draft{Domain: p.Domain, Members: int(p.Count()), spread: members, Penalty: func() int64 { return j.penaltyOf(p) }}
	for _, p := range InOrder(j.request.Prefer) {
		d.Charged = append(d.Charged, func() int64 { return j.chargedBy(members(), p) })
	}
	return d
}

// penaltyOf returns what soft preferences charge for a plan.
func (j *Judge) penaltyOf(p *Plan) (n int64) {
	if j.penalty == nil {
		return 0
	}
	for _, at := range p.Places {
		n += int64(at.Count) * j.penalty[at.Node]
	}
	return n
}

// members counts by ID who goes where.
func members(t *topology.Tree, places []Place) []offer.Slots {
	nodes := make([]offer.Slots, t.NumNodes())
	for _, at := range places {
		nodes[at.Node] += at.Count
	}
	return offer.Sum(t, nodes)
}

// chargedBy is what a preference charges for members, by ID.
func (g *Ground) chargedBy(members []offer.Slots, p Preference) (n int64) {
	for d := range g.Below(topology.Root, p.Layer) {
		n += p.Charge.Of(g.BoundIn(d), members[d])
	}
	return n
}
