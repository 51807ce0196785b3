package device

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// maxPerType is the maximal number of devices of one type, and of switches, on a node.
const maxPerType = 64

// set is a set of devices of one type, by their order on the node; or of switches.
type set uint64

func single(i int) set               { return 1 << i }
func (s set) has(i int) bool         { return s>>i&1 == 1 }
func (s set) len() int               { return bits.OnesCount64(uint64(s)) }
func (s set) first() int             { return bits.TrailingZeros64(uint64(s)) }
func (s set) subsetOf(o set) bool    { return s&^o == 0 }
func (s set) remove(i int) set       { return s &^ (1 << i) }
func (s set) next() (int, set)       { i := s.first(); return i, s.remove(i) }
func (d domain) contains(s set) bool { return s.subsetOf(d.devices) }

// Node is an indexed inventory of a node. It never changes.
type Node struct {
	devices  []unit // by type, then by minor
	kinds    []kind // by type
	switches []string
	groups   []vfGroup

	table          map[int][]partition // by number of GPUs; nil if there is none
	sizes          []int               // the table's numbers of GPUs, the largest first
	partitionsOnly bool
	isolation      string

	names     [][]byte // of devices, for keys by position
	staticKey string   // equal for interchangeable nodes; see State.Key
	branches  [][]int  // devices by switch and NUMA node
	roots     [][]int  // the branches of each NUMA node; nil if the devices are no tree
}

// unit is an indexed device.
type unit struct {
	Device
	class       int    // equal for devices that differ at most in minor, ID and place
	switchIndex int    // switch, -1 if unknown
	groups      [2]int // its range of VF groups
}

// vfGroup is a group of VFs of a device.
type vfGroup struct {
	labels map[string]string
	vfs    [2]int // its range among the VFs of all groups
	list   []VF
}

// kind is the devices of one type on a node.
type kind struct {
	deviceType Type
	first      int // index of its first device
	n          int
	healthy    set
	tree       bool     // the position of each device is known
	pcie       []domain // switches of each NUMA node
	numa       []domain // NUMA nodes, in order
	bySwitch   []set    // devices by switch of the node
}

func (k *kind) all() set { return 1<<k.n - 1 }

// domain is a part of the node's tree, for devices of one type.
type domain struct {
	devices set
	numa    int // index of its NUMA node
}

// partition is an indexed Partition.
type partition struct {
	gpus      set
	score     int
	bandwidth int64
}

// New returns the node of an inventory. It returns an error for duplicate minors, for more than maxPerType devices, and for partitions with
// another size than the table's.
func New(inv Inventory) (*Node, error) {
	n := &Node{partitionsOnly: inv.PartitionsOnly, isolation: inv.Isolation}
	list := slices.Clone(inv.Devices)
	slices.SortStableFunc(list, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Minor, b.Minor))
	})
	for i, d := range list {
		switch {
		case d.Type == "":
			return nil, fmt.Errorf("device %d has no type", d.Minor)
		case d.Minor < 0:
			return nil, fmt.Errorf("%s: minor %d is below 0", d.Type, d.Minor)
		case i > 0 && list[i-1].Type == d.Type && list[i-1].Minor == d.Minor:
			return nil, fmt.Errorf("%s: minor %d is there twice", d.Type, d.Minor)
		}
		if err := d.Has.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", d.name(), err)
		}
		n.add(d)
	}
	if err := n.index(); err != nil {
		return nil, err
	}
	table := inv.Table
	if table == nil {
		table = builtin(inv.Vendor, inv.Model)
	}
	if err := n.readPartitions(table); err != nil {
		return nil, err
	}
	n.classify()
	n.buildTree()
	for i := range n.devices {
		n.names = append(n.names, n.name(i))
	}
	return n, nil
}

// add appends a device and its VF groups to the node.
func (n *Node) add(d Device) {
	u := unit{Device: d, switchIndex: -1}
	u.groups[0] = len(n.groups)
	vfs := 0
	if len(n.groups) > 0 {
		vfs = n.groups[len(n.groups)-1].vfs[1]
	}
	for _, g := range d.VFs {
		list := slices.Clone(g.VFs)
		slices.SortFunc(list, func(a, b VF) int { return cmp.Or(cmp.Compare(a.Minor, b.Minor), cmp.Compare(a.BusID, b.BusID)) })
		n.groups = append(n.groups, vfGroup{labels: g.Labels, vfs: [2]int{vfs, vfs + len(list)}, list: list})
		vfs += len(list)
	}
	u.groups[1] = len(n.groups)
	n.devices = append(n.devices, u)
}

// index sets kinds, switches and the position of each device. Devices must be sorted by type.
func (n *Node) index() error {
	names := map[string]bool{}
	for _, u := range n.devices {
		if u.Place.Known && u.Place.Switch != "" {
			names[u.Place.Switch] = true
		}
	}
	n.switches = slices.Sorted(maps.Keys(names))
	if len(n.switches) > maxPerType {
		return fmt.Errorf("%d PCIe switches: at most %d can be counted", len(n.switches), maxPerType)
	}
	for i := range n.devices {
		u := &n.devices[i]
		if i == 0 || n.devices[i-1].Type != u.Type {
			n.kinds = append(n.kinds, kind{deviceType: u.Type, first: i, tree: true, bySwitch: make([]set, len(n.switches))})
		}
		k := &n.kinds[len(n.kinds)-1]
		if k.n == maxPerType {
			return fmt.Errorf("more than %d devices of type %s", maxPerType, u.Type)
		}
		if u.Healthy {
			k.healthy |= single(k.n)
		}
		if u.Place.Known && u.Place.Switch != "" {
			u.switchIndex, _ = slices.BinarySearch(n.switches, u.Place.Switch)
			k.bySwitch[u.switchIndex] |= single(k.n)
		} else {
			k.tree = false
		}
		k.n++
	}
	for i := range n.kinds {
		n.findDomains(&n.kinds[i])
	}
	return nil
}

