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
	"time"
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
	Name      string // namespace/name
	Group     []string
	Min       int
	NonStrict bool // members that fit keep their places when others fail
	Policy    MatchPolicy
	Wait      time.Duration // how long members may hold places for the others
	Created   time.Time
	Problem   string // why the gang cannot be scheduled at all; "" if it can
}

// Member is a pod of a gang.
type Member struct {
	Gang string
	Pod  string // namespace/name
	UID  string
	Rank int    // network-topology-index; NoRank if it has none
	Node string // where it is bound; "" while it waits
	// Gated members exist for the API but not for the scheduler (scheduling gates).
	Gated    bool
	Priority int32
}

// NoRank sorts after every rank.
const NoRank = int(^uint(0) >> 1)

// Place gives a member a node.
type Place struct{ Pod, Node string }

// Event is something that happened.
type Event interface{ event() }

type (
	// Declared: the gang exists with this spec, or its spec changed.
	Declared struct{ Spec Spec }
	// Removed: nothing declares the gang any more.
	Removed struct{ Gang string }
	// Seen: the pod exists in this state.
	Seen struct{ Member Member }
	// Left: the pod is gone, or done.
	Left struct{ Pod, UID string }
	// Planned: the group got a plan. With Reserved set, victims have yet to leave: the
	// places are kept until then (zero: for ever), and the plan is carried out once
	// Confirmed. With InOrder set, members enter the scheduler in the order of Places,
	// each when the scheduler counts the one before it.
	// Restored says that a process before this one made the plan.
	Planned struct {
		Group    string
		Places   []Place
		Reserved bool
		InOrder  bool
		Restored bool
		Until    time.Time
	}
	// Confirmed: the reserved places are free now. Members enter in turn if there is one.
	Confirmed struct {
		Group string
		Turn  []string
	}
	// Assumed: the scheduler has given the member its node and counts it there.
	Assumed struct{ Pod string }
	// Held: the member arrived at the barrier (Permit).
	Held struct{ Pod string }
	// Released: the member lost its node before it was bound (Unreserve).
	Released struct{ Pod, Why string }
	// Waits: the group's reservation was looked at, and its victims have yet to leave.
	Waits struct{ Group string }
	// Tried: a plan is looked for in this member's cycle.
	Tried struct{ Pod string }
	// Refused: there is no plan for the group.
	Refused struct{ Group, Why string }
	// Claimed: these places are free, and are kept for the group whose turn it is until
	// there are enough.
	Claimed struct {
		Group  string
		Places []Place
	}
	// Dropped: the group's plan cannot be carried out, since Node refused a member.
	Dropped struct{ Group, Node, Why string }
	// Kept: a victim of the group's reservation stays on Node, since nobody may evict it.
	Kept struct{ Group, Node, Why string }
	// NodeGone: the node does not exist any more.
	NodeGone struct{ Node string }
	// Tick: time passed.
	Tick struct{}
)

func (Declared) event()  {}
func (Removed) event()   {}
func (Seen) event()      {}
func (Left) event()      {}
func (Planned) event()   {}
func (Confirmed) event() {}
func (Assumed) event()   {}
func (Held) event()      {}
func (Released) event()  {}
func (Waits) event()     {}
func (Tried) event()     {}
func (Refused) event()   {}
func (Claimed) event()   {}
func (Dropped) event()   {}
func (Kept) event()      {}
func (NodeGone) event()  {}
func (Tick) event()      {}

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
	GoOn    Verb = "go on" // pods that were kept back for half-bound groups may enter
)

// Effect is something the caller must now do.
type Effect struct {
	Verb Verb
	Pod  string // for Wake, Allow, Reject and Clear
	Gang string // for Report, Expire and Overdue
	Why  string
}

// Book holds every gang. The zero value is not usable; call New. Only events change it:
// whatever is derived from them is kept up to date at once, so that any number of
// questions (Admit, Group, Place and so on) may be asked at the same time.
type Book struct {
	// Starve is how long a group is refused before it gets a claim; 0 means for ever.
	Starve time.Duration

	claimant    string          // the group that has the claim, "" if none does
	resumed     map[string]bool // groups that were half bound at the start and were not tried yet
	resumeUntil time.Time       // when others need not wait for them any longer
	names       ordering
	gangs       map[string]*gang
	pods        map[string]*member
	groups      map[string]*group          // by group key; what is remembered between events
	listed      map[string]map[string]bool // gang -> gangs whose Group lists it
	places      map[string][]string        // node -> pods, sorted, with a place there that is not assumed, or a claim to one
}

type gang struct {
	spec      *Spec // nil while only members are known
	members   map[string]*member
	satisfied bool     // was whole once, and some member is left
	group     []string // the gangs that start together, itself among them, sorted; shared
	key       string   // names the group
	counts    counts   // of members
	pending   line     // of members
}

type member struct {
	Member
	assumed bool // the scheduler counts it on its node
	held    bool // it waits at the barrier
	allowed bool // it has passed the barrier and is being bound
	back    bool // it was sent back from the barrier with others, by no fault of its node
	tried   bool // it was tried for its group: changes of the cluster are its business
	planned bool // it has a place in its group's plan

	at   int32 // its place in the line of the pending, from 1; 0 if it is not there
	turn int32 // its place in the turn of its group's plan, if it is there
}

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
	why      string // the last refusal
	// turn is the order in which the members of the plan enter; nil if it is none.
	turn []string
	next int // whose turn it is
	// avoid holds the nodes that refused a member where a plan had put it. Plans are made
	// without them for a while, longer each time.
	avoid map[string]avoided
	since time.Time         // when it was first refused; zero once it has a plan
	claim map[string]string // pod -> node, as in a plan, but not enough of them
	grown time.Time         // when the claim last got larger
}

// idle says that nothing of the group need be remembered.
func (g *group) idle() bool {
	return g.why == "" && g.retry.IsZero() && g.failures == 0 && len(g.avoid) == 0 && g.since.IsZero() && len(g.claim) == 0
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
		names:   compareNames,
		gangs:   map[string]*gang{},
		pods:    map[string]*member{},
		groups:  map[string]*group{},
		listed:  map[string]map[string]bool{},
		places:  map[string][]string{},
		resumed: map[string]bool{},
	}
}

// Apply takes one event and returns what must be done, in a fixed order. Events may
// come late, twice or in another order: what is not known is ignored.
func (b *Book) Apply(ev Event, now time.Time) []Effect {
	switch ev := ev.(type) {
	case Declared:
		return b.declare(ev.Spec)
	case Removed:
		return b.remove(ev.Gang)
	case Seen:
		return b.seen(ev.Member)
	case Left:
		return b.left(ev)
	case Planned:
		return b.planned(ev, now)
	case Confirmed:
		return b.confirmed(ev, now)
	case Assumed:
		return b.assumed(ev.Pod)
	case Held:
		return b.held(ev.Pod, now)
	case Released:
		return b.released(ev, now)
	case Waits:
		delete(b.resumed, ev.Group)
	case Tried:
		if m := b.pods[ev.Pod]; m != nil {
			m.tried = true
		}
	case Refused:
		return b.refused(ev, now)
	case Claimed:
		return b.claimed(ev, now)
	case Dropped:
		return b.dropped(ev, now)
	case Kept:
		return b.kept(ev, now)
	case NodeGone:
		return b.nodeGone(ev.Node, now)
	case Tick:
		return b.tick(now)
	}
	return nil
}
