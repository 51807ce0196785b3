package gang

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-scheduler/muster/pkg/choice"
)

// Admit returns whether a pod may enter the scheduling queue, and if not, why. The representative may enter alone until its group has a
// confirmed plan. Then the planned members may enter.
func (b *Book) Admit(pod string) (ok bool, why string) {
	m := b.pods[pod]
	if m == nil {
		return false, "the scheduler has not seen the pod yet"
	}
	switch { // the scheduler's queue may learn of a change before or after the book
	case m.Node != "":
		return false, "it is bound to " + m.Node
	case m.Gate != "":
		return false, "it cannot be placed yet: " + m.Gate
	}
	key := b.groupKey(m.Gang)
	if why := b.obstacle(key); why.Exists() {
		return false, why.String()
	}
	if member := b.gangs[m.Gang]; b.excluded(member) && !member.inPlan() {
		return false, b.exclusion(m.Gang).String()
	}
	g := b.groups[key]
	if g != nil && len(g.plan) > 0 && !g.unconfirmed {
		if _, ok := g.plan[pod]; ok {
			return g.mayEnter(m)
		}
		if b.hasVacancy(key) && b.triedMember(key) == m {
			return true, ""
		}
		return false, "waits until the plan of its gang is carried out"
	}
	if why := b.tooFewWait(key); why.Exists() {
		return false, why.String()
	}
	if rep := b.representative(key); rep != nil && rep.Pod != pod {
		return false, "waits for " + rep.Pod + ", with which Muster tries the whole gang"
	}
	return true, ""
}

// StartTogether returns the gangs that take part in the next plan of ref's group: all but excluded optional gangs. It returns nil if the
// group cannot start, whatever capacity is free.
func (b *Book) StartTogether(ref Ref) (gangs []Ref) {
	key := b.groupKey(ref)
	if b.obstacle(key).Exists() {
		return nil
	}
	if g := b.groups[key]; (g == nil || len(g.plan) == 0 || g.unconfirmed) && b.tooFewWait(key).Exists() {
		return nil
	}
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; !b.excluded(g) || g.inPlan() {
			gangs = append(gangs, ref)
		}
	}
	return gangs
}

// Assumed returns whether the scheduler counts a member on its node; false for an unknown pod.
func (b *Book) Assumed(pod string) bool {
	m := b.pods[pod]
	return m != nil && m.assumed
}

// Step returns how far a member is on its way to its node; NotAssumed if it is deleted, or has another UID. uid "" matches any.
func (b *Book) Step(pod, uid string) Step {
	switch m := b.memberWithUID(pod, uid); {
	case m == nil:
		return NotAssumed
	case m.requeued:
		return SentBack
	case m.allowed:
		return PastBarrier
	case m.held:
		return AtBarrier
	case m.assumed:
		return AssumedOnNode
	}
	return NotAssumed
}

// Tried returns whether a plan was ever searched in this member's cycle; false for an unknown pod. The book itself wakes untried members.
func (b *Book) Tried(pod string) bool {
	m := b.pods[pod]
	return m != nil && m.tried
}

// obstacle returns what prevents that a group is planned; an Obstacle that does not exist if nothing does.
func (b *Book) obstacle(key Ref) Obstacle {
	refs, continues := b.groupOf(key), b.continues(key)
	for _, ref := range refs {
		g := b.gangs[ref]
		switch {
		case g == nil || g.spec == nil:
			return missing("PodGroup %s does not exist", ref)
		case g.spec.Problem.Exists():
			return g.spec.Problem
		case g.spec.TreeObstacle.Exists() && !continues:
			return g.spec.TreeObstacle
		case g.groupProblem.Exists():
			return g.groupProblem
		}
	}
	hasOptional := false
	for _, ref := range refs {
		switch g := b.gangs[ref]; {
		case g.complete():
		case g.optional():
			hasOptional = true
		default:
			return b.incomplete(ref)
		}
	}
	if hasOptional && !continues {
		if why := b.tooFewGangs(key); why.Exists() {
			return why
		}
	}
	if b.terminating(key) {
		return missing("the gang is being evicted, and some members have not terminated yet")
	}
	return Obstacle{}
}

// incomplete returns an Obstacle that says how many of its needed members a gang has.
func (b *Book) incomplete(ref Ref) Obstacle {
	g, gangName := b.gangs[ref], ""
	if len(b.groupOf(ref)) > 1 {
		gangName = " of gang " + ref.String()
	}
	why := missing("%d of %d members%s", g.counts.exist+g.absentFinished(), g.spec.Min, gangName)
	gates := map[string]int{}
	for _, m := range g.members {
		if m.Gate != "" && m.Node == "" && !m.Done {
			gates[m.Gate]++
		}
	}
	why.Words += Existing(gates)
	return why
}

