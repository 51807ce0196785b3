package device_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/test/worlds"
)

// twin knows a node as a list of devices with their holders, and tries every choice.
type twin struct {
	inv  device.Inventory
	held []device.Allocation
}

// wish is what a member asks for, as the twin reads it: by words, not by what Ask made of them.
type wish struct {
	text string
	r    *device.Request
	gpu  *part
	nic  *part
	// joint: the first type is "gpu" or "rdma"; "" if each is by itself.
	joint     string
	same      bool
	partition string // "", BestEffort or Restricted
}

// part is what is asked of one type: count devices (0 for all), of so much each.
type part struct {
	count               int
	core, memory, ratio int64
	shared              bool
	scope, alone, kind  string
	vf                  string
}

// some draws one of a list, each as often.
func some[T any](t *rapid.T, list []T, label string) T {
	return list[worlds.Even(t, len(list), label)]
}

func drawPart(t *rapid.T, gpu bool) (part, string) {
	var p part
	var words []string
	name := "rdma"
	if gpu {
		name = "gpu"
		switch worlds.Even(t, 7, "gpus") {
		case 0, 1:
			p = part{count: 1, core: 100, ratio: 100}
			words = append(words, "gpu=100")
		case 2, 3:
			p = part{count: 2, core: 200 / 2, ratio: 100}
			words = append(words, "nvidia.com/gpu=2")
		case 4:
			r := int64(some(t, []int{30, 50, 60}, "ratio"))
			p = part{count: 1, core: r, ratio: r, shared: true}
			words = append(words, fmt.Sprintf("gpu=%d", r))
		case 5:
			m := int64(some(t, []int{30, 40, 50}, "memory"))
			p = part{count: 1, memory: m * gib, shared: true}
			words = append(words, fmt.Sprintf("gpu-memory=%dGi", m))
		case 6:
			r := int64(some(t, []int{50, 30}, "each"))
			p = part{count: 2, core: r, ratio: r, shared: true}
			words = append(words, fmt.Sprintf("gpu.shared=2 gpu-core=%d gpu-memory-ratio=%d", 2*r, 2*r))
		}
		if p.scope = some(t, []string{"", "", "", "", "", "Node", "NUMANode", "PCIe", "Device"}, "scope"); p.scope != "" {
			words = append(words, "gpu.scope="+p.scope)
		}
	} else {
		switch worlds.Even(t, 5, "nics") {
		case 0:
			p = part{count: 1, core: 50}
			words = append(words, "rdma=50")
		case 1:
			p = part{count: 1, core: 100}
			words = append(words, "rdma=100")
		case 2:
			p = part{count: 2, core: 100}
			words = append(words, "rdma=200")
		case 3:
			p = part{count: 0, core: 50}
			words = append(words, "rdma=50 rdma.strategy=ApplyForAll")
		case 4:
			p = part{count: 2, core: 1}
			words = append(words, "rdma=2 rdma.strategy=RequestsAsCount")
		}
		if worlds.Even(t, 4, "vfs") == 0 {
			p.vf = some(t, []string{"*", "fast", "slow"}, "vf")
			words = append(words, "rdma.vf="+p.vf)
		}
	}
	if p.alone = some(t, []string{"", "", "", "", "", "", "DeviceLevel", "PCIeLevel"}, "alone"); p.alone != "" {
		words = append(words, name+".alone="+p.alone)
		if p.core == 1 && p.alone == "DeviceLevel" {
			p.core = 100
		}
	}
	if worlds.Even(t, 14, "selects") == 0 {
		p.kind = some(t, []string{"fast", "*"}, "kind")
		words = append(words, name+".kind="+p.kind)
	}
	return p, strings.Join(words, " ")
}

