package device

import "slices"

// demand is a kind of members, as one node sees it.
type demand struct {
	r     *Request
	needs []need
}

// search tries what each member may get, the best first, and goes back where a later member finds
// nothing. It does not try twice what differs only in devices that are alike: states that failed are
// known by their keys.
type search struct {
	*Solver
	st      *State
	demands []demand
	members []int   // the kind of each
	left    [][]int // of each kind, from each member on
	taken   [][]pick

	byPosition bool            // partitions make GPUs differ that are alike otherwise
	dead       map[string]bool // states beside which the members left find nothing: every member takes something, so they are the same
	keys       canon
	work       int  // choices that may still fail
	steps      int  // that subsets have taken
	cut        bool // the work was used up
	deepest    int  // so many members found something
}

// pick is a device that a member gets.
type pick struct {
	need   *need
	at     int
	amount Amount
	group  int // of a VF, -1 for none
	vf     int
}

func (s *Solver) search(st *State, demands []demand) *search {
	x := &search{Solver: s, st: st, demands: demands, dead: map[string]bool{}, work: s.budget()}
	for _, d := range demands {
		for i := range d.needs {
			x.byPosition = x.byPosition || d.needs[i].must
		}
	}
	return x
}

// most returns how many members of one kind fit, at most so many, and whether no more do. somehow finds devices for
// as many. Where a search for all of them gives up it is asked for one more than found something, and so on: that
// another one fits is found sooner than that none does.
func (x *search) most(bound int) (int, bool) {
	k, found := 0, 0 // that many are possible, and all found devices for so many
	for want := bound; ; want = k + 1 {
		ok := x.all(make([]int, want))
		if x.forget(); ok {
			found = want
		}
		k = max(k, x.deepest)
		if x.cut && want == bound && k < bound-1 {
			if k = max(k, x.greedy(make([]int, bound))); k == bound {
				return k, true
			}
			x.renew()
			continue
		}
		if k == bound || x.cut || !ok && want == k+1 {
			break
		}
	}
	exact := !x.cut
	if k > found { // Choose must find as many
		x.renew()
		ok := x.all(make([]int, k))
		if x.forget(); !ok {
			k = max(found, x.greedy(make([]int, k)))
			exact = k == bound
		}
	}
	return k, exact
}

// greedy gives members the best that is there when their turn comes, until one finds nothing, and returns how many
// do. It leaves nothing taken.
func (x *search) greedy(members []int) (n int) {
	x.first(members)
	defer x.forget()
	for n < len(members) && x.taken[n] != nil {
		n++
	}
	return n
}

// first gives members the best that is there when their turn comes, until one finds nothing.
func (x *search) first(members []int) {
	x.members, x.taken = members, make([][]pick, len(members))
	for i, k := range members {
		x.renew()
		x.options(&x.demands[k], 0, nil, func(picks []pick) bool {
			x.taken[i] = slices.Clone(picks)
			return true
		})
		if x.taken[i] == nil {
			return
		}
		x.give(x.taken[i], 1)
	}
}

// renew begins another search, with as much work.
func (x *search) renew() { x.work, x.steps, x.cut = x.budget(), 0, false }

// budget is how many choices a search tries.
func (s *Solver) budget() int {
	work := s.Work
	if work == 0 {
		work = DefaultWork
	}
	return work / max(s.part, 1)
}

// somehow finds devices for members and leaves them taken: the best by all, or what each finds when its turn comes
// if that takes too long.
func (x *search) somehow(members []int) (ok, exact bool) {
	if x.all(members) {
		return true, true
	}
	if !x.cut {
		return false, true
	}
	if x.first(members); len(members) > 0 && x.taken[len(members)-1] == nil {
		x.forget()
		return false, false
	}
	return true, false
}

// all finds devices for members, whose kinds are given, and leaves them taken if it does.
func (x *search) all(members []int) bool {
	x.members, x.deepest = members, 0
	x.taken = make([][]pick, len(members))
	x.left = make([][]int, len(members)+1)
	x.left[len(members)] = make([]int, len(x.demands))
	for i := len(members) - 1; i >= 0; i-- {
		x.left[i] = slices.Clone(x.left[i+1])
		x.left[i][members[i]]++
	}
	clear(x.dead)
	return x.place(0)
}

// forget gives back what was taken.
func (x *search) forget() {
	for i := range x.taken {
		x.give(x.taken[i], -1)
		x.taken[i] = nil
	}
}

// place finds devices for the members from i on.
func (x *search) place(i int) bool {
	if x.deepest = max(x.deepest, i); i == len(x.members) {
		return true
	}
	if !x.hope(i) {
		return false
	}
	if len(x.dead) > 0 && x.dead[string(x.keys.key(x.st, x.byPosition))] {
		return false
	}
	d := &x.demands[x.members[i]]
	found := x.options(d, 0, nil, func(picks []pick) bool {
		x.taken[i] = slices.Clone(picks)
		x.give(x.taken[i], 1)
		if x.place(i + 1) {
			return true
		}
		x.give(x.taken[i], -1)
		x.taken[i] = nil
		x.work--
		x.cut = x.cut || x.work < 0
		return x.cut
	})
	if found && !x.cut {
		return true
	}
	if !x.cut {
		x.dead[string(x.keys.key(x.st, x.byPosition))] = true
	}
	return false
}

