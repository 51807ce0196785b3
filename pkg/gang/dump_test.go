package gang

import (
	"fmt"
	"maps"
	"slices"
)

// CheckDerived counts and looks up slowly what the book keeps up to date event by event,
// and compares the two.
func (b *Book) CheckDerived() error {
	for name, g := range b.gangs {
		group := b.slowGroup(name)
		if crowded := len(group) > MaxGroupSize; crowded != g.oversized {
			return fmt.Errorf("gang %s is said to be in a crowd: %t, with %v", name, g.oversized, group)
		} else if crowded {
			group = []Ref{name}
		}
		if !slices.Equal(group, g.group) || g.key != group[0] {
			return fmt.Errorf("gang %s is said to be of group %v, %s, and is of %v", name, g.group, g.key, group)
		}
		if have, want := g.groupProblem, b.findGroupProblem(name, g); !have.Equal(want) {
			return fmt.Errorf("gang %s is said to wait for %q, and waits for %q", name, have, want)
		}
		if have, want := g.counts, b.recount(g); have != want {
			return fmt.Errorf("gang %s is said to have %+v, and has %+v", name, have, want)
		}
		if err := checkOwners(g); err != nil {
			return fmt.Errorf("gang %s: %w", name, err)
		}
		if err := checkLine(g); err != nil {
			return fmt.Errorf("gang %s: %w", name, err)
		}
		if have, want := b.representative(g.key), b.slowRepresentative(g.key); have != want {
			return fmt.Errorf("group %s: %v is said to be its representative, which is %v", g.key, have, want)
		}
	}
	for key, g := range b.groups {
		if have, want := b.inFlight(key), b.slowInFlight(key, g); have != want {
			return fmt.Errorf("group %s: %d members are said to be in flight, and %d are", key, have, want)
		}
		if have, want := g.nextInTurn(), b.slowTurn(g); have != want {
			return fmt.Errorf("group %s: it is said to be the turn of %q, and is that of %q", key, have, want)
		}
	}
	return nil
}

// slowGroup finds the gangs that are connected with one by lists that agree.
func (b *Book) slowGroup(of Ref) []Ref {
	in := map[Ref]bool{of: true}
	for grown := true; grown; {
		grown = false
		for x, g := range b.gangs {
			for y, h := range b.gangs {
				if in[x] && !in[y] && slices.Contains(g.groupList(), y) && slices.Contains(h.groupList(), x) {
					in[y], grown = true, true
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(in), b.names.refs)
}

// recount counts the members of a gang one by one.
func (b *Book) recount(g *gang) (c counts) {
	group := b.groups[g.key]
	for _, m := range g.members {
		planned := group != nil && group.assigns(m.Pod)
		switch {
		case m.Done:
			c.done++
			if m.Succeeded {
				c.succeeded++
			}
		case m.Node != "":
			c.bound++
			c.exist++
			if m.evicted {
				c.evicted++
			}
		case m.Gate == "":
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

// checkOwners counts the members by owner.
func checkOwners(g *gang) error {
	want := map[string]ownerCounts{}
	for _, m := range g.members {
		of := want[m.Owner]
		if m.Done {
			of.done++
			if m.Succeeded {
				of.succeeded++
			}
		} else {
			of.unfinished++
		}
		want[m.Owner] = of
	}
	if !maps.Equal(want, g.owners) {
		return fmt.Errorf("owners are %v, and the members say %v", g.owners, want)
	}
	return nil
}

// checkLine compares the line of a gang with its pending members.
func checkLine(g *gang) error {
	n := 0
	for pod, m := range g.members {
		if !pending(m) {
			if m.queued {
				return fmt.Errorf("%s stands in line and is not pending", pod)
			}
			continue
		}
		if n++; !m.queued || !slices.Contains(g.pending.members, m) {
			return fmt.Errorf("%s is pending and does not stand in line", pod)
		}
	}
	if !slices.IsSortedFunc(g.pending.members, g.pending.names.members) {
		return fmt.Errorf("the line is not in order")
	}
	if n != len(g.pending.members) {
		return fmt.Errorf("%d members stand in line, and %d are pending", len(g.pending.members), n)
	}
	return nil
}

func (b *Book) slowRepresentative(key Ref) *member {
	for _, m := range b.sorted(key, pending) {
		if !b.excluded(b.gangs[m.Gang]) {
			return m
		}
	}
	return nil
}

func (b *Book) slowInFlight(key Ref, g *group) (n int) {
	for _, m := range b.sorted(key, pending) {
		if m.assumed && (g.unconfirmed || !g.assigns(m.Pod)) {
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
