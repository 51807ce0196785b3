package device_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/test/worlds"
)

// relabelled returns the same node with other names: minors, IDs, switches and NUMA nodes.
func (w *twin) relabelled(t *rapid.T) *twin {
	minors := rapid.Permutation([]int{0, 1, 2, 3, 4}).Draw(t, "new minors")
	switches := map[string]string{"p0": "q1", "p1": "q0", "p2": "a"}
	if rapid.Bool().Draw(t, "other order") {
		switches = map[string]string{"p0": "z", "p1": "x", "p2": "y"}
	}
	out := &twin{inv: w.inv}
	out.inv.Table = map[int][]device.Partition{}
	for n, list := range w.inv.Table {
		out.inv.Table[n] = []device.Partition{}
		for _, p := range list {
			q := p
			q.Minors = nil
			for _, m := range p.Minors {
				q.Minors = append(q.Minors, minors[m])
			}
			out.inv.Table[n] = append(out.inv.Table[n], q)
		}
	}
	if w.inv.Table == nil {
		out.inv.Table = nil
	}
	out.inv.Devices = nil
	for _, d := range w.inv.Devices {
		d.Minor, d.ID = minors[d.Minor], "other "+d.ID
		d.Place.Switch = switches[d.Place.Switch]
		if d.Place.Known {
			d.Place.NUMA = 5 - d.Place.NUMA
		}
		out.inv.Devices = append(out.inv.Devices, d)
	}
	out.inv.Devices = rapid.Permutation(out.inv.Devices).Draw(t, "order")
	for _, h := range w.held {
		h = slices.Clone(h)
		for i := range h {
			h[i].Minor = minors[h[i].Minor]
		}
		out.held = append(out.held, h)
	}
	return out
}

// other returns nearly the same node: one device is elsewhere, or one holder holds its devices in another way.
func (w *twin) other(t *rapid.T) *twin {
	out := w.relabelled(t)
	d := &out.inv.Devices[worlds.Even(t, len(out.inv.Devices), "which")]
	switch change := worlds.Even(t, 6, "change"); {
	case change == 0:
		d.Place = device.Place{Known: true, NUMA: 5, Switch: some(t, []string{"x", "y", "q1"}, "moved to")}
	case change == 1:
		d.Healthy = !d.Healthy
	case change == 2:
		d.Labels = map[string]string{"kind": "fast"}
	case len(out.held) == 0:
	case change == 3:
		out.held[0][0].Exclusive = some(t, []device.Exclusive{device.Sharing, device.DeviceLevel, device.PCIeLevel}, "alone now")
	case change == 4:
		out.held[0][0].VFs = nil
	default:
		out.held[0][0].Minor = d.Minor
	}
	return out
}

// TestKey: a node with other names has the same key, unless its devices are known by their minors, and the same
// slots; nodes with equal keys have the same slots.
func TestKey(t *testing.T) {
	kinds := []string{"equal", "by position", "equal though changed", "changed", "slots"}
	worlds.Check(t, 4000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawTwin(t)
		other, changed := w.relabelled(t), w.other(t)
		s, r, c := w.state(t), other.state(t), changed.state(t)
		equal, still := s.Key() == r.Key(), s.Key() == c.Key()
		if !equal && w.inv.Table == nil && !w.bent() {
			t.Fatalf("%s%s: other names, other keys:\n%q\n%q", w, other, s.Key(), r.Key())
		}
		var solver device.Solver
		for range 4 {
			m := drawWish(t)
			got := solver.Slots(s, m.r, 8)
			if same := solver.Slots(r, m.r, 8); got != same {
				t.Fatalf("%s%s: %+v, with other names %+v", w, m.text, got, same)
			}
			if same := solver.Slots(c, m.r, 8); still && got != same {
				t.Fatalf("%s%s%s: equal keys, but %+v and %+v", w, changed, m.text, got, same)
			}
			y.Count("slots", got.Slots > 0)
		}
		y.Count("equal", equal)
		y.Count("by position", !equal)
		y.Count("equal though changed", still)
		y.Count("changed", !still)
	})
}

// bent says whether some switch is in two NUMA nodes.
func (w *twin) bent() bool {
	home := map[string]int{}
	for _, d := range w.inv.Devices {
		if !d.Place.Known {
			continue
		}
		if numa, ok := home[d.Place.Switch]; ok && numa != d.Place.NUMA {
			return true
		}
		home[d.Place.Switch] = d.Place.NUMA
	}
	return false
}

