package device

// Solver answers what fits on nodes, one question after the other, in memory that it keeps: one
// goroutine may ask at a time.
type Solver struct {
	// Packed prefers shared devices of which much is taken (MostAllocated) to those of which little
	// is (LeastAllocated).
	Packed bool
	// Work is how many choices of a search may fail before it gives each member the best that is
	// left; 0 for DefaultWork.
	Work int

	part  int // of the work is one search's; 0 is all of it
	needs []need
	caps  [maxWants][most]int
}

// DefaultWork keeps a search below some tens of milliseconds.
const DefaultWork = 2000

// Whoever counts asks many nodes of which few are taken, and tries a part of the choices. What is found so is found by who
// tries all of them, too.
const (
	countPart = 4  // how many fit on a node
	crowdPart = 32 // and how many beside each crowd that might come there
)

// maxWants is how many types a member can ask for.
const maxWants = 3

// Count is how many members of a kind fit on a node together.
type Count struct {
	Slots int
	// Exact says that no more fit, or as many as were asked for. Else a search took too long, and
	// at least so many do: Choose finds devices for them.
	Exact bool
}

// need is what a member wants of one type, as one node sees it.
type need struct {
	*want
	kind  *kind
	match set         // devices that the selector matches
	must  bool        // in a partition only
	parts []partition // of that many GPUs that may do; where none is a must, for who chooses
	vfs   []bool      // groups of the node whose VFs match; nil if no VF is wanted
}

// read returns what a member wants of a node, or why the node never has it.
func read(n *Node, r *Request, out []need) ([]need, *Refusal) {
	if r.isolation != "" && r.isolation != n.isolation {
		return nil, &Refusal{Reason: OtherIsolation, Lasting: true}
	}
	for i := range r.wants {
		w := &r.wants[i]
		k := n.kind(w.of)
		if k < 0 {
			return nil, &Refusal{Reason: TooFew, Type: w.of, Lasting: true}
		}
		d := need{want: w, kind: &n.kinds[k]}
		d.match = d.kind.all()
		if w.selector != nil {
			d.match = 0
			for j := range d.kind.n {
				if w.selector.Matches(n.devices[d.kind.first+j].Labels) {
					d.match |= only(j)
				}
			}
		}
		if reason := d.read(n, r); reason != 0 {
			return nil, &Refusal{Reason: reason, Type: w.of, Lasting: true}
		}
		out = append(out, d)
	}
	return out, nil
}

// read looks at VFs, partitions and scopes.
func (d *need) read(n *Node, r *Request) Reason {
	if d.want.vfs != nil {
		some := false
		d.vfs = make([]bool, len(n.groups))
		for _, u := range n.devices[d.kind.first:][:d.kind.n] {
			for g := u.groups[0]; g < u.groups[1]; g++ {
				d.vfs[g] = d.want.vfs.Matches(n.groups[g].labels)
				some = some || d.vfs[g] && len(n.groups[g].list) > 0
			}
		}
		if !some {
			return TooFewVFs
		}
	}
	if d.of == GPU && !d.shared {
		d.must = n.honor || r.partition != nil
		parts, legal := n.table[d.count]
		switch {
		case d.must && n.table == nil:
			return NoTable
		case d.must && !legal:
			return NotInTable
		}
		if d.must {
			d.usable(parts, r.partition)
		}
	}
	switch {
	case d.scope != AnyScope && !d.kind.tree && d.of == GPU:
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

// usable keeps the partitions that the pod may have: of the highest score there is if it is
// restricted, with the bandwidth that it asks for, and in its scope.
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
			d.parts = append(d.parts, p)
		}
	}
}

// inScope says whether devices are as close as they must be.
func (d *need) inScope(s set) bool {
	if d.scope == PCIeScope || d.scope == DeviceScope {
		return anyContains(d.kind.pcie, s)
	}
	return d.scope != NUMAScope || anyContains(d.kind.numa, s)
}

func anyContains(domains []domain, s set) bool {
	for _, d := range domains {
		if d.contains(s) {
			return true
		}
	}
	return false
}

// open returns the healthy devices that match and that nobody keeps for himself, or that nobody has
// at all where this member does not share.
func (d *need) open(st *State) set {
	s := d.match & d.kind.healthy
	for i := range d.kind.n {
		u := &st.used[d.kind.first+i]
		switch {
		case u.fence > 0 || u.users > 0 && d.alone == PCIeLevel:
			s &^= d.kind.besides(st.node, i)
		case u.alone > 0 || u.users > 0 && d.alone == DeviceLevel:
			s &^= only(i)
		}
	}
	return s
}