func drawWish(t *rapid.T) *wish {
	w := &wish{}
	var words []string
	which := worlds.Even(t, 6, "types")
	if which != 1 {
		p, text := drawPart(t, true)
		w.gpu = &p
		words = append(words, text)
		if worlds.Even(t, 8, "partitioned") == 0 {
			w.partition = some(t, []string{"BestEffort", "Restricted"}, "policy")
			words = append(words, "partition="+w.partition)
		}
	}
	if which > 0 {
		p, text := drawPart(t, false)
		w.nic = &p
		words = append(words, text)
	}
	if w.gpu != nil && w.nic != nil && worlds.Even(t, 2, "joint") > 0 {
		w.joint = some(t, []string{"gpu", "gpu", "rdma"}, "first")
		other := map[string]string{"gpu": "rdma", "rdma": "gpu"}[w.joint]
		words = append(words, "joint="+w.joint+"+"+other)
		if w.same = rapid.Bool().Draw(t, "same"); w.same {
			words = append(words, "same")
		}
	}
	w.text = strings.Join(words, " ")
	a, err := ask(strings.Fields(w.text))
	if err != nil {
		t.Fatal(err)
	}
	r, bad := a.Request()
	if bad != nil {
		t.Fatalf("%s: %s", w.text, bad.Text())
	}
	w.r = r
	return w
}

// drawTwin draws a node of up to four GPUs and three NICs, of which something is taken.
func drawTwin(t *rapid.T) *twin {
	w := &twin{}
	kinds := func() map[string]string {
		if worlds.Even(t, 2, "kind") == 0 {
			return map[string]string{"kind": "fast"}
		}
		return nil
	}
	place := func() device.Place {
		at := worlds.Even(t, 3, "switch")
		p := device.Place{Known: true, NUMA: at / 2, Switch: fmt.Sprint("p", at)}
		if lost := rapid.IntRange(0, 59).Draw(t, "lost"); lost == 33 {
			p = device.Place{}
		} else if lost == 44 {
			p.NUMA = 1 - p.NUMA
		}
		return p
	}
	add := func(d device.Device) {
		d.ID, d.Healthy = fmt.Sprint(d.Type, "-", d.Minor), rapid.IntRange(0, 19).Draw(t, "ill") != 7
		d.Labels, d.Place = kinds(), place()
		w.inv.Devices = append(w.inv.Devices, d)
	}
	minors := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "minors")
	for _, m := range minors[:min(4, 1+worlds.Even(t, 8, "gpus"))] {
		add(device.Device{Type: device.GPU, Minor: m, Has: device.Amount{Core: 100, Ratio: 100, Memory: 80 * gib}})
	}
	for m := range min(3, worlds.Even(t, 8, "nics")) {
		d := device.Device{Type: device.RDMA, Minor: m, Has: device.Amount{Core: 100}}
		for g := range worlds.Even(t, 3, "groups") {
			group := device.VFGroup{Labels: map[string]string{"kind": []string{"fast", "slow"}[g]}}
			for i := range worlds.Even(t, 3, "vfs") {
				group.VFs = append(group.VFs, device.VF{Minor: 2*g + i, BusID: fmt.Sprintf("0000:%02d:%d.%d", m, g, i)})
			}
			d.VFs = append(d.VFs, group)
		}
		add(d)
	}
	if worlds.Even(t, 4, "table") == 0 {
		w.inv.Table = map[int][]device.Partition{}
		for _, n := range []int{1, 2} {
			for range worlds.Even(t, 5, "partitions") {
				p := device.Partition{Minors: rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "of")[:n], Score: worlds.Even(t, 3, "score")}
				w.inv.Table[n] = append(w.inv.Table[n], p)
			}
		}
		w.inv.PartitionsOnly = rapid.Bool().Draw(t, "honor")
	}
	for range worlds.Even(t, 2, "taken") {
		d := some(t, w.inv.Devices, "of")
		s := device.Share{Type: d.Type, Minor: d.Minor, Amount: device.Amount{Core: int64(some(t, []int{20, 50, 100}, "so much"))}}
		if d.Type == device.GPU {
			s.Amount.Ratio, s.Amount.Memory = s.Amount.Core, s.Amount.Core*80*gib/100
		}
		if len(d.VFs) > 0 && len(d.VFs[0].VFs) > 0 {
			s.VFs = d.VFs[0].VFs[:1]
		}
		s.Exclusive = some(t, []device.Exclusive{device.Sharing, device.Sharing, device.DeviceLevel, device.PCIeLevel}, "alone")
		w.held = append(w.held, device.Allocation{s})
	}
	return w
}

func (w *twin) state(t *rapid.T) *device.State {
	n, err := device.New(w.inv)
	if err != nil {
		t.Fatal(err)
	}
	s := device.NewState(n)
	for _, a := range w.held {
		s.Take(a)
	}
	return s
}