// Existing ends a sentence such as "1 of 2 members": they exist, or if others exist that cannot be placed, why. gates is the number of the
// others by Member.Gate.
func Existing(gates map[string]int) string {
	all, causes := 0, []string{}
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		all += gates[gate]
		causes = append(causes, fmt.Sprintf("%d: %s", gates[gate], gate))
	}
	switch len(causes) {
	case 0:
		return " exist"
	case 1:
		_, cause, _ := strings.Cut(causes[0], ": ")
		return fmt.Sprintf(" can be placed; %d cannot: %s", all, cause)
	}
	return fmt.Sprintf(" can be placed; %d cannot (%s)", all, strings.Join(causes, "; "))
}

// exclusion returns why an optional gang takes no part in its group's next plan.
func (b *Book) exclusion(ref Ref) Obstacle {
	switch g := b.gangs[ref]; {
	case g == nil || !b.excluded(g):
		return Obstacle{}
	case !g.complete():
		return b.incomplete(ref)
	case g.tooFewWaiting():
		return b.fewWait(ref)
	case g.spec.TreeObstacle.Exists():
		return g.spec.TreeObstacle
	default:
		return missing("too few gangs of %s are whole", b.incompleteLevel(g))
	}
}

func missing(format string, args ...any) Obstacle {
	return Obstacle{By: Missing, Words: fmt.Sprintf(format, args...)}
}

// tooFewWait returns why members of a group without a plan need not be tried: the match policy does not count running members.
func (b *Book) tooFewWait(key Ref) Obstacle {
	for _, ref := range b.groupOf(key) {
		g := b.gangs[ref]
		if g != nil && g.tooFewWaiting() && !g.optional() {
			return b.fewWait(ref)
		}
	}
	return Obstacle{}
}

// fewWait returns the Obstacle for a gang whose waiting members are too few under match policy OnlyWaiting.
func (b *Book) fewWait(ref Ref) Obstacle {
	g := b.gangs[ref]
	return missing("%d of %d members of gang %s wait: match-policy %s does not count running members",
		g.counts.exist-g.counts.bound, g.spec.Min, ref, OnlyWaiting)
}

// Group is the data of a gang group for planners.
type Group struct {
	Key     Ref
	Gangs   []Gang
	Pending []Member // by rank
	Bound   []Member
	Places  map[string]string // pod -> node; empty without a plan
	Turn    []string          // the order in which members must enter; nil if any is good
	Waiting bool              // the nodes are reserved, but not confirmed
	Held    int               // members at the barrier
	// InFlight members return to the queue after a plan was dropped. A search must wait for them, since the
	// scheduler still counts them on a node.
	InFlight int
	Avoid    map[string]string // nodes that did not accept a member of a plan, and why
	// Holding says that a plan with a vacancy is being carried out: Pending have no assignment, Bound includes the
	// assigned members. Only free capacity helps: an eviction would plan them all again.
	Holding bool
	// Starving says that capacity is held for the group although it is not enough. HeldNodes is what is held.
	Starving bool
	// Promise is the promised start of a starving group. MayPromise says that a start may be promised to it.
	Promise    Promise
	MayPromise bool
	// UnschedulableSince is when the first search failed after the latest plan; zero if none failed.
	UnschedulableSince time.Time
	HeldNodes          map[string]string // pod -> node
	// RepairUntil is when the hold for missing members ends; zero if no gang is incomplete.
	RepairUntil time.Time
	// Choice says which gangs a plan may omit, in the order of Gangs; nil if none.
	Choice *choice.Choice
}

// Gang is one gang of a Group.
type Gang struct {
	Spec
	Need int // pending members that must be placed to complete the gang
	// Started counts the members that have a node or finished on one. Finished of them count for members that do not exist.
	Started, Finished int
	// Missing counts the members that an incomplete gang has lost and that were not recreated: see Book.Missing.
	Missing int
	// Incomplete says that the gang was complete, members run, and it has lost members that minMember needs.
	Incomplete bool
}

