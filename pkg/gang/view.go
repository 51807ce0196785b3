package gang

import (
	"fmt"
	"maps"
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
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
		return false, "it has scheduling gates or another scheduler, or waits for claims to be made, as far as is known by now"
	}
	key := b.groupKey(m.Gang)
	if why := b.waitsFor(key); why.Is() {
		return false, why.String()
	}
	if of := b.gangs[m.Gang]; b.out(of) && !of.inPlan() {
		return false, b.notNow(m.Gang).String()
	}
	g := b.groups[key]
	if g != nil && len(g.plan) > 0 && !g.waiting {
		if _, ok := g.plan[pod]; ok {
			return g.lets(m)
		}
		if b.lacks(key) && b.speaker(key) == m {
			return true, ""
		}
		return false, "waits until the plan of its gang is carried out"
	}
	if why := b.tooFewWait(key); why.Is() {
		return false, why.String()
	}
	if rep := b.representative(key); rep != nil && rep.Pod != pod {
		return false, "waits for " + rep.Pod + ", which is tried first for the whole gang"
	}
	return true, ""
}

// Waits says whether those who wait of a gang cannot start whatever is free: its group is not whole, or they are too few.
func (b *Book) Waits(of Ref) bool {
	key := b.groupKey(of)
	if b.waitsFor(key).Is() {
		return true
	}
	g := b.groups[key]
	return (g == nil || len(g.plan) == 0 || g.waiting) && b.tooFewWait(key).Is()
}

// Assumed says whether the scheduler counts a member on its node.
func (b *Book) Assumed(pod string) bool {
	m := b.pods[pod]
	return m != nil && m.assumed
}

// Step says how far a member has come on its way to its node; Away if it is gone.
func (b *Book) Step(pod, uid string) Step {
	switch m := b.known(pod, uid); {
	case m == nil:
		return Away
	case m.back:
		return SentBack
	case m.allowed:
		return PastBarrier
	case m.held:
		return AtBarrier
	case m.assumed:
		return OnItsWay
	}
	return Away
}

// Tried says whether a plan was ever looked for in this member's cycle. Those that were
// not tried are woken by the book, whatever happens in the cluster.
func (b *Book) Tried(pod string) bool {
	m := b.pods[pod]
	return m != nil && m.tried
}

// waitsFor says what a group waits for before it can be planned.
func (b *Book) waitsFor(key Ref) Refusal {
	refs, goesOn := b.groupOf(key), b.goesOn(key)
	for _, ref := range refs {
		g := b.gangs[ref]
		switch {
		case g == nil || g.spec == nil:
			return missing("PodGroup %s does not exist", ref)
		case g.spec.Problem.Is():
			return g.spec.Problem
		case g.spec.Lacks.Is() && !goesOn:
			return g.spec.Lacks
		case g.stranger.Is():
			return g.stranger
		}
	}
	some := false
	for _, ref := range refs {
		switch g := b.gangs[ref]; {
		case g.complete():
		case g.optional():
			some = true
		default:
			return b.incomplete(ref)
		}
	}
	if some && !goesOn {
		if why := b.tooFewGangs(key); why.Is() {
			return why
		}
	}
	if b.leaves(key) {
		return missing("the gang is being evicted, and members of it have yet to leave")
	}
	return Refusal{}
}

// incomplete says how many members a gang has of those that it needs.
func (b *Book) incomplete(ref Ref) Refusal {
	g, of := b.gangs[ref], ""
	if len(b.groupOf(ref)) > 1 {
		of = " of gang " + ref.String()
	}
	why := missing("%d of %d members%s exist", g.counts.exist+g.standIns(), g.spec.Min, of)
	why.Words += Uncounted(len(g.members) - g.counts.exist - g.counts.done)
	return why
}

// Uncounted says that there are so many members more, which may not be placed yet; "" if there are none.
func Uncounted(members int) string {
	if members <= 0 {
		return ""
	}
	return fmt.Sprintf(", and %d that cannot be placed yet: they have scheduling gates or another schedulerName, or their ResourceClaims do not exist", members)
}

// notNow says why a gang takes no part in what its group does, which can do without it.
func (b *Book) notNow(ref Ref) Refusal {
	switch g := b.gangs[ref]; {
	case g == nil || !b.out(g):
		return Refusal{}
	case !g.complete():
		return b.incomplete(ref)
	case g.under():
		return b.fewWait(ref)
	case g.spec.Lacks.Is():
		return g.spec.Lacks
	default:
		return missing("too few gangs of %s are whole", b.lacking(g))
	}
}