func (w *twin) device(t device.Type, minor int) *device.Device {
	for i := range w.inv.Devices {
		if d := &w.inv.Devices[i]; d.Type == t && d.Minor == minor {
			return d
		}
	}
	return nil
}

// obeys says what of a member's wish an allocation does not do; "" if it does all. exactly: without further
// NICs.
func (w *twin) obeys(m *wish, a device.Allocation, exactly bool) string {
	on := map[device.Type]map[string]bool{}
	for _, t := range []struct {
		of device.Type
		*part
	}{{device.GPU, m.gpu}, {device.RDMA, m.nic}} {
		on[t.of] = map[string]bool{}
		var got []*device.Device
		for _, s := range a {
			if s.Type != t.of {
				continue
			}
			d := w.device(s.Type, s.Minor)
			if t.part == nil {
				return "no pod asked for " + string(t.of)
			}
			if slices.Contains(got, d) {
				return "a device twice"
			}
			got = append(got, d)
			if d.Place.Known {
				on[t.of][d.Place.Switch] = true
			} else {
				on[t.of]["lost "+d.ID] = true
			}
			if wrong := t.suits(d, s); wrong != "" {
				return wrong
			}
		}
		if t.part == nil {
			continue
		}
		least, most := t.count, t.count
		if t.count == 0 {
			for i := range w.inv.Devices {
				if d := &w.inv.Devices[i]; d.Type == t.of && (t.kind != "fast" || d.Labels["kind"] == "fast") {
					least++
				}
			}
			if most = least; least == 0 {
				return "all of nothing"
			}
		} else if t.of == device.RDMA && m.joint == "gpu" && (m.same || !exactly) {
			most = max(most, len(on[device.GPU]))
			if m.same {
				least = most
			}
		}
		if len(got) < least || len(got) > most {
			return fmt.Sprintf("%d of %s, not %d to %d", len(got), t.of, least, most)
		}
		if wrong := w.close(t.of, t.part, got, exactly); wrong != "" {
			return wrong
		}
		if wrong := w.partitioned(m, t.of, t.part, got); wrong != "" {
			return wrong
		}
	}
	if m.same {
		for s := range on[device.GPU] {
			if !on[device.RDMA][s] || strings.HasPrefix(s, "lost") {
				return "a GPU without a NIC"
			}
		}
		for s := range on[device.RDMA] {
			if !on[device.GPU][s] {
				return "a NIC without a GPU"
			}
		}
	}
	return ""
}

// suits says what is wrong with one device.
func (p *part) suits(d *device.Device, s device.Share) string {
	want := device.Amount{Core: p.core, Memory: p.memory, Ratio: p.ratio}
	if d.Type == device.GPU {
		if p.memory > 0 {
			want.Ratio = p.memory * 100 / d.Has.Memory
		} else {
			want.Memory = p.ratio * d.Has.Memory / 100
		}
	}
	alone := map[string]device.Exclusive{"": 0, "DeviceLevel": device.DeviceLevel, "PCIeLevel": device.PCIeLevel}[p.alone]
	switch {
	case !d.Healthy:
		return "unhealthy"
	case p.kind == "fast" && d.Labels["kind"] != "fast":
		return "another kind"
	case s.Amount != want || s.ID != d.ID || s.Exclusive != alone:
		return fmt.Sprintf("%+v, not %+v", s, want)
	case (p.vf != "") != (len(s.VFs) == 1):
		return "a VF too many, or too few"
	case p.vf == "":
		return ""
	}
	for _, g := range d.VFs {
		if slices.Contains(g.VFs, s.VFs[0]) && (p.vf == "*" || g.Labels["kind"] == p.vf) {
			return ""
		}
	}
	return "a VF of another kind"
}

// close says whether devices are too far apart.
func (w *twin) close(t device.Type, p *part, got []*device.Device, exactly bool) string {
	if p.scope == "" {
		return ""
	}
	for i := range w.inv.Devices {
		if d := &w.inv.Devices[i]; d.Type == t && !d.Place.Known {
			return "no tree"
		}
	}
	if p.shared && p.count > 1 || p.scope == "Device" && len(got) > 1 {
		return "several in a scope"
	}
	for _, d := range got {
		if p.scope != "Node" && d.Place.NUMA != got[0].Place.NUMA || p.scope == "PCIe" && d.Place.Switch != got[0].Place.Switch {
			return "too far apart"
		}
	}
	return ""
}

