package device

import "slices"

// State is the devices of a node that are in use. The caller may change it.
type State struct {
	node   *Node
	used   []use // by device
	vfs    []int // users of each VF: 0 or 1, more only if another allocator gave it twice
	vfUsed []int // VFs in use, by group
}

// use is the amount of one device in use, and the number of its users.
type use struct {
	Amount
	users           int
	exclusive       int // users with DeviceLevel
	exclusiveSwitch int // users with PCIeLevel
}

// NewState returns the state of a node without users.
func NewState(n *Node) *State {
	s := &State{node: n, used: make([]use, len(n.devices)), vfUsed: make([]int, len(n.groups))}
	if len(n.groups) > 0 {
		s.vfs = make([]int, n.groups[len(n.groups)-1].vfs[1])
	}
	return s
}

// Node returns the node.
func (s *State) Node() *Node { return s.node }

// Clone returns a copy that can be changed.
func (s *State) Clone() *State {
	return &State{node: s.node, used: slices.Clone(s.used), vfs: slices.Clone(s.vfs), vfUsed: slices.Clone(s.vfUsed)}
}

// Take adds the use by a member. Devices that the node lacks are ignored. Use may exceed capacity: then the device has no free amount until
// enough of it is freed.
func (s *State) Take(a Allocation) { s.count(a, 1) }

// Free is the inverse of Take.
func (s *State) Free(a Allocation) { s.count(a, -1) }

// count adds the use of an allocation (sign 1) or subtracts it (sign -1).
func (s *State) count(a Allocation, sign int) {
	for i := range a {
		h := &a[i]
		at := s.node.find(h.Type, h.Minor)
		if at < 0 {
			continue
		}
		amount := h.Amount
		if amount.Memory == 0 || amount.Ratio == 0 { // some allocators write only one of them
			amount = amount.complete(s.node.devices[at].Has)
		}
		s.use(at, amount, h.Exclusive, sign)
		for _, vf := range h.VFs {
			if g, k := s.node.vf(at, vf); g >= 0 {
				s.useVF(g, k, sign)
			}
		}
	}
}

// use adds or subtracts the use of one device by one member.
func (s *State) use(at int, a Amount, exclusive Exclusive, sign int) {
	u := &s.used[at]
	if sign > 0 {
		u.Amount = u.plus(a)
	} else {
		u.Amount = u.minus(a)
	}
	u.users += sign
	switch exclusive {
	case DeviceLevel:
		u.exclusive += sign
	case PCIeLevel:
		u.exclusiveSwitch += sign
	}
}

// useVF adds or subtracts one user of a VF.
func (s *State) useVF(group, vf, sign int) {
	former := s.vfs[vf]
	s.vfs[vf] += sign
	s.vfUsed[group] += b2i(s.vfs[vf] > 0) - b2i(former > 0)
}

// vf returns the group and index of a VF of a device, by bus ID, or by minor if v has no bus ID; -1 if there is none.
func (n *Node) vf(at int, v VF) (group, vf int) {
	for g := n.devices[at].groups[0]; g < n.devices[at].groups[1]; g++ {
		for k, have := range n.groups[g].list {
			if v.BusID != "" && have.BusID == v.BusID || v.BusID == "" && have.Minor == v.Minor {
				return g, n.groups[g].vfs[0] + k
			}
		}
	}
	return -1, -1
}

// free returns the unused amount of a device; negative if it is overcommitted.
func (s *State) free(at int) Amount { return s.node.devices[at].Has.minus(s.used[at].Amount) }

// vfFree returns the number of free VFs of a group.
func (s *State) vfFree(group int) int { return len(s.node.groups[group].list) - s.vfUsed[group] }

// Key returns a text that identifies a state: the same members fit on nodes with equal keys, whatever the names and the order of their
// devices.
func (s *State) Key() string {
	var c keyWriter
	return s.node.staticKey + "\n" + string(c.key(s, s.node.table != nil))
}

// keyWriter writes keys into reused memory. A key consists of texts of roots, which consist of texts of branches, which consist of texts of
// devices.
type keyWriter struct {
	devices, branches, roots textList
	out                      []byte
}

