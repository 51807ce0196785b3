package gang

import "time"

// A process that begins finds groups that another one has left partially bound. Until each of
// them was tried once, they come before all others: their members run and wait, and the
// places of the rest were theirs. Others do not wait for that for long.

// longestResume is how long others wait at the most.
const longestResume = 10 * time.Second

// Resume notes which groups are partially bound now and can be tried.
func (b *Book) Resume(now time.Time) {
	for _, g := range b.gangs {
		key := g.key
		if b.partiallyBound(key) && b.representative(key) != nil && !b.waitsFor(key).Is() && !b.tooFewWait(key).Is() {
			b.resumed[key] = true
		}
	}
	b.resumeUntil = now.Add(longestResume)
}

// resumedLongEnough lets others go on when groups were not tried in time.
func (b *Book) resumedLongEnough(now time.Time) []Effect {
	if len(b.resumed) == 0 || now.Before(b.resumeUntil) {
		return nil
	}
	clear(b.resumed)
	return []Effect{{Verb: GoOn}}
}

// Resuming says whether some group that was partially bound is still to be tried.
func (b *Book) Resuming() bool { return len(b.resumed) > 0 }

// Resumed says whether a gang is of such a group.
func (b *Book) Resumed(ref Ref) bool {
	return len(b.resumed) > 0 && b.resumed[b.groupKey(ref)]
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
