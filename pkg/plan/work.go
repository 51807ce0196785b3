package plan

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Work is what searches for one answer share that follow one another, for one job on worlds
// that differ on a few nodes:
//
//   - tables, so that domains in which nothing has changed are merged once;
//   - how much may be done in all. One search more after many costs next to nothing, and finds
//     less if it is not easy.
type Work struct {
	vecs   int // that may yet be looked at
	tried  int // on trials
	tables *tables
	leaves map[leafName]*leaf
}

// OneWork is about what the largest search may do that is the only one.
const OneWork = maxVecsSeen

// mostKept bounds the vecs of the tables that are kept from one search for the next.
const mostKept = 1 << 20

// NewWork returns the work of searches that do so much together.
func NewWork(most int) *Work { return &Work{vecs: most} }

// Allow has the searches that follow do so much, whatever was done before.
func (w *Work) Allow(most int) { w.vecs = most }

// Spent says whether as much was done as may be.
func (w *Work) Spent() bool { return w.vecs <= 0 }

// leafName names what is known of a node, see JobWorld.Name.
type leafName struct{ node, name int }

// leaf is what is known of a node.
type leaf struct {
	slots []offer.Slots // by kind
	table *table        // nil until it was made
}

// known returns what is known of a node; nil if nothing is kept of it.
func (m *mixed) known(node int) *leaf {
	if m.Work == nil || m.Name == nil {
		return nil
	}
	name := leafName{node, m.Name(node)}
	if name.name == 0 {
		return nil
	}
	if m.Work.leaves[name] == nil {
		if m.Work.leaves == nil {
			m.Work.leaves = map[leafName]*leaf{}
		}
		m.Work.leaves[name] = &leaf{}
	}
	return m.Work.leaves[name]
}

// shareTables returns tables like these: those of an earlier search, if they were for the
// same job and are not too many by now.
func (w *Work) shareTables(new *tables) *tables {
	if w == nil {
		return new
	}
	if w.tables == nil || w.tables.kept > mostKept || w.tables.width != new.width ||
		!slices.Equal(w.tables.want, new.want) || !slices.Equal(w.tables.setsOf, new.setsOf) {
		w.tables = new
		for _, l := range w.leaves {
			l.table = nil
		}
	}
	return w.tables
}

// effort is how much the search may look at.
func (m *mixed) effort() effort {
	if m.Work == nil {
		return effort{vecs: maxVecsSeen}
	}
	left := m.Work.vecs
	if m.Ways == nil {
		left = max(left, m.little().vecs)
	}
	return effort{vecs: max(1, min(left, maxVecsSeen))} // 0 would be any number
}

// listingCosts is how many vecs are looked at in the time in which one is put into a table.
const listingCosts = 16

// spend notes what was done since the last time.
func (m *mixed) spend() {
	if m.Work != nil && m.tables != nil {
		m.Work.vecs -= m.tables.done.vecs + listingCosts*m.tables.listed
		m.tables.done.vecs, m.tables.listed = 0, 0
	}
}

// fewerTries is how many of so many tries a search has that is not the first: those that
// come first may leave it a sixteenth, but one for each member and node.
func (s *trials) fewerTries(all int) int {
	if s.Work == nil {
		return all
	}
	each := 1
	if s.dependent {
		each = askingCosts
	}
	least := min(all, all/16+each*(int(s.members())+s.Tree.NumNodes()))
	return max(least, min(all, 2*all-s.Work.tried))
}
