package device

// Solver computes what fits on nodes, in reused memory: only one goroutine may use it at a time.
type Solver struct {
	// Packed prefers shared devices with a large part in use (MostAllocated) to devices with a small part (LeastAllocated).
	Packed bool
	// Work is how many choices of a search may fail before it turns greedy; 0 for DefaultWork.
	Work int

	workDivisor int // a search gets Work divided by it; 0 for all
	needs       []need
	caps        [maxWants][maxPerType]int
}

// DefaultWork keeps a search below some tens of milliseconds.
const DefaultWork = 2000

// Counting covers many nodes of which few are used, so it gets a part of the budget. What it finds, a search with the full
// budget finds, too.
const (
	countDivisor = 4  // for the number of members on a node
	crowdDivisor = 32 // for the number beside each possible crowd
)

// maxWants is the number of types that a member can request.
const maxWants = 3

// Count is how many members of a kind fit on a node together.
type Count struct {
	Slots int
	// Exact says that no more fit, or that the limit is reached. Else a search took too long, and at least Slots fit: Choose
	// finds devices for them.
	Exact bool
}

// need is what a member wants of one type, as one node sees it.
type need struct {
	*want
	kind          *kind
	match         set         // devices that the selector matches
	partitionOnly bool        // in a partition only
	partitions    []partition // usable partitions of count GPUs; without partitionOnly, only a preference of Choose
	vfs           []bool      // by group of the node, whether its VFs match; nil without VFs
}

// readNeeds appends to out what a member wants of each type on node n, or returns why the node can never satisfy it.
func readNeeds(n *Node, r *Request, out []need) ([]need, *Refusal) {
	if r.isolation != "" && r.isolation != n.isolation {
		return nil, &Refusal{Reason: OtherIsolation, Lasting: true}
	}
	for i := range r.wants {
		w := &r.wants[i]
		k := n.kind(w.deviceType)
		if k < 0 {
			return nil, &Refusal{Reason: TooFew, Type: w.deviceType, Lasting: true}
		}
		d := need{want: w, kind: &n.kinds[k]}
		d.match = d.kind.all()
		if w.selector != nil {
			d.match = 0
			for j := range d.kind.n {
				if w.selector.Matches(n.devices[d.kind.first+j].Labels) {
					d.match |= single(j)
				}
			}
		}
		if reason := d.checkNode(n, r); reason != 0 {
			return nil, &Refusal{Reason: reason, Type: w.deviceType, Lasting: true}
		}
		out = append(out, d)
	}
	return out, nil
}

// checkNode sets the VFs and partitions of node n that d may use. It returns why the node can never satisfy d; 0 if it can.
func (d *need) checkNode(n *Node, r *Request) Reason {
	if d.want.vfs != nil {
		found := false
		d.vfs = make([]bool, len(n.groups))
		for _, u := range n.devices[d.kind.first:][:d.kind.n] {
			for g := u.groups[0]; g < u.groups[1]; g++ {
				d.vfs[g] = d.want.vfs.Matches(n.groups[g].labels)
				found = found || d.vfs[g] && len(n.groups[g].list) > 0
			}
		}
		if !found {
			return TooFewVFs
		}
	}
	if d.deviceType == GPU && !d.shared {
		d.partitionOnly = n.partitionsOnly || r.partition != nil
		parts, inTable := n.table[d.count]
		switch {
		case d.partitionOnly && n.table == nil:
			return NoTable
		case d.partitionOnly && !inTable:
			return NotInTable
		}
		if d.partitionOnly {
			d.usable(parts, r.partition)
		}
	}
	switch {
	case d.scope != AnyScope && !d.kind.tree && d.deviceType == GPU:
		return NoTree
	case d.scope != AnyScope && !d.kind.tree:
		return TooFewInScope
	case d.scope != AnyScope && d.shared && d.count > 1:
		return SharedInScope
	case d.scope == DeviceScope && d.count > 1:
		return TooFewInScope
	}
	return 0
}

// usable appends to partitions the parts that the pod may use: with enough bandwidth, in its scope, and if spec is Restricted, with the
// highest score.
func (d *need) usable(parts []partition, spec *PartitionAsk) {
	best := 0
	for i, p := range parts {
		if i == 0 || p.score > best {
			best = p.score
		}
	}
	for _, p := range parts {
		switch {
		case spec != nil && (spec.Policy == "Restricted" && p.score < best || p.bandwidth < spec.Bandwidth):
		case p.gpus == 0 || !d.inScope(p.gpus):
		default:
			d.partitions = append(d.partitions, p)
		}
	}
}

