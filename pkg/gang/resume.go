package gang

import "time"

// A process that begins finds groups that another one has left partially bound. Until each of
// them was tried once, they come before all others: their members run and wait, and the
// places of the rest were theirs. One that is placed then comes first until the scheduler counts
// all of its members on their nodes: whoever is more important could take a place before its
// member has its turn, and those who run would wait for ever. Others do not wait for that for long.

// longestResume is how long others wait at the most.
const longestResume = 10 * time.Second

// Resume notes which groups are partially bound now and can be tried.
func (b *Book) Resume(now time.Time) {
	for _, g := range b.gangs {
		key := g.key
		if b.partiallyBound(key) && b.representative(key) != nil && !b.waitsFor(key).Is() && !b.tooFewWait(key).Is() {
			b.resumed[key] = untried
		}
	}
	b.resumeUntil = now.Add(longestResume)
}

// resumption is how far a group is that was partially bound at the start.
type resumption string

const (
	untried resumption = "untried"
	placing resumption = "placing" // it has a plan, which is carried out
)

// placesResumed notes that the plan of such a group is carried out now.
func (b *Book) placesResumed(key Ref) {
	if b.resumed[key] == untried {
		b.resumed[key] = placing
	}
}

// resumedIsPlaced forgets the groups of which all members have come that were placed, or whose plan was given up.
func (b *Book) resumedIsPlaced() {
	for key, is := range b.resumed {
		if n := b.count(key); is == placing && n.planned == n.arrived {
			delete(b.resumed, key)
		}
	}
}

// resumedLongEnough lets others go on when groups were not placed in time.
func (b *Book) resumedLongEnough(now time.Time) {
	if !now.Before(b.resumeUntil) {
		clear(b.resumed)
	}
}

// Resuming says whether some group that was partially bound is still to be tried, or being placed.
func (b *Book) Resuming() bool { return len(b.resumed) > 0 }

// Resumed says whether a gang is of such a group.
func (b *Book) Resumed(ref Ref) bool {
	return len(b.resumed) > 0 && b.resumed[b.groupKey(ref)] != ""
}

// partiallyBound says whether some members of a group run although it was never whole.
func (b *Book) partiallyBound(key Ref) bool {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.spec != nil && !g.satisfied && g.counts.bound > 0 {
			return true
		}
	}
	return false
}
