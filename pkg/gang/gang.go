// Package gang keeps the book of gangs: which members exist, which may enter the
// scheduler, which hold a planned place, and who may bind.
//
// A Book is a state machine in the manner of raft: events and the time go in,
// effects come out, and the caller carries them out. It takes no lock, reads no
// clock and knows neither nodes nor topology: a place is a string to it.
//
// A group (the gangs of one GangGroup; mostly one gang) goes round like this:
//
//	waiting ──all members exist──► ready ──Planned──► planned ──all held──► bound
//	   ▲                            │  ▲                 │  │
//	   └──────── member left ───────┘  └──── Dropped ────┘  └─ Planned with Waiting:
//	                                                           the places are reserved
//	                                                           until victims have left
//
// While a group has no plan only its representative, the pending member of lowest
// rank, may enter the scheduler; with a plan, exactly the members that have a place.
package gang

import (
	"cmp"
	"time"

	"github.com/muster-scheduler/muster/pkg/choice"
)

// MatchPolicy says when a gang counts as whole at the barrier.
type MatchPolicy string

// The match policies, as users write them.
const (
	OnlyWaiting       MatchPolicy = "only-waiting"
	WaitingAndRunning MatchPolicy = "waiting-and-running"
	OnceSatisfied     MatchPolicy = "once-satisfied"
)

// Spec is what users declare of a gang.
type Spec struct {
	Ref   Ref
	UID   string // of the object that declares it; "" if its members do
	Group []Ref  // the gangs that it lists as those that start together with it
	Min   int
	// Completed is how many members have succeeded that Min leaves out, since no others are made for them.
	Completed int
	// Counted says that Min is how many run, since nobody says how many the gang needs: that so many do
	// does not say that it is whole.
	Counted   bool
	NonStrict bool // members that fit keep their places when others fail
	// Multiples says that its rules are about how many members are where, or of which part of it:
	// a plan that loses a member is given up, since the rest may break them.
	Multiples bool
	// Above are the levels above the gang in a tree of gangs of which not all are needed; nil if
	// the group needs this one.
	Above []choice.Level
	// Lacks says what its tree waits for before any of it starts. Who has started goes on.
	Lacks   Refusal
	Policy  MatchPolicy
	Wait    time.Duration // how long members may hold places for the others
	Created time.Time
	Problem Refusal // why the gang cannot be scheduled at all
}

// Member is a pod of a gang.
type Member struct {
	Gang Ref
	Pod  string // namespace/name
	UID  string
	// Row is who numbers the member, if somebody does besides its gang: the members of one
	// row come together. Without a rank there is none.
	Row  string
	Rank int    // in its row; NoRank if it has none
	Node string // where it is bound; "" while it waits
	// Gated members exist for the API but not for the scheduler (scheduling gates, claims that are not made yet).
	Gated    bool
	Priority int32
	// Done says that it has finished on its node, well or not: it was there. Succeeded says that it ended well.
	Done, Succeeded bool
	Owner           string // makes members anew; "" if nothing does
	// Created and Ended are when it was created and has finished, in Unix seconds; 0 if that is not known.
	Created, Ended int64
}

// runs says that the member is bound, and has not finished.
func (m *Member) runs() bool { return m.Node != "" && !m.Done }

// NoRank sorts after every rank.
const NoRank = int(^uint(0) >> 1)

// CompareRanks orders members: those with a rank before those without, row by row, those
// without a row first.
func (m *Member) CompareRanks(o *Member, names func(a, b string) int) int {
	if m.Row == o.Row || m.Rank == NoRank || o.Rank == NoRank {
		return cmp.Compare(m.Rank, o.Rank)
	}
	return names(m.Row, o.Row)
}

// Place gives a member a node.
type Place struct{ Pod, Node string }

// Event is something that happened. It changes the book and returns what must be done.
type Event interface {
	apply(b *Book, now time.Time) []Effect
}

