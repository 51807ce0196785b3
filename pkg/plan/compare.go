package plan

import (
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Judge compares plans for one request on worlds that differ only in Free, because different pods were evicted.
// World.Capacity must be set: it decides the sizes of domains.
type Judge struct {
	Ground
	request Request
	penalty []int64
	// Last is the last rule that counts; "" for all.
	Last Rule
}

// NewJudge returns a judge of plans for one request. w.Free is not read.
func NewJudge(w World, r Request) *Judge {
	w.Free = w.Capacity
	return &Judge{Ground: NewGround(w, r.Multiple.Steps(w.Tree.Depth()+1), r.Must, nil), request: r, penalty: w.Penalty}
}

// Decide returns the rule that decides between two plans, and a negative number if a is first; "" and 0 if they are equal.
func (j *Judge) Decide(a, b *Plan) (Rule, int) {
	return j.Order(j.draft(a), j.draft(b), j.Last)
}

// draft returns the properties of a plan that the rules compare.
func (j *Judge) draft(p *Plan) *Draft {
	var sums []offer.Slots
	members := func() []offer.Slots {
		if sums == nil {
			sums = countByDomain(j.tree, p.Places)
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
	for _, place := range p.Places {
		n += int64(place.Count) * j.penalty[place.Node]
	}
	return n
}

// countByDomain returns the members of a plan by domain ID.
func countByDomain(t *topology.Tree, places []Place) []offer.Slots {
	nodes := make([]offer.Slots, t.NumNodes())
	for _, place := range places {
		nodes[place.Node] += place.Count
	}
	return offer.Sum(t, nodes)
}

// chargedBy returns what preference p charges for members, which are counted by domain ID.
func (g *Ground) chargedBy(members []offer.Slots, p Preference) (n int64) {
	for d := range g.Below(topology.Root, p.Layer) {
		n += p.Charge.Of(g.BoundIn(d), members[d])
	}
	return n
}
