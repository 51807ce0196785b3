package gang

// What a gang has reached can be seen: members run, or have finished on a node. So a process
// that begins knows what another one knew, and a replacement need not wait for those who have
// finished. Only that a gang was whole while some of its members are gone is remembered.
//
// Those who have finished count where nobody has taken their place: a failed member that was
// made again counts once. Members that come after all others have finished are a new run:
//
//	another owner made them                  they do not count
//	as many as it needs, all have succeeded  they do not count: none need be made again
//	others                                   those that have succeeded count, since the rest is made again

// owned counts the members that one owner makes.
type owned struct{ live, done, succeeded int }

// own counts a member n times with its owner.
func (g *gang) own(m *member, n int) {
	of := g.owners[m.Owner]
	if m.Done {
		of.done += n
		g.ended = max(g.ended, m.Ended)
	} else {
		of.live += n
	}
	if m.Done && m.Succeeded {
		of.succeeded += n
	}
	switch {
	case of == owned{}:
		delete(g.owners, m.Owner)
	case g.owners == nil:
		g.owners = map[string]owned{m.Owner: of}
	default:
		g.owners[m.Owner] = of
	}
}

// finished counts the members that have finished on a node, and are of this gang still.
func (g *gang) finished() int {
	done, succeeded, live := g.counts.done, g.counts.succeeded, len(g.members)-g.counts.done
	if done > 0 && live > 0 && g.counts.bound == 0 { // all that had a node have finished
		done, succeeded = 0, 0
		for _, of := range g.owners {
			if of.live > 0 {
				done, succeeded = done+of.done, succeeded+of.succeeded
			}
		}
		switch {
		case !g.again(g.pending.first()):
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

// again says whether a member that waits was made after all others have finished. If it is not known when that was, it was.
func (g *gang) again(m *member) bool { return m != nil && m.Created >= g.ended }

// standIns counts those that have finished and stand for members that do not exist.
func (g *gang) standIns() int {
	return max(0, min(g.spec.Min-g.counts.exist, g.finished()))
}

// started counts the members that have started and count for the gang's minimum.
func (g *gang) started() int { return g.counts.bound + g.standIns() }

// allStarted says that the gang has its minMember and nobody waits: then others of its group
// have nothing to wait for, whatever its match policy asks of those who wait.
func (g *gang) allStarted() bool {
	return g.counts.exist == g.counts.bound && g.started() >= g.spec.Min
}

// reach notes that the gang is whole, if it is. While nobody says how many it needs it cannot be seen: one that
// was bound in part would go on one by one afterwards.
func (g *gang) reach() {
	if g.spec != nil && !g.spec.Counted && g.started() >= g.spec.Min {
		g.satisfied = true
	}
}

// reached notes that a gang was whole before, if some member is of that time.
func (b *Book) reached(ref Ref) []Effect {
	g := b.gangs[ref]
	if g == nil || g.counts.bound+g.finished() == 0 || g.satisfied {
		return nil
	}
	g.satisfied = true
	return b.Review(ref)
}

// empty is for when the last member has left: a gang that was whole begins anew.
func (g *gang) empty(last string) {
	g.last = ""
	if g.satisfied {
		g.last, g.satisfied = last, false
	}
}

// idles is for when a member has left: a gang of which none runs, and none that has finished counts, begins anew.
func (g *gang) idles() {
	if g.counts.bound+g.finished() == 0 {
		g.satisfied = false
	}
}

// comesBack takes it back if the last member has not left but finished: whoever watches pods
// that run hears only that it is gone, and from somebody else a little later that it is done.
// Whoever comes in between begins anew.
func (g *gang) comesBack(m Member) {
	if len(g.members) == 0 && m.Done && m.UID == g.last {
		g.satisfied = true
	}
	g.last = ""
}

// anew says that a member is the first of a new run: all others have finished, before it was made or for another owner.
func (g *gang) anew(m Member) bool {
	return !m.Done && len(g.members) == g.counts.done && (m.Created >= g.ended || g.owners[m.Owner].done == 0)
}
