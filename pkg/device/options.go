package device

import (
	"cmp"
	"slices"
)

// options yields the choices for the wants of a member from number i on, after picks for the wants before. The best are first: by the first
// type, then by the next. If yield returns true, options stops and returns true.
func (x *search) options(d *demand, i int, picks []pick, yield func([]pick) bool) bool {
	if i == len(d.needs) {
		return yield(picks)
	}
	n := &d.needs[i]
	var caps [maxPerType]int
	can := n.capacity(x.st, 1, &caps)
	next := func(devices set) bool {
		return x.withVFs(n, devices, picks, func(picks []pick) bool { return x.options(d, i+1, picks, yield) })
	}
	joint := i > 0 && i <= d.r.joint
	if i == 0 && d.r.samePCIe {
		can &= x.onSharedSwitches(d)
	}
	switch {
	case joint && d.r.samePCIe:
		return x.sameSwitches(n, can, x.switchesOf(picks, &d.needs[0]), next)
	case n.count == 0:
		return n.match != 0 && n.match == can && next(n.match)
	case joint && n.deviceType != GPU:
		return x.chooseNear(n, can, picks, &d.needs[0], next)
	}
	return x.chooseAlone(n, can, next)
}

// onSharedSwitches returns the devices of the first type on switches where each joint type has a free device.
func (x *search) onSharedSwitches(d *demand) (s set) {
	first := &d.needs[0]
	for _, onSwitch := range first.kind.bySwitch {
		s |= onSwitch
	}
	for j := 1; j <= d.r.joint; j++ {
		n := &d.needs[j]
		var caps [maxPerType]int
		can := n.capacity(x.st, 1, &caps)
		for at, onSwitch := range first.kind.bySwitch {
			if can&n.kind.bySwitch[at] == 0 {
				s &^= onSwitch
			}
		}
	}
	return s
}

// withVFs yields picks extended by devices, with each group of VFs for each device if the member wants VFs.
func (x *search) withVFs(n *need, devices set, picks []pick, yield func([]pick) bool) bool {
	if devices == 0 {
		return yield(picks)
	}
	dev, rest := devices.next()
	p := x.pick(n, dev)
	if n.vfs == nil {
		return x.withVFs(n, rest, append(picks, p), yield)
	}
	for _, g := range x.vfGroups(n, p.at) {
		p.group = g
		if x.withVFs(n, rest, append(picks, p), yield) {
			return true
		}
	}
	return false
}

// chooseAlone yields sets of devices by the rules of their own type: GPUs by partition and position, other types by free capacity.
func (x *search) chooseAlone(n *need, can set, yield func(set) bool) bool {
	if n.deviceType == GPU && !n.shared && n.partitions != nil && x.inPartitions(n, can, yield) {
		return true
	}
	switch {
	case n.partitionOnly:
		return false
	case n.deviceType == GPU && n.kind.tree && !(n.shared && n.count > 1):
		return x.inTree(n, can, yield)
	}
	return x.subsets(n, x.sorted(n, can, nil), n.count, func(s set) bool { return n.inScope(s) && yield(s) })
}

// inPartitions yields free partitions: the highest score first, then the one that keeps the most larger partitions free, then in table
// order.
func (x *search) inPartitions(n *need, can set, yield func(set) bool) bool {
	type choice struct {
		partition
		freeAfter []int // free partitions afterwards, by size from the largest on
	}
	node := x.st.node
	var used set
	for i := range n.kind.n {
		if x.st.used[n.kind.first+i].users > 0 {
			used |= single(i)
		}
	}
	var list []choice
	for _, p := range n.partitions {
		if !n.partitionFree(x.st, p.gpus, can) {
			continue
		}
		c := choice{partition: p}
		for _, size := range node.sizes {
			free := 0
			for _, other := range node.table[size] {
				free += b2i(size >= n.count && other.gpus != 0 && other.gpus&(used|p.gpus) == 0)
			}
			c.freeAfter = append(c.freeAfter, free)
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b choice) int {
		return cmp.Or(cmp.Compare(b.score, a.score), slices.Compare(b.freeAfter, a.freeAfter))
	})
	for _, c := range list {
		if yield(c.gpus) {
			return true
		}
	}
	return false
}

