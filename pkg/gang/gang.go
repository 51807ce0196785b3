// Package gang is the state machine of gangs. It knows which members exist, which may enter the scheduler, which
// have a node assignment, and which may bind.
//
// A Book works like raft's state machine: events and the time go in, effects come out, and the caller carries out
// the effects. It takes no lock and reads no clock. It knows neither nodes nor topology: a node is a string to it.
//
// The gangs of one group (a GangGroup, mostly one gang) pass through these states:
//
//	waiting ──all members exist──► ready ──Planned──► planned ──all held──► bound
//	   ▲                            │  ▲                 │  │
//	   └───── member deleted ───────┘  └──── Dropped ────┘  └─ Planned with Reserved: nodes are
//	                                                           reserved until victims terminate
//
// Invariants:
//   - Without a plan, only the representative may enter the scheduler. It is the pending member of lowest rank.
//   - With a confirmed plan, exactly the members that have an assignment may enter.
//   - A member binds only when every gang of its group satisfies its match policy.
package gang

import (
	"cmp"
	"time"

	"github.com/muster-scheduler/muster/pkg/choice"
)

// MatchPolicy says which members count for minMember at the barrier (Permit).
type MatchPolicy string

// The match policies, as users write them.
const (
	OnlyWaiting       MatchPolicy = "only-waiting"
	WaitingAndRunning MatchPolicy = "waiting-and-running"
	OnceSatisfied     MatchPolicy = "once-satisfied"
)

// Spec is what users declare about a gang.
type Spec struct {
	Ref   Ref
	UID   string // of the declaring object; "" if the members declare the gang
	Group []Ref  // the gangs that it lists to start together with it
	Min   int
	// Completed is the number of succeeded members that Min excludes, because they are not recreated.
	Completed int
	// Counted says that Min is only the number of running members, since no object states minMember. Reaching it
	// does not prove that the gang was ever complete.
	Counted   bool
	NonStrict bool // members with an assignment keep it when other members fail
	// Multiples says that a topology constraint limits how many members a domain takes, or is about parts. A plan
	// that loses a member is dropped, since the rest may violate the constraint.
	Multiples bool
	// Levels are the levels above the gang in a tree whose branches are partly optional. It is nil if the group needs this gang.
	Levels []choice.Level
	// TreeObstacle says what the tree waits for before any gang of it starts. A started gang continues.
	TreeObstacle Obstacle
	Policy       MatchPolicy
	Wait         time.Duration // how long members may wait at the barrier
	Created      time.Time
	Problem      Obstacle // why the gang cannot be scheduled at all
}

// Member is a pod of a gang.
type Member struct {
	Gang Ref
	Pod  string // namespace/name
	UID  string
	// Row is the object below the gang that numbers the member, if one exists. Members of one row sort together. A
	// member without a rank has no row.
	Row  string
	Rank int    // in its row; NoRank if it has none
	Node string // where it is bound; "" while it is pending
	// Gate says why the member exists for the API and not for the scheduler, such as a scheduling gate; "" if nothing
	// keeps it out of the queue.
	Gate     string
	Priority int32
	// Done says that the member finished on its node. Succeeded says that it finished well.
	Done, Succeeded bool
	Owner           string // the controller that recreates the member; "" if none
	// Absent says that the member was lost and does not exist. A plan may place it, and no pod is evicted for it.
	Absent bool
	// Created and Ended are in Unix seconds; 0 if unknown.
	Created, Ended int64
}

// runs returns whether the member is bound and not finished.
func (m *Member) runs() bool { return m.Node != "" && !m.Done }

// NoRank sorts after every rank.
const NoRank = int(^uint(0) >> 1)

// CompareRanks returns a negative number if m is before o: by row, in the order of names, then by rank. Members without a rank come last,
// members without a row first.
func (m *Member) CompareRanks(o *Member, names func(a, b string) int) int {
	if m.Row == o.Row || m.Rank == NoRank || o.Rank == NoRank {
		return cmp.Compare(m.Rank, o.Rank)
	}
	return names(m.Row, o.Row)
}

// Assignment assigns a node to a member.
type Assignment struct{ Pod, Node string }