// inScope returns whether the devices s are within the required scope.
func (d *need) inScope(s set) bool {
	if d.scope == PCIeScope || d.scope == DeviceScope {
		return anyContains(d.kind.pcie, s)
	}
	return d.scope != NUMAScope || anyContains(d.kind.numa, s)
}

// anyContains returns whether one domain contains all devices of s.
func anyContains(domains []domain, s set) bool {
	for _, d := range domains {
		if d.contains(s) {
			return true
		}
	}
	return false
}

// available returns the healthy devices that match and are not exclusive to another member. If this member is exclusive, they have no user.
func (d *need) available(st *State) set {
	s := d.match & d.kind.healthy
	for i := range d.kind.n {
		u := &st.used[d.kind.first+i]
		switch {
		case u.exclusiveSwitch > 0 || u.users > 0 && d.exclusive == PCIeLevel:
			s &^= d.kind.onSwitchOf(st.node, i)
		case u.exclusive > 0 || u.users > 0 && d.exclusive == DeviceLevel:
			s &^= single(i)
		}
	}
	return s
}

// onSwitchOf returns the devices on a device's switch.
func (k *kind) onSwitchOf(n *Node, i int) set {
	if at := n.devices[k.first+i].switchIndex; at >= 0 {
		return k.bySwitch[at]
	}
	return single(i)
}

// capacity sets caps to the number of members, at most upTo, that each device can serve. It returns the devices that can serve one.
func (d *need) capacity(st *State, upTo int, caps *[maxPerType]int) (can set) {
	if d.exclusive != Sharing {
		upTo = 1
	}
	available := d.available(st)
	for i := range d.kind.n {
		caps[i] = 0
		if !available.has(i) {
			continue
		}
		at := d.kind.first + i
		n := d.perDevice.complete(st.node.devices[at].Has).times(st.free(at), upTo)
		if d.vfs != nil {
			n = min(n, d.freeVFs(st, at))
		}
		if caps[i] = n; n > 0 {
			can |= single(i)
		}
	}
	if d.partitionOnly {
		can &= d.inFreePartitions(st, can)
		for i := range d.kind.n {
			caps[i] *= b2i(can.has(i))
		}
	}
	return can
}

// freeVFs returns the number of free VFs of a device that match.
func (d *need) freeVFs(st *State, at int) (n int) {
	for g := st.node.devices[at].groups[0]; g < st.node.devices[at].groups[1]; g++ {
		if d.vfs[g] {
			n += st.vfFree(g)
		}
	}
	return n
}

// inFreePartitions returns the devices of can that are in a usable free partition.
func (d *need) inFreePartitions(st *State, can set) (s set) {
	for _, p := range d.partitions {
		if d.partitionFree(st, p.gpus, can) {
			s |= p.gpus
		}
	}
	return s
}

// partitionFree returns whether all gpus are in can and none is in use.
func (d *need) partitionFree(st *State, gpus, can set) bool {
	if !gpus.subsetOf(can) {
		return false
	}
	for s := gpus; s != 0; {
		var i int
		if i, s = s.next(); st.used[d.kind.first+i].users > 0 {
			return false
		}
	}
	return true
}

// bound returns an upper bound of the members that fit together, at most upTo; exact says that so many fit.
func (s *Solver) bound(st *State, r *Request, needs []need, upTo int) (k int, exact bool) {
	var can [maxWants]set
	k, exact = upTo, true
	for i := range needs {
		can[i] = needs[i].capacity(st, upTo, &s.caps[i])
	}
	joint := 0
	if r.samePCIe {
		joint = r.joint + 1
		k, exact = s.boundBySwitches(st.node, needs[:joint], &can, k)
	}
	for i := joint; i < len(needs) && k > 0; i++ {
		var typeExact bool
		k, typeExact = s.boundByType(&needs[i], &s.caps[i], can[i], k)
		exact = exact && typeExact
	}
	return k, exact || k == 0
}

