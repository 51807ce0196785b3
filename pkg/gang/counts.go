package gang

// A gang of thousands is asked about for every pod that moves. So what is asked most, how
// many members are in which state, is counted as they change. That state changes in this
// file and nowhere else: by enter, change and leave.

// counts says how many members of a gang are in which state.
type counts struct {
	exist     int // for the scheduler: bound, or free to be
	bound     int // and not done
	done      int
	succeeded int // of the done
	held      int // at the barrier, or through it and not bound yet
	waiting   int // at the barrier
	planned   int // have a place in the plan
	assumed   int // pending, and the scheduler counts them on a node
	arrived   int // of those assumed, the planned
	evicted   int // run, and are to leave with their group
}

// add counts a member n times.
func (c *counts) add(m *member, n int) {
	note := func(count *int, is bool) {
		if is {
			*count += n
		}
	}
	note(&c.exist, m.runs() || pending(m))
	note(&c.bound, m.runs())
	note(&c.done, m.Done)
	note(&c.succeeded, m.Done && m.Succeeded)
	note(&c.held, m.held && m.Node == "")
	note(&c.waiting, m.held && !m.allowed)
	note(&c.planned, m.planned)
	note(&c.assumed, m.assumed && pending(m))
	note(&c.arrived, m.assumed && m.planned && pending(m))
	note(&c.evicted, m.evicted && m.runs())
}

// plus adds the counts of another gang.
func (c *counts) plus(o counts) {
	c.exist += o.exist
	c.bound += o.bound
	c.done += o.done
	c.succeeded += o.succeeded
	c.held += o.held
	c.waiting += o.waiting
	c.planned += o.planned
	c.assumed += o.assumed
	c.arrived += o.arrived
	c.evicted += o.evicted
}

// count counts the members of a group.
func (b *Book) count(key Ref) (all counts) {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil {
			all.plus(g.counts)
		}
	}
	return all
}

// enter files a member that was not known.
func (b *Book) enter(as Member) *member {
	m := &member{Member: as}
	g := b.gang(m.Gang)
	b.pods[m.Pod], g.members[m.Pod] = m, m
	b.notePlace(m)
	g.counts.add(m, 1)
	g.own(m, 1)
	g.pending.update(m, false)
	if b.Follow && m.has() {
		b.moved = append(b.moved, m.Pod)
	}
	return m
}

// change is how the state of a member changes.
func (b *Book) change(m *member, to func(*member)) {
	g, was, has := b.gangs[m.Gang], m.Member, m.has()
	g.counts.add(m, -1)
	to(m)
	g.counts.add(m, 1)
	if b.Follow && m.has() != has {
		b.moved = append(b.moved, m.Pod)
	}
	if m.Done != was.Done || m.Owner != was.Owner {
		g.own(&member{Member: was}, -1)
		g.own(m, 1)
	}
	g.pending.update(m, m.Rank != was.Rank || m.Row != was.Row)
}

// has says that the member has a place in a plan, or a node.
func (m *member) has() bool { return m.planned || m.assumed || m.runs() }

// leave forgets a member.
func (b *Book) leave(m *member) {
	g := b.gangs[m.Gang]
	g.counts.add(m, -1)
	g.own(m, -1)
	g.pending.remove(m)
	delete(g.members, m.Pod)
	delete(b.pods, m.Pod)
}