// besides returns the devices on a device's switch.
func (k *kind) besides(n *Node, i int) set {
	if at := n.devices[k.first+i].at; at >= 0 {
		return k.at[at]
	}
	return only(i)
}

// room fills in of how many members, at most so many, each device can be a part, and returns the
// devices that can.
func (d *need) room(st *State, upTo int, caps *[most]int) (can set) {
	if d.alone != Sharing {
		upTo = 1
	}
	open := d.open(st)
	for i := range d.kind.n {
		caps[i] = 0
		if !open.has(i) {
			continue
		}
		at := d.kind.first + i
		n := d.each.of(st.node.devices[at].Has).times(st.free(at), upTo)
		if d.vfs != nil {
			n = min(n, d.freeVFs(st, at))
		}
		if caps[i] = n; n > 0 {
			can |= only(i)
		}
	}
	if d.must {
		can &= d.inParts(st, can)
		for i := range d.kind.n {
			caps[i] *= b2i(can.has(i))
		}
	}
	return can
}

func (d *need) freeVFs(st *State, at int) (n int) {
	for g := st.node.devices[at].groups[0]; g < st.node.devices[at].groups[1]; g++ {
		if d.vfs[g] {
			n += st.vfFree(g)
		}
	}
	return n
}

// inParts returns the devices of partitions that are free.
func (d *need) inParts(st *State, can set) (s set) {
	for _, p := range d.parts {
		if d.partFree(st, p.gpus, can) {
			s |= p.gpus
		}
	}
	return s
}

