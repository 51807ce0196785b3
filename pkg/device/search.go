package device

import "slices"

// demand is a kind of members with equal requests, as one node sees it.
type demand struct {
	r     *Request
	needs []need
}

// search tries the choices of each member, best first, and backtracks if a later member finds nothing. It does not try choices twice that
// differ only in alike devices: the keys of failed states are remembered.
type search struct {
	*Solver
	st        *State
	demands   []demand
	members   []int    // the demand of each
	remaining [][]int  // by demand, the number of members from each member on
	taken     [][]pick // by member

	byPosition bool            // partitions make otherwise alike GPUs differ
	deadEnds   map[string]bool // keys of states in which the remaining members find nothing; equal states have as many of them
	keys       keyWriter
	work       int  // choices that may still fail
	steps      int  // steps that subsets took
	gaveUp     bool // the work was used up
	deepest    int  // the most members that found devices at once
}

// pick is a device that a member gets.
type pick struct {
	need   *need
	at     int
	amount Amount
	group  int // of a VF, -1 for none
	vf     int
}

// search returns a search on state st, which it changes while it runs.
func (s *Solver) search(st *State, demands []demand) *search {
	x := &search{Solver: s, st: st, demands: demands, deadEnds: map[string]bool{}, work: s.budget()}
	for _, d := range demands {
		for i := range d.needs {
			x.byPosition = x.byPosition || d.needs[i].partitionOnly
		}
	}
	return x
}

// countMembers returns how many members of one kind fit, at most limit, and whether that is exact. searchOrGreedy finds devices for as
// many. When the search for all gives up, it continues with one more than the members found so far: that is faster than proving that all do
// not fit.
func (x *search) countMembers(limit int) (int, bool) {
	k, found := 0, 0 // k members are possible, and searchAll found devices for found members
	for want := limit; ; want = k + 1 {
		ok := x.searchAll(make([]int, want))
		if x.release(); ok {
			found = want
		}
		k = max(k, x.deepest)
		if x.gaveUp && want == limit && k < limit-1 {
			if k = max(k, x.countGreedy(make([]int, limit))); k == limit {
				return k, true
			}
			x.resetWork()
			continue
		}
		if k == limit || x.gaveUp || !ok && want == k+1 {
			break
		}
	}
	exact := !x.gaveUp
	if k > found { // Choose must find as many
		x.resetWork()
		ok := x.searchAll(make([]int, k))
		if x.release(); !ok {
			k = max(found, x.countGreedy(make([]int, k)))
			exact = k == limit
		}
	}
	return k, exact
}

// countGreedy returns how many members find devices if each in turn takes the best free ones. It releases all devices.
func (x *search) countGreedy(members []int) (n int) {
	x.takeGreedy(members)
	defer x.release()
	for n < len(members) && x.taken[n] != nil {
		n++
	}
	return n
}

// takeGreedy takes the best free devices for each member in turn, until one finds nothing. members is given by demand.
func (x *search) takeGreedy(members []int) {
	x.members, x.taken = members, make([][]pick, len(members))
	for i, k := range members {
		x.resetWork()
		x.options(&x.demands[k], 0, nil, func(picks []pick) bool {
			x.taken[i] = slices.Clone(picks)
			return true
		})
		if x.taken[i] == nil {
			return
		}
		x.takeOrFree(x.taken[i], 1)
	}
}

// resetWork begins another search with the full budget.
func (x *search) resetWork() { x.work, x.steps, x.gaveUp = x.budget(), 0, false }

// budget returns how many choices of a search may fail.
func (s *Solver) budget() int {
	work := s.Work
	if work == 0 {
		work = DefaultWork
	}
	return work / max(s.workDivisor, 1)
}

// searchOrGreedy takes devices for members and returns whether it succeeded: the best for all together, or greedily if that takes too long.
// exact is false if the search gave up.
func (x *search) searchOrGreedy(members []int) (ok, exact bool) {
	if x.searchAll(members) {
		return true, true
	}
	if !x.gaveUp {
		return false, true
	}
	if x.takeGreedy(members); len(members) > 0 && x.taken[len(members)-1] == nil {
		x.release()
		return false, false
	}
	return true, false
}

// searchAll takes devices for members, given by demand, and returns whether it succeeded. On failure it takes none.
func (x *search) searchAll(members []int) bool {
	x.members, x.deepest = members, 0
	x.taken = make([][]pick, len(members))
	x.remaining = make([][]int, len(members)+1)
	x.remaining[len(members)] = make([]int, len(x.demands))
	for i := len(members) - 1; i >= 0; i-- {
		x.remaining[i] = slices.Clone(x.remaining[i+1])
		x.remaining[i][members[i]]++
	}
	clear(x.deadEnds)
	return x.placeFrom(0)
}

// release frees the devices of all members.
func (x *search) release() {
	for i := range x.taken {
		x.takeOrFree(x.taken[i], -1)
		x.taken[i] = nil
	}
}

// placeFrom takes devices for the members from number i on, and returns whether it succeeded.
func (x *search) placeFrom(i int) bool {
	if x.deepest = max(x.deepest, i); i == len(x.members) {
		return true
	}
	if !x.mayFit(i) {
		return false
	}
	if len(x.deadEnds) > 0 && x.deadEnds[string(x.keys.key(x.st, x.byPosition))] {
		return false
	}
	d := &x.demands[x.members[i]]
	found := x.options(d, 0, nil, func(picks []pick) bool {
		x.taken[i] = slices.Clone(picks)
		x.takeOrFree(x.taken[i], 1)
		if x.placeFrom(i + 1) {
			return true
		}
		x.takeOrFree(x.taken[i], -1)
		x.taken[i] = nil
		x.work--
		x.gaveUp = x.gaveUp || x.work < 0
		return x.gaveUp
	})
	if found && !x.gaveUp {
		return true
	}
	if !x.gaveUp {
		x.deadEnds[string(x.keys.key(x.st, x.byPosition))] = true
	}
	return false
}