// Event is a change that the book applies. apply returns what the caller must do.
type Event interface {
	apply(b *Book, now time.Time) []Effect
}

type (
	// Declared adds a gang or changes its spec.
	Declared struct{ Spec Spec }
	// Removed says that no object declares the gang any more.
	Removed struct{ Gang Ref }
	// Seen gives the current state of a pod.
	Seen struct{ Member Member }
	// Bound says that the scheduler bound the pod. It does not prove that the pod still exists.
	Bound struct{ Pod, UID, Node string }
	// MemberDeleted says that the pod was deleted, or will never have a node.
	MemberDeleted struct{ Pod, UID string }
	// Evicted says that these members, and with them the rest of their groups, are being evicted. No member of
	// those groups is assigned a node until these have terminated or are spared.
	Evicted struct{ Pods []Victim }
	// Spared says that the eviction of these members was cancelled.
	Spared struct{ Pods []Victim }
	// WasComplete says that a persistent record shows that the gang was complete once.
	WasComplete struct{ Gang Ref }
	// Planned gives the group a plan. With Reserved, its nodes stay reserved until victims terminate and Confirmed arrives, at most until
	// Until (zero: no limit). With InOrder, members enter in the order of Places, each when the scheduler counts the one before. Restored says
	// that an earlier process made the plan. Future reserves nodes for members that do not exist yet. Their pod names are placeholders.
	Planned struct {
		Group    Ref
		Places   []Assignment
		Future   []Assignment
		Reserved bool
		InOrder  bool
		Restored bool
		Until    time.Time
	}
	// FutureReserved reserves nodes for members that do not exist, without a plan of existing members: for missing members, or again for
	// future members for which an earlier process had reserved nodes (Planned.Future).
	// With Refusal and without Places it says why no node is free for missing members; nodes are not reserved for them any more.
	// With Successors, the nodes are for the successors of running members, or of a pod without a gang, which are evicted after that. This
	// reservation survives the eviction. Priority is their lowest priority. Without Places the reservation ends.
	FutureReserved struct {
		Group      Ref
		Places     []Assignment
		Until      time.Time
		Refusal    Obstacle
		Successors bool
		Priority   int32
	}
	// MemberGone says that the object of a lost member does not exist any more, so that its controller can recreate it.
	MemberGone struct{ Gang Ref }
	// Confirmed says that the reserved nodes are free now. With Turn, members enter in this order.
	Confirmed struct {
		Group Ref
		Turn  []string
	}
	// Assumed says that the scheduler counts the member on its node. A UID, here and below, selects one pod of that
	// name; "" selects the known one.
	Assumed struct{ Pod, UID string }
	// Held says that the member arrived at the barrier (Permit).
	Held struct{ Pod, UID string }
	// Released says that the member lost its node before it was bound (Unreserve). By is API if the binding request failed.
	Released struct {
		Pod, UID, Why string
		By            ObstacleKind
	}
	// VictimsRemain says that the victims of the group's reservation have not terminated yet.
	VictimsRemain struct{ Group Ref }
	// PlanSearched says that a plan is being searched in this member's cycle.
	PlanSearched struct{ Pod string }
	// Unschedulable says that no plan was found for the group.
	Unschedulable struct {
		Group   Ref
		Refusal Obstacle
	}
	// RetryDue says that the group without a plan is to be tried again at a time, or earlier.
	RetryDue struct {
		Group Ref
		At    time.Time
	}
	// CapacityHeld holds these nodes for the starving group whose turn it is, until there are enough. With For, the hold
	// is for a group whose turn it is not, and ends after that time. Promise is the promised start of a group whose turn it is. The nodes may
	// then be in use until that time. Ending says that pods there are in their grace periods: the hold does not end meanwhile. Places may have
	// members that do not exist yet.
	CapacityHeld struct {
		Group   Ref
		Places  []Assignment
		For     time.Duration
		Promise Promise
		Ending  bool
	}
	// Promised says that an earlier process promised the group a start.
	Promised struct {
		Group   Ref
		Promise Promise
	}
	// Dropped says that the group's plan cannot be carried out, because Node did not accept a member. With Learned,
	// the next plan differs because of new information: no node is avoided and the retry is immediate.
	Dropped struct {
		Group     Ref
		Node, Why string
		Learned   bool
	}
	// VictimStays says that a victim of the group's reservation cannot be evicted from Node. Without a Node, the next plan
	// needs other victims.
	VictimStays struct {
		Group     Ref
		Node, Why string
	}
	// NodeGone says that the node was deleted.
	NodeGone struct{ Node string }
	// NodeClosed says that the node got a taint or was cordoned.
	NodeClosed struct{ Node string }
	// EndsChanged says that declared ends of running pods, or the nodes that take pods, have changed. The groups that hold capacity are
	// tried again at the next Tick, because their promised starts may be other times.
	EndsChanged struct{}
	// Tick says that time passed.
	Tick struct{}
)

