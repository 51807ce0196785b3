package mixed

import "slices"

// Work is shared by consecutive searches for one job on worlds that differ on a few nodes:
//
//   - tables, so that unchanged domains are merged once;
//   - the effort limit. A late search is cheap, and finds less unless it is easy.
type Work struct {
	vecs   int // remaining
	tried  int // tries used on trials
	tables *tables
}

// mostKept bounds the vectors of tables that outlive a search.
const mostKept = 1 << 20

// NewWork returns the Work of searches that together examine at most this number of vectors.
func NewWork(most int) *Work { return &Work{vecs: most} }

// shareTables returns the tables of an earlier search if they have the same classes and sets and are not too large, else fresh.
func (w *Work) shareTables(fresh *tables) *tables {
	if w == nil {
		return fresh
	}
	if w.tables == nil || w.tables.stored > mostKept || w.tables.width != fresh.width ||
		!slices.Equal(w.tables.want, fresh.want) || !slices.Equal(w.tables.setsOf, fresh.setsOf) {
		w.tables = fresh
	}
	return w.tables
}
