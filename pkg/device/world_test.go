package device_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-scheduler/muster/pkg/device"
)

// scene is a node as a picture draws it, and the holders by their marks.
type scene struct {
	inv   device.Inventory
	state *device.State
	held  map[string]device.Allocation
}

var gib = int64(1 << 30)

// bytes reads 80Gi.
func bytes(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, "Gi"), 10, 64)
	if strings.HasSuffix(s, "Gi") {
		n *= gib
	}
	return n, err
}

// parse reads what State.Draw draws. The words of the first line:
//
//	memory=80Gi          of each GPU
//	vfs=2 [vf=fast]      VFs of each NIC, and their label
//	model=… honor        of the node, as isolation=…
//	table=2:0+1=1,2+3=2  partitions of two GPUs with their scores
//	label=gpu0:fast      of a device
func parse(words map[string]string, text string) (*scene, error) {
	s := &scene{held: map[string]device.Allocation{}}
	memory, vfs := 80*gib, 0
	for _, k := range slices.Sorted(maps.Keys(words)) {
		v := words[k]
		var err error
		switch k {
		case "memory":
			memory, err = bytes(v)
		case "vfs":
			vfs, err = strconv.Atoi(v)
		case "model":
			s.inv.Model = v
		case "honor":
			s.inv.PartitionsOnly = true
		case "isolation":
			s.inv.Isolation = v
		case "table":
			s.inv.Table, err = table(v)
		case "label", "vf":
		default:
			err = fmt.Errorf("unknown word %s", k)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := s.read(text, memory, vfs, words); err != nil {
		return nil, err
	}
	node, err := device.New(s.inv)
	if err != nil {
		return nil, err
	}
	s.state = device.NewState(node)
	for _, mark := range slices.Sorted(maps.Keys(s.held)) {
		s.state.Take(s.held[mark])
	}
	return s, nil
}

func table(text string) (map[int][]device.Partition, error) {
	t := map[int][]device.Partition{}
	if text == "" {
		return t, nil
	}
	for _, part := range strings.Split(text, ";") {
		number, list, _ := strings.Cut(part, ":")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		for _, item := range strings.Split(list, ",") {
			minors, score, _ := strings.Cut(item, "=")
			var p device.Partition
			if p.Score, err = strconv.Atoi(score); err != nil {
				return nil, err
			}
			for _, m := range strings.Split(minors, "+") {
				minor, err := strconv.Atoi(m)
				if err != nil {
					return nil, err
				}
				p.Minors = append(p.Minors, minor)
			}
			t[n] = append(t[n], p)
		}
	}
	return t, nil
}

var (
	cells = regexp.MustCompile(` {2,}`)
	cell  = regexp.MustCompile(`^([a-z]+)(\d+)(!?) (.*)$`)
	mark  = regexp.MustCompile(`^([a-z#])(?:(\d+)(?:/(\d+))?)?(?:@(\d+))?$`)
)

// read reads the lines of a picture.
func (s *scene) read(text string, memory int64, vfs int, words map[string]string) error {
	place := device.Place{}
	for _, l := range strings.Split(strings.TrimSpace(text), "\n") {
		if !strings.HasPrefix(l, " ") {
			numa, known := strings.CutPrefix(l, "numa")
			place = device.Place{Known: known}
			if known {
				n, err := strconv.Atoi(numa)
				if err != nil {
					return err
				}
				place.NUMA = n
			}
			continue
		}
		parts := cells.Split(strings.TrimSpace(l), -1)
		place.Switch = parts[0]
		if parts[0] == "?" {
			place.Switch = ""
		}
		for _, c := range parts[1:] {
			if err := s.cell(c, place, memory, vfs, words); err != nil {
				return fmt.Errorf("%q: %v", c, err)
			}
		}
	}
	return nil
}

func (s *scene) cell(text string, place device.Place, memory int64, vfs int, words map[string]string) error {
	m := cell.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("no device")
	}
	minor, err := strconv.Atoi(m[2])
	if err != nil {
		return err
	}
	d := device.Device{
		Type: device.Type(m[1]), Minor: minor, ID: m[1] + "-" + m[2], Healthy: m[3] == "", Has: device.Amount{Core: 100}, Place: place,
	}
	if name, label, ok := strings.Cut(words["label"], ":"); ok && name == m[1]+m[2] {
		d.Labels = map[string]string{"kind": label}
	}
	if d.Type == device.GPU {
		d.Has.Memory, d.Has.Ratio = memory, 100
	} else if vfs > 0 {
		g := device.VFGroup{Labels: map[string]string{"kind": words["vf"]}}
		for i := range vfs {
			g.VFs = append(g.VFs, device.VF{Minor: i, BusID: fmt.Sprintf("0000:%02d:00.%d", minor, i)})
		}
		d.VFs = []device.VFGroup{g}
	}
	s.inv.Devices = append(s.inv.Devices, d)
	if m[4] == "." {
		return nil
	}
	for _, word := range strings.Fields(m[4]) {
		h := mark.FindStringSubmatch(word)
		if h == nil {
			return fmt.Errorf("no mark: %s", word)
		}
		share := device.Share{Type: d.Type, Minor: d.Minor, ID: d.ID, Amount: device.Amount{Core: 100}}
		if h[2] != "" {
			share.Amount.Core, _ = strconv.ParseInt(h[2], 10, 64)
		}
		if d.Type == device.GPU {
			share.Amount.Ratio = share.Amount.Core
			if h[3] != "" {
				share.Amount.Ratio, _ = strconv.ParseInt(h[3], 10, 64)
			}
			share.Amount.Memory = share.Amount.Ratio * memory / 100
		}
		if h[4] != "" {
			vf, _ := strconv.Atoi(h[4])
			share.VFs = []device.VF{d.VFs[0].VFs[vf]}
		}
		s.held[h[1]] = append(s.held[h[1]], share)
	}
	return nil
}

func (s *scene) draw() string {
	var held []device.Held
	for _, m := range slices.Sorted(maps.Keys(s.held)) {
		if m != "#" {
			held = append(held, device.Held{Mark: m, Allocation: s.held[m]})
		}
	}
	return s.state.Draw(held)
}

// ask reads what a member asks for, in words without their prefixes:
//
//	gpu=400 rdma=100 nvidia.com/gpu=2 gpu-memory=30Gi
//	gpu.scope=PCIe rdma.strategy=ApplyForAll gpu.alone=PCIeLevel
//	gpu.kind=fast rdma.vf=fast         by the label kind; * for any
//	joint=gpu+rdma [same]              SamePCIe
//	partition=Restricted isolation=…
func ask(words []string) (device.Ask, error) {
	var a device.Ask
	hints := map[device.Type]*device.Hint{}
	for _, word := range words {
		k, v, _ := strings.Cut(word, "=")
		t, field, hinted := strings.Cut(k, ".")
		if hinted && slices.Contains([]string{"scope", "strategy", "alone", "kind", "vf"}, field) {
			h := hints[device.Type(t)]
			if h == nil {
				h = &device.Hint{Type: device.Type(t)}
				hints[h.Type] = h
			}
			switch field {
			case "scope":
				h.Scope = v
			case "strategy":
				h.Strategy = v
			case "alone":
				h.Exclusive = v
			case "kind":
				h.Selector = kindIs(v)
			case "vf":
				h.VFs = kindIs(v)
			}
			continue
		}
		switch k {
		case "joint":
			j := a.Joint
			if j == nil {
				j = &device.JointAsk{}
				a.Joint = j
			}
			for _, t := range strings.Split(v, "+") {
				j.Types = append(j.Types, device.Type(t))
			}
		case "same":
			if a.Joint == nil {
				return a, fmt.Errorf("same what?")
			}
			a.Joint.Scope = "SamePCIe"
		case "jointscope":
			a.Joint.Scope = v
		case "partition":
			policy, bandwidth, _ := strings.Cut(v, ":")
			a.Partition = &device.PartitionAsk{Policy: policy}
			a.Partition.Bandwidth, _ = strconv.ParseInt(bandwidth, 10, 64)
		case "isolation":
			a.Isolation = v
		default:
			n, err := bytes(v)
			if err != nil {
				return a, fmt.Errorf("%s: %v", word, err)
			}
			if !strings.Contains(k, "/") {
				k = "koordinator.sh/" + k
			}
			a.Resources = append(a.Resources, device.Resource{Name: k, Value: n})
		}
	}
	for _, t := range slices.Sorted(maps.Keys(hints)) {
		a.Hints = append(a.Hints, *hints[t])
	}
	return a, nil
}

func kindIs(v string) *device.Selector {
	if v == "*" {
		return &device.Selector{}
	}
	return &device.Selector{Requirements: []device.Requirement{{Key: "kind", Operator: "In", Values: []string{v}}}}
}