func (ev Declared) apply(b *Book, _ time.Time) []Effect        { return b.declare(ev.Spec) }
func (ev Removed) apply(b *Book, _ time.Time) []Effect         { return b.remove(ev.Gang) }
func (ev Seen) apply(b *Book, _ time.Time) []Effect            { return b.observe(ev.Member) }
func (ev Bound) apply(b *Book, _ time.Time) []Effect           { return b.confirm(ev) }
func (ev MemberDeleted) apply(b *Book, _ time.Time) []Effect   { return b.removeMember(ev) }
func (ev Evicted) apply(b *Book, _ time.Time) []Effect         { return b.startEviction(ev.Pods) }
func (ev Spared) apply(b *Book, _ time.Time) []Effect          { return b.cancelEviction(ev.Pods) }
func (ev WasComplete) apply(b *Book, _ time.Time) []Effect     { return b.noteSatisfied(ev.Gang) }
func (ev Planned) apply(b *Book, now time.Time) []Effect       { return b.adoptPlan(ev, now) }
func (ev FutureReserved) apply(b *Book, _ time.Time) []Effect  { return b.addFuture(ev) }
func (ev MemberGone) apply(b *Book, now time.Time) []Effect    { return b.restartRepair(ev.Gang, now) }
func (ev Confirmed) apply(b *Book, now time.Time) []Effect     { return b.startPlan(ev, now) }
func (ev Assumed) apply(b *Book, _ time.Time) []Effect         { return b.noteAssumed(ev) }
func (ev Held) apply(b *Book, now time.Time) []Effect          { return b.arrive(ev, now) }
func (ev Released) apply(b *Book, now time.Time) []Effect      { return b.release(ev, now) }
func (ev VictimsRemain) apply(b *Book, _ time.Time) []Effect   { return b.noteRemainingVictims(ev.Group) }
func (ev PlanSearched) apply(b *Book, _ time.Time) []Effect    { return b.noteTried(ev.Pod) }
func (ev Unschedulable) apply(b *Book, now time.Time) []Effect { return b.noteRefusal(ev, now) }
func (ev RetryDue) apply(b *Book, _ time.Time) []Effect        { return b.retryAt(ev) }
func (ev CapacityHeld) apply(b *Book, now time.Time) []Effect  { return b.hold(ev, now) }
func (ev Promised) apply(b *Book, now time.Time) []Effect      { return b.restorePromise(ev, now) }
func (ev Dropped) apply(b *Book, now time.Time) []Effect       { return b.dropPlan(ev, now) }
func (ev VictimStays) apply(b *Book, now time.Time) []Effect   { return b.abandonReservation(ev, now) }
func (ev NodeGone) apply(b *Book, now time.Time) []Effect      { return b.removeNode(ev.Node, now) }
func (ev NodeClosed) apply(b *Book, _ time.Time) []Effect      { return b.closeNode(ev.Node) }
func (ev EndsChanged) apply(b *Book, now time.Time) []Effect   { return b.retryHolders(now) }
func (ev Tick) apply(b *Book, now time.Time) []Effect          { return b.tick(now) }

// Verb says what the caller must do for an Effect.
type Verb string

