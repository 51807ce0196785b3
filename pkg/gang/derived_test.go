package gang

import (
	"fmt"
	"slices"
)

// CheckDerived counts and looks up slowly what the book keeps up to date event by event,
// and compares the two.
func (b *Book) CheckDerived() error {
	for name, g := range b.gangs {
		if group := b.connected(name); !slices.Equal(group, g.group) || b.groupKey(name) != g.key {
			return fmt.Errorf("gang %s is said to be of group %v, %s, and is of %v", name, g.group, g.key, group)
		}
		if have, want := g.counts, b.recount(g); have != want {
			return fmt.Errorf("gang %s is said to have %+v, and has %+v", name, have, want)
		}
		if err := checkLine(g); err != nil {
			return fmt.Errorf("gang %s: %w", name, err)
		}
		if have, want := b.representative(g.key), b.slowRepresentative(g.key); have != want {
			return fmt.Errorf("group %s: %v is said to be its representative, which is %v", g.key, have, want)
		}
	}
	for key, g := range b.groups {
		if have, want := b.inFlight(key), b.slowInFlight(key, g); have != want && b.groupKey(gangsOf(key)[0]) == key {
			return fmt.Errorf("group %s: %d members are said to be in flight, and %d are", key, have, want)
		}
		if have, want := g.whoseTurn(), b.slowTurn(g); have != want && b.plansOwn(key, g) {
			return fmt.Errorf("group %s: it is said to be the turn of %q, and is that of %q", key, have, want)
		}
	}
	return nil
}

// recount counts the members of a gang one by one.
func (b *Book) recount(g *gang) (c counts) {
	group := b.groups[g.key]
	for _, m := range g.members {
		planned := group != nil && group.has(m.Pod)
		switch {
		case m.Node != "":
			c.bound++
			c.exist++
		case !m.Gated:
			c.exist++
			if m.assumed {
				c.assumed++
			}
			if m.assumed && planned {
				c.arrived++
			}
		}
		if m.held && m.Node == "" {
			c.held++
		}
		if m.held && !m.allowed {
			c.waiting++
		}
		if planned {
			c.planned++
		}
	}
	return c
}

// checkLine compares the line of a gang with its pending members.
func checkLine(g *gang) error {
	n := 0
	for pod, m := range g.members {
		if !pending(m) {
			if m.at != 0 {
				return fmt.Errorf("%s stands in line and is not pending", pod)
			}
			continue
		}
		if n++; m.at < 1 || int(m.at) > len(g.pending.members) || g.pending.members[m.at-1] != m {
			return fmt.Errorf("%s is pending and does not stand in line", pod)
		}
	}
	if n != len(g.pending.members) {
		return fmt.Errorf("%d members stand in line, and %d are pending", len(g.pending.members), n)
	}
	return nil
}

func (b *Book) slowRepresentative(key string) *member {
	if all := b.sorted(key, pending); len(all) > 0 {
		return all[0]
	}
	return nil
}

func (b *Book) slowInFlight(key string, g *group) (n int) {
	for _, m := range b.sorted(key, pending) {
		if m.assumed && (g.waiting || !g.has(m.Pod)) {
			n++
		}
	}
	return n
}

func (b *Book) slowTurn(g *group) string {
	for _, pod := range g.turn {
		if m := b.pods[pod]; m != nil && g.plan[pod] != "" && !m.assumed {
			return pod
		}
	}
	return ""
}

// plansOwn says whether a key is that of a group now, and its plan is for its members.
func (b *Book) plansOwn(key string, g *group) bool {
	if b.groupKey(gangsOf(key)[0]) != key {
		return false
	}
	for pod := range g.plan {
		if m := b.pods[pod]; m == nil || b.groupKey(m.Gang) != key {
			return false
		}
	}
	return true
}