func missing(format string, args ...any) Refusal {
	return Refusal{By: Missing, Words: fmt.Sprintf(format, args...)}
}

// tooFewWait says why members of a group without a plan need not be tried: those who run
// do not count for the match policy, and without them there are too few.
func (b *Book) tooFewWait(key Ref) Refusal {
	for _, ref := range b.groupOf(key) {
		g := b.gangs[ref]
		if g != nil && g.under() && !g.optional() {
			return b.fewWait(ref)
		}
	}
	return Refusal{}
}

func (b *Book) fewWait(ref Ref) Refusal {
	g := b.gangs[ref]
	return missing("%d of %d members of gang %s wait: match-policy %s does not count running members", g.counts.exist-g.counts.bound, g.spec.Min, ref, OnlyWaiting)
}

// Group is what a planner needs to know of a group.
type Group struct {
	Key     Ref
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
	// Holding says that a plan is being carried out in which Pending have no place. Bound
	// are those, too, that hold a place, and only free places can help: who gives theirs back
	// would be planned anew with the others.
	Holding bool
	// Starving says that places are to be saved for the group although there are not
	// enough; Saved are those that are now.
	Starving bool
	Saved    map[string]string // pod -> node
	// Choice says which gangs a plan may leave out, in the order of Gangs; nil if none. Need is
	// what each needs that is not left out.
	Choice *choice.Choice
}

// Gang is one gang of a Group.
type Gang struct {
	Spec
	Need int // how many pending members must be placed for the gang to be whole
	// Started is how many members have a node, or have finished on one. Finished of them stand for members that do not exist.
	Started, Finished int
}