type (
	// Declared: the gang exists with this spec, or its spec changed.
	Declared struct{ Spec Spec }
	// Removed: nothing declares the gang any more.
	Removed struct{ Gang Ref }
	// Seen: the pod exists in this state.
	Seen struct{ Member Member }
	// Bound: the scheduler has bound the pod. It does not say that the pod exists.
	Bound struct{ Pod, UID, Node string }
	// Left: the pod is gone, or will never have a node.
	Left struct{ Pod, UID string }
	// Evicted: these members are asked to leave, and the rest of their groups with them. Until
	// they have left, or are spared, nobody else of those groups gets a place.
	Evicted struct{ Pods []Victim }
	// Spared: these members need not leave after all.
	Spared struct{ Pods []Victim }
	// Reached: something that outlives a process says that the gang was whole once.
	Reached struct{ Gang Ref }
	// Planned: the group got a plan. With Reserved set, victims have yet to leave: the
	// places are kept until then (zero: for ever), and the plan is carried out once
	// Confirmed. With InOrder set, members enter the scheduler in the order of Places,
	// each when the scheduler counts the one before it.
	// Restored says that a process before this one made the plan. Ahead are the places of
	// members that are still to be made; their names are nobody's.
	Planned struct {
		Group    Ref
		Places   []Place
		Ahead    []Place
		Reserved bool
		InOrder  bool
		Restored bool
		Until    time.Time
	}
	// KeptAhead: a process before this one has kept places for members of the group that are still to be
	// made, as Planned.Ahead. They are kept again, until then.
	KeptAhead struct {
		Group  Ref
		Places []Place
		Until  time.Time
	}
	// Confirmed: the reserved places are free now. Members enter in turn if there is one.
	Confirmed struct {
		Group Ref
		Turn  []string
	}
	// Assumed: the scheduler has given the member its node and counts it there. The UID says
	// which pod of that name it is, here as in what follows; "" is the one that is known.
	Assumed struct{ Pod, UID string }
	// Held: the member arrived at the barrier (Permit).
	Held struct{ Pod, UID string }
	// Released: the member lost its node before it was bound (Unreserve). By is API if the
	// request to bind it was not answered.
	Released struct {
		Pod, UID, Why string
		By            Refuser
	}
	// Waits: the group's reservation was looked at, and its victims have yet to leave.
	Waits struct{ Group Ref }
	// Tried: a plan is looked for in this member's cycle.
	Tried struct{ Pod string }
	// Refused: there is no plan for the group.
	Refused struct {
		Group   Ref
		Refusal Refusal
	}
	// Saved: these places are free, and are saved for the starving group whose turn it is
	// until there are enough. With For set they are kept for so long for a group whose turn it is not: it waits for
	// others to go, and is tried again until then.
	Saved struct {
		Group  Ref
		Places []Place
		For    time.Duration
	}
	// Dropped: the group's plan cannot be carried out, since Node refused a member. With
	// Learned set, what is known now makes the next plan another one: no node is avoided, and
	// the group need not wait.
	Dropped struct {
		Group     Ref
		Node, Why string
		Learned   bool
	}
	// Kept: a victim of the group's reservation stays on Node, since nobody may evict it. Without a
	// node others than these are to be looked for.
	Kept struct {
		Group     Ref
		Node, Why string
	}
	// NodeGone: the node does not exist any more.
	NodeGone struct{ Node string }
	// NodeClosed: the node takes nobody any more who does not tolerate that.
	NodeClosed struct{ Node string }
	// Tick: time passed.
	Tick struct{}
)

func (ev Declared) apply(b *Book, _ time.Time) []Effect    { return b.declare(ev.Spec) }
func (ev Removed) apply(b *Book, _ time.Time) []Effect     { return b.remove(ev.Gang) }
func (ev Seen) apply(b *Book, _ time.Time) []Effect        { return b.seen(ev.Member) }
func (ev Bound) apply(b *Book, _ time.Time) []Effect       { return b.confirm(ev) }
func (ev Left) apply(b *Book, _ time.Time) []Effect        { return b.left(ev) }
func (ev Evicted) apply(b *Book, _ time.Time) []Effect     { return b.evicted(ev.Pods) }
func (ev Spared) apply(b *Book, _ time.Time) []Effect      { return b.spared(ev.Pods) }
func (ev Reached) apply(b *Book, _ time.Time) []Effect     { return b.reached(ev.Gang) }
func (ev Planned) apply(b *Book, now time.Time) []Effect   { return b.planned(ev, now) }
func (ev KeptAhead) apply(b *Book, _ time.Time) []Effect   { return b.keptAhead(ev) }
func (ev Confirmed) apply(b *Book, now time.Time) []Effect { return b.confirmed(ev, now) }
func (ev Assumed) apply(b *Book, _ time.Time) []Effect     { return b.assumed(ev) }
func (ev Held) apply(b *Book, now time.Time) []Effect      { return b.held(ev, now) }
func (ev Released) apply(b *Book, now time.Time) []Effect  { return b.released(ev, now) }
func (ev Waits) apply(b *Book, _ time.Time) []Effect       { return b.waits(ev.Group) }
func (ev Tried) apply(b *Book, _ time.Time) []Effect       { return b.tried(ev.Pod) }
func (ev Refused) apply(b *Book, now time.Time) []Effect   { return b.refused(ev, now) }
func (ev Saved) apply(b *Book, now time.Time) []Effect     { return b.saved(ev, now) }
func (ev Dropped) apply(b *Book, now time.Time) []Effect   { return b.dropped(ev, now) }
func (ev Kept) apply(b *Book, now time.Time) []Effect      { return b.kept(ev, now) }
func (ev NodeGone) apply(b *Book, now time.Time) []Effect  { return b.nodeGone(ev.Node, now) }
func (ev NodeClosed) apply(b *Book, _ time.Time) []Effect  { return b.nodeClosed(ev.Node) }
func (ev Tick) apply(b *Book, now time.Time) []Effect      { return b.tick(now) }