// partitioned says whether GPUs are no partition, where they must be one.
func (w *twin) partitioned(m *wish, t device.Type, p *part, got []*device.Device) string {
	if t != device.GPU || p.shared || !w.inv.PartitionsOnly && m.partition == "" {
		return ""
	}
	best := -1
	for _, q := range w.inv.Table[p.count] {
		best = max(best, q.Score)
	}
	for _, q := range w.inv.Table[p.count] {
		all := true
		for _, d := range got {
			all = all && slices.Contains(q.Minors, d.Minor)
		}
		if all && (m.partition != "Restricted" || q.Score == best) {
			return ""
		}
	}
	return "no partition"
}

// every yields every set of shares that might be a member's: any devices, each VF.
func (w *twin) every(m *wish, yield func(device.Allocation)) {
	var from func(i int, a device.Allocation)
	from = func(i int, a device.Allocation) {
		if i == len(w.inv.Devices) {
			yield(a)
			return
		}
		from(i+1, a)
		d := &w.inv.Devices[i]
		p := m.gpu
		if d.Type == device.RDMA {
			p = m.nic
		}
		if p == nil || !d.Healthy {
			return
		}
		s := device.Share{Type: d.Type, Minor: d.Minor, ID: d.ID, Amount: device.Amount{Core: p.core, Memory: p.memory, Ratio: p.ratio}}
		if d.Type == device.GPU {
			if p.memory > 0 {
				s.Amount.Ratio = p.memory * 100 / d.Has.Memory
			} else {
				s.Amount.Memory = p.ratio * d.Has.Memory / 100
			}
		}
		s.Exclusive = map[string]device.Exclusive{"": 0, "DeviceLevel": device.DeviceLevel, "PCIeLevel": device.PCIeLevel}[p.alone]
		if p.vf == "" {
			from(i+1, append(slices.Clone(a), s))
			return
		}
		for _, g := range d.VFs {
			for _, vf := range g.VFs {
				s.VFs = []device.VF{vf}
				from(i+1, append(slices.Clone(a), s))
			}
		}
	}
	from(0, nil)
}

// legal lists what a member may get of the node as it is.
func (w *twin) legal(m *wish) (out []device.Allocation) {
	w.every(m, func(a device.Allocation) {
		if len(a) == 0 || w.obeys(m, a, true) != "" {
			return
		}
		w.held = append(w.held, a)
		if w.touches(a) {
			out = append(out, a)
		}
		w.held = w.held[:len(w.held)-1]
	})
	return out
}

// touches says whether the devices of the last member obey the rules beside the other holders.
func (w *twin) touches(a device.Allocation) bool {
	last := len(w.held) - 1
	for _, s := range a {
		d := w.device(s.Type, s.Minor)
		var sum device.Amount
		for b, h := range w.held {
			for _, o := range h {
				if o.Type != s.Type {
					continue
				}
				if b != last && (w.excludes(s, o) || w.excludes(o, s)) {
					return false
				}
				if o.Minor != s.Minor {
					continue
				}
				sum.Core, sum.Memory, sum.Ratio = sum.Core+o.Amount.Core, sum.Memory+o.Amount.Memory, sum.Ratio+o.Amount.Ratio
				if b != last && len(s.VFs) > 0 && slices.Contains(o.VFs, s.VFs[0]) {
					return false
				}
			}
		}
		if sum.Core > d.Has.Core && s.Amount.Core > 0 || sum.Memory > d.Has.Memory || sum.Ratio > d.Has.Ratio {
			return false
		}
	}
	return true
}

// excludes says whether a share excludes another's.
func (w *twin) excludes(s, o device.Share) bool {
	d, e := w.device(s.Type, s.Minor), w.device(o.Type, o.Minor)
	onSwitch := d.Place.Known && e.Place.Known && d.Place.Switch == e.Place.Switch
	return s.Exclusive != device.Sharing && (s.Minor == o.Minor || s.Exclusive == device.PCIeLevel && onSwitch)
}