// textList is a list of texts.
type textList struct {
	all   []byte
	spans [][2]int
}

func (t *textList) reset() { t.all, t.spans = t.all[:0], t.spans[:0] }

// end ends the text that begins at from.
func (t *textList) end(from int) { t.spans = append(t.spans, [2]int{from, len(t.all)}) }

func (t *textList) sort(spans [][2]int) {
	slices.SortFunc(spans, func(a, b [2]int) int { return slices.Compare(t.all[a[0]:a[1]], t.all[b[0]:b[1]]) })
}

// key returns the use of a node as text. By position, each device has its own text, in order. Otherwise alike devices of a switch may be
// exchanged, and alike switches, and NUMA nodes. The next call overwrites the result.
func (c *keyWriter) key(s *State, byPosition bool) []byte {
	n := s.node
	c.out = c.out[:0]
	if byPosition || n.roots == nil {
		for i := range n.devices {
			c.out = append(c.out, n.names[i]...)
			c.out = c.device(c.out, s, i)
		}
		return append(c.out, 'p')
	}
	c.roots.reset()
	for _, root := range n.roots {
		c.branches.reset()
		for _, branch := range root {
			c.branch(s, n.branches[branch])
		}
		c.branches.sort(c.branches.spans)
		from := len(c.roots.all)
		for _, b := range c.branches.spans {
			c.roots.all = append(c.roots.all, c.branches.all[b[0]:b[1]]...)
		}
		c.roots.all = append(c.roots.all, ')')
		c.roots.end(from)
	}
	c.roots.sort(c.roots.spans)
	for _, r := range c.roots.spans {
		c.out = append(c.out, c.roots.all[r[0]:r[1]]...)
	}
	return c.out
}

// branch appends the text of the devices of one switch. No text of a device begins as a branch does or ends as a root does, since numbers
// of classes are written as even numbers.
func (c *keyWriter) branch(s *State, devices []int) {
	c.devices.reset()
	for _, i := range devices {
		from := len(c.devices.all)
		c.devices.all = c.device(c.devices.all, s, i)
		c.devices.end(from)
	}
	c.devices.sort(c.devices.spans)
	from := len(c.branches.all)
	mark := byte('!')
	if s.node.devices[devices[0]].switchIndex < 0 {
		mark = '?'
	}
	c.branches.all = append(c.branches.all, mark)
	for _, d := range c.devices.spans {
		c.branches.all = append(c.branches.all, c.devices.all[d[0]:d[1]]...)
	}
	c.branches.end(from)
}

// name returns a text for the position of device i: its minor, the first device on the same switch and the first in the same NUMA node.
func (n *Node) name(i int) (out []byte) {
	u := n.devices[i]
	out = appendNumber(out, int64(u.Minor))
	for _, same := range []func(v *unit) bool{
		func(v *unit) bool { return v.switchIndex == u.switchIndex },
		func(v *unit) bool { return v.Place.Known == u.Place.Known && v.Place.NUMA == u.Place.NUMA },
	} {
		j := 0
		for !same(&n.devices[j]) {
			j++
		}
		out = appendNumber(out, int64(j))
	}
	return appendNumber(out, int64(b2i(u.Place.Known)+2*b2i(u.switchIndex >= 0)))
}

// device appends the class and the use of device i.
func (c *keyWriter) device(out []byte, s *State, i int) []byte {
	u, d := s.used[i], s.node.devices[i]
	out = appendNumber(out, int64(d.class))
	out = appendNumber(appendNumber(appendNumber(out, u.Core), u.Memory), u.Ratio)
	out = append(out, byte(b2i(u.users > 0)|b2i(u.exclusive > 0)<<1|b2i(u.exclusiveSwitch > 0)<<2))
	for g := d.groups[0]; g < d.groups[1]; g++ {
		out = appendNumber(out, int64(s.vfUsed[g]))
	}
	return out
}

// appendNumber appends v in a prefix-free code.
func appendNumber(out []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		out = append(out, byte(u)|0x80)
		u >>= 7
	}
	return append(out, byte(u))
}
