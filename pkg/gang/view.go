package gang

import (
	"fmt"
	"maps"
	"slices"
)

// Admit says whether a pod may enter the scheduler, or what it waits for.
func (b *Book) Admit(pod string) (ok bool, why string) {
	m := b.pods[pod]
	if m == nil {
		return false, "the scheduler has not seen the pod yet"
	}
	key := b.groupKey(m.Gang)
	if why := b.waitsFor(key); why != "" {
		return false, why
	}
	g := b.groups[key]
	if g != nil && len(g.plan) > 0 && !g.waiting {
		if _, ok := g.plan[pod]; ok {
			return true, ""
		}
		return false, "waits until the plan of its gang is carried out"
	}
	if rep := b.representative(key); rep != nil && rep.Pod != pod {
		return false, "waits for " + rep.Pod + ", which is tried first for the whole gang"
	}
	return true, ""
}

// Tried says whether a plan was ever looked for in this member's cycle. Those that were
// not tried are woken by the book, whatever happens in the cluster.
func (b *Book) Tried(pod string) bool {
	m := b.pods[pod]
	return m != nil && m.tried
}

// waitsFor says what a group waits for before it can be planned; "" if nothing.
func (b *Book) waitsFor(key string) string {
	names := gangsOf(key)
	for _, name := range names {
		g := b.gangs[name]
		if g == nil || g.spec == nil {
			if len(names) == 1 {
				return fmt.Sprintf("PodGroup %s does not exist", name)
			}
			return fmt.Sprintf("gang %s of the group is missing", name)
		}
		if g.spec.Problem != "" {
			return "rejected: " + g.spec.Problem
		}
	}
	for _, name := range names {
		g := b.gangs[name]
		if exist, _ := b.count(g); !g.satisfied && exist < g.spec.Min {
			if len(names) == 1 {
				return fmt.Sprintf("%d of %d members exist", exist, g.spec.Min)
			}
			return fmt.Sprintf("%d of %d members of gang %s exist", exist, g.spec.Min, name)
		}
	}
	return ""
}

// Group is what a planner needs to know of a group.
type Group struct {
	Key     string
	Gangs   []Gang
	Pending []Member // by rank
	Bound   []Member
	Places  map[string]string // pod -> node; empty without a plan
	Waiting bool              // the places are reserved, but not confirmed
	Held    int               // members at the barrier
	// InFlight members are on their way back to the queue after a plan was given up;
	// planning must wait for them, since the scheduler counts them on a node.
	InFlight int
}

// Gang is one gang of a Group.
type Gang struct {
	Spec
	Need int // how many pending members must be placed for the gang to be whole
}

// Need is how many pending members must be placed for the group to be whole.
func (g *Group) Need() (n int) {
	for _, gang := range g.Gangs {
		n += gang.Need
	}
	return n
}

// Group returns the group of a pod that is a member of a declared gang.
func (b *Book) Group(pod string) (*Group, bool) {
	m := b.pods[pod]
	if m == nil {
		return nil, false
	}
	v := &Group{Key: b.groupKey(m.Gang)}
	for _, name := range gangsOf(v.Key) {
		g := b.gangs[name]
		if g == nil || g.spec == nil {
			return nil, false
		}
		need := g.spec.Min
		if _, bound := b.count(g); g.spec.Policy != OnlyWaiting {
			need = max(0, need-bound)
		}
		if g.satisfied {
			need = 0
		}
		v.Gangs = append(v.Gangs, Gang{Spec: *g.spec, Need: need})
	}
	for _, m := range b.sorted(v.Key, func(m *member) bool { return m.Node != "" || pending(m) }) {
		if m.Node != "" {
			v.Bound = append(v.Bound, m.Member)
			continue
		}
		v.Pending = append(v.Pending, m.Member)
		if m.held {
			v.Held++
		}
	}
	v.InFlight = b.inFlight(v.Key)
	if g := b.groups[v.Key]; g != nil {
		v.Places, v.Waiting = maps.Clone(g.plan), g.waiting
	}
	return v, true
}

// Place returns the node that a pod has a place on, and whether the plan may be
// carried out.
func (b *Book) Place(pod string) (node string, confirmed bool) {
	if m := b.pods[pod]; m != nil {
		if g := b.groups[b.groupKey(m.Gang)]; g != nil {
			return g.plan[pod], !g.waiting
		}
	}
	return "", false
}

// PlacesOn returns the pods that have a place on a node and are not counted there
// by the scheduler yet.
func (b *Book) PlacesOn(node string) []string {
	if len(b.places[node]) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(b.places[node]), b.compareNames)
}

// AnyPlaces says whether any place is held for somebody.
func (b *Book) AnyPlaces() bool { return len(b.places) > 0 }

// SameGroup says whether two pods belong to one group.
func (b *Book) SameGroup(x, y string) bool {
	m, n := b.pods[x], b.pods[y]
	return m != nil && n != nil && (m.Gang == n.Gang || b.groupKey(m.Gang) == b.groupKey(n.Gang))
}

// State is what people are told about a gang.
type State struct {
	Gang    string
	Min     int
	Exist   int // members that exist for the scheduler
	Bound   int
	Planned int
	// Waiting says what the gang waits for before it can be planned; Refused why the
	// last attempt found no plan. At most one of them is set.
	Waiting, Refused string
	Reserved         bool
}

// State returns the state of a gang.
func (b *Book) State(name string) State {
	s := State{Gang: name}
	key := b.groupKey(name)
	if g := b.gangs[name]; g != nil {
		s.Exist, s.Bound = b.count(g)
		if g.spec != nil {
			s.Min = g.spec.Min
		}
	}
	s.Waiting = b.waitsFor(key)
	if g := b.groups[key]; g != nil {
		for pod := range g.plan {
			if m := b.pods[pod]; m != nil && m.Gang == name {
				s.Planned++
			}
		}
		s.Reserved = g.waiting
		if s.Waiting == "" {
			s.Refused = g.why
		}
	}
	return s
}

// Gangs lists every gang, declared or not.
func (b *Book) Gangs() []string { return slices.SortedFunc(maps.Keys(b.gangs), b.compareNames) }
