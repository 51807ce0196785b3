package device

import "slices"

// Crowd is the members that are put on a node one after the other, each asked for beside those before it:
//
//	st     what others have taken, who stay where they are
//	with   that, and what the members get in one way in which all fit
//
// Who comes next mostly fits beside the others as they are; only if it does not are all of them placed anew. So the answers are
// those of Solver.Fits, and a member more costs what one member costs.
type Crowd struct {
	st, with *State
	members  []*Request
	gets     []Allocation // without what there is beyond
	lost     []*Request   // who were there and do not fit themselves: of their types nobody gets any
}

// NewCrowd puts on a node those who have chosen nothing yet. The state is not changed, and must not be while the crowd is asked.
func (s *Solver) NewCrowd(st *State, open []*Request) *Crowd {
	c := &Crowd{st: st, with: st.Clone()}
	for rest := open; len(rest) > 0; {
		part := Concerned(rest, rest[:1])
		rest = slices.DeleteFunc(slices.Clone(rest), func(r *Request) bool { return slices.Contains(part, r) })
		gets, ok := s.place(c.with, part)
		if !ok {
			c.lost = append(c.lost, part...)
			continue
		}
		for _, a := range gets {
			c.with.Take(a)
		}
		c.members, c.gets = append(c.members, part...), append(c.gets, gets...)
	}
	return c
}

// Members are those who are there.
func (c *Crowd) Members() []*Request { return slices.Concat(c.lost, c.members) }

// Concerned are those of some members on whom it depends whether others fit, in order: who want something of the types that
// those want, or that such want. Who wants nothing but other types is in nobody's way, and if there is not enough for him it
// is nobody else's want.
func Concerned(some, others []*Request) (all []*Request) {
	types := map[Type]bool{}
	for _, r := range others {
		for i := range r.wants {
			types[r.wants[i].of] = true
		}
	}
	in := make([]bool, len(some))
	for more := true; more; {
		more = false
		for i, r := range some {
			if in[i] || !slices.ContainsFunc(r.wants, func(w want) bool { return types[w.of] }) {
				continue
			}
			in[i], more = true, true
			for j := range r.wants {
				types[r.wants[j].of] = true
			}
		}
	}
	for i, r := range some {
		if in[i] {
			all = append(all, r)
		}
	}
	return all
}

// barred says that a member wants something of which there is not even enough for those who were there.
func (c *Crowd) barred(r *Request) bool { return len(Concerned(c.lost, []*Request{r})) > 0 }

// Add puts one member more there, and says whether it fits: if not, nothing changes.
func (c *Crowd) Add(s *Solver, r *Request) bool {
	if c.barred(r) {
		return false
	}
	if got, ok := s.place(c.with, []*Request{r}); ok {
		c.with.Take(got[0])
		c.members, c.gets = append(c.members, r), append(c.gets, got[0])
		return true
	}
	return len(c.members) > 0 && c.anew(s, c.and(r))
}

// Drop takes the last member away again.
func (c *Crowd) Drop() {
	last := len(c.members) - 1
	c.with.Free(c.gets[last])
	c.members, c.gets = c.members[:last], c.gets[:last]
}

// anew finds another way in which members fit, and says whether there is one: if not, nothing changes.
func (c *Crowd) anew(s *Solver, members []*Request) bool {
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
	c.members, c.gets = members, gets
	return true
}

// Count says how many members like one more fit, at most so many. The crowd stays as it is.
func (c *Crowd) Count(s *Solver, r *Request, most int) (n int) {
	if c.barred(r) {
		return 0
	}
	if alike(c.and(r)) {
		if all := s.Slots(c.st, r, len(c.members)+most); all.Exact {
			return all.Slots - len(c.members)
		}
	}
	defer s.trying(crowdPart)()
	for at := c; ; n++ { // as they are, then all of them and one more anew
		some := s.Slots(at.with, r, most-n)
		if n += some.Slots; n == most || !some.Exact {
			return n
		}
		next := &Crowd{st: c.st}
		if !next.anew(s, slices.Concat(c.members, slices.Repeat([]*Request{r}, n+1))) {
			return n
		}
		at = next
	}
}

// and is the members and one more.
func (c *Crowd) and(r *Request) []*Request { return slices.Concat(c.members, []*Request{r}) }

func alike(members []*Request) bool {
	for _, r := range members[1:] {
		if r != members[0] && r.key != members[0].key {
			return false
		}
	}
	return true
}

// place is Choose without what there is beyond.
func (s *Solver) place(st *State, members []*Request) (all []Allocation, ok bool) {
	demands, kinds, bad := s.demands(st.node, members)
	if bad != nil {
		return nil, false
	}
	x := s.search(st, demands)
	if ok, _ = x.somehow(kinds); ok {
		all = x.allocations()
	}
	x.forget()
	return all, ok
}