// TestWork: a search of which little may fail says when it gave up; what it finds then obeys every rule, and what it
// promises of one kind it finds.
func TestWork(t *testing.T) {
	worlds.Check(t, 3000, []string{"gave up"}, func(t *rapid.T, y worlds.Tally) {
		w, m, o := drawTwin(t), drawWish(t), drawWish(t)
		s := w.state(t)
		var solver device.Solver
		hasty := device.Solver{Work: 1}

		want, got := solver.Slots(s, m.r, 8), hasty.Slots(s, m.r, 8)
		if !want.Exact || got.Slots > want.Slots || got.Exact && got != want {
			t.Fatalf("%s%s: %+v in haste, %+v after all", w, m.text, got, want)
		}
		one := slices.Repeat([]*device.Request{m.r}, got.Slots)
		if all, ok, _ := hasty.Choose(s, one); !got.Exact && (!ok || len(all) != got.Slots) {
			t.Fatalf("%s%s: %d promised, %d chosen", w, m.text, got.Slots, len(all))
		}

		members := []*wish{m, o, m, o}
		asked := []*device.Request{m.r, o.r, m.r, o.r}
		best, fits, _ := solver.Choose(s, asked)
		all, ok, exact := hasty.Choose(s, asked)
		if ok && !fits || exact && ok != fits || exact && !reflect.DeepEqual(all, best) {
			t.Fatalf("%s%s | %s: %v (exact %v) in haste, %v after all", w, m.text, o.text, all, exact, best)
		}
		for i, a := range all {
			if wrong := w.obeys(members[i], a, false); wrong != "" {
				t.Fatalf("%s%s gets %+v: %s", w, members[i].text, a, wrong)
			}
		}
		if ok {
			w.apart(t, all)
		}
		y.Count("gave up", !exact)
		y.Count("found all the same", !exact && ok)
	})
}

// TestUndo: Free is the inverse of Take, also of what the node does not have, and of VFs that were given twice;
// a clone is not changed.
func TestUndo(t *testing.T) {
	vf := device.VF{Minor: 0, BusID: "0000:1f:00.4"}
	n, err := device.New(device.Inventory{Devices: []device.Device{
		{Type: device.RDMA, Minor: 1, Healthy: true, Has: device.Amount{Core: 100}, VFs: []device.VFGroup{{VFs: []device.VF{vf}}}},
	}})
	assert.NoError(t, err)
	s := device.NewState(n)
	before := s.Key()
	a := device.Allocation{
		{Type: device.RDMA, Minor: 1, Amount: device.Amount{Core: 60}, VFs: []device.VF{vf}, Exclusive: device.PCIeLevel},
		{Type: device.GPU, Minor: 7, Amount: device.Amount{Core: 100}},
		{Type: device.RDMA, Minor: 2, Amount: device.Amount{Core: 100}, VFs: []device.VF{{BusID: "gone"}}},
	}
	s.Take(a)
	once := s.Key()
	c := s.Clone()
	s.Take(a)
	assert.NotEqual(t, once, s.Key())
	assert.Equal(t, once, c.Key())
	s.Free(a)
	assert.Equal(t, once, s.Key())
	s.Free(a)
	assert.Equal(t, before, s.Key())
}

// TestGivenTwice: a VF that was given to two pods is one VF less, and free when both have terminated.
func TestGivenTwice(t *testing.T) {
	vfs := []device.VF{{Minor: 0, BusID: "0000:1f:00.4"}, {Minor: 1, BusID: "0000:1f:00.5"}}
	n, err := device.New(device.Inventory{Devices: []device.Device{
		{Type: device.RDMA, Minor: 1, Healthy: true, Has: device.Amount{Core: 100}, VFs: []device.VFGroup{{VFs: vfs}}},
	}})
	assert.NoError(t, err)
	a, err := ask([]string{"rdma=1", "rdma.vf=*"})
	assert.NoError(t, err)
	r, bad := a.Request()
	assert.Nil(t, bad)
	s := device.NewState(n)
	one := device.Allocation{{Type: device.RDMA, Minor: 1, Amount: device.Amount{Core: 1}, VFs: vfs[:1]}}
	s.Take(one)
	s.Take(one)
	var solver device.Solver
	for _, want := range []int{1, 1, 2} {
		assert.Equal(t, want, solver.Slots(s, r, 9).Slots)
		s.Free(one)
	}
}