func (d *need) partFree(st *State, gpus, can set) bool {
	if !gpus.within(can) {
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

// bound returns how many members fit together at most, if all that is wanted of one type may be had
// together; exact says that so many do.
func (s *Solver) bound(st *State, r *Request, needs []need, upTo int) (k int, exact bool) {
	var can [maxWants]set
	k, exact = upTo, true
	for i := range needs {
		can[i] = needs[i].room(st, upTo, &s.caps[i])
	}
	joint := 0
	if r.samePCIe {
		joint = r.joint + 1
		k, exact = s.onSwitches(st.node, needs[:joint], &can, k)
	}
	for i := joint; i < len(needs) && k > 0; i++ {
		var alone bool
		k, alone = s.apart(&needs[i], &s.caps[i], can[i], k)
		exact = exact && alone
	}
	return k, exact || k == 0
}

// apart counts members by one type.
func (s *Solver) apart(d *need, caps *[most]int, can set, upTo int) (k int, exact bool) {
	exact = !d.must
	if d.alone == PCIeLevel {
		upTo = min(upTo, d.kind.fences(can))
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
		return together(caps, can, d.count, upTo), exact
	}
	for _, dom := range domains {
		if k += together(caps, can&dom.devices, d.count, upTo); k >= upTo {
			return upTo, exact
		}
	}
	return k, exact
}

// fences counts the switches that devices are on; who is on none is by himself.
func (k *kind) fences(can set) (n int) {
	for _, there := range k.at {
		n += b2i(can&there != 0)
		can &^= there
	}
	return n + can.len()
}

// together returns the largest k such that k members get n devices each, different ones, where device
// i can be a part of caps[i] of them. They can if, and only if, what the devices give to k members
// is k·n altogether.
func together(caps *[most]int, can set, n, upTo int) (k int) {
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

// onSwitches counts members whose types share switches. With one device of the first type a member is
// on one switch, and the switches add up; else it is not more than each type allows on those switches
// that have something of all.
func (s *Solver) onSwitches(n *Node, needs []need, can *[maxWants]set, upTo int) (k int, exact bool) {
	first := &needs[0]
	exact = first.count == 1 && n.roots != nil
	var in [maxWants]set
	for at := range n.switches {
		here, all := upTo, true
		for i := range needs {
			d := &needs[i]
			on := can[i] & d.kind.at[at]
			all = all && on != 0
			here = min(here, together(&s.caps[i], on, max(d.count, 1), upTo))
		}
		if all {
			k += here
			for i := range needs {
				in[i] |= can[i] & needs[i].kind.at[at]
			}
		}
	}
	for i := range needs {
		d := &needs[i]
		exact = exact && d.count > 0 && !d.must && d.alone != PCIeLevel
	}
	if exact {
		return min(k, upTo), true
	}
	k = upTo
	for i := range needs {
		k, _ = s.apart(&needs[i], &s.caps[i], in[i], k)
	}
	return k, false
}

// Slots returns how many members of one kind fit on a node together, at most so many.
func (s *Solver) Slots(st *State, r *Request, upTo int) Count {
	var bad *Refusal
	if s.needs, bad = read(st.node, r, s.needs[:0]); bad != nil {
		return Count{Exact: true}
	}
	k, exact := s.bound(st, r, s.needs, upTo)
	if !exact {
		defer s.trying(countPart)()
		k, exact = s.search(st, []demand{{r, s.needs}}).most(k)
	}
	return Count{Slots: k, Exact: exact}
}

// trying has searches take a part of the work, or a smaller one that they have taken so far, until what it returns is called.
func (s *Solver) trying(part int) (done func()) {
	was := s.part
	s.part = max(was, part)
	return func() { s.part = was }
}

// Fits says whether members of any kinds fit on a node together. exact is false if the search gave up: then
// they may fit although it says no.
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
	fits, exact = x.somehow(kinds)
	x.forget()
	return fits, fits || exact
}

// Choose returns what each of the members gets of a node, in rank order, all or nobody: the first gets the
// best that leaves room for the others, then the second, and so on. If that takes too long exact is false: then each
// got the best that was there at its turn, or ok is false though they might fit. The state stays as it is.
func (s *Solver) Choose(st *State, members []*Request) (all []Allocation, ok, exact bool) {
	demands, kinds, bad := s.demands(st.node, members)
	if bad != nil {
		return nil, false, true
	}
	x := s.search(st, demands)
	if ok, exact = x.somehow(kinds); ok {
		x.beyond()
		all = x.allocations()
	}
	x.forget()
	return all, ok, exact
}

// Why says why members do not fit on a node together, nil if they do.
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

// why says what the first lacks that finds nothing beside those before it.
func (s *Solver) why(st *State, members []*Request, demands []demand, kinds []int) *Refusal {
	for k, d := range demands { // some kind may find nothing at all
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
	for fit < len(kinds) && x.all(kinds[:fit+1]) {
		x.forget()
		x.renew()
		fit++
	}
	if fit == len(kinds) {
		return nil
	}
	if last := demands[kinds[fit]]; x.all(kinds[:fit]) {
		defer x.forget()
		if reason, t := s.lacks(st, last); reason != 0 {
			return &Refusal{Reason: reason, Type: t}
		}
	}
	return &Refusal{Reason: TogetherWithOthers, Type: members[fit].wants[0].of}
}

// demands returns the kinds of members, and of which kind each is.
func (s *Solver) demands(n *Node, members []*Request) (demands []demand, kinds []int, bad *Refusal) {
	for _, r := range members {
		k := 0
		for k < len(demands) && demands[k].r.key != r.key {
			k++
		}
		if k == len(demands) {
			needs, bad := read(n, r, nil)
			if bad != nil {
				return nil, nil, bad
			}
			for i := range needs {
				if d := &needs[i]; d.of == GPU && !d.shared && !d.must {
					d.usable(n.table[d.count], nil)
				}
			}
			demands = append(demands, demand{r, needs})
		}
		kinds = append(kinds, k)
	}
	return demands, kinds, nil
}

// lacks says what one member lacks; 0 if it fits, or if nobody knows.
func (s *Solver) lacks(st *State, d demand) (Reason, Type) {
	for _, n := range d.needs {
		var caps [most]int
		if k, _ := s.apart(&n, &caps, n.room(st, 1, &caps), 1); k > 0 {
			continue
		}
		switch {
		case n.must:
			return TooFewPartitioned, n.of
		case n.scope != AnyScope && n.of == GPU:
			return TooFewInScope, n.of
		case n.vfs != nil:
			n.vfs = nil
			if k, _ := s.apart(&n, &caps, n.room(st, 1, &caps), 1); k > 0 {
				return TooFewVFs, n.of
			}
		}
		return TooFew, n.of
	}
	x := s.search(st, []demand{d})
	defer x.forget()
	switch {
	case x.all([]int{0}) || x.cut:
		return 0, ""
	case d.r.joint > 0:
		return JointRules, d.needs[0].of
	}
	return TooFew, d.needs[0].of
}
