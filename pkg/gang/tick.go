package gang

import (
	"slices"
	"time"
)

// tick ends waits that took too long. It wakes the groups whose retry is due, or for which an avoided node counts again.
func (b *Book) tick(now time.Time) (out []Effect) {
	b.expireResumptions(now)
	b.emptied = [2]map[Ref]string{{}, b.emptied[0]}
	out = slices.Concat(b.rotateHolds(now), b.expireFuture(now), b.endRepairs(now))
	for _, key := range b.groupsWhere(func(g *group) bool { return g.due(now) }) {
		g := b.groups[key]
		if passed(g.deadline, now) {
			out = append(out, b.expire(key, now)...)
			continue
		}
		if passed(g.holdUntil, now) {
			out = append(out, b.releaseHold(key, g)...)
		}
		retry := g.readmitNodes(now) && (len(g.plan) == 0 || b.hasVacancy(key))
		if passed(g.retryAt, now) {
			g.retryAt, retry = time.Time{}, true
		}
		if passed(g.tryAt, now) {
			g.tryAt, retry = now.Add(retryDue), true
		}
		if retry {
			if m := b.triedMember(key); m != nil {
				out = append(out, Effect{Verb: Wake, Pod: m.Pod})
			}
		}
	}
	return out
}

// readmitNodes ends the avoidance of nodes whose time is over, and returns whether there were any.
func (g *group) readmitNodes(now time.Time) (readmitted bool) {
	for node, a := range g.avoid {
		if passed(a.until, now) {
			a.until = time.Time{}
			g.avoid[node] = a
			readmitted = true
		}
	}
	return readmitted
}

// groupsWhere returns the sorted keys of the groups that match.
func (b *Book) groupsWhere(match func(*group) bool) (keys []Ref) {
	for key, g := range b.groups {
		if match(g) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, b.names.refs)
	return keys
}

// due returns whether one of the group's times has passed: its deadline, its retry, its promised start, the end of its hold, or the end of
// an avoided node.
func (g *group) due(now time.Time) bool {
	if passed(g.deadline, now) || passed(g.retryAt, now) || passed(g.tryAt, now) || passed(g.holdUntil, now) {
		return true
	}
	for _, a := range g.avoid {
		if passed(a.until, now) {
			return true
		}
	}
	return false
}

// passed returns whether t is set and not after now.
func passed(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// expire drops the plan of a group that waited too long. If victims did not terminate, the group retries at once. Otherwise it retries
// after a delay, so that other groups have their turn.
func (b *Book) expire(key Ref, now time.Time) (out []Effect) {
	g := b.groups[key]
	g.deadline = time.Time{}
	if b.count(key).waiting == 0 && len(g.plan) == 0 {
		return nil
	}
	why := "not all members of the gang had a node within " + b.waitLimit(key).String()
	overdue := g.unconfirmed
	if overdue {
		why = "the victims did not terminate in time"
		out = append(out, Effect{Verb: Overdue, Gang: key})
	}
	for _, ref := range b.groupOf(key) {
		out = append(out, Effect{Verb: Expire, Gang: ref, Why: why})
	}
	out = append(out, b.forget(key, why)...)
	rep := b.representative(key)
	switch {
	case rep == nil || b.obstacle(key).Exists():
	case !overdue:
		b.retryLater(g, now)
	default:
		out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
	}
	return out
}

// waitLimit returns the shortest wait of the group's declared gangs; 0 if none is declared.
func (b *Book) waitLimit(key Ref) time.Duration {
	var shortest time.Duration
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.spec != nil && (shortest == 0 || g.spec.Wait < shortest) {
			shortest = g.spec.Wait
		}
	}
	return shortest
}
