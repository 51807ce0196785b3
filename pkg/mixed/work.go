package mixed

import "slices"

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
}

// mostKept bounds the vecs of the tables that are kept from one search for the next.
const mostKept = 1 << 20

// NewWork returns the work of searches that do so much together.
func NewWork(most int) *Work { return &Work{vecs: most} }

// shareTables returns tables like these: those of an earlier search, if they were for the
// same job and are not too many by now.
func (w *Work) shareTables(new *tables) *tables {
	if w == nil {
		return new
	}
	if w.tables == nil || w.tables.kept > mostKept || w.tables.width != new.width ||
		!slices.Equal(w.tables.want, new.want) || !slices.Equal(w.tables.setsOf, new.setsOf) {
		w.tables = new
	}
	return w.tables
}
