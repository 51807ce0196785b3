package gang

// A gang of thousands is queried on every pod event, so its members are counted as they change.
// Invariant: member state changes only in addMember, change and deleteMember.

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

// add adds n to each count to which the member's state belongs.
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

// count returns the sum of the counts of a group's gangs.
func (b *Book) count(key Ref) (all counts) {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil {
			all.plus(g.counts)
		}
	}
	return all
}

// addMember adds a new member and returns it.
func (b *Book) addMember(state Member) *member {
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

// change applies update to a member and adjusts all counts and the pending queue.
func (b *Book) change(m *member, update func(*member)) {
	g := b.gangs[m.Gang]
	previous := m.Member
	hadNode := m.hasNode()
	g.counts.add(m, -1)
	update(m)
	g.counts.add(m, 1)
	if b.Follow && m.hasNode() != hadNode {
		b.movedPods = append(b.movedPods, m.Pod)
	}
	if m.Done != previous.Done || m.Owner != previous.Owner {
		g.countOwner(&member{Member: previous}, -1)
		g.countOwner(m, 1)
	}
	g.pending.update(m, m.Rank != previous.Rank || m.Row != previous.Row)
}

// hasNode returns whether the member has an assignment or a node.
func (m *member) hasNode() bool { return m.planned || m.assumed || m.runs() }

// deleteMember removes a member from the book.
func (b *Book) deleteMember(m *member) {
	g := b.gangs[m.Gang]
	g.counts.add(m, -1)
	g.countOwner(m, -1)
	g.pending.remove(m)
	delete(g.members, m.Pod)
	delete(b.pods, m.Pod)
}
