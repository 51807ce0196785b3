package device

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Held is what somebody holds of a node, drawn with a mark.
type Held struct {
	Mark string
	Allocation
}

// Draw draws a node, a line for a switch:
//
//	numa0
//	  p0  gpu0 a  gpu1 a         rdma0 a
//	  p1  gpu2 .  gpu3 a40 #30   rdma1! .
//
// A dot is free, a mark holds all of a device or so many percent of it, # is held by others than
// those who are named, ! is unhealthy. Of a GPU the percent are those of memory; where it gives
// another part of its compute, that stands before: a0/50. A VF follows @.
func (s *State) Draw(held []Held) string {
	n := s.node
	type line struct {
		name  string
		cells []string
	}
	var lines []line
	var widths []int
	for _, root := range n.drawn() {
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

// drawn lists what is drawn, by NUMA node and switch; last what nobody knows the place of.
func (n *Node) drawn() (roots []drawnRoot) {
	order := make([]int, len(n.devices))
	for i := range order {
		order[i] = i
	}
	key := func(i int) (root, branch string) {
		u := n.devices[i]
		if !u.Place.Known {
			return "?", "?"
		}
		if u.at < 0 {
			return "numa" + strconv.Itoa(u.Place.NUMA), "?"
		}
		return "numa" + strconv.Itoa(u.Place.NUMA), u.Place.Switch
	}
	slices.SortStableFunc(order, func(a, b int) int {
		u, v := n.devices[a], n.devices[b]
		for _, d := range []int{b2i(v.Place.Known) - b2i(u.Place.Known), u.Place.NUMA - v.Place.NUMA, b2i(u.at < 0) - b2i(v.at < 0), u.at - v.at} {
			if d != 0 {
				return d
			}
		}
		return drawnType(u.Type) - drawnType(v.Type)
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

// drawnType draws GPUs first.
func drawnType(t Type) int { return b2i(t != GPU) }

// cell draws a device.
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
			text += " " + h.Mark + u.part(share.Amount)
			for _, vf := range share.VFs {
				text += "@" + strconv.Itoa(vf.Minor)
			}
			rest.Amount = rest.minus(share.Amount)
			rest.users--
		}
	}
	switch {
	case rest.users > 0:
		return text + " #" + u.part(rest.Amount)
	case free:
		return text + " ."
	}
	return text
}

// part draws how much of a device it is; nothing if it is all.
func (u *unit) part(a Amount) string {
	switch {
	case u.Type != GPU && a.Core == 100, u.Type == GPU && a.Core == 100 && a.Ratio == 100:
		return ""
	case u.Type != GPU || a.Core == a.Ratio:
		return strconv.FormatInt(a.Core, 10)
	}
	return strconv.FormatInt(a.Core, 10) + "/" + strconv.FormatInt(a.Ratio, 10)
}
