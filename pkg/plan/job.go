package plan

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Job is a request whose members differ: in what they need (launcher and workers), or
// in whom they gather with (the gangs of a group, each in its own rack). Members that
// differ in nothing are a class.
type Job struct {
	Classes []Class // by the lowest rank in them
	Gangs   []Gang
	All     Gather // how the members of all gangs gather
	Sets    []Set  // and those of some
	// Choice says which gangs may be left out, by the index of the gang; nil is none. Only
	// ChooseJob asks.
	Choice *choice.Choice
}

// Class is members that need the same and belong to one gang.
type Class struct {
	Gang int // index into Job.Gangs
	Kind int // members of one kind need the same; kinds are 0, 1, …
	// Ranks says where the members stand among all that wait, rising. No two members
	// have the same rank.
	Ranks []int
}

// Gang is one gang of a job.
type Gang struct {
	Need  offer.Slots   // so many members at the least make a plan
	Bound []offer.Slots // by node index, how many run already; nil if none does
}

// Gather is what a gather spec asks for in one scope.
type Gather struct {
	Must     int          // the deepest MustGather layer; 0 is the whole cluster
	Prefer   []Preference // in any order
	Multiple offer.Multiples
}

// JobWorld is what a job is placed on.
type JobWorld struct {
	// World's Free is how many members each node takes whichever they are: it says
	// which domains are large. Its Bound is not read.
	World
	// Take says how many members of a kind a node takes beside a load, by kind, of
	// others that are not there yet.
	Take func(node int, load []offer.Slots, kind int) offer.Slots
	// Trial is for members that depend on one another across nodes; nil if none do.
	Trial Trial
	// Ways are the ways to make room on a node, at prices of Width numbers, cheapest
	// first; the first costs nothing. Nil means that Take is the only one. Only PriceJob
	// asks.
	Ways  func(node int) []Way
	Width int
	// Work is shared by searches that follow one another; nil if there is only one. Of nodes
	// to which Name gives the same number, but 0, they know what they take, by any of its Ways:
	// it is the same. Nil names none.
	Work *Work
	Name func(node int) int
}

// Way is one way to make room on a node: what it takes then is like JobWorld.Take.
type Way struct {
	Price offer.Price
	Take  func(load []offer.Slots, kind int) offer.Slots
}

// Trial is a world in which members can be put one after the other to see who fits
// then. What Take says of a node is true of a trial in which nobody was put.
type Trial interface {
	Fits(kind, node int) bool
	// Put puts a member there; Undo takes the last one back.
	Put(kind, node int)
	Undo()
}

// JobPlan says where the members of a job go.
type JobPlan struct {
	Domain topology.ID // the deepest domain that holds all members
	// Puts has an entry for each member that is placed.
	Puts []Put
	// InOrder says that the Filters let members pass in the order of Puts, and perhaps
	// in no other. Else nodes stand in the order in which ranks are to fill them.
	InOrder bool
	// NotAll says that not all ways were tried, and that of those that were not, one may
	// place more, lie deeper or touch fewer domains of the PreferGather layers (rules 3 to 5).
	NotAll bool
}

// Put places one member of a class.
type Put struct{ Class, Node int }

// ChooseJob returns the first plan by the order of the rules, or nil and why there is none. What is not a question for like members is decided so:
//
//   - of two sets of as many members, the one with the lower ranks;
//   - a domain is as large as the number of members that it takes whichever they are;
//   - a domain in which members of several classes find room gets as many as can be,
//     of the first classes;
//   - where gangs may be left out, of two sets of gangs of which as many members are placed
//     that whose plan comes first, and then that with the first gangs.
//
// Where there are too many ways to look at all of them, or members depend on one
// another across nodes, the plan is one that holds, found by trying the best domains
// first, and a refusal may be wrong; both say so.
func ChooseJob(w JobWorld, j Job) (*JobPlan, *Refusal) {
	if j.Choice.Any() {
		return chooseSome(w, j)
	}
	return chooseAll(w, j, maxVecsSeen)
}

// chooseAll is ChooseJob for a job that needs all of its gangs, which looks at no more than so many
// vecs before it tries one by one.
func chooseAll(w JobWorld, j Job, vecs int) (*JobPlan, *Refusal) {
	if w.Trial != nil {
		known := newMemory(w.Trial)
		defer known.catchUp()
		w.Trial = known
	}
	m := newMixed(w, j)
	p, exact := m.choose(vecs)
	if p != nil && !m.holds(p) {
		p = nil
	}
	switch {
	case p == nil && (m.never || exact && w.Trial == nil):
		return nil, m.refuse(false)
	case p == nil:
		s := newTrials(m)
		if p = s.choose(0); p == nil {
			return nil, m.refuse(s.cut)
		}
	case w.Trial != nil && len(p.Puts) < int(j.members()):
		// Members who fit nowhere now may fit when others are there.
		s := newTrials(m)
		p = cmp.Or(s.choose(len(p.Puts)), p)
		p.NotAll = p.NotAll || s.cut
	}
	return p, nil
}

// PriceJob returns the first plan of those at the lowest price at which every gang gets
// the members that it needs, and the price. Trial is not asked. The plan is nil if there
// is none, or if exact is false, since there are too many ways to look at.
func PriceJob(w JobWorld, j Job) (p *JobPlan, price offer.Price, exact bool) {
	w.Trial = nil
	m := newMixed(w, j)
	p, exact = m.choose(maxVecsSeen)
	return p, m.least, exact
}

// holds says whether a plan passes in the trial, if there is one, and notes the order
// in which it does.
func (m *mixed) holds(p *JobPlan) bool {
	if m.Trial == nil {
		return true
	}
	order, ok := rehearse(m.Trial, m.Job, p.Puts)
	for range order {
		m.Trial.Undo()
	}
	p.Puts, p.InOrder = order, true
	return ok
}

// rehearse puts members in the trial, each as soon as it fits, and returns those that
// are there then. If that is too much to ask, it gives up.
func rehearse(s Trial, j Job, puts []Put) (order []Put, ok bool) {
	left := slices.Clone(puts)
	tries := len(puts) + askedInAll
	for len(left) > 0 {
		refused := Put{Class: -1} // of puts that are alike, one is asked
		i := slices.IndexFunc(left, func(p Put) bool {
			if p == refused || tries == 0 {
				return false
			}
			tries--
			refused = p
			return s.Fits(j.Classes[p.Class].Kind, p.Node)
		})
		if i < 0 {
			return order, false
		}
		s.Put(j.Classes[left[i].Class].Kind, left[i].Node)
		order = append(order, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return order, true
}

// members is the number of members that want a place.
func (j Job) members() (n offer.Slots) {
	for _, c := range j.Classes {
		n += offer.Slots(len(c.Ranks))
	}
	return n
}

// kinds is the number of kinds.
func (j Job) kinds() (n int) {
	for _, c := range j.Classes {
		n = max(n, c.Kind+1)
	}
	return n
}

// need is how many members make a plan at the least.
func (j Job) need() (n offer.Slots) {
	for _, g := range j.Gangs {
		n += g.Need
	}
	return max(n, 1)
}