// Whole returns the declared gangs without their parts, each once.
func (g *Group) Whole() (refs []Ref) {
	for _, gang := range g.Gangs {
		if ref := gang.Ref.Whole(); !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// Need returns how many pending members must be placed to complete the group with as few gangs as possible.
func (g *Group) Need() (n int) {
	for _, gang := range g.smallest().Gangs {
		n += gang.Need
	}
	return n
}

// Reached returns whether the gang has minMember started members, whatever its match policy.
func (g *Gang) Reached() bool { return g.Started >= g.Min }

// Needed returns the pending members that complete the group: the first by rank of each gang below minMember. Only for them may pods be
// evicted. A gang that was started before needs as many as it lost.
func (g *Group) Needed() (needed []Member) {
	g = g.smallest()
	lacking := map[Ref]int{}
	below := slices.ContainsFunc(g.Gangs, func(gang Gang) bool { return gang.Need > 0 && !gang.Reached() })
	for _, gang := range g.Gangs {
		switch {
		case !gang.Reached():
			lacking[gang.Ref] = max(gang.Need, gang.Min-gang.Started)
		case below: // the barrier opens for all gangs of the group together
			lacking[gang.Ref] = gang.Need
		}
	}
	for _, m := range g.Pending {
		if lacking[m.Gang] > 0 && !m.Absent {
			lacking[m.Gang]--
			needed = append(needed, m)
		}
	}
	return needed
}

// Starting returns the needed members, or if there are none, the first surplus members that can start. Some members must be pending.
func (g *Group) Starting() []Member {
	if needed := g.Needed(); len(needed) > 0 {
		return needed
	}
	starters, _ := g.Starters(g.Pending)
	return starters
}

// Starters splits surplus, which must not be empty. starters are the first members that can start alone: of each gang its Need, or if no
// gang needs any, one member. rest are the other members.
func (g *Group) Starters(surplus []Member) (starters, rest []Member) {
	lacking := map[Ref]int{}
	for _, gang := range g.Gangs {
		if !g.Choice.Any() {
			lacking[gang.Ref] = gang.Need
		}
	}
	for _, m := range surplus {
		if lacking[m.Gang] > 0 {
			lacking[m.Gang]--
			starters = append(starters, m)
		} else {
			rest = append(rest, m)
		}
	}
	if len(starters) == 0 {
		return surplus[:1], surplus[1:]
	}
	return starters, rest
}

// On returns a copy of the group in which only the members assigned to the node are pending, bound ones included.
func (g *Group) On(node string) Group {
	restricted := *g
	restricted.Pending = nil
	for _, m := range slices.Concat(g.Pending, g.Bound) {
		if g.Places[m.Pod] == node {
			m.Node = ""
			restricted.Pending = append(restricted.Pending, m)
		}
	}
	return restricted
}

// IsPending returns whether a pod is one of Pending.
func (g *Group) IsPending(pod string) bool {
	return slices.ContainsFunc(g.Pending, func(m Member) bool { return m.Pod == pod })
}

// GroupKey returns the key of the group of a member or of a placeholder; ok is false for other pods.
func (b *Book) GroupKey(pod string) (key Ref, ok bool) {
	if m := b.pods[pod]; m != nil {
		return b.groupKey(m.Gang), true
	}
	key, ok = b.placeholders[pod]
	return key, ok
}

// GroupOfGang returns the gangs that start, and are evicted, together with ref, which is included. The slice is shared.
func (b *Book) GroupOfGang(ref Ref) []Ref { return b.groupOf(ref) }

// Representative returns the representative of a gang's group; "" if there is none or a confirmed plan exists.
func (b *Book) Representative(ref Ref) string {
	key := b.groupKey(ref)
	if g := b.groups[key]; g != nil && len(g.plan) > 0 && !g.unconfirmed {
		return ""
	}
	if rep := b.representative(key); rep != nil {
		return rep.Pod
	}
	return ""
}

// Group returns the group of a pod; ok is false if the pod is no member, or a gang of the group is not declared.
func (b *Book) Group(pod string) (group *Group, ok bool) {
	m := b.pods[pod]
	if m == nil {
		return nil, false
	}
	return b.GroupOf(b.groupKey(m.Gang))
}

// GroupOf returns the group with that key; ok is false if there is none, or a gang of it is not declared. Pending omits members of excluded
// gangs. If a plan has a vacancy (Holding), its members without a node are in Bound.
func (b *Book) GroupOf(key Ref) (group *Group, ok bool) {
	if !b.isKey(key) {
		return nil, false
	}
	v := &Group{Key: key}
	v.Holding = b.hasVacancy(v.Key)
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
		if g.remainsSatisfied() {
			need = 0
		}
		v.Gangs = append(v.Gangs, Gang{
			Spec: *g.spec, Need: need, Started: g.started(), Finished: g.absentFinished(), Missing: g.missing(), Incomplete: g.incomplete(),
		})
	}
	for _, m := range b.sorted(v.Key, func(m *member) bool { return m.runs() || pending(m) }) {
		if m.Node != "" {
			v.Bound = append(v.Bound, m.Member)
			continue
		}
		if v.Holding && m.planned {
			assigned := m.Member
			assigned.Node = b.groups[v.Key].plan[m.Pod]
			v.Bound, v.Held = append(v.Bound, assigned), v.Held+1
			continue
		}
		if g := b.gangs[m.Gang]; b.excluded(g) && !g.inPlan() {
			continue
		}
		v.Pending = append(v.Pending, m.Member)
		if m.held {
			v.Held++
		}
	}
	b.addChoice(v)
	v.InFlight = b.inFlight(v.Key)
	v.RepairUntil = b.repairUntil(v.Key)
	if v.Starving = b.holders[v.Key.Namespace] == v.Key; v.Starving {
		v.MayPromise = b.mayPromise(v.Key)
	}
	if g := b.groups[v.Key]; g != nil {
		v.Places, v.Waiting = maps.Clone(g.plan), g.unconfirmed
		for node, a := range g.avoid {
			if !a.until.IsZero() {
				if v.Avoid == nil {
					v.Avoid = map[string]string{}
				}
				v.Avoid[node] = a.why
			}
		}
		if a := b.futures[v.Key]; a != nil && len(g.plan) > 0 {
			maps.Copy(v.Places, a.nodes)
		}
		v.UnschedulableSince = g.firstRefusal
		v.Promise = g.promise
		v.Turn, v.HeldNodes = slices.Clone(g.turn), maps.Clone(g.heldNodes)
	}
	return v, true
}

// Reserved returns whether a group's nodes are reserved and not confirmed; false for an unknown group.
func (b *Book) Reserved(key Ref) bool {
	g := b.groups[key]
	return g != nil && g.unconfirmed
}

// SameGroup returns whether two pods, or placeholders of future members, belong to one group; false if one is unknown.
func (b *Book) SameGroup(x, y string) bool {
	m, n := b.pods[x], b.pods[y]
	if m != nil && n != nil {
		return m.Gang == n.Gang || b.groupKey(m.Gang) == b.groupKey(n.Gang)
	}
	if len(b.placeholders) == 0 {
		return false
	}
	group, known := b.GroupKey(x)
	other, knownOther := b.GroupKey(y)
	return known && knownOther && group == other
}

// State is what users see of a gang.
type State struct {
	Gang    Ref
	Min     int
	Exist   int // members that exist for the scheduler
	Bound   int
	Done    int // finished on a node
	Planned int
	Started bool // it was complete once, and some member still exists
	// Refusal says what the gang waits for before it can be planned, or why the last search failed.
	Refusal  Obstacle
	Reserved bool
	Repair   Repair  // of an incomplete gang
	Promise  Promise // of its group
}

// Numbers returns the state of a gang without its Refusal, whose text is costly to make.
func (b *Book) Numbers(ref Ref) State {
	s := State{Gang: ref}
	group := b.groups[b.groupKey(ref)]
	if group != nil {
		s.Reserved, s.Promise = group.unconfirmed, group.promise
	}
	if g := b.gangs[ref]; g != nil {
		s.Exist = g.counts.exist
		s.Bound = g.counts.bound
		s.Done = g.finished()
		s.Started = g.satisfied
		if group != nil && len(group.plan) > 0 {
			s.Planned = g.counts.planned
		}
		if g.spec != nil {
			s.Min = g.spec.Min
		}
		s.Repair = b.repairOf(ref)
	}
	return s
}

// State returns the state of a gang; for an unknown gang only Gang and Refusal are set.
func (b *Book) State(ref Ref) State {
	s, key := b.Numbers(ref), b.groupKey(ref)
	group := b.groups[key]
	planned := group != nil && len(group.plan) > 0
	if s.Refusal = b.obstacle(key); !s.Refusal.Exists() && !planned {
		s.Refusal = b.tooFewWait(key)
	}
	if !s.Refusal.Exists() && b.gangs[ref] != nil && !b.gangs[ref].inPlan() {
		s.Refusal = b.exclusion(ref)
	}
	if group != nil && !s.Refusal.Exists() {
		s.Refusal = group.refusal
	}
	return s
}

// Gangs returns every gang, declared or not, sorted.
func (b *Book) Gangs() []Ref { return slices.SortedFunc(maps.Keys(b.gangs), b.names.refs) }