// Whole lists the gangs that were declared, each once, whatever parts of them there are.
func (g *Group) Whole() (refs []Ref) {
	for _, gang := range g.Gangs {
		if ref := gang.Ref.Whole(); !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// Need is how many pending members must be placed for the group to be whole, with as few gangs
// as it can do with.
func (g *Group) Need() (n int) {
	for _, gang := range g.least().Gangs {
		n += gang.Need
	}
	return n
}

// Reached says whether the gang has its minMember, whatever its match policy asks of those who
// wait.
func (g *Gang) Reached() bool { return g.Started >= g.Min }

// Needed are the pending members without whom the group is not whole: of each gang that has not
// reached its minMember the first by rank, and of one that has started before as many as it has
// lost of them. Only for them may others be evicted.
func (g *Group) Needed() []Member {
	needed, _ := g.least().split()
	return needed
}

// Surplus are the other pending members. They take free places only.
func (g *Group) Surplus() []Member {
	_, surplus := g.least().split()
	return surplus
}

func (g *Group) split() (needed, surplus []Member) {
	left := map[Ref]int{}
	for _, gang := range g.Gangs {
		if !gang.Reached() {
			left[gang.Ref] = max(gang.Need, gang.Min-gang.Started)
		}
	}
	for _, m := range g.Pending {
		if left[m.Gang] > 0 {
			left[m.Gang]--
			needed = append(needed, m)
		} else {
			surplus = append(surplus, m)
		}
	}
	return needed, surplus
}

// On is the group as if nobody waited but those who have a place on a node.
func (g *Group) On(node string) Group {
	some := *g
	some.Pending = nil
	for _, m := range slices.Concat(g.Pending, g.Bound) {
		if g.Places[m.Pod] == node {
			m.Node = ""
			some.Pending = append(some.Pending, m)
		}
	}
	return some
}

// IsPending says whether a pod is one of those that need a place.
func (g *Group) IsPending(pod string) bool {
	return slices.ContainsFunc(g.Pending, func(m Member) bool { return m.Pod == pod })
}

// GroupKey names the group of a pod.
func (b *Book) GroupKey(pod string) (key Ref, ok bool) {
	m := b.pods[pod]
	if m == nil {
		return Ref{}, false
	}
	return b.groupKey(m.Gang), true
}

// Together lists the gangs that start, and leave, together with one, itself among them.
// The slice is shared.
func (b *Book) Together(ref Ref) []Ref { return b.groupOf(ref) }

// Speaker is the member that enters the scheduler for a gang's group; "" if nobody does, or if there is a plan,
// whose members each enter for themselves.
func (b *Book) Speaker(ref Ref) string {
	key := b.groupKey(ref)
	if g := b.groups[key]; g != nil && len(g.plan) > 0 && !g.waiting {
		return ""
	}
	if rep := b.representative(key); rep != nil {
		return rep.Pod
	}
	return ""
}

// Group returns the group of a pod that is a member of a declared gang.
func (b *Book) Group(pod string) (*Group, bool) {
	m := b.pods[pod]
	if m == nil {
		return nil, false
	}
	return b.GroupOf(b.groupKey(m.Gang))
}

// GroupOf returns the group of that name, if all its gangs are declared.
func (b *Book) GroupOf(key Ref) (*Group, bool) {
	if !b.isKey(key) {
		return nil, false
	}
	v := &Group{Key: key}
	v.Holding = b.lacks(v.Key)
	for _, ref := range b.groupOf(v.Key) {
		g := b.gangs[ref]
		if g == nil || g.spec == nil {
			return nil, false
		}
		need := g.spec.Min
		if g.spec.Policy != OnlyWaiting {
			need = max(0, need-g.started())
		} else if g.allStarted() {
			need = 0
		}
		if v.Holding {
			need = max(0, need-g.counts.arrived)
		}
		if g.stays() {
			need = 0
		}
		v.Gangs = append(v.Gangs, Gang{Spec: *g.spec, Need: need, Started: g.started(), Finished: g.standIns()})
	}
	for _, m := range b.sorted(v.Key, func(m *member) bool { return m.runs() || pending(m) }) {
		if m.Node != "" {
			v.Bound = append(v.Bound, m.Member)
			continue
		}
		if v.Holding && m.planned {
			at := m.Member
			at.Node = b.groups[v.Key].plan[m.Pod]
			v.Bound, v.Held = append(v.Bound, at), v.Held+1
			continue
		}
		if g := b.gangs[m.Gang]; b.out(g) && !g.inPlan() {
			continue
		}
		v.Pending = append(v.Pending, m.Member)
		if m.held {
			v.Held++
		}
	}
	b.choice(v)
	v.InFlight = b.inFlight(v.Key)
	v.Starving = b.savers[v.Key.Namespace] == v.Key
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
		if a := b.ahead[v.Key]; a != nil && len(g.plan) > 0 {
			maps.Copy(v.Places, a.places)
		}
		v.Turn, v.Saved = slices.Clone(g.turn), maps.Clone(g.saved)
	}
	return v, true
}

// Reserved says whether a group's places are reserved, and not confirmed.
func (b *Book) Reserved(key Ref) bool {
	g := b.groups[key]
	return g != nil && g.waiting
}

// SameGroup says whether two pods belong to one group.
func (b *Book) SameGroup(x, y string) bool {
	m, n := b.pods[x], b.pods[y]
	if m != nil && n != nil {
		return m.Gang == n.Gang || b.groupKey(m.Gang) == b.groupKey(n.Gang)
	}
	if len(b.standIns) == 0 {
		return false
	}
	of, known := b.groupKeyOf(x)
	other, too := b.groupKeyOf(y)
	return known && too && of == other
}

// State is what people are told about a gang.
type State struct {
	Gang    Ref
	Min     int
	Exist   int // members that exist for the scheduler
	Bound   int
	Done    int // have finished on a node
	Planned int
	Started bool // it was whole once, and some member is left
	// Refusal says what the gang waits for before it can be planned, or why the last
	// attempt found no plan.
	Refusal  Refusal
	Reserved bool
}

// Numbers returns the state of a gang without the Refusal, for which words would have to be made.
func (b *Book) Numbers(ref Ref) State {
	s := State{Gang: ref}
	group := b.groups[b.groupKey(ref)]
	if group != nil {
		s.Reserved = group.waiting
	}
	if g := b.gangs[ref]; g != nil {
		s.Exist, s.Bound, s.Done, s.Started = g.counts.exist, g.counts.bound, g.finished(), g.satisfied
		if group != nil && len(group.plan) > 0 {
			s.Planned = g.counts.planned
		}
		if g.spec != nil {
			s.Min = g.spec.Min
		}
	}
	return s
}

// State returns the state of a gang.
func (b *Book) State(ref Ref) State {
	s, key := b.Numbers(ref), b.groupKey(ref)
	group := b.groups[key]
	planned := group != nil && len(group.plan) > 0
	if s.Refusal = b.waitsFor(key); !s.Refusal.Is() && !planned {
		s.Refusal = b.tooFewWait(key)
	}
	if !s.Refusal.Is() && b.gangs[ref] != nil && !b.gangs[ref].inPlan() {
		s.Refusal = b.notNow(ref)
	}
	if group != nil && !s.Refusal.Is() {
		s.Refusal = group.refusal
	}
	return s
}

// Gangs lists every gang, declared or not.
func (b *Book) Gangs() []Ref { return slices.SortedFunc(maps.Keys(b.gangs), b.names.refs) }