// boundByType is bound for one type.
func (s *Solver) boundByType(d *need, caps *[maxPerType]int, can set, upTo int) (k int, exact bool) {
	exact = !d.partitionOnly
	if d.exclusive == PCIeLevel {
		upTo = min(upTo, d.kind.switchCount(can))
		exact = exact && d.count == 1
	}
	if d.count == 0 {
		if k = upTo; d.match == 0 {
			k = 0
		}
		for m := d.match; m != 0 && k > 0; {
			var i int
			i, m = m.next()
			k = min(k, caps[i])
		}
		return k, exact
	}
	domains := d.kind.pcie
	switch {
	case d.scope == NUMAScope:
		domains = d.kind.numa
	case d.scope != PCIeScope:
		return maxMembers(caps, can, d.count, upTo), exact
	}
	for _, dom := range domains {
		if k += maxMembers(caps, can&dom.devices, d.count, upTo); k >= upTo {
			return upTo, exact
		}
	}
	return k, exact
}

// switchCount returns the number of switches with devices in can; a device without a switch counts as one.
func (k *kind) switchCount(can set) (n int) {
	for _, onSwitch := range k.bySwitch {
		n += b2i(can&onSwitch != 0)
		can &^= onSwitch
	}
	return n + can.len()
}

// maxMembers returns the largest k, at most upTo, such that k members get n different devices each, if device i can serve caps[i] members.
// By Hall's theorem that holds if, and only if, the devices can serve k members k·n times altogether.
func maxMembers(caps *[maxPerType]int, can set, n, upTo int) (k int) {
	if can.len() < n {
		return 0
	}
	for k = upTo; k > 0; {
		sum := 0
		for s := can; s != 0; {
			var i int
			i, s = s.next()
			sum += min(caps[i], k)
		}
		if sum >= k*n {
			return k
		}
		k = sum / n
	}
	return 0
}

// boundBySwitches is bound for types that share switches. If a member has one device of the first type, it is on one switch, and the counts
// of switches add up. Otherwise each type limits the members on the switches that have devices of all types.
func (s *Solver) boundBySwitches(n *Node, needs []need, can *[maxWants]set, upTo int) (k int, exact bool) {
	first := &needs[0]
	exact = first.count == 1 && n.roots != nil
	var shared [maxWants]set
	for at := range n.switches {
		onSwitch, all := upTo, true
		for i := range needs {
			d := &needs[i]
			devices := can[i] & d.kind.bySwitch[at]
			all = all && devices != 0
			onSwitch = min(onSwitch, maxMembers(&s.caps[i], devices, max(d.count, 1), upTo))
		}
		if all {
			k += onSwitch
			for i := range needs {
				shared[i] |= can[i] & needs[i].kind.bySwitch[at]
			}
		}
	}
	for i := range needs {
		d := &needs[i]
		exact = exact && d.count > 0 && !d.partitionOnly && d.exclusive != PCIeLevel
	}
	if exact {
		return min(k, upTo), true
	}
	k = upTo
	for i := range needs {
		k, _ = s.boundByType(&needs[i], &s.caps[i], shared[i], k)
	}
	return k, false
}

// Slots returns how many members of one kind fit on a node together, at most upTo.
func (s *Solver) Slots(st *State, r *Request, upTo int) Count {
	var bad *Refusal
	if s.needs, bad = readNeeds(st.node, r, s.needs[:0]); bad != nil {
		return Count{Exact: true}
	}
	k, exact := s.bound(st, r, s.needs, upTo)
	if !exact {
		defer s.limitWork(countDivisor)()
		k, exact = s.search(st, []demand{{r, s.needs}}).countMembers(k)
	}
	return Count{Slots: k, Exact: exact}
}

// limitWork gives searches 1/divisor of the work, or less if the present divisor is larger, until done is called.
func (s *Solver) limitWork(divisor int) (done func()) {
	former := s.workDivisor
	s.workDivisor = max(former, divisor)
	return func() { s.workDivisor = former }
}

// Fits returns whether members of any kinds fit on a node together. exact is false if the search gave up: then they may fit although fits
// is false.
func (s *Solver) Fits(st *State, members []*Request) (fits, exact bool) {
	demands, kinds, bad := s.demands(st.node, members)
	if bad != nil {
		return false, true
	}
	if len(demands) == 1 {
		if k, exact := s.bound(st, demands[0].r, demands[0].needs, len(kinds)); exact || k < len(kinds) {
			return k == len(kinds), true
		}
	}
	x := s.search(st, demands)
	fits, exact = x.searchOrGreedy(kinds)
	x.release()
	return fits, fits || exact
}

