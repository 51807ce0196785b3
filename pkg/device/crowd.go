package device

import "slices"

// Crowd is a set of members that are added to a node one by one:
//
//	st     devices in use by other pods, which keep them
//	with   st, and the devices of the members in one assignment that fits
//
// A new member mostly fits beside the present devices of the others; only if it does not, all members are assigned again. So the answers
// equal Solver.Fits, and each member costs about the same.
type Crowd struct {
	st, with    *State
	members     []*Request
	allocations []Allocation // without spare devices
	unplaced    []*Request   // initial members that do not fit: no member gets devices of their types
}

// NewCrowd returns a crowd of members on a node. The state st is not changed, and the caller must not change it while it uses the crowd.
func (s *Solver) NewCrowd(st *State, members []*Request) *Crowd {
	c := &Crowd{st: st, with: st.Clone()}
	for rest := members; len(rest) > 0; {
		part := Concerned(rest, rest[:1])
		rest = slices.DeleteFunc(slices.Clone(rest), func(r *Request) bool { return slices.Contains(part, r) })
		gets, ok := s.place(c.with, part)
		if !ok {
			c.unplaced = append(c.unplaced, part...)
			continue
		}
		for _, a := range gets {
			c.with.Take(a)
		}
		c.members, c.allocations = append(c.members, part...), append(c.allocations, gets...)
	}
	return c
}

// Members returns all members, including the ones that do not fit.
func (c *Crowd) Members() []*Request { return slices.Concat(c.unplaced, c.members) }

// Concerned returns the candidates that influence whether the requests fit, in order. These want a type of the requests, or, transitively,
// a type of such candidates. Other candidates neither compete with the requests nor fail because of them.
func Concerned(candidates, requests []*Request) (all []*Request) {
	types := map[Type]bool{}
	for _, r := range requests {
		for i := range r.wants {
			types[r.wants[i].deviceType] = true
		}
	}
	included := make([]bool, len(candidates))
	for more := true; more; {
		more = false
		for i, r := range candidates {
			if included[i] || !slices.ContainsFunc(r.wants, func(w want) bool { return types[w.deviceType] }) {
				continue
			}
			included[i], more = true, true
			for j := range r.wants {
				types[r.wants[j].deviceType] = true
			}
		}
	}
	for i, r := range candidates {
		if included[i] {
			all = append(all, r)
		}
	}
	return all
}

// blocked returns whether a member wants a type that unplaced members compete for.
func (c *Crowd) blocked(r *Request) bool { return len(Concerned(c.unplaced, []*Request{r})) > 0 }

// Add adds one member and returns whether it fits. If not, nothing changes.
func (c *Crowd) Add(s *Solver, r *Request) bool {
	if c.blocked(r) {
		return false
	}
	if got, ok := s.place(c.with, []*Request{r}); ok {
		c.with.Take(got[0])
		c.members, c.allocations = append(c.members, r), append(c.allocations, got[0])
		return true
	}
	return len(c.members) > 0 && c.assignAgain(s, c.withOne(r))
}

// Drop removes the member that was added last.
func (c *Crowd) Drop() {
	last := len(c.members) - 1
	c.with.Free(c.allocations[last])
	c.members, c.allocations = c.members[:last], c.allocations[:last]
}

// assignAgain assigns all members again and returns whether they fit. If not, nothing changes.
func (c *Crowd) assignAgain(s *Solver, members []*Request) bool {
	if alike(members) {
		if n := s.Slots(c.st, members[0], len(members)); n.Exact && n.Slots < len(members) {
			return false
		}
	}
	gets, ok := s.place(c.st, members)
	if !ok {
		return false
	}
	c.with = c.st.Clone()
	for _, a := range gets {
		c.with.Take(a)
	}
	c.members, c.allocations = members, gets
	return true
}

// Count returns how many more members like r fit, at most limit. It does not change the crowd.
func (c *Crowd) Count(s *Solver, r *Request, limit int) (n int) {
	if c.blocked(r) {
		return 0
	}
	if alike(c.withOne(r)) {
		if all := s.Slots(c.st, r, len(c.members)+limit); all.Exact {
			return all.Slots - len(c.members)
		}
	}
	defer s.limitWork(crowdDivisor)()
	for at := c; ; n++ { // first beside the present assignment, then all with one more again
		beside := s.Slots(at.with, r, limit-n)
		if n += beside.Slots; n == limit || !beside.Exact {
			return n
		}
		next := &Crowd{st: c.st}
		if !next.assignAgain(s, slices.Concat(c.members, slices.Repeat([]*Request{r}, n+1))) {
			return n
		}
		at = next
	}
}

// withOne returns the members and one more.
func (c *Crowd) withOne(r *Request) []*Request { return slices.Concat(c.members, []*Request{r}) }

// alike returns whether all members have equal requests.
func alike(members []*Request) bool {
	for _, r := range members[1:] {
		if r != members[0] && r.key != members[0].key {
			return false
		}
	}
	return true
}

// place is Choose without spare devices.
func (s *Solver) place(st *State, members []*Request) (all []Allocation, ok bool) {
	demands, kinds, bad := s.demands(st.node, members)
	if bad != nil {
		return nil, false
	}
	x := s.search(st, demands)
	if ok, _ = x.searchOrGreedy(kinds); ok {
		all = x.allocations()
	}
	x.release()
	return all, ok
}
