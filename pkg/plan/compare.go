package plan

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Judge compares plans for one request that hold on worlds which differ only in Free: other
// pods have left. How large domains are is then as Room has it, which the world must say.
type Judge struct {
	ground
	request Request
	penalty []int64
	// Last is the last rule that counts; "" is all of them.
	Last Rule
}

// NewJudge prepares to compare.
func NewJudge(w World, r Request) *Judge {
	w.Free = w.Room
	return &Judge{ground: newGround(w, r.Multiple.Steps(w.Tree.Depth()+1), r.Must, nil), request: r, penalty: w.Penalty}
}

// Decide says which of two plans comes first, and by which rule; "" if they are equal.
func (j *Judge) Decide(a, b *Plan) (Rule, int) {
	return j.decide(j.draft(a), j.draft(b), j.Last)
}

func (j *Judge) draft(p *Plan) *draft {
	var sums []offer.Slots
	members := func() []offer.Slots {
		if sums == nil {
			sums = members(j.tree, p.Places)
		}
		return sums
	}
	d := &draft{domain: p.Domain, members: int(p.Count()), spread: members, penalty: func() int64 { return j.penaltyOf(p) }}
	for _, p := range inOrder(j.request.Prefer) {
		d.charged = append(d.charged, func() int64 { return j.chargedBy(members(), p) })
	}
	return d
}

func (m *mixed) draft(p *JobPlan) *draft {
	d := &draft{domain: p.Domain, members: len(p.Puts), penalty: func() int64 { return m.penaltyOf(p) }}
	for _, c := range m.columns {
		d.charged = append(d.charged, func() int64 { return m.chargedBy(p, c) })
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

func (m *mixed) penaltyOf(p *JobPlan) (n int64) {
	for _, put := range p.Puts {
		n += m.penalty(m.Classes[put.Class].Kind, put.Node)
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
func (g *ground) chargedBy(members []offer.Slots, p Preference) (n int64) {
	for d := range g.below(topology.Root, p.Layer) {
		n += p.Charge.of(g.boundIn(d), members[d])
	}
	return n
}

// chargedBy is what a plan costs by a column.
func (m *mixed) chargedBy(p *JobPlan, c column) (n int64) {
	type part struct {
		domain topology.ID
		set    int
	}
	members := map[part]offer.Slots{}
	for _, put := range p.Puts {
		at := m.tree.Ancestor(m.tree.Node(put.Node), c.Layer)
		if c.sets == nil {
			members[part{at, 0}]++
			continue
		}
		for _, i := range m.setsOf[m.Classes[put.Class].Gang] {
			if slices.Contains(c.sets, i) {
				members[part{at, i}]++
			}
		}
	}
	for at, many := range members {
		bound := m.boundIn(at.domain)
		if c.sets != nil {
			bound = m.boundOfSet(at.set, at.domain)
		}
		n += c.Charge.of(bound, many)
	}
	return n
}