// The verbs of effects.
const (
	Wake   Verb = "wake"   // let the pod try to enter the scheduler
	Allow  Verb = "allow"  // let the pod pass the barrier and bind
	Reject Verb = "reject" // send the pod back from the barrier to the queue
	Clear  Verb = "clear"  // remove the pod's nominated node
	Report Verb = "report" // publish the changed state of Gang
	Expire Verb = "expire" // publish that Gang waited too long
	// Overdue says that victims of the reservation of Gang, a group's key, did not terminate in time.
	Overdue      Verb = "overdue"
	ResumeOthers Verb = "go on" // retry the pods that were kept out for partially bound groups
	// WakeLater is Wake after a node changed. The scheduler may learn of the change later than the book.
	WakeLater Verb = "again"
	// Freed says that reserved nodes became free without the deletion of a pod.
	Freed Verb = "freed"
	// Moved says that a member got or lost its assignment or node: see Book.Follow.
	Moved Verb = "moved"
)

// Effect is something that the caller must do.
type Effect struct {
	Verb Verb
	Pod  string // for Wake, Allow, Reject, Clear and Moved
	UID  string // of the pod, for Allow and Reject
	Gang Ref    // for Report, Expire and Overdue
	Why  string
}

// Book is the state of all gangs; New makes one. Only events change it. Derived state is updated within the event, so concurrent readers
// (Admit, Group, Place and so on) are safe between events.
type Book struct {
	// Starve is how long a group is unschedulable before capacity is held for it; 0 disables that.
	Starve time.Duration
	// Promises is to how many groups of the cluster a start is promised at a time.
	Promises int
	// Repair is how long nodes are reserved for the missing members of an incomplete gang; 0 disables that.
	Repair time.Duration
	// Follow enables the effect Moved.
	Follow bool

	movedPods    []string                   // pods for which Moved is due
	holders      map[string]Ref             // by namespace, the starving group that holds capacity
	futures      map[Ref]*futureReservation // by group key
	repairs      map[Ref]*repair            // of incomplete gangs
	placeholders map[string]Ref             // placeholder name -> group key
	resumed      map[Ref]resumption         // groups that were partially bound at the start and are not placed yet
	resumeUntil  time.Time                  // when other groups stop waiting for them
	names        ordering
	gangs        map[Ref]*gang
	pods         map[string]*member
	groups       map[Ref]*group       // by group key
	listedBy     map[Ref]map[Ref]bool // gang -> gangs whose Group lists it
	assignments  int                  // assignments made so far
	// emptied has, of gangs that were deleted since the tick before the last, lastUID. The gang returns if that member had finished.
	emptied   [2]map[Ref]string
	unassumed map[string][]string // node -> pods, sorted, that are assigned or held there and not assumed
}

// gang is the state of one gang.
type gang struct {
	spec         *Spec // nil while only members are known
	members      map[string]*member
	satisfied    bool     // was complete once, and some member of that run exists
	most         int      // of a satisfied gang, the most members that ran or had succeeded at once
	lastUID      string   // the UID of the last deleted member of a satisfied gang that is empty now
	group        []Ref    // the gangs that start together, this one included, sorted; shared
	key          Ref      // names the group: its first gang
	oversized    bool     // its group would be too large, so the gang is alone
	groupProblem Obstacle // why the group that it lists cannot form
	counts       counts
	pending      pendingQueue
	owners       map[string]ownerCounts // by owner
	lastEnd      int64                  // when the last member finished
}

// member is the state of one member.
type member struct {
	Member
	assumed  bool // the scheduler counts it on its node
	held     bool // it waits at the barrier, or has passed it
	allowed  bool // it has passed the barrier and is being bound
	requeued bool // it was requeued from the barrier, not because of its node
	tried    bool // it was tried for its group, so cluster events concern it
	planned  bool // it has an assignment in its group's plan
	evicted  bool // its group is being evicted, and it has not terminated
	// nominated says that the pod is nominated for a reserved node. It is reset when the pod is bound or the nomination is removed.
	nominated    bool
	lastNode     string   // the node of its latest assignment; "" if it never had one
	olderNodes   []string // nodes of earlier assignments, the latest last
	assignment   int      // the number of its latest assignment
	bindFailures int8     // consecutive binding failures after the barrier

	queued    bool  // it is in its gang's pending queue
	turnIndex int32 // its index in the turn of its group's plan, if there
}

// Step is how far a member of a plan is on its way to its node.
type Step uint8

