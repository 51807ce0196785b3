package gang

import (
	"slices"
	"time"
)

// tick ends waits that took too long and wakes those that were told to come later.
func (b *Book) tick(now time.Time) (out []Effect) {
	b.resumedLongEnough(now)
	out = append(b.feed(now), b.lateAhead(now)...)
	for _, key := range b.groupsWhere(func(g *group) bool { return g.due(now) }) {
		g := b.groups[key]
		if passed(g.deadline, now) {
			out = append(out, b.expire(key, now)...)
			continue
		}
		if passed(g.until, now) {
			out = append(out, b.giveBack(key, g)...)
		}
		again := g.tryAgain(now) && (len(g.plan) == 0 || b.lacks(key))
		if passed(g.retry, now) {
			g.retry, again = time.Time{}, true
		}
		if again {
			if m := b.speaker(key); m != nil {
				out = append(out, Effect{Verb: Wake, Pod: m.Pod})
			}
		}
	}
	return out
}

// tryAgain says whether some node need not be avoided any longer.
func (g *group) tryAgain(now time.Time) (any bool) {
	for node, a := range g.avoid {
		if passed(a.until, now) {
			a.until = time.Time{}
			g.avoid[node] = a
			any = true
		}
	}
	return any
}

// groupsWhere returns, sorted, the keys of the groups for which is holds.
func (b *Book) groupsWhere(is func(*group) bool) (keys []Ref) {
	for key, g := range b.groups {
		if is(g) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, b.names.refs)
	return keys
}

// due says whether a tick has something to do for the group.
func (g *group) due(now time.Time) bool {
	if passed(g.deadline, now) || passed(g.retry, now) || passed(g.until, now) {
		return true
	}
	for _, a := range g.avoid {
		if passed(a.until, now) {
			return true
		}
	}
	return false
}

// passed says whether a time was set and has come.
func passed(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// expire returns every member of a group that waited too long to the queue. Where
// victims did not leave, another place is sought at once; else the group comes back
// after a while, as after any failure, so that others have their turn.
func (b *Book) expire(key Ref, now time.Time) (out []Effect) {
	g := b.groups[key]
	g.deadline = time.Time{}
	if b.count(key).waiting == 0 && len(g.plan) == 0 {
		return nil
	}
	why := "waited " + b.patience(key).String() + " for the gang to be whole"
	overdue := g.waiting
	if overdue {
		why = "the victims did not leave in time"
		out = append(out, Effect{Verb: Overdue, Gang: key})
	}
	for _, ref := range b.groupOf(key) {
		out = append(out, Effect{Verb: Expire, Gang: ref, Why: why})
	}
	out = append(out, b.forget(key, why)...)
	rep := b.representative(key)
	switch {
	case rep == nil || b.waitsFor(key).Is():
	case !overdue:
		b.later(g, now)
	default:
		out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
	}
	return out
}

// patience is the shortest wait of a group's gangs.
func (b *Book) patience(key Ref) time.Duration {
	var least time.Duration
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.spec != nil && (least == 0 || g.spec.Wait < least) {
			least = g.spec.Wait
		}
	}
	return least
}
