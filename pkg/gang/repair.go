package gang

import (
	"maps"
	"slices"
	"time"
)

// Repair is what users see of an incomplete gang: it was complete, members run, and fewer than minMember of them do. Members that it never
// had are not missing.
type Repair struct {
	Missing int       // how many running or succeeded members it lacks; 0 for a gang that is not incomplete
	Absent  int       // how many of these were not recreated yet
	Since   time.Time // when the gang became incomplete
	// Until is when the hold of free capacity ends: Book.Repair after the last time that a member was lost or recreated. Ended says that
	// Until has passed.
	Until time.Time
	Ended bool
	// Nodes are reserved for Reserved absent members of the group. They are sorted, each once.
	Nodes    []string
	Reserved int
	// Refusal says why no node is reserved for an absent member; it does not exist before the first attempt.
	Refusal Obstacle
}

// repair is what the book remembers of an incomplete gang.
type repair struct {
	since, until time.Time
	ended        bool
	exist        int // members that existed at the last change
	refusal      Obstacle
}

// followRepair updates the repair of a gang that is reported.
func (b *Book) followRepair(ref Ref, now time.Time) {
	g := b.gangs[ref]
	if g == nil || !g.incomplete() || b.terminating(g.key) {
		delete(b.repairs, ref)
		return
	}
	r := b.repairs[ref]
	if r == nil {
		r = &repair{since: now, exist: -1}
		b.repairs[ref] = r
	}
	if r.exist != g.counts.exist {
		r.exist, r.until, r.refusal = g.counts.exist, now.Add(b.Repair), Obstacle{}
	}
	r.ended = !now.Before(r.until)
}

// incomplete returns whether the gang was complete, members run, and it has lost members that minMember needs. With match policy
// OnlyWaiting it never is: replacements do not join running members.
func (g *gang) incomplete() bool {
	return g.spec != nil && g.spec.Policy != OnlyWaiting && g.satisfied && g.counts.bound > 0 && g.remaining() < g.whole()
}

// whole returns how many members an incomplete gang has when it is repaired. A gang whose minMember was raised has not lost the members
// that it never had.
func (g *gang) whole() int { return min(g.spec.Min, g.most) }

// remaining returns how many members run or have succeeded. A failed member is lost.
func (g *gang) remaining() int { return g.counts.bound + g.absentSucceeded() }

// absentSucceeded returns how many succeeded members count for members that do not exist.
func (g *gang) absentSucceeded() int {
	if g.spec == nil {
		return 0
	}
	return max(0, min(g.spec.Min-g.counts.exist, g.counts.succeeded-g.spec.Completed))
}

// restartRepair starts the time of a gang's repair again: a lost member does not exist any more, so it can be recreated now.
func (b *Book) restartRepair(ref Ref, now time.Time) []Effect {
	r := b.repairs[ref]
	if r == nil {
		return nil
	}
	r.until = now.Add(b.Repair)
	return []Effect{{Verb: Report, Gang: ref}}
}

// refuseFuture records why no nodes are reserved for the absent members of a group.
func (b *Book) refuseFuture(key Ref, why Obstacle) (out []Effect) {
	for _, ref := range b.groupOf(key) {
		if r := b.repairs[ref]; r != nil {
			r.refusal = why
			out = append(out, Effect{Verb: Report, Gang: ref})
		}
	}
	return out
}

// repairUntil returns when the hold for the missing members of a group ends; zero if it has no incomplete gang.
func (b *Book) repairUntil(key Ref) (until time.Time) {
	if len(b.repairs) == 0 {
		return until
	}
	for _, ref := range b.groupOf(key) {
		if r := b.repairs[ref]; r != nil && r.until.After(until) {
			until = r.until
		}
	}
	return until
}

// endRepairs reports the gangs for whose missing members no capacity is held any more, because the time is over.
func (b *Book) endRepairs(now time.Time) (out []Effect) {
	if len(b.repairs) == 0 {
		return nil
	}
	for _, ref := range slices.SortedFunc(maps.Keys(b.repairs), b.names.refs) {
		if r := b.repairs[ref]; !r.ended && passed(r.until, now) {
			out = append(out, Effect{Verb: Report, Gang: ref})
		}
	}
	return out
}

// repairOf returns the repair of a gang; the zero value if it is not incomplete.
func (b *Book) repairOf(ref Ref) Repair {
	r, g := b.repairs[ref], b.gangs[ref]
	if r == nil || g == nil || !g.incomplete() {
		return Repair{}
	}
	out := Repair{
		Missing: g.whole() - g.remaining(), Absent: b.Missing(ref), Since: r.since, Until: r.until, Ended: r.ended, Refusal: r.refusal,
	}
	if a := b.futures[g.key]; a != nil && a.missing {
		out.Reserved = len(a.nodes)
		out.Nodes = slices.Compact(slices.SortedFunc(maps.Values(a.nodes), b.names))
	}
	return out
}