// mayFit returns false if the members from number i on cannot fit: by the total free amount, or by one kind alone.
func (x *search) mayFit(i int) bool {
	for k, n := range x.remaining[i] {
		if n == 0 {
			continue
		}
		d := &x.demands[k]
		if fit, _ := x.bound(x.st, d.r, d.needs, n); fit < n {
			return false
		}
	}
	return len(x.demands) == 1 || x.withinFree(x.remaining[i])
}

// withinFree returns whether the remaining members, counted by demand, request no more than the total free amount.
func (x *search) withinFree(remaining []int) bool {
	var want [maxWants]Amount
	var kinds [maxWants]*kind
	for k, n := range remaining {
		for j := range x.demands[k].needs {
			d := &x.demands[k].needs[j]
			slot := slices.IndexFunc(kinds[:], func(o *kind) bool { return o == d.kind || o == nil })
			kinds[slot] = d.kind
			times := int64(n * max(d.count, 1))
			want[slot] = want[slot].plus(Amount{d.perDevice.Core * times, d.perDevice.Memory * times, d.perDevice.Ratio * times})
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

// takeOrFree takes the picked devices (sign 1) or frees them (sign -1). Taking a pick with a VF group sets its vf to the first free VF of
// the group.
func (x *search) takeOrFree(picks []pick, sign int) {
	for i := range picks {
		p := &picks[i]
		if p.group >= 0 && sign > 0 {
			from := x.st.node.groups[p.group].vfs
			p.vf = from[0] + slices.Index(x.st.vfs[from[0]:from[1]], 0)
		}
		x.st.use(p.at, p.amount, p.need.exclusive, sign)
		if p.group >= 0 {
			x.st.useVF(p.group, p.vf, sign)
		}
	}
}

// allocations returns the taken devices of each member. All members must have devices.
func (x *search) allocations() []Allocation {
	out := make([]Allocation, len(x.taken))
	for i, picks := range x.taken {
		for _, p := range picks {
			u := &x.st.node.devices[p.at]
			s := Share{Type: u.Type, Minor: u.Minor, ID: u.ID, Amount: p.amount, Exclusive: p.need.exclusive}
			if p.group >= 0 {
				g := &x.st.node.groups[p.group]
				s.VFs = []VF{g.list[p.vf-g.vfs[0]]}
			}
			out[i] = append(out[i], s)
		}
		order := x.demands[x.members[i]].r.wants
		rank := func(t Type) int { return slices.IndexFunc(order, func(w want) bool { return w.deviceType == t }) }
		slices.SortStableFunc(out[i], func(a, b Share) int {
			if d := rank(a.Type) - rank(b.Type); d != 0 {
				return d
			}
			return a.Minor - b.Minor
		})
	}
	return out
}

// addSpare takes spare devices for all members, see addSpareOf.
func (x *search) addSpare() {
	for i := range x.taken {
		x.addSpareOf(i)
	}
}

// addSpareOf takes spare devices of member i's joint types, for NICs that belong to GPUs: one on each switch of its first type, if free.
func (x *search) addSpareOf(i int) {
	d := &x.demands[x.members[i]]
	if d.r.samePCIe {
		return
	}
	for j := 1; j <= d.r.joint; j++ {
		n := &d.needs[j]
		if n.deviceType == GPU || n.count == 0 || n.scope > NodeScope {
			continue
		}
		wanted := x.switchesOf(x.taken[i], &d.needs[0])
		missing := wanted &^ x.switchesOf(x.taken[i], n)
		have := 0
		for _, p := range x.taken[i] {
			have += b2i(p.need == n)
		}
		for ; missing != 0 && have < wanted.len(); have++ {
			var at int
			at, missing = missing.next()
			var caps [maxPerType]int
			can := n.capacity(x.st, 1, &caps) & n.kind.bySwitch[at]
			for _, dev := range x.sorted(n, can, nil) {
				p := []pick{x.pick(n, dev)}
				x.takeOrFree(p, 1)
				x.taken[i] = append(x.taken[i], p...)
				break
			}
		}
	}
}

// switchesOf returns the switches of the devices picked for one want.
func (x *search) switchesOf(picks []pick, n *need) (switches set) {
	for _, p := range picks {
		if at := x.st.node.devices[p.at].switchIndex; p.need == n && at >= 0 {
			switches |= single(at)
		}
	}
	return switches
}

// pick returns device dev for a want, with a VF of the first group that has one.
func (x *search) pick(n *need, dev int) pick {
	at := n.kind.first + dev
	p := pick{need: n, at: at, amount: n.perDevice.complete(x.st.node.devices[at].Has), group: -1}
	if n.deviceType != GPU {
		p.amount = n.perDevice
	}
	if n.vfs != nil {
		for _, g := range x.vfGroups(n, at) {
			p.group = g
			break
		}
	}
	return p
}

// vfGroups returns the VF groups of a device that match the want and have free VFs.
func (x *search) vfGroups(n *need, at int) (out []int) {
	node := x.st.node
	for g := node.devices[at].groups[0]; g < node.devices[at].groups[1]; g++ {
		if n.vfs[g] && x.st.vfFree(g) > 0 {
			out = append(out, g)
		}
	}
	return out
}