// Verb is what an Effect asks for.
type Verb string

const (
	Wake   Verb = "wake"   // let the pod try to enter the scheduler
	Allow  Verb = "allow"  // let the pod that is held bind
	Reject Verb = "reject" // send the pod that is held back to the queue
	Clear  Verb = "clear"  // the pod's nominated node is void
	Report Verb = "report" // the state of Gang changed for those who watch it
	Expire Verb = "expire" // Gang waited too long; tell people
	// Overdue says that the victims of the reservation of Gang, a group's key, did not
	// leave in time.
	Overdue Verb = "overdue"
	GoOn    Verb = "go on" // pods that were kept back for partially bound groups may enter
	// Again is Wake for what a node has become, which the scheduler may see a moment later than the book.
	Again Verb = "again"
	// Freed says that places are free for others which were held, without any pod leaving.
	Freed Verb = "freed"
	// Moved says that a member has got a place or a node, or has lost it: see Book.Follow.
	Moved Verb = "moved"
)

// Effect is something the caller must now do.
type Effect struct {
	Verb Verb
	Pod  string // for Wake, Allow, Reject, Clear and Moved
	UID  string // of the pod, for Allow and Reject
	Gang Ref    // for Report, Expire and Overdue
	Why  string
}

// Book holds every gang. The zero value is not usable; call New. Only events change it:
// whatever is derived from them is kept up to date at once, so that any number of
// questions (Admit, Group, Place and so on) may be asked at the same time.
type Book struct {
	// Starve is how long a group is refused before places are saved for it; 0 means for
	// ever.
	Starve time.Duration
	// Follow has members told of that get a place, or lose it.
	Follow bool

	moved       []string           // of whom it is still to be told
	savers      map[string]Ref     // by namespace, the starving group that places are saved for
	ahead       map[Ref]*ahead     // by group, what is kept for members that are still to come
	standIns    map[string]Ref     // by the names of those places, the group
	resumed     map[Ref]resumption // groups that were partially bound at the start, and were not tried or placed yet
	resumeUntil time.Time          // when others need not wait for them any longer
	names       ordering
	gangs       map[Ref]*gang
	pods        map[string]*member
	groups      map[Ref]*group       // by group key; what is remembered between events
	listed      map[Ref]map[Ref]bool // gang -> gangs whose Group lists it
	given       int                  // so many places were ever given
	places      map[string][]string  // node -> pods, sorted, with a place there that is not assumed, or that is saved
}

type gang struct {
	spec      *Spec // nil while only members are known
	members   map[string]*member
	satisfied bool             // was whole once, and some member is left
	last      string           // the UID of the last member of a gang that was whole, if none is left
	group     []Ref            // the gangs that start together, itself among them, sorted; shared
	key       Ref              // names the group: its first gang
	crowded   bool             // its group would be too large: it is alone
	stranger  Refusal          // why the group that it lists cannot form
	counts    counts           // of members
	pending   line             // of members
	owners    map[string]owned // of members
	ended     int64            // when the last of its members has finished
}