// inTree yields sets of near devices: on one switch, then in one NUMA node, then on the node. Of equally near ones, first come those where
// most devices around are in use, then by order. Shared devices are ordered by score.
func (x *search) inTree(n *need, can set, yield func(set) bool) bool {
	if n.shared {
		return x.sharedInTree(n, can, yield)
	}
	pcie := x.busiest(n, n.kind.pcie)
	for _, d := range pcie {
		if x.subsets(n, x.indices(can&d.devices), n.count, yield) {
			return true
		}
	}
	if n.scope >= PCIeScope {
		return false
	}
	for _, d := range x.busiest(n, n.kind.numa) {
		if x.subsets(n, x.indices(can&d.devices), n.count, func(s set) bool { return !anyContains(n.kind.pcie, s) && yield(s) }) {
			return true
		}
	}
	if n.scope >= NUMAScope {
		return false
	}
	return x.subsets(n, x.indices(can), n.count, func(s set) bool { return !anyContains(n.kind.numa, s) && yield(s) })
}

// sharedInTree yields single devices: first where most devices around are in use, then by score.
func (x *search) sharedInTree(n *need, can set, yield func(set) bool) bool {
	var all []int
	for _, d := range x.busiest(n, n.kind.pcie) {
		all = append(all, x.indices(can&d.devices)...)
	}
	var busy [maxPerType]int
	var scores [maxPerType]int64
	for _, d := range n.kind.pcie {
		around := x.busy(n, d)
		for _, i := range x.indices(can & d.devices) {
			busy[i], scores[i] = around, x.score(n, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(busy[b], busy[a]), cmp.Compare(scores[b], scores[a]))
	})
	return x.subsets(n, all, 1, yield)
}

// busiest returns domains sorted by busy, highest first.
func (x *search) busiest(n *need, domains []domain) []domain {
	sorted := slices.Clone(domains)
	slices.SortStableFunc(sorted, func(a, b domain) int { return cmp.Compare(x.busy(n, b), x.busy(n, a)) })
	return sorted
}

// busy returns the number of devices in use in the domain, plus the number in its NUMA node.
func (x *search) busy(n *need, d domain) (count int) {
	numa := n.kind.numa[d.numa].devices
	inDomain, inNUMA := 0, 0
	for i := range n.kind.n {
		if x.st.used[n.kind.first+i].users > 0 {
			inDomain |= b2i(d.devices.has(i))
			inNUMA |= b2i(numa.has(i))
		}
	}
	return inDomain + inNUMA
}

// indices returns the elements of s, ascending.
func (x *search) indices(s set) (out []int) {
	for s != 0 {
		var i int
		i, s = s.next()
		out = append(out, i)
	}
	return out
}

// sameSwitches yields sets of devices with at least one on each of the switches, and none on another switch. A set has the requested
// number; of types other than GPU, at least one for each switch.
func (x *search) sameSwitches(n *need, can, switches set, yield func(set) bool) bool {
	var onSwitches set
	for s := switches; s != 0; {
		var at int
		at, s = s.next()
		onSwitches |= n.kind.bySwitch[at]
	}
	covers := func(s set) bool {
		for rest := switches; rest != 0; {
			var at int
			if at, rest = rest.next(); s&n.kind.bySwitch[at] == 0 {
				return false
			}
		}
		return true
	}
	count := n.count
	switch {
	case n.count == 0:
		return n.match == can && n.match.subsetOf(onSwitches) && covers(n.match) && yield(n.match)
	case n.deviceType == GPU:
		return x.chooseAlone(n, can&onSwitches, func(s set) bool { return covers(s) && yield(s) })
	default:
		count = max(count, switches.len())
	}
	if !covers(can) {
		return false
	}
	order := x.sorted(n, can&onSwitches, func(dev int) [2]int { return [2]int{0, x.rankOnSwitch(n, can, dev)} })
	return x.subsets(n, order, count, func(s set) bool { return covers(s) && n.inScope(s) && yield(s) })
}

// chooseNear yields sets of devices close to those picked for first: on their switches, one on each before a second, then in their NUMA
// nodes, then anywhere.
func (x *search) chooseNear(n *need, can set, picks []pick, first *need, yield func(set) bool) bool {
	node := x.st.node
	switches := x.switchesOf(picks, first)
	sortKey := func(dev int) [2]int {
		u := &node.devices[n.kind.first+dev]
		if u.switchIndex >= 0 && switches.has(u.switchIndex) {
			return [2]int{0, x.rankOnSwitch(n, can, dev)}
		}
		for _, p := range picks {
			if v := &node.devices[p.at]; p.need == first && u.Place.Known && v.Place.Known && u.Place.NUMA == v.Place.NUMA {
				return [2]int{1, 0}
			}
		}
		return [2]int{2, 0}
	}
	return x.subsets(n, x.sorted(n, can, sortKey), n.count, func(s set) bool { return n.inScope(s) && yield(s) })
}

