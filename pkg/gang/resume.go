package gang

import "time"

// A process that begins finds groups that another one has left half bound. Until each of
// them was tried once, they come before all others: their members run and wait, and the
// places of the rest were theirs. Others do not wait for that for long.

// longestResume is how long others wait at the most.
const longestResume = 10 * time.Second

// Resume notes which groups are half bound now and can be tried.
func (b *Book) Resume(now time.Time) {
	for name := range b.gangs {
		key := b.groupKey(name)
		if b.half(key) && b.representative(key) != nil && b.waitsFor(key) == "" && b.tooFewWait(key) == "" {
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

// Resuming says whether some group that was half bound is still to be tried.
func (b *Book) Resuming() bool { return len(b.resumed) > 0 }

// Resumed says whether a gang is of such a group.
func (b *Book) Resumed(name string) bool {
	return len(b.resumed) > 0 && b.resumed[b.groupKey(name)]
}

// Half says whether some members of a pod's group run although it was never whole.
func (b *Book) Half(pod string) bool {
	m := b.pods[pod]
	return m != nil && b.half(b.groupKey(m.Gang))
}

func (b *Book) half(key string) bool {
	for _, name := range gangsOf(key) {
		if g := b.gangs[name]; g != nil && g.spec != nil && !g.satisfied && g.counts.bound > 0 {
			return true
		}
	}
	return false
}
