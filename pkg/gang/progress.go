package gang

// A new process derives from the pods what a gang has reached: members run or have finished on a node. So a replacement need not wait for
// finished members. Only one fact is remembered: the gang was complete, and some of its members are gone.
//
// A finished member counts unless it was recreated. Members that are created after all others finished form a new
// run. Which finished members count then:
//
//	another owner made the new members         none
//	minMember finished, all of them succeeded  none: no member needs to be recreated
//	else                                       the succeeded ones, since the rest is recreated

// ownerCounts counts the members of one owner.
type ownerCounts struct{ unfinished, done, succeeded int }

// countOwner adds n to the counts of the member's owner.
func (g *gang) countOwner(m *member, n int) {
	count := g.owners[m.Owner]
	if m.Done {
		count.done += n
		g.lastEnd = max(g.lastEnd, m.Ended)
	} else {
		count.unfinished += n
	}
	if m.Done && m.Succeeded {
		count.succeeded += n
	}
	switch {
	case count == ownerCounts{}:
		delete(g.owners, m.Owner)
	case g.owners == nil:
		g.owners = map[string]ownerCounts{m.Owner: count}
	default:
		g.owners[m.Owner] = count
	}
}

// finished returns how many members finished on a node and belong to the current run.
func (g *gang) finished() int {
	done := g.counts.done
	succeeded := g.counts.succeeded
	live := len(g.members) - done
	if done > 0 && live > 0 && g.counts.bound == 0 { // all that had a node have finished
		done, succeeded = 0, 0
		for _, owner := range g.owners {
			if owner.unfinished > 0 {
				done, succeeded = done+owner.done, succeeded+owner.succeeded
			}
		}
		switch {
		case !g.createdAfterEnd(g.pending.first()):
		case g.spec != nil && succeeded == done && done >= g.spec.Min:
			done, succeeded = 0, 0
		default:
			done = succeeded
		}
	}
	if g.spec != nil {
		done -= min(succeeded, g.spec.Completed)
	}
	return done
}

// createdAfterEnd returns whether the pending member was created after the last known end of a member; false for nil.
func (g *gang) createdAfterEnd(m *member) bool { return m != nil && m.Created >= g.lastEnd }

// absentFinished returns how many finished members count for members that do not exist.
func (g *gang) absentFinished() int {
	return max(0, min(g.spec.Min-g.counts.exist, g.finished()))
}

// started returns how many members count as started for minMember.
func (g *gang) started() int { return g.counts.bound + g.absentFinished() }

// allStarted returns whether minMember is reached and no member waits. Then other gangs need not wait for it, whatever its policy.
func (g *gang) allStarted() bool {
	return g.counts.exist == g.counts.bound && g.started() >= g.spec.Min
}

// markIfComplete sets satisfied if the gang is complete, and updates most. If no object states minMember, completeness is unknown.
func (g *gang) markIfComplete() {
	switch {
	case g.spec == nil:
	case g.satisfied:
		g.most = max(g.most, g.remaining())
	case !g.spec.Counted && g.started() >= g.spec.Min:
		g.satisfied, g.most = true, g.remaining()
	}
}

// noteSatisfied sets satisfied for a gang that a record shows was complete, if some member of that time exists.
func (b *Book) noteSatisfied(ref Ref) []Effect {
	g := b.gangs[ref]
	if g == nil || g.counts.bound+g.finished() == 0 || g.satisfied {
		return nil
	}
	g.satisfied = true
	if g.spec != nil { // nothing says which minMember it had when it was complete
		g.most = g.spec.Min
	}
	return b.Review(ref)
}

// resetEmpty clears satisfied of a gang without members. last is the UID of the last deleted member.
func (g *gang) resetEmpty(last string) {
	g.lastUID = ""
	if g.satisfied {
		g.lastUID, g.satisfied = last, false
	}
}

// resetIdle clears satisfied if no member runs and no finished member counts.
func (g *gang) resetIdle() {
	if g.counts.bound+g.finished() == 0 {
		g.satisfied = false
	}
}

// restoreSatisfied undoes resetEmpty if the last member was not deleted but finished. One watch reports the pod as
// gone a moment before another reports it as done.
func (g *gang) restoreSatisfied(m Member) {
	if len(g.members) == 0 && m.Done && m.UID == g.lastUID {
		g.satisfied = true
	}
	g.lastUID = ""
}

// startsNewRun returns whether new member m begins a new run: all other members finished before, or have another owner.
func (g *gang) startsNewRun(m Member) bool {
	return !m.Done && len(g.members) == g.counts.done && (m.Created >= g.lastEnd || g.owners[m.Owner].done == 0)
}