// most counts members of a kind, at most so many, by trying everything.
func (w *twin) most(m *wish, upTo int) int {
	best := 0
	var from func(n int, after int)
	from = func(n, after int) {
		if best = max(best, n); best >= upTo {
			return
		}
		for i, a := range w.legal(m) {
			if i < after && n > 0 {
				continue
			}
			w.held = append(w.held, a)
			from(n+1, 0)
			w.held = w.held[:len(w.held)-1]
			if best >= upTo {
				return
			}
		}
	}
	from(0, 0)
	return best
}

// fit says whether members of any kinds fit.
func (w *twin) fit(members []*wish) bool {
	if len(members) == 0 {
		return true
	}
	for _, a := range w.legal(members[0]) {
		w.held = append(w.held, a)
		ok := w.fit(members[1:])
		w.held = w.held[:len(w.held)-1]
		if ok {
			return true
		}
	}
	return false
}

func (w *twin) String() string {
	var b strings.Builder
	for _, d := range w.inv.Devices {
		fmt.Fprintf(&b, "%s%d %v healthy=%v %v vfs=%v\n", d.Type, d.Minor, d.Place, d.Healthy, d.Labels, d.VFs)
	}
	fmt.Fprintf(&b, "table %v honor %v\n", w.inv.Table, w.inv.PartitionsOnly)
	for _, h := range w.held {
		fmt.Fprintf(&b, "held %+v\n", h)
	}
	return b.String()
}

// TestSlots: as many as trying everything finds, and that many get devices that obey every rule; no member's order of asking
// changes the state.
func TestSlots(t *testing.T) {
	kinds := []string{
		"none", "one", "several", "searched", "joint", "same switches", "partitioned", "alone", "VFs", "all NICs", "taken", "lost",
		"several kinds of VFs",
	}
	worlds.Check(t, 1000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawTwin(t)
		m := drawWish(t)
		s := w.state(t)
		var solver device.Solver
		before := s.Key()
		const upTo = 4
		got := solver.Slots(s, m.r, upTo)
		want := w.most(m, upTo)
		if !got.Exact || got.Slots != want {
			t.Fatalf("%s%s: %+v, not %d", w, m.text, got, want)
		}
		w.refused(t, &solver, s, []*wish{m}, want == 0)
		if want > 0 {
			w.chosen(t, s, &solver, slices.Repeat([]*wish{m}, want))
		}
		if s.Key() != before {
			t.Fatalf("%s%s: the state has changed", w, m.text)
		}
		y.Count("none", want == 0)
		y.Count("one", want == 1)
		y.Count("several", want > 1)
		y.Count("joint", m.joint != "")
		y.Count("same switches", m.same && want > 0)
		y.Count("searched", m.same && want > 1)
		y.Count("partitioned", want > 0 && m.gpu != nil && !m.gpu.shared && (w.inv.PartitionsOnly || m.partition != ""))
		y.Count("alone", want > 0 && (m.gpu != nil && m.gpu.alone != "" || m.nic != nil && m.nic.alone != ""))
		y.Count("VFs", want > 0 && m.nic != nil && m.nic.vf != "")
		y.Count("several kinds of VFs", want > 0 && m.nic != nil && m.nic.vf == "*")
		y.Count("all NICs", want > 0 && m.nic != nil && m.nic.count == 0)
		y.Count("taken", len(w.held) > 0)
		y.Count("lost", slices.ContainsFunc(w.inv.Devices, func(d device.Device) bool { return !d.Place.Known }))
	})
}

// refused checks why members do not fit, if they do not: whether an empty node would help.
func (w *twin) refused(t *rapid.T, solver *device.Solver, s *device.State, members []*wish, refused bool) {
	var asked []*device.Request
	for _, m := range members {
		asked = append(asked, m.r)
	}
	why := solver.Why(s, asked)
	if (why != nil) != refused {
		t.Fatalf("%s%s: %+v, but refused is %v", w, members[0].text, why, refused)
	}
	empty := twin{inv: w.inv}
	if why != nil && why.Lasting == empty.fit(members) {
		t.Fatalf("%s%s: %+v, but lasting is %v", w, members[0].text, why, !why.Lasting)
	}
}

