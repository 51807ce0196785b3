package device

import (
	"cmp"
	"slices"
)

// options yields what a member may get, the best first: first by its first type, then by the next.
// yield returns true to stop; so does options.
func (x *search) options(d *demand, i int, picks []pick, yield func([]pick) bool) bool {
	if i == len(d.needs) {
		return yield(picks)
	}
	n := &d.needs[i]
	var caps [most]int
	can := n.room(x.st, 1, &caps)
	next := func(devices set) bool {
		return x.withVFs(n, devices, picks, func(picks []pick) bool { return x.options(d, i+1, picks, yield) })
	}
	together := i > 0 && i <= d.r.joint
	if i == 0 && d.r.samePCIe {
		can &= x.shared(d)
	}
	switch {
	case together && d.r.samePCIe:
		return x.sameSwitches(n, can, x.on(picks, &d.needs[0]), next)
	case n.count == 0:
		return n.match != 0 && n.match == can && next(n.match)
	case together && n.of != GPU:
		return x.near(n, can, picks, &d.needs[0], next)
	}
	return x.free(n, can, next)
}

// shared returns the devices of the first type on switches where the others have something, too.
func (x *search) shared(d *demand) (s set) {
	first := &d.needs[0]
	for _, there := range first.kind.at {
		s |= there
	}
	for j := 1; j <= d.r.joint; j++ {
		n := &d.needs[j]
		var caps [most]int
		can := n.room(x.st, 1, &caps)
		for at, there := range first.kind.at {
			if can&n.kind.at[at] == 0 {
				s &^= there
			}
		}
	}
	return s
}

// withVFs yields devices as picks, with a VF each where some are wanted.
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

// free yields devices that nothing but their own rules choose: GPUs by partition and place, others by how
// much is free.
func (x *search) free(n *need, can set, yield func(set) bool) bool {
	if n.of == GPU && !n.shared && n.parts != nil && x.inPartitions(n, can, yield) {
		return true
	}
	switch {
	case n.must:
		return false
	case n.of == GPU && n.kind.tree && !(n.shared && n.count > 1):
		return x.inTree(n, can, yield)
	}
	return x.subsets(n, x.ordered(n, can, nil), n.count, func(s set) bool { return n.inScope(s) && yield(s) })
}

// inPartitions yields free partitions: those of the highest score first, of these the one that leaves the
// most larger ones, then as the table has them.
func (x *search) inPartitions(n *need, can set, yield func(set) bool) bool {
	type choice struct {
		partition
		leaves []int // free partitions afterwards, of each size from the largest on
	}
	node := x.st.node
	var used set
	for i := range n.kind.n {
		if x.st.used[n.kind.first+i].users > 0 {
			used |= only(i)
		}
	}
	var list []choice
	for _, p := range n.parts {
		if !n.partFree(x.st, p.gpus, can) {
			continue
		}
		c := choice{partition: p}
		for _, size := range node.sizes {
			free := 0
			for _, other := range node.table[size] {
				free += b2i(size >= n.count && other.gpus != 0 && other.gpus&(used|p.gpus) == 0)
			}
			c.leaves = append(c.leaves, free)
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b choice) int {
		return cmp.Or(cmp.Compare(b.score, a.score), slices.Compare(b.leaves, a.leaves))
	})
	for _, c := range list {
		if yield(c.gpus) {
			return true
		}
	}
	return false
}

