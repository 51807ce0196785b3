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
	switch { // the scheduler's queue may hear of a change before or after the book does
	case m.Node != "":
		return false, "it is bound to " + m.Node
	case m.Gated:
		return false, "it has scheduling gates or another scheduler, as far as is known by now"
	}
	key := b.groupKey(m.Gang)
	if why := b.waitsFor(key); why != "" {
		return false, why
	}
	g := b.groups[key]
	if g != nil && len(g.plan) > 0 && !g.waiting {
		if _, ok := g.plan[pod]; ok {
			return g.lets(m)
		}
		return false, "waits until the plan of its gang is carried out"
	}
	if why := b.tooFewWait(key); why != "" {
		return false, why
	}
	if rep := b.representative(key); rep != nil && rep.Pod != pod {
		return false, "waits for " + rep.Pod + ", which is tried first for the whole gang"
	}
	return true, ""
}

// Assumed says whether the scheduler counts a member on its node.
func (b *Book) Assumed(pod string) bool {
	m := b.pods[pod]
	return m != nil && m.assumed
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
		exist := g.counts.exist
		if g.stays() || exist >= g.spec.Min {
			continue
		}
		of := ""
		if len(names) > 1 {
			of = " of gang " + name
		}
		why := fmt.Sprintf("%d of %d members%s exist", exist, g.spec.Min, of)
		if gated := len(g.members) - exist; gated > 0 {
			why += fmt.Sprintf(", and %d that do not count: they have scheduling gates or another scheduler", gated)
		}
		return why
	}
	return ""
}

// tooFewWait says why members of a group without a plan need not be tried: those who run
// do not count for the match policy, and without them there are too few.
func (b *Book) tooFewWait(key string) string {
	for _, name := range gangsOf(key) {
		g := b.gangs[name]
		if g == nil || g.spec == nil || g.spec.Policy != OnlyWaiting {
			continue
		}
		if waiting := g.counts.exist - g.counts.bound; 0 < waiting && waiting < g.spec.Min {
			return fmt.Sprintf("%d of %d members of gang %s wait: match-policy %s does not count those who run", waiting, g.spec.Min, name, OnlyWaiting)
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
	Turn    []string          // the order in which members must take their places; nil if there is none
	Waiting bool              // the places are reserved, but not confirmed
	Held    int               // members at the barrier
	// InFlight members are on their way back to the queue after a plan was given up;
	// planning must wait for them, since the scheduler counts them on a node.
	InFlight int
	Avoid    map[string]string // nodes that refused a member of a plan, and why
	// Starving says that places are to be kept for the group although there are not
	// enough; Claim are those that are kept now.
	Starving bool
	Claim    map[string]string // pod -> node
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

// IsPending says whether a pod is one of those that need a place.
func (g *Group) IsPending(pod string) bool {
	return slices.ContainsFunc(g.Pending, func(m Member) bool { return m.Pod == pod })
}

// GroupKey names the group of a pod.
func (b *Book) GroupKey(pod string) (key string, ok bool) {
	m := b.pods[pod]
	if m == nil {
		return "", false
	}
	return b.groupKey(m.Gang), true
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
		if g.spec.Policy != OnlyWaiting {
			need = max(0, need-g.counts.bound)
		}
		if g.stays() {
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
	v.Starving = b.claimant == v.Key
	if g := b.groups[v.Key]; g != nil {
		v.Places, v.Waiting = maps.Clone(g.plan), g.waiting
		for node, a := range g.avoid {
			if !a.until.IsZero() {
				if v.Avoid == nil {
					v.Avoid = map[string]string{}
				}
				v.Avoid[node] = a.why
			}
		}
		v.Turn, v.Claim = slices.Clone(g.turn), maps.Clone(g.claim)
	}
	return v, true
}

// Reserved says whether a group's places are reserved, and not confirmed.
func (b *Book) Reserved(key string) bool {
	g := b.groups[key]
	return g != nil && g.waiting
}

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
	group := b.groups[key]
	planned := group != nil && len(group.plan) > 0
	if g := b.gangs[name]; g != nil {
		s.Exist, s.Bound = g.counts.exist, g.counts.bound
		if planned {
			s.Planned = g.counts.planned
		}
		if g.spec != nil {
			s.Min = g.spec.Min
		}
	}
	if s.Waiting = b.waitsFor(key); s.Waiting == "" && !planned {
		s.Waiting = b.tooFewWait(key)
	}
	if group != nil {
		s.Reserved = group.waiting
		if s.Waiting == "" {
			s.Refused = group.why
		}
	}
	return s
}

// Gangs lists every gang, declared or not.
func (b *Book) Gangs() []string { return slices.SortedFunc(maps.Keys(b.gangs), b.names) }