// chosen checks what members get.
func (w *twin) chosen(t *rapid.T, s *device.State, solver *device.Solver, members []*wish) {
	var asked []*device.Request
	for _, m := range members {
		asked = append(asked, m.r)
	}
	all, ok, exact := solver.Choose(s, asked)
	if !ok || !exact {
		t.Fatalf("%s%s: chosen %v, exact %v", w, members[0].text, ok, exact)
	}
	n := len(w.held)
	for i, a := range all {
		if wrong := w.obeys(members[i], a, false); wrong != "" {
			t.Fatalf("%s%s gets %+v: %s", w, members[i].text, a, wrong)
		}
		w.best(t, members[i:], a)
		w.held = append(w.held, a)
	}
	w.held = w.held[:n]
	w.apart(t, all)
}

// apart checks that no device is held twice, including spare devices.
func (w *twin) apart(t *rapid.T, all []device.Allocation) {
	before := w.held
	for i, a := range all {
		w.held = slices.Concat(before, all[:i], all[i+1:], all[i:i+1])
		if !w.touches(a) {
			t.Fatalf("%s%+v is what others have", w, a)
		}
	}
	w.held = before
}

// best checks that the first of the members gets the best that allows the other members to fit: whole GPUs of a partition of
// the highest score, or as close as can be; shared ones where most is in use around them.
func (w *twin) best(t *rapid.T, members []*wish, got device.Allocation) {
	m := members[0]
	if m.gpu == nil || m.joint == "rdma" || m.gpu.shared && m.gpu.count > 1 {
		return
	}
	for i := range w.inv.Devices {
		if d := &w.inv.Devices[i]; d.Type == device.GPU && !d.Place.Known {
			return
		}
	}
	must := w.inv.PartitionsOnly || m.partition != ""
	if !m.gpu.shared && !must && w.inv.Table[m.gpu.count] != nil {
		return // partitions first, which need not be close
	}
	rank := w.spread
	switch {
	case m.gpu.shared:
		rank = w.empty
	case must:
		rank = func(a device.Allocation) int { return -w.score(a) }
	}
	mine := rank(got)
	for _, a := range w.legal(m) {
		if rank(a) >= mine {
			continue
		}
		w.held = append(w.held, a)
		room := w.fit(members[1:])
		w.held = w.held[:len(w.held)-1]
		if room {
			t.Fatalf("%s%s gets %+v, and might have %+v", w, m.text, got, a)
		}
	}
}

// spread is 0 for GPUs of one switch, 1 for GPUs of one NUMA node.
func (w *twin) spread(a device.Allocation) (far int) {
	first := w.device(a[0].Type, a[0].Minor)
	for _, s := range a {
		if first.Type != device.GPU {
			first = w.device(s.Type, s.Minor)
		}
		if d := w.device(s.Type, s.Minor); d.Type != device.GPU {
			continue
		} else if d.Place.NUMA != first.Place.NUMA {
			return 2
		} else if d.Place.Switch != first.Place.Switch {
			far = 1
		}
	}
	return far
}

// empty is 0 for a GPU if further GPUs of its switch are in use, 1 if further GPUs of its NUMA node are.
func (w *twin) empty(a device.Allocation) int {
	var mine *device.Device
	for _, s := range a {
		if s.Type == device.GPU {
			mine = w.device(s.Type, s.Minor)
		}
	}
	far := 2
	for _, h := range w.held {
		for _, s := range h {
			if d := w.device(s.Type, s.Minor); d.Type != device.GPU || d.Place.NUMA != mine.Place.NUMA {
				continue
			} else if d.Place.Switch == mine.Place.Switch {
				return 0
			}
			far = 1
		}
	}
	return far
}

// score is that of the best partition of a member's GPUs.
func (w *twin) score(a device.Allocation) int {
	best, n := -1, 0
	for _, s := range a {
		if s.Type == device.GPU {
			n++
		}
	}
	for _, p := range w.inv.Table[n] {
		all := true
		for _, s := range a {
			all = all && (s.Type != device.GPU || slices.Contains(p.Minors, s.Minor))
		}
		if all {
			best = max(best, p.Score)
		}
	}
	return best
}