// hope says whether the members from i on may fit, by what is free altogether and by what each kind can
// have without the others.
func (x *search) hope(i int) bool {
	for k, n := range x.left[i] {
		if n == 0 {
			continue
		}
		d := &x.demands[k]
		if fit, _ := x.bound(x.st, d.r, d.needs, n); fit < n {
			return false
		}
	}
	return len(x.demands) == 1 || x.enough(x.left[i])
}

// enough says whether members do not ask for more than is free altogether.
func (x *search) enough(left []int) bool {
	var want [maxWants]Amount
	var kinds [maxWants]*kind
	for k, n := range left {
		for j := range x.demands[k].needs {
			d := &x.demands[k].needs[j]
			slot := slices.IndexFunc(kinds[:], func(o *kind) bool { return o == d.kind || o == nil })
			kinds[slot] = d.kind
			times := int64(n * max(d.count, 1))
			want[slot] = want[slot].plus(Amount{d.each.Core * times, d.each.Memory * times, d.each.Ratio * times})
		}
	}
	for slot, k := range kinds {
		if k == nil {
			break
		}
		var free Amount
		for i := range k.n {
			f := x.st.free(k.first + i)
			if k.healthy.has(i) {
				free = free.plus(Amount{max(f.Core, 0), max(f.Memory, 0), max(f.Ratio, 0)})
			}
		}
		if w := want[slot]; w.Core > free.Core || w.Memory > free.Memory || w.Ratio > free.Ratio {
			return false
		}
	}
	return true
}

// give takes devices for a member, or gives them back.
func (x *search) give(picks []pick, sign int) {
	for i := range picks {
		p := &picks[i]
		if p.group >= 0 && sign > 0 {
			from := x.st.node.groups[p.group].vfs
			p.vf = from[0] + slices.Index(x.st.vfs[from[0]:from[1]], 0)
		}
		x.st.use(p.at, p.amount, p.need.alone, sign)
		if p.group >= 0 {
			x.st.useVF(p.group, p.vf, sign)
		}
	}
}

// allocations says what members get of whom all found something.
func (x *search) allocations() []Allocation {
	out := make([]Allocation, len(x.taken))
	for i, picks := range x.taken {
		for _, p := range picks {
			u := &x.st.node.devices[p.at]
			s := Share{Type: u.Type, Minor: u.Minor, ID: u.ID, Amount: p.amount, Alone: p.need.alone}
			if p.group >= 0 {
				g := &x.st.node.groups[p.group]
				s.VFs = []VF{g.list[p.vf-g.vfs[0]]}
			}
			out[i] = append(out[i], s)
		}
		order := x.demands[x.members[i]].r.wants
		rank := func(t Type) int { return slices.IndexFunc(order, func(w want) bool { return w.of == t }) }
		slices.SortStableFunc(out[i], func(a, b Share) int {
			if d := rank(a.Type) - rank(b.Type); d != 0 {
				return d
			}
			return a.Minor - b.Minor
		})
	}
	return out
}

// beyond gives members what there is beyond: where NICs go with GPUs, one on each of a member's switches that nobody else
// of them needs.
func (x *search) beyond() {
	for i := range x.taken {
		x.more(i)
	}
}

// more gives a member further devices of the types that go with its first.
func (x *search) more(i int) {
	d := &x.demands[x.members[i]]
	if d.r.samePCIe {
		return
	}
	for j := 1; j <= d.r.joint; j++ {
		n := &d.needs[j]
		if n.of == GPU || n.count == 0 || n.scope > NodeScope {
			continue
		}
		wanted := x.on(x.taken[i], &d.needs[0])
		missing := wanted &^ x.on(x.taken[i], n)
		have := 0
		for _, p := range x.taken[i] {
			have += b2i(p.need == n)
		}
		for ; missing != 0 && have < wanted.len(); have++ {
			var at int
			at, missing = missing.next()
			var caps [most]int
			can := n.room(x.st, 1, &caps) & n.kind.at[at]
			for _, dev := range x.ordered(n, can, nil) {
				p := []pick{x.pick(n, dev)}
				x.give(p, 1)
				x.taken[i] = append(x.taken[i], p...)
				break
			}
		}
	}
}

// on returns the switches on which a member has devices of a type.
func (x *search) on(picks []pick, n *need) (switches set) {
	for _, p := range picks {
		if at := x.st.node.devices[p.at].at; p.need == n && at >= 0 {
			switches |= only(at)
		}
	}
	return switches
}

// pick is one device, with a VF of the first group that has one.
func (x *search) pick(n *need, dev int) pick {
	at := n.kind.first + dev
	p := pick{need: n, at: at, amount: n.each.of(x.st.node.devices[at].Has), group: -1}
	if n.of != GPU {
		p.amount = n.each
	}
	if n.vfs != nil {
		for _, g := range x.vfGroups(n, at) {
			p.group = g
			break
		}
	}
	return p
}

// vfGroups returns the groups of a device with VFs to choose from, one of those that are alike.
func (x *search) vfGroups(n *need, at int) (out []int) {
	node := x.st.node
	for g := node.devices[at].groups[0]; g < node.devices[at].groups[1]; g++ {
		if n.vfs[g] && x.st.vfFree(g) > 0 {
			out = append(out, g)
		}
	}
	return out
}
