package mixed

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

func (m *search) draft(p *Plan) *plan.Draft {
	d := &plan.Draft{Domain: p.Domain, Members: len(p.Puts), Penalty: func() int64 { return m.penaltyOf(p) }}
	for _, c := range m.columns {
		d.Charged = append(d.Charged, func() int64 { return m.chargedBy(p, c) })
	}
	return d
}

func (m *search) penaltyOf(p *Plan) (n int64) {
	for _, put := range p.Puts {
		n += m.penalty(m.Classes[put.Class].Kind, put.Node)
	}
	return n
}

// chargedBy is what a plan costs by a column.
func (m *search) chargedBy(p *Plan, c column) (n int64) {
	type part struct {
		domain topology.ID
		set    int
	}
	members := map[part]offer.Slots{}
	for _, put := range p.Puts {
		at := m.Tree.Ancestor(m.Tree.Node(put.Node), c.Layer)
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
		bound := m.BoundIn(at.domain)
		if c.sets != nil {
			bound = m.boundOfSet(at.set, at.domain)
		}
		n += c.Charge.Of(bound, many)
	}
	return n
}