// TestFit: members of two kinds fit if trying everything says so, and get devices that obey every rule.
func TestFit(t *testing.T) {
	kinds := []string{"fit", "fit alone, not together", "three", "joint beside another", "gone back"}
	worlds.Check(t, 1500, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawTwin(t)
		a, b := drawWish(t), drawWish(t)
		members := []*wish{a, b}
		if rapid.Bool().Draw(t, "three") {
			members = rapid.SampledFrom([][]*wish{{a, a, b}, {a, b, a}, {a, b, b}}).Draw(t, "order")
		}
		s := w.state(t)
		var solver device.Solver
		var asked []*device.Request
		for _, m := range members {
			asked = append(asked, m.r)
		}
		before := s.Key()
		got, exact := solver.Fits(s, asked)
		want := w.fit(members)
		w.refused(t, &solver, s, members, !want)
		if _, ok, exact := solver.Choose(s, asked); ok != want || !exact || s.Key() != before {
			t.Fatalf("%s%s | %s: chosen %v, and the state has changed: %v", w, a.text, b.text, ok, s.Key() != before)
		}
		if got != want || !exact {
			t.Fatalf("%s%s | %s: fit %v (exact %v), not %v", w, a.text, b.text, got, exact, want)
		}
		if want {
			w.chosen(t, s, &solver, members)
			y.Count("gone back", w.goneBack(&solver, s.Clone(), members))
		}
		y.Count("fit", want)
		y.Count("fit alone, not together", !want && w.most(a, 1) > 0 && w.most(b, 1) > 0)
		y.Count("three", want && len(members) == 3)
		y.Count("joint beside another", want && a.joint != "" && a.text != b.text)
	})
}

// goneBack says that members fit, but not if each takes the best for itself.
func (w *twin) goneBack(solver *device.Solver, s *device.State, members []*wish) bool {
	for _, m := range members {
		all, ok, _ := solver.Choose(s, []*device.Request{m.r})
		if !ok {
			return true
		}
		s.Take(all[0])
	}
	return false
}

// TestCrowd: members added and removed one by one get the same answers as members that are asked for at once. Members
// that do not fit only affect members with requests for the same device types.
func TestCrowd(t *testing.T) {
	kinds := []string{"no more", "some more", "as many as asked for", "one leaves", "earlier members do not fit", "enough of other types"}
	worlds.Check(t, 1000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawTwin(t)
		s := w.state(t)
		wishes := []*wish{drawWish(t), drawWish(t)}
		one := func() *device.Request { return wishes[worlds.Even(t, 2, "which")].r }
		var solver device.Solver
		fits := func(members []*device.Request) bool {
			ok, _ := solver.Fits(s, members)
			return ok
		}
		var is []*device.Request
		for range worlds.Even(t, 3, "open") {
			is = append(is, one())
		}
		before, full := s.Key(), len(is) > 0 && !fits(is)
		c := solver.NewCrowd(s, is)
		open := len(is)
		for range 5 {
			if len(is) > open && worlds.Even(t, 4, "leaves") == 0 {
				c.Drop()
				is = is[:len(is)-1]
				y.Count("one leaves", true)
			}
			r := one()
			more := 0
			beside := device.Concerned(is, []*device.Request{r})
			for more < 3 && fits(slices.Concat(beside, slices.Repeat([]*device.Request{r}, more+1))) {
				more++
			}
			if got := c.Count(&solver, r, 3); got != more {
				t.Fatalf("%s%s | %s: beside %d there are %d more, not %d", w, wishes[0].text, wishes[1].text, len(is), more, got)
			}
			if c.Add(&solver, r) != (more > 0) {
				t.Fatalf("%s%s | %s: beside %d, %d more", w, wishes[0].text, wishes[1].text, len(is), more)
			}
			if more > 0 {
				is = append(is, r)
			}
			y.Count("no more", more == 0 && !full)
			y.Count("some more", more > 0 && more < 3)
			y.Count("as many as asked for", more == 3)
			y.Count("enough of other types", full && more > 0)
		}
		if len(c.Members()) != len(is) || s.Key() != before {
			t.Fatalf("%d are there, not %d; the state has changed: %v", len(c.Members()), len(is), s.Key() != before)
		}
		y.Count("earlier members do not fit", full)
	})
}
