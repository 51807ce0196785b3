package gang

// A gang of thousands is queried on every pod event, so its members are counted as they change.
// Invariant: member state changes only in enter, change and leave.

// counts counts the members of a gang by state.
type counts struct {
	exist     int // for the scheduler: bound, or free to be
	bound     int // and not done
	done      int
	succeeded int // of the done
	held      int // at the barrier or past it, and not bound
	waiting   int // at the barrier
	planned   int // have an assignment
	assumed   int // pending, and the scheduler counts them on a node
	arrived   int // assumed and planned
	evicted   int // run, and are being evicted
}

// add counts a member n times.
func (c *counts) add(m *member, n int) {
	note := func(count *int, matches bool) {
		if matches {
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

func (b *Book) count(key Ref) (all counts) {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil {
			all.plus(g.counts)
		}
	}
	return all
}

// enter adds a new member.
func (b *Book) enter(state Member) *member {
	m := &member{Member: state}
	g := b.gang(m.Gang)
	b.pods[m.Pod], g.members[m.Pod] = m, m
	b.notePlanned(m)
	g.counts.add(m, 1)
	g.countOwner(m, 1)
	g.pending.update(m, false)
	if b.Follow && m.hasNode() {
		b.movedPods = append(b.movedPods, m.Pod)
	}
	return m
}

// change applies a function to a member and updates all counts.
func (b *Book) change(m *member, update func(*member)) {
	g := b.gangs[m.Gang]
	was := m.Member
	had := m.hasNode()
	g.counts.add(m, -1)
	update(m)
	g.counts.add(m, 1)
	if b.Follow && m.hasNode() != had {
		b.movedPods = append(b.movedPods, m.Pod)
	}
	if m.Done != was.Done || m.Owner != was.Owner {
		g.countOwner(&member{Member: was}, -1)
		g.countOwner(m, 1)
	}
	g.pending.update(m, m.Rank != was.Rank || m.Row != was.Row)
}

// hasNode says whether the member has an assignment or a node.
func (m *member) hasNode() bool { return m.planned || m.assumed || m.runs() }

// leave deletes a member.
func (b *Book) leave(m *member) {
	g := b.gangs[m.Gang]
	g.counts.add(m, -1)
	g.countOwner(m, -1)
	g.pending.remove(m)
	delete(g.members, m.Pod)
	delete(b.pods, m.Pod)
}
