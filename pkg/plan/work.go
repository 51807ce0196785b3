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