// The steps of a member, in order.
const (
	NotAssumed    Step = iota // the scheduler does not count it on its node
	AssumedOnNode             // the scheduler counts it, and it is not at the barrier yet
	AtBarrier                 // the member waits there
	PastBarrier               // it is being bound
	SentBack                  // it was requeued from the barrier
)

// detach resets the barrier state of a member that was bound or lost its node.
func (m *member) detach() { m.held, m.assumed, m.allowed, m.requeued = false, false, false, false }

// group is the state of a gang group between events.
type group struct {
	plan        map[string]string // pod -> node, for members that are not bound
	reserved    bool              // victims were evicted for the plan: it survives failures
	unconfirmed bool              // the plan must be confirmed before it is carried out
	barrierOpen bool              // some members have passed the barrier: the others may follow
	deadline    time.Time         // when waiting ends; zero while no member waits
	retryAt     time.Time         // when to wake the representative after a failure
	failures    int
	refusal     Obstacle // the latest
	// turn is the order in which the members of the plan enter; nil if any order is good.
	turn []string
	next int // index in turn
	// avoid is the nodes that did not accept an assigned member. Plans avoid them for a while, longer each time.
	avoid              map[string]avoidedNode
	unschedulableSince time.Time         // zero once it has a plan
	firstRefusal       time.Time         // as unschedulableSince, which a vain hold restarts
	heldNodes          map[string]string // pod -> node, as in a plan, but not enough of them
	holdGrown          time.Time         // when their number last grew
	holdUntil          time.Time         // when the hold ends; zero if it is the group's turn
	promise            Promise           // of a group whose turn it is
	tryAt              time.Time         // when to try the group because its promised start has come; zero without a promise
	// vainHolds counts capacity holds that ended without a plan.
	vainHolds int
}

// idle returns whether the group has no state that must be kept when it has no plan.
func (g *group) idle() bool {
	return !g.refusal.Exists() && g.retryAt.IsZero() && g.failures == 0 && len(g.avoid) == 0 &&
		g.unschedulableSince.IsZero() && len(g.heldNodes) == 0 && g.vainHolds == 0
}

// avoidedNode is a node that did not accept a member.
type avoidedNode struct {
	why   string
	until time.Time // zero once plans may use the node again
	times int
}

// New returns an empty Book. compareNames orders gangs and pods of equal rank.
func New(compareNames func(a, b string) int) *Book {
	return &Book{
		names:        compareNames,
		gangs:        map[Ref]*gang{},
		pods:         map[string]*member{},
		groups:       map[Ref]*group{},
		listedBy:     map[Ref]map[Ref]bool{},
		unassumed:    map[string][]string{},
		resumed:      map[Ref]resumption{},
		holders:      map[string]Ref{},
		futures:      map[Ref]*futureReservation{},
		repairs:      map[Ref]*repair{},
		placeholders: map[string]Ref{},
		emptied:      [2]map[Ref]string{{}, {}},
	}
}

// Apply applies one event and returns its effects in a fixed order. Events may be late, repeated or reordered: an
// event about an unknown object changes nothing.
func (b *Book) Apply(ev Event, now time.Time) []Effect {
	resuming := len(b.resumed) > 0
	out := ev.apply(b, now)
	for _, e := range out {
		if e.Verb == Report {
			b.followRepair(e.Gang, now)
		}
	}
	if !resuming {
		return b.addMoves(out)
	}
	if b.endPlacedResumptions(); len(b.resumed) == 0 {
		out = append(out, Effect{Verb: ResumeOthers})
	}
	return b.addMoves(out)
}

// addMoves appends the effect Moved for each pod in movedPods, and empties that list.
func (b *Book) addMoves(effects []Effect) []Effect {
	for _, pod := range b.movedPods {
		effects = append(effects, Effect{Verb: Moved, Pod: pod})
	}
	b.movedPods = nil
	return effects
}

// noteRemainingVictims ends the resumption of a group that waits for victims: the group was tried.
func (b *Book) noteRemainingVictims(key Ref) []Effect {
	delete(b.resumed, key)
	return nil
}

// noteTried records that a plan was searched in the member's cycle.
func (b *Book) noteTried(pod string) []Effect {
	if m := b.pods[pod]; m != nil {
		m.tried = true
	}
	return nil
}