// findDomains sets the switches and NUMA nodes on which a type has devices.
func (n *Node) findDomains(k *kind) {
	type part struct {
		numa int
		at   int
	}
	where := map[part]set{}
	numas := map[int]set{}
	for i := range k.n {
		u := n.devices[k.first+i]
		if !u.Place.Known {
			continue
		}
		numas[u.Place.NUMA] |= single(i)
		if u.switchIndex >= 0 {
			where[part{u.Place.NUMA, u.switchIndex}] |= single(i)
		}
	}
	order := slices.Sorted(maps.Keys(numas))
	for i, numa := range order {
		k.numa = append(k.numa, domain{devices: numas[numa], numa: i})
		for at := range n.switches {
			if s := where[part{numa, at}]; s != 0 {
				k.pcie = append(k.pcie, domain{devices: s, numa: i})
			}
		}
	}
}

// readPartitions sets table and sizes. A partition with a missing GPU is never free, but its size is still valid.
func (n *Node) readPartitions(table map[int][]Partition) error {
	if table == nil {
		return nil
	}
	n.table = map[int][]partition{}
	gpus := n.kind(GPU)
	for _, number := range slices.Sorted(maps.Keys(table)) {
		n.table[number] = nil
		for i, p := range table[number] {
			minors := slices.Clone(p.Minors)
			slices.Sort(minors)
			if minors = slices.Compact(minors); len(minors) != number || len(p.Minors) != number {
				return fmt.Errorf("partition %d of those of %d GPUs has the minors %v", i, number, p.Minors)
			}
			part := partition{score: p.Score, bandwidth: p.Bandwidth}
			for _, minor := range minors {
				if at := n.find(GPU, minor); at >= 0 {
					part.gpus |= single(at - n.kinds[gpus].first)
				}
			}
			if part.gpus.len() < number {
				part.gpus = 0 // never free
			}
			n.table[number] = append(n.table[number], part)
		}
		n.sizes = append(n.sizes, number)
	}
	slices.Reverse(n.sizes)
	return nil
}

// kind returns the index of a type in kinds; -1 if the node has no such device.
func (n *Node) kind(t Type) int {
	for i := range n.kinds {
		if n.kinds[i].deviceType == t {
			return i
		}
	}
	return -1
}

// find returns the index in n.devices of the device with this type and minor number; -1 if there is none.
func (n *Node) find(t Type, minor int) int {
	k := n.kind(t)
	if k < 0 {
		return -1
	}
	list := n.devices[n.kinds[k].first:][:n.kinds[k].n]
	i, found := slices.BinarySearchFunc(list, minor, func(u unit, minor int) int { return cmp.Compare(u.Minor, minor) })
	if !found {
		return -1
	}
	return n.kinds[k].first + i
}

// classify sets the class of each device: a number for its properties, regardless of name and position. It sets staticKey to these
// properties.
func (n *Node) classify() {
	texts := make([]string, len(n.devices))
	for i, u := range n.devices {
		var b strings.Builder
		fmt.Fprintf(&b, "%q %v %v %s", u.Type, u.Healthy, u.Has, labelText(u.Labels))
		for _, g := range n.groups[u.groups[0]:u.groups[1]] {
			fmt.Fprintf(&b, " %d×%s", len(g.list), labelText(g.labels))
		}
		texts[i] = b.String()
	}
	classes := slices.Compact(slices.Sorted(slices.Values(texts)))
	for i := range n.devices {
		n.devices[i].class, _ = slices.BinarySearch(classes, texts[i])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q", classes, n.isolation)
	if n.table != nil {
		fmt.Fprintf(&b, " %v", n.partitionsOnly)
		for _, size := range n.sizes {
			fmt.Fprintf(&b, " %d%v", size, n.table[size])
		}
	} else if n.partitionsOnly {
		b.WriteString(" no table")
	}
	n.staticKey = b.String()
}

// labelText returns labels as a text that is equal for equal labels.
func labelText(labels map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(strconv.Quote(k) + strconv.Quote(labels[k]))
	}
	return "{" + b.String() + "}"
}

// buildTree sets branches (the devices of a switch and of a NUMA node) and roots. There is no tree if a switch is in two NUMA nodes.
func (n *Node) buildTree() {
	type part struct {
		known    bool
		numa, at int
	}
	inside := map[part][]int{}
	numaOfSwitch := map[int]int{}
	for i, u := range n.devices {
		p := part{u.Place.Known, u.Place.NUMA, u.switchIndex}
		if !p.known {
			p.numa = 0
		}
		inside[p] = append(inside[p], i)
		if u.switchIndex < 0 {
			continue
		}
		if numa, ok := numaOfSwitch[u.switchIndex]; ok && numa != u.Place.NUMA {
			return // no tree
		}
		numaOfSwitch[u.switchIndex] = u.Place.NUMA
	}
	roots := map[[2]int][]int{}
	parts := slices.SortedFunc(maps.Keys(inside), func(a, b part) int {
		return cmp.Or(cmp.Compare(b2i(a.known), b2i(b.known)), cmp.Compare(a.numa, b.numa), cmp.Compare(a.at, b.at))
	})
	for _, p := range parts {
		r := [2]int{b2i(p.known), p.numa}
		roots[r] = append(roots[r], len(n.branches))
		n.branches = append(n.branches, inside[p])
	}
	n.roots = [][]int{}
	for _, r := range slices.SortedFunc(maps.Keys(roots), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
		n.roots = append(n.roots, roots[r])
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