type member struct {
	Member
	assumed bool // the scheduler counts it on its node
	held    bool // it waits at the barrier
	allowed bool // it has passed the barrier and is being bound
	back    bool // it was sent back from the barrier with others, by no fault of its node
	tried   bool // it was tried for its group: changes of the cluster are its business
	planned bool // it has a place in its group's plan
	evicted bool // it was asked to leave with its group, and has not left
	// nominated says that it was nominated for the node of a reservation, and that this
	// stands until it is bound or the nomination is taken back.
	nominated bool
	last      string   // the node of the last place that it had; "" if it never had one
	older     []string // those of places before, the latest last
	given     int      // the number of its place among all that were ever given
	failed    int8     // how often in a row it was not bound although it had passed the barrier

	inLine bool  // it is in the line of the pending
	turn   int32 // its place in the turn of its group's plan, if it is there
}

// Step is how far a member of a plan has come on its way to its node.
type Step uint8

const (
	Away        Step = iota // the scheduler does not count it on its node
	OnItsWay                // it does, and the member has not come to the barrier
	AtBarrier               // the member waits there
	PastBarrier             // it is being bound
	SentBack                // it was sent back from the barrier
)

// free ends what binds a member to a node that it does not have yet, or has for good now.
func (m *member) free() { m.held, m.assumed, m.allowed, m.back = false, false, false, false }

// group is what is remembered of a GangGroup between events.
type group struct {
	plan     map[string]string // pod -> node; a member leaves it when it is bound
	reserved bool              // victims were evicted for the plan: it survives failures
	waiting  bool              // it must be checked before it is carried out
	opened   bool              // the barrier let members of the plan go: the others may follow
	deadline time.Time         // when holding ends; zero while nobody holds a place
	retry    time.Time         // when to wake the representative after a failure
	failures int
	refusal  Refusal // the last one
	// turn is the order in which the members of the plan enter; nil if it is none.
	turn []string
	next int // whose turn it is
	// avoid holds the nodes that refused a member where a plan had put it. Plans are made
	// without them for a while, longer each time.
	avoid map[string]avoided
	since time.Time         // when it was first refused; zero once it has a plan
	saved map[string]string // pod -> node, as in a plan, but not enough of them
	grown time.Time         // when there were last more of them
	until time.Time         // when they are given back if the group is not the one whose turn it is; zero if it is
	// vain is how many times places were saved and did not help.
	vain int
}

// idle says that nothing of the group need be remembered.
func (g *group) idle() bool {
	return !g.refusal.Is() && g.retry.IsZero() && g.failures == 0 && len(g.avoid) == 0 && g.since.IsZero() && len(g.saved) == 0 && g.vain == 0
}

// avoided is what is remembered of a node that refused a member.
type avoided struct {
	why   string
	until time.Time // zero once plans may use the node again
	times int
}

// New returns an empty Book. compareNames orders gangs and pods of equal rank.
func New(compareNames func(a, b string) int) *Book {
	return &Book{
		names:    compareNames,
		gangs:    map[Ref]*gang{},
		pods:     map[string]*member{},
		groups:   map[Ref]*group{},
		listed:   map[Ref]map[Ref]bool{},
		places:   map[string][]string{},
		resumed:  map[Ref]resumption{},
		savers:   map[string]Ref{},
		ahead:    map[Ref]*ahead{},
		standIns: map[string]Ref{},
	}
}

// Apply takes one event and returns what must be done, in a fixed order. Events may
// come late, twice or in another order: what is not known is ignored.
func (b *Book) Apply(ev Event, now time.Time) []Effect {
	if len(b.resumed) == 0 {
		return b.tell(ev.apply(b, now))
	}
	out := ev.apply(b, now)
	if b.resumedIsPlaced(); len(b.resumed) == 0 {
		out = append(out, Effect{Verb: GoOn})
	}
	return b.tell(out)
}

// tell adds to effects who has got a place, or lost it.
func (b *Book) tell(effects []Effect) []Effect {
	for _, pod := range b.moved {
		effects = append(effects, Effect{Verb: Moved, Pod: pod})
	}
	b.moved = nil
	return effects
}

// waits notes that the victims of a group's reservation have yet to terminate: the group was tried since the start.
func (b *Book) waits(key Ref) []Effect {
	delete(b.resumed, key)
	return nil
}

// tried notes that the scheduler has looked for a plan in the cycle of this pod.
func (b *Book) tried(pod string) []Effect {
	if m := b.pods[pod]; m != nil {
		m.tried = true
	}
	return nil
}