// inTree yields devices that are as close as can be: those of one switch, then of one NUMA node, then of the
// node; of equals those where most is in use around them, and then in order. Of shared ones the one with the
// better score.
func (x *search) inTree(n *need, can set, yield func(set) bool) bool {
	if n.shared {
		return x.sharedInTree(n, can, yield)
	}
	pcie := x.busiest(n, n.kind.pcie)
	for _, d := range pcie {
		if x.subsets(n, x.listed(can&d.devices), n.count, yield) {
			return true
		}
	}
	if n.scope >= PCIeScope {
		return false
	}
	for _, d := range x.busiest(n, n.kind.numa) {
		if x.subsets(n, x.listed(can&d.devices), n.count, func(s set) bool { return !anyContains(n.kind.pcie, s) && yield(s) }) {
			return true
		}
	}
	if n.scope >= NUMAScope {
		return false
	}
	return x.subsets(n, x.listed(can), n.count, func(s set) bool { return !anyContains(n.kind.numa, s) && yield(s) })
}

// sharedInTree yields single devices: those where most is in use around them first, then by score.
func (x *search) sharedInTree(n *need, can set, yield func(set) bool) bool {
	var all []int
	for _, d := range x.busiest(n, n.kind.pcie) {
		all = append(all, x.listed(can&d.devices)...)
	}
	var busy [most]int
	var scores [most]int64
	for _, d := range n.kind.pcie {
		around := x.busy(n, d)
		for _, i := range x.listed(can & d.devices) {
			busy[i], scores[i] = around, x.score(n, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(busy[b], busy[a]), cmp.Compare(scores[b], scores[a]))
	})
	return x.subsets(n, all, 1, yield)
}

// busiest orders parts of the tree.
func (x *search) busiest(n *need, domains []domain) []domain {
	sorted := slices.Clone(domains)
	slices.SortStableFunc(sorted, func(a, b domain) int { return cmp.Compare(x.busy(n, b), x.busy(n, a)) })
	return sorted
}

// busy counts the parts of the tree from this one up in which a device is in use.
func (x *search) busy(n *need, d domain) (count int) {
	numa := n.kind.numa[d.numa].devices
	here, above := 0, 0
	for i := range n.kind.n {
		if x.st.used[n.kind.first+i].users > 0 {
			here |= b2i(d.devices.has(i))
			above |= b2i(numa.has(i))
		}
	}
	return here + above
}

func (x *search) listed(s set) (out []int) {
	for s != 0 {
		var i int
		i, s = s.next()
		out = append(out, i)
	}
	return out
}

// sameSwitches yields devices that are on each of the switches and nowhere else: as many as are asked for,
// and of other types than GPUs at least as many as there are switches.
func (x *search) sameSwitches(n *need, can, switches set, yield func(set) bool) bool {
	var there set
	for s := switches; s != 0; {
		var at int
		at, s = s.next()
		there |= n.kind.at[at]
	}
	covers := func(s set) bool {
		for left := switches; left != 0; {
			var at int
			if at, left = left.next(); s&n.kind.at[at] == 0 {
				return false
			}
		}
		return true
	}
	count := n.count
	switch {
	case n.count == 0:
		return n.match == can && n.match.within(there) && covers(n.match) && yield(n.match)
	case n.of == GPU:
		return x.free(n, can&there, func(s set) bool { return covers(s) && yield(s) })
	default:
		count = max(count, switches.len())
	}
	if !covers(can) {
		return false
	}
	order := x.ordered(n, can&there, func(dev int) [2]int { return [2]int{0, x.round(n, can, dev)} })
	return x.subsets(n, order, count, func(s set) bool { return covers(s) && n.inScope(s) && yield(s) })
}

// near yields devices close to those of the first type: on their switches, one on each before a second,
// then in their NUMA nodes, then anywhere.
func (x *search) near(n *need, can set, picks []pick, first *need, yield func(set) bool) bool {
	node := x.st.node
	switches := x.on(picks, first)
	tier := func(dev int) [2]int {
		u := &node.devices[n.kind.first+dev]
		if u.at >= 0 && switches.has(u.at) {
			return [2]int{0, x.round(n, can, dev)}
		}
		for _, p := range picks {
			if v := &node.devices[p.at]; p.need == first && u.Place.Known && v.Place.Known && u.Place.NUMA == v.Place.NUMA {
				return [2]int{1, 0}
			}
		}
		return [2]int{2, 0}
	}
	return x.subsets(n, x.ordered(n, can, tier), n.count, func(s set) bool { return n.inScope(s) && yield(s) })
}