// TestHalfSaid: a holder of a part of a card holds the same part of each amount, though only one amount was written.
func TestHalfSaid(t *testing.T) {
	n, err := device.New(device.Inventory{
		Devices: []device.Device{{Type: device.GPU, Healthy: true, Has: device.Amount{Core: 100, Memory: 80 * gib, Ratio: 100}}},
	})
	assert.NoError(t, err)
	all, ratio, memory := device.NewState(n), device.NewState(n), device.NewState(n)
	all.Take(device.Allocation{{Type: device.GPU, Amount: device.Amount{Memory: 40 * gib, Ratio: 50}}})
	ratio.Take(device.Allocation{{Type: device.GPU, Amount: device.Amount{Ratio: 50}}})
	memory.Take(device.Allocation{{Type: device.GPU, Amount: device.Amount{Memory: 40 * gib}}})
	assert.Equal(t, all.Key(), ratio.Key())
	assert.Equal(t, all.Key(), memory.Key())
}

// TestMany: a node may have 64 devices of a type.
func TestMany(t *testing.T) {
	inv := device.Inventory{}
	for i := range 64 {
		inv.Devices = append(inv.Devices, device.Device{
			Type: device.GPU, Minor: i, Healthy: true, Has: device.Amount{Core: 100, Ratio: 100, Memory: gib},
			Place: device.Place{Known: true, NUMA: i / 32, Switch: fmt.Sprint("p", i/2)},
		})
	}
	n, err := device.New(inv)
	assert.NoError(t, err)
	var solver device.Solver
	for asked, want := range map[string]int{
		"gpu=100": 64, "gpu=6400": 1, "gpu=200 gpu.scope=PCIe": 32, "gpu=3200 gpu.scope=NUMANode": 2, "gpu=50": 128, "gpu=6500": 0,
	} {
		a, err := ask(strings.Fields(asked))
		assert.NoError(t, err)
		r, bad := a.Request()
		assert.Nil(t, bad)
		s := device.NewState(n)
		assert.Equal(t, device.Count{Slots: want, Exact: true}, solver.Slots(s, r, 1000), asked)
		all, ok, exact := solver.Choose(s, slices.Repeat([]*device.Request{r}, want))
		assert.True(t, ok && exact, asked)
		for _, got := range all {
			s.Take(got)
		}
		assert.Equal(t, device.Count{Exact: true}, solver.Slots(s, r, 1000), asked)
	}
}

// TestInventory: what a Device object may not say.
func TestInventory(t *testing.T) {
	gpu := func(minor int) device.Device {
		return device.Device{Type: device.GPU, Minor: minor, Healthy: true, Has: device.Amount{Core: 100, Ratio: 100, Memory: gib}}
	}
	var many []device.Device
	for i := range 65 {
		many = append(many, gpu(i))
	}
	for _, c := range []struct {
		inv  device.Inventory
		want string
	}{
		{device.Inventory{Devices: []device.Device{gpu(3), gpu(3)}}, "gpu: minor 3 is there twice"},
		{device.Inventory{Devices: []device.Device{gpu(-1)}}, "gpu: minor -1 is below 0"},
		{device.Inventory{Devices: []device.Device{{Minor: 2}}}, "device 2 has no type"},
		{
			device.Inventory{Devices: []device.Device{{Type: device.GPU, Has: device.Amount{Core: -1}}}},
			"gpu0: resources that cannot be: {Core:-1 Memory:0 Ratio:0}",
		},
		{device.Inventory{Devices: many}, "more than 64 devices of type gpu"},
		{device.Inventory{Table: map[int][]device.Partition{2: {{Minors: []int{0, 0}}}}}, "partition 0 of those of 2 GPUs has the minors [0 0]"},
		{device.Inventory{Table: map[int][]device.Partition{2: {{Minors: []int{1}}}}}, "partition 0 of those of 2 GPUs has the minors [1]"},
		{device.Inventory{Devices: many[:64]}, ""},
		{device.Inventory{Table: map[int][]device.Partition{2: {{Minors: []int{1, 7}}}}, Devices: many[:2]}, ""},
		{device.Inventory{}, ""},
	} {
		_, err := device.New(c.inv)
		if c.want == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, c.want)
		}
	}
}
