package gang

import "time"

// A process that starts may find partially bound groups: an earlier process did not finish them. Their running members wait for the rest,
// so these groups come before all others until each was tried. A group that gets a plan comes first until the scheduler counts all its
// members. Otherwise a pod of higher priority could take a node of the plan. Other groups wait at most longestResume.

// longestResume is how long other groups wait at most for partially bound groups.
const longestResume = 10 * time.Second

// Resume records the partially bound groups that can be tried.
func (b *Book) Resume(now time.Time) {
	for _, g := range b.gangs {
		key := g.key
		if b.partiallyBound(key) && b.representative(key) != nil && !b.obstacle(key).Exists() && !b.tooFewWait(key).Exists() {
			b.resumed[key] = untried
		}
	}
	b.resumeUntil = now.Add(longestResume)
}

// resumption is the progress of a group that was partially bound at the start.
type resumption string

const (
	untried resumption = "untried"
	placing resumption = "placing" // its plan is being carried out
)

// startResumed records that the plan of a resumed group is being carried out.
func (b *Book) startResumed(key Ref) {
	if b.resumed[key] == untried {
		b.resumed[key] = placing
	}
}

// endPlacedResumptions deletes the resumptions of groups whose plan was completed or dropped.
func (b *Book) endPlacedResumptions() {
	for key, progress := range b.resumed {
		if n := b.count(key); progress == placing && n.planned == n.arrived {
			delete(b.resumed, key)
		}
	}
}

// expireResumptions deletes all resumptions when the waiting time of other groups is over.
func (b *Book) expireResumptions(now time.Time) {
	if !now.Before(b.resumeUntil) {
		clear(b.resumed)
	}
}

// Resuming returns whether some partially bound group is still to be tried or placed.
func (b *Book) Resuming() bool { return len(b.resumed) > 0 }

// Resumed returns whether the gang belongs to a partially bound group that is still to be tried or placed.
func (b *Book) Resumed(ref Ref) bool {
	return len(b.resumed) > 0 && b.resumed[b.groupKey(ref)] != ""
}

// partiallyBound returns whether a gang of the group has running members although it was never complete.
func (b *Book) partiallyBound(key Ref) bool {
	return b.anyGang(key, func(g *gang) bool { return !g.satisfied && g.counts.bound > 0 })
}