// round says how many better devices there are on a device's switch.
func (x *search) round(n *need, can set, dev int) (better int) {
	at := x.st.node.devices[n.kind.first+dev].at
	mine := x.score(n, dev)
	for s := can & n.kind.at[at]; s != 0; {
		var i int
		i, s = s.next()
		score := x.score(n, i)
		better += b2i(score > mine || score == mine && i < dev)
	}
	return better
}

// ordered lists devices by tier, then by score, then in order.
func (x *search) ordered(n *need, can set, tier func(dev int) [2]int) []int {
	list := x.listed(can)
	var tiers [most][2]int
	var scores [most]int64
	for _, dev := range list {
		scores[dev] = x.score(n, dev)
		if tier != nil {
			tiers[dev] = tier(dev)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		return cmp.Or(cmp.Compare(tiers[a][0], tiers[b][0]), cmp.Compare(tiers[a][1], tiers[b][1]), cmp.Compare(scores[b], scores[a]))
	})
	return list
}

// score says how much of a device stays free, in thousandths, or is taken if devices are packed.
func (x *search) score(n *need, dev int) int64 {
	at := n.kind.first + dev
	has := x.st.node.devices[at].Has
	amount := n.each
	if n.of == GPU {
		amount = n.each.of(has)
	}
	free := x.st.free(at).minus(amount)
	sum, parts := int64(0), int64(0)
	for _, v := range [3][3]int64{{free.Ratio, has.Ratio, amount.Ratio}, {free.Memory, has.Memory, amount.Memory}, {free.Core, has.Core, b2i64(n.of != GPU)}} {
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

// subsets yields the sets of n devices of a list, those with earlier devices first. Where devices are alike, a
// later one is taken after an earlier one only.
func (x *search) subsets(n *need, list []int, count int, yield func(set) bool) bool {
	if len(list) < count {
		return false
	}
	like := make([]int, len(list)) // the first that is alike
	for i := range list {
		like[i] = i
		for j := range i {
			if like[j] == j && x.alike(n, list[j], list[i]) {
				like[i] = j
				break
			}
		}
	}
	left := make([]int, len(list)) // out of those that are alike
	var from func(i, count int, s set) bool
	from = func(i, count int, s set) bool {
		if count == 0 {
			return yield(s)
		}
		if len(list)-i < count {
			return false
		}
		if x.steps++; x.steps > stepsPerChoice*x.budget() {
			x.cut = true
			return true
		}
		if left[like[i]] == 0 && from(i+1, count-1, s|only(list[i])) {
			return true
		}
		left[like[i]]++
		stop := from(i+1, count, s)
		left[like[i]]--
		return stop
	}
	return from(0, count, 0)
}

// stepsPerChoice bounds how long a search looks for sets of devices, of which few may be choices.
const stepsPerChoice = 64

// alike says whether two devices may be exchanged.
func (x *search) alike(n *need, a, b int) bool {
	a, b = a+n.kind.first, b+n.kind.first
	u, v := &x.st.node.devices[a], &x.st.node.devices[b]
	p, q := &x.st.used[a], &x.st.used[b]
	if n.of == GPU && x.byPosition || u.class != v.class || u.at != v.at || u.Place.Known != v.Place.Known || u.Place.NUMA != v.Place.NUMA {
		return false
	}
	if p.Amount != q.Amount || (p.users > 0) != (q.users > 0) || (p.alone > 0) != (q.alone > 0) || (p.fence > 0) != (q.fence > 0) {
		return false
	}
	for g := range u.groups[1] - u.groups[0] {
		if x.st.vfUsed[u.groups[0]+g] != x.st.vfUsed[v.groups[0]+g] {
			return false
		}
	}
	return true
}