// rankOnSwitch returns how many better devices of can are on the switch of device dev.
func (x *search) rankOnSwitch(n *need, can set, dev int) (better int) {
	at := x.st.node.devices[n.kind.first+dev].switchIndex
	mine := x.score(n, dev)
	for s := can & n.kind.bySwitch[at]; s != 0; {
		var i int
		i, s = s.next()
		score := x.score(n, i)
		better += b2i(score > mine || score == mine && i < dev)
	}
	return better
}

// sorted returns the devices of can, sorted by sortKey (nil is none), then by score, highest first, then by index.
func (x *search) sorted(n *need, can set, sortKey func(dev int) [2]int) []int {
	list := x.indices(can)
	var sortKeys [maxPerType][2]int
	var scores [maxPerType]int64
	for _, dev := range list {
		scores[dev] = x.score(n, dev)
		if sortKey != nil {
			sortKeys[dev] = sortKey(dev)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		return cmp.Or(cmp.Compare(sortKeys[a][0], sortKeys[b][0]), cmp.Compare(sortKeys[a][1], sortKeys[b][1]), cmp.Compare(scores[b], scores[a]))
	})
	return list
}

// score returns how much of a device is free after one more member, in thousandths; negated if devices are packed.
func (x *search) score(n *need, dev int) int64 {
	at := n.kind.first + dev
	has := x.st.node.devices[at].Has
	amount := n.perDevice
	if n.deviceType == GPU {
		amount = n.perDevice.complete(has)
	}
	free := x.st.free(at).minus(amount)
	sum, parts := int64(0), int64(0)
	for _, v := range [3][3]int64{
		{free.Ratio, has.Ratio, amount.Ratio},
		{free.Memory, has.Memory, amount.Memory},
		{free.Core, has.Core, b2i64(n.deviceType != GPU)},
	} {
		if v[1] > 0 && v[2] > 0 {
			sum += v[0] * 1000 / v[1]
			parts++
		}
	}
	if parts > 0 {
		sum /= parts
	}
	if x.Packed {
		return -sum
	}
	return sum
}

func b2i64(b bool) int64 { return int64(b2i(b)) }

// subsets yields the sets of count devices of a list, sets with earlier devices first. Of alike devices, a later one is only used together
// with all earlier ones. If yield returns true, or too many steps were taken, subsets returns true.
func (x *search) subsets(n *need, list []int, count int, yield func(set) bool) bool {
	if len(list) < count {
		return false
	}
	firstAlike := make([]int, len(list)) // the first device that is alike
	for i := range list {
		firstAlike[i] = i
		for j := range i {
			if firstAlike[j] == j && x.alike(n, list[j], list[i]) {
				firstAlike[i] = j
				break
			}
		}
	}
	skipped := make([]int, len(list)) // by the first that is alike
	var extend func(i, count int, s set) bool
	extend = func(i, count int, s set) bool {
		if count == 0 {
			return yield(s)
		}
		if len(list)-i < count {
			return false
		}
		if x.steps++; x.steps > stepsPerChoice*x.budget() {
			x.gaveUp = true
			return true
		}
		if skipped[firstAlike[i]] == 0 && extend(i+1, count-1, s|single(list[i])) {
			return true
		}
		skipped[firstAlike[i]]++
		stop := extend(i+1, count, s)
		skipped[firstAlike[i]]--
		return stop
	}
	return extend(0, count, 0)
}

// stepsPerChoice limits the steps of subsets for each choice of the budget, since few subsets may be choices.
const stepsPerChoice = 64

// alike returns whether two devices of a type can be exchanged for each other.
func (x *search) alike(n *need, a, b int) bool {
	a, b = a+n.kind.first, b+n.kind.first
	u, v := &x.st.node.devices[a], &x.st.node.devices[b]
	p, q := &x.st.used[a], &x.st.used[b]
	if n.deviceType == GPU && x.byPosition || u.class != v.class || u.switchIndex != v.switchIndex || u.Place.Known != v.Place.Known ||
		u.Place.NUMA != v.Place.NUMA {
		return false
	}
	if p.Amount != q.Amount || (p.users > 0) != (q.users > 0) || (p.exclusive > 0) != (q.exclusive > 0) ||
		(p.exclusiveSwitch > 0) != (q.exclusiveSwitch > 0) {
		return false
	}
	for g := range u.groups[1] - u.groups[0] {
		if x.st.vfUsed[u.groups[0]+g] != x.st.vfUsed[v.groups[0]+g] {
			return false
		}
	}
	return true
}