// Choose returns the devices of each member on a node, in rank order, all or nothing. The first member gets the best devices that allow the
// other members to fit, then the second, and so on. If that takes too long, exact is false: then the choice was greedy, or ok is false
// although they might fit. The state is unchanged.
func (s *Solver) Choose(st *State, members []*Request) (all []Allocation, ok, exact bool) {
	demands, kinds, bad := s.demands(st.node, members)
	if bad != nil {
		return nil, false, true
	}
	x := s.search(st, demands)
	if ok, exact = x.searchOrGreedy(kinds); ok {
		x.addSpare()
		all = x.allocations()
	}
	x.release()
	return all, ok, exact
}

// Why returns why members do not fit on a node together; nil if they do.
func (s *Solver) Why(st *State, members []*Request) *Refusal {
	demands, kinds, bad := s.demands(st.node, members)
	if bad != nil {
		return bad
	}
	why := s.why(st, members, demands, kinds)
	if why != nil {
		why.Lasting = s.why(NewState(st.node), members, demands, kinds) != nil
	}
	return why
}

// why returns what is missing for the first member that does not fit beside the earlier ones; nil if all fit.
func (s *Solver) why(st *State, members []*Request, demands []demand, kinds []int) *Refusal {
	for k, d := range demands { // some kind may not fit at all
		if reason, t := s.lacks(st, d); reason != 0 {
			for i := range kinds {
				if kinds[i] == k {
					return &Refusal{Reason: reason, Type: t}
				}
			}
		}
	}
	x := s.search(st, demands)
	fit := 0
	for fit < len(kinds) && x.searchAll(kinds[:fit+1]) {
		x.release()
		x.resetWork()
		fit++
	}
	if fit == len(kinds) {
		return nil
	}
	if last := demands[kinds[fit]]; x.searchAll(kinds[:fit]) {
		defer x.release()
		if reason, t := s.lacks(st, last); reason != 0 {
			return &Refusal{Reason: reason, Type: t}
		}
	}
	return &Refusal{Reason: TogetherWithOthers, Type: members[fit].wants[0].deviceType}
}

// demands returns the kinds of members and the kind of each member, or bad if the node can never satisfy one.
func (s *Solver) demands(n *Node, members []*Request) (demands []demand, kinds []int, bad *Refusal) {
	for _, r := range members {
		k := 0
		for k < len(demands) && demands[k].r.key != r.key {
			k++
		}
		if k == len(demands) {
			needs, bad := readNeeds(n, r, nil)
			if bad != nil {
				return nil, nil, bad
			}
			for i := range needs {
				if d := &needs[i]; d.deviceType == GPU && !d.shared && !d.partitionOnly {
					d.usable(n.table[d.count], nil)
				}
			}
			demands = append(demands, demand{r, needs})
		}
		kinds = append(kinds, k)
	}
	return demands, kinds, nil
}

// lacks returns what one member of demand d lacks; 0 if it fits, or if the search gave up.
func (s *Solver) lacks(st *State, d demand) (Reason, Type) {
	for _, n := range d.needs {
		var caps [maxPerType]int
		if k, _ := s.boundByType(&n, &caps, n.capacity(st, 1, &caps), 1); k > 0 {
			continue
		}
		switch {
		case n.partitionOnly:
			return TooFewPartitioned, n.deviceType
		case n.scope != AnyScope && n.deviceType == GPU:
			return TooFewInScope, n.deviceType
		case n.vfs != nil:
			n.vfs = nil
			if k, _ := s.boundByType(&n, &caps, n.capacity(st, 1, &caps), 1); k > 0 {
				return TooFewVFs, n.deviceType
			}
		}
		return TooFew, n.deviceType
	}
	x := s.search(st, []demand{d})
	defer x.release()
	switch {
	case x.searchAll([]int{0}) || x.gaveUp:
		return 0, ""
	case d.r.joint > 0:
		return JointRules, d.needs[0].deviceType
	}
	return TooFew, d.needs[0].deviceType
}
