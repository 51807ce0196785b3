package device

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Held is an allocation and the mark with which Draw shows it.
type Held struct {
	Mark string
	Allocation
}

// Draw returns a text with the devices of a node, one line for each switch:
//
//	numa0
//	  p0  gpu0 a  gpu1 a         rdma0 a
//	  p1  gpu2 .  gpu3 a40 #30   rdma1! .
//
// A dot is a free device. A mark uses the whole device, or a percentage of it; # is use by allocations that are not in held. ! is an
// unhealthy device. GPUs show the percentage of memory; a different compute percentage comes first: a0/50. A VF follows @.
func (s *State) Draw(held []Held) string {
	n := s.node
	type line struct {
		name  string
		cells []string
	}
	var lines []line
	var widths []int
	for _, root := range n.drawing() {
		lines = append(lines, line{name: root.name})
		for _, b := range root.branches {
			l := line{name: "  " + b.name}
			for _, at := range b.devices {
				l.cells = append(l.cells, s.cell(at, held))
			}
			for i, c := range l.cells {
				if i == len(widths) {
					widths = append(widths, 0)
				}
				widths[i] = max(widths[i], len(c))
			}
			lines = append(lines, l)
		}
	}
	var out strings.Builder
	name := 0
	for _, l := range lines {
		if l.cells != nil {
			name = max(name, len(l.name))
		}
	}
	for _, l := range lines {
		if l.cells == nil {
			out.WriteString(l.name + "\n")
			continue
		}
		text := fmt.Sprintf("%-*s", name, l.name)
		for i, c := range l.cells {
			text += "  " + fmt.Sprintf("%-*s", widths[i], c)
		}
		out.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return out.String()
}

type drawnRoot struct {
	name     string
	branches []drawnBranch
}

type drawnBranch struct {
	name    string
	devices []int
}

// drawing returns the devices by NUMA node and switch; devices with an unknown position come last.
func (n *Node) drawing() (roots []drawnRoot) {
	order := make([]int, len(n.devices))
	for i := range order {
		order[i] = i
	}
	key := func(i int) (root, branch string) {
		u := n.devices[i]
		if !u.Place.Known {
			return "?", "?"
		}
		if u.switchIndex < 0 {
			return "numa" + strconv.Itoa(u.Place.NUMA), "?"
		}
		return "numa" + strconv.Itoa(u.Place.NUMA), u.Place.Switch
	}
	slices.SortStableFunc(order, func(a, b int) int {
		u, v := n.devices[a], n.devices[b]
		for _, d := range []int{
			b2i(v.Place.Known) - b2i(u.Place.Known), u.Place.NUMA - v.Place.NUMA,
			b2i(u.switchIndex < 0) - b2i(v.switchIndex < 0), u.switchIndex - v.switchIndex,
		} {
			if d != 0 {
				return d
			}
		}
		return drawOrder(u.Type) - drawOrder(v.Type)
	})
	for _, i := range order {
		root, branch := key(i)
		if len(roots) == 0 || roots[len(roots)-1].name != root {
			roots = append(roots, drawnRoot{name: root})
		}
		r := &roots[len(roots)-1]
		if len(r.branches) == 0 || r.branches[len(r.branches)-1].name != branch {
			r.branches = append(r.branches, drawnBranch{name: branch})
		}
		b := &r.branches[len(r.branches)-1]
		b.devices = append(b.devices, i)
	}
	return roots
}

// drawOrder sorts GPUs before other types.
func drawOrder(t Type) int { return b2i(t != GPU) }

// cell returns the text of a device, which is given by index.
func (s *State) cell(at int, held []Held) string {
	u := &s.node.devices[at]
	text := u.name()
	if !u.Healthy {
		text += "!"
	}
	rest, free := s.used[at], true
	for _, h := range held {
		for _, share := range h.Allocation {
			if share.Type != u.Type || share.Minor != u.Minor {
				continue
			}
			free = false
			text += " " + h.Mark + u.shareText(share.Amount)
			for _, vf := range share.VFs {
				text += "@" + strconv.Itoa(vf.Minor)
			}
			rest.Amount = rest.minus(share.Amount)
			rest.users--
		}
	}
	switch {
	case rest.users > 0:
		return text + " #" + u.shareText(rest.Amount)
	case free:
		return text + " ."
	}
	return text
}

// shareText returns amount a as a percentage of a device; "" for the whole device.
func (u *unit) shareText(a Amount) string {
	switch {
	case u.Type != GPU && a.Core == 100, u.Type == GPU && a.Core == 100 && a.Ratio == 100:
		return ""
	case u.Type != GPU || a.Core == a.Ratio:
		return strconv.FormatInt(a.Core, 10)
	}
	return strconv.FormatInt(a.Core, 10) + "/" + strconv.FormatInt(a.Ratio, 10)
}
