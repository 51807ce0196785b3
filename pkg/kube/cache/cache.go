// Package cache turns the objects of the API server into the topology tree and the gang book, which it protects with one lock. It reads the
// objects of all integrations. It does not place gangs.
//
//	informers ──► handlers ──► book.Apply(event, now) ──► effects ──► Do
//	                      └──► topology, rebuilt at the first use after a change
//
// Invariant: effects are carried out with c.mu unlocked. The scheduler calls the cache with its queue locked, so the cache must not call
// the queue with c.mu locked.
package cache

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/lineage"
	"github.com/muster-scheduler/muster/pkg/kube/maintenance"
	"github.com/muster-scheduler/muster/pkg/kube/network"
	"github.com/muster-scheduler/muster/pkg/kube/note"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Options are the dependencies of a Cache.
type Options struct {
	// Aware enables topology; without it every gang is placed without topology.
	Aware bool
	// Limits may change at run time: see Configure.
	Limits
	Clock clock.WithTicker
	// Leading returns whether this process is the leader and schedules; a standby only watches. It is called until it returns true: a process
	// that loses leadership exits.
	Leading func() bool
	// Do carries out effects.
	Do func([]gang.Effect)
	// Note publishes an event about an object; it must not block.
	Note func(Note)
	// Free is called with a pending pod without a gang, so that it is retried: its labels name no gang any more, or it declares another end.
	// nil disables the call.
	Free func(*v1.Pod)
	// FreeOf is Free for the pods of an object that declares another end for them.
	FreeOf func(source.OwnerKey)
	// Leaves returns whether a pod is being evicted, which its object may not show yet. nil is no pod. It must not call the cache.
	Leaves func(*v1.Pod) bool
	// Lacks returns an object that a pod names, that does not exist, and that keeps the pod out of the queue; "" if none is missing. nil is
	// "" for all pods. It must not call the cache.
	Lacks func(*v1.Pod) string
	// Evicts returns whether the profile with that scheduler name evicts pods for gangs. nil is true. It must not call the cache.
	Evicts func(profile string) bool
	// Ticked is called after each tick of the book; nil disables the call.
	Ticked func()
	// ExtraResources are resources of other components that the cache also watches. The cache opens only after they were listed.
	ExtraResources []ExtraResource
}

// ExtraResource is an optional resource and the handlers of its objects.
type ExtraResource struct {
	Resource  schema.GroupVersionResource
	Set, Drop func(*unstructured.Unstructured)
}

// Note is an event to be published.
type Note = note.Note

// Cache has the topology tree, the gang book, and the objects that these are made from.
type Cache struct {
	Options
	open       atomic.Bool  // all objects were listed once, and this process is the leader
	firstAsked atomic.Int64 // when Resuming was first called before that, in Unix nanoseconds

	rivals rivals

	mu                 sync.RWMutex
	book               *gang.Book
	serves             map[string]bool // scheduler names of our profiles
	gangs              map[gang.Ref]*record
	lineage            *lineage.Graph                       // the objects that own gangs
	named              map[string]map[gang.Ref]bool         // by namespace/name
	otherGangNames     map[gang.Ref]map[string]string       // by gang that a pod is made for: pod -> the other gang that it names
	denied             map[schema.GroupVersionResource]bool // resources without read permission
	kinds              map[string]ownerKind
	laterServed        bool                         // the API server may serve further resources later
	pods               map[string]*v1.Pod           // members of gangs
	farReaching        int                          // number of pods with a constraint that reaches beyond their node
	templates          map[*v1.Pod]Template         // of pending members
	onNode             map[string]map[string]bool   // bound members, by node
	nominated          map[string]string            // nominated pods of any kind, and the node
	singleReservations map[string]singleReservation // pods without a gang that have a reserved node
	nominationsAtStart map[string]string            // members that were nominated at the start, and the node
	absent             []Absent                     // groups; nodes are to be reserved for their absent members
	lost               map[string]*v1.Pod           // stand-ins for lost members, by key
	terminating        map[string]*v1.Pod           // bound members that terminate, by key
	successors         map[string]successor         // stand-ins, by key; the pods are evicted and start elsewhere
	strays             map[string]*stray            // pods without a gang that may have meant one
	nodes              map[string]*v1.Node
	deletedNodes       map[string]bool // deleted nodes that a snapshot may still hold
	losses             []loss          // recently deleted members, the oldest first
	network            network.Spec
	unused             map[string]*koordinator.ClusterNetworkTopology // topologies with another name
	maintenance        atomic.Pointer[maintenance.Nodes]              // see Maintenance
	movedNodes         map[string]bool                                // nodes changed since the last tree
	allMoved           bool                                           // all nodes changed, because the layers did
	changes            uint64                                         // counts changes of the network
	priorities         sync.Map                                       // by UID, priorities of members whose gang's object overrides theirs
	current            atomic.Pointer[Topology]                       // nil after a change

	building sync.Mutex     // locked while a tree is built; locked before mu
	tree     *topology.Tree // the latest one
}

// Limits are settings for all gangs. c.mu guards the Limits of a Cache.
type Limits struct {
	// Leave is how long a reservation found after a restart waits for victims.
	Leave time.Duration
	// Wait, Policy and Moves (repair policy Move) are the defaults of gangs.
	Wait   time.Duration
	Policy gang.MatchPolicy
	Moves  bool
	// Starve is how long a gang is unschedulable before capacity is held for it; 0 disables that.
	Starve time.Duration
	// Promises is to how many gangs of the cluster a start is promised at a time.
	Promises int
	// Repair is how long capacity is held for missing members of an incomplete gang; 0 disables that.
	Repair time.Duration
	// DefaultRuntime is, by PriorityClass, the run time of pods that declare none.
	DefaultRuntime map[string]time.Duration
}

// Patience returns how long after its grace period a victim may still exist before its reservation is dropped.
func (c *Cache) Patience() time.Duration { return read(c, func() time.Duration { return c.Leave }) }

// Configure sets new limits, and applies them to gangs without limits of their own. A wait that has begun keeps its end.
func (c *Cache) Configure(l Limits) {
	c.mu.Lock()
	old := c.Limits
	c.Limits, c.book.Starve, c.book.Promises, c.book.Repair = l, l.Starve, l.Promises, l.Repair
	var effects []gang.Effect
	if !maps.Equal(old.DefaultRuntime, l.DefaultRuntime) {
		effects = c.endsChanged(true)
	}
	if old.Wait != l.Wait || old.Policy != l.Policy || old.Moves != l.Moves {
		for _, ref := range c.refs() {
			if r := c.gangs[ref]; r != nil && r.Declared != nil {
				effects = append(effects, c.redeclare(r)...)
			}
		}
	}
	c.mu.Unlock()
	c.carryOut(effects)
}

// New returns an empty Cache. No gang enters the scheduler until Start was called and all objects were listed.
func New(o Options) *Cache {
	book := gang.New(topology.CompareNames)
	book.Starve, book.Promises, book.Repair = o.Starve, o.Promises, o.Repair
	return &Cache{
		Options:            o,
		book:               book,
		serves:             map[string]bool{},
		gangs:              map[gang.Ref]*record{},
		lineage:            lineage.New(),
		named:              map[string]map[gang.Ref]bool{},
		otherGangNames:     map[gang.Ref]map[string]string{},
		denied:             map[schema.GroupVersionResource]bool{},
		kinds:              map[string]ownerKind{},
		pods:               map[string]*v1.Pod{},
		templates:          map[*v1.Pod]Template{},
		onNode:             map[string]map[string]bool{},
		nominated:          map[string]string{},
		singleReservations: map[string]singleReservation{},
		nominationsAtStart: map[string]string{},
		lost:               map[string]*v1.Pod{},
		terminating:        map[string]*v1.Pod{},
		successors:         map[string]successor{},
		strays:             map[string]*stray{},
		nodes:              map[string]*v1.Node{},
		deletedNodes:       map[string]bool{},
		unused:             map[string]*koordinator.ClusterNetworkTopology{},
		tree:               topology.Build(nil, nil),
	}
}

// read returns the result of f, which it calls with c.mu locked for reading.
func read[T any](c *Cache, f func() T) T {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return f()
}

// Serve adds a scheduler name that this process serves. Call it before Start.
func (c *Cache) Serve(schedulerName string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serves[schedulerName] = true
}

// openWait is how long pods without a gang wait for the cache to open.
const openWait = 10 * time.Second

// Resuming returns whether pods without a gang must wait: for gangs that were partially bound at the start, or, for at most openWait, until
// the cache opens.
func (c *Cache) Resuming() bool {
	if !c.open.Load() {
		now := c.Clock.Now().UnixNano()
		c.firstAsked.CompareAndSwap(0, now)
		return now-c.firstAsked.Load() < int64(openWait)
	}
	return read(c, c.book.Resuming)
}

// Serves returns whether a profile of this process schedules the pod.
func (c *Cache) Serves(pod *v1.Pod) bool {
	return read(c, func() bool { return c.serves[pod.Spec.SchedulerName] })
}

// Handle applies one event and carries out its effects.
func (c *Cache) Handle(ev gang.Event) {
	c.mu.Lock()
	effects := c.book.Apply(ev, c.Clock.Now())
	c.mu.Unlock()
	c.carryOut(effects)
}

// HandleHeld records that a member has arrived at Permit. It returns whether the member may bind at once (open), or why it must be requeued
// (reason). If the member must wait, open is false and reason is "".
func (c *Cache) HandleHeld(p *v1.Pod) (open bool, reason string) {
	pod := convert.PodKey(p)
	c.mu.Lock()
	effects := c.book.Apply(gang.Held{Pod: pod, UID: string(p.UID)}, c.Clock.Now())
	c.mu.Unlock()
	others := effects[:0:0]
	for _, e := range effects {
		if e.Verb == gang.Allow && e.Pod == pod {
			open = true
			continue
		}
		if e.Verb == gang.Reject && e.Pod == pod {
			reason = e.Why
			continue
		}
		others = append(others, e)
	}
	c.carryOut(others)
	return open, reason
}

// Forget drops the reservation of a group, for the reason why.
func (c *Cache) Forget(group gang.Ref, why string) {
	c.mu.Lock()
	effects := c.book.Forget(group, why)
	c.mu.Unlock()
	c.carryOut(effects)
}

func (c *Cache) carryOut(effects []gang.Effect) {
	if len(effects) > 0 {
		c.Do(effects)
	}
}

// tickEvery is how often the book checks its timeouts. A timeout may be late by as much.
const tickEvery = time.Second

// tick sends the book an event every tickEvery, until ctx is done.
func (c *Cache) tick(ctx context.Context) {
	t := c.Clock.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C():
			c.Handle(gang.Tick{})
			if c.Ticked != nil {
				c.Ticked()
			}
			if !c.open.Load() && c.firstAsked.Load() != 0 && !c.Resuming() {
				c.carryOut([]gang.Effect{{Verb: gang.ResumeOthers}})
			}
		}
	}
}

// Admit returns whether a member of a gang may enter the scheduling queue. If it may not, why says what it waits for.
func (c *Cache) Admit(pod *v1.Pod) (ok bool, why string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.admit(pod)
}

// admit is Admit with c.mu locked.
func (c *Cache) admit(pod *v1.Pod) (ok bool, why string) {
	if !c.open.Load() {
		return false, "the scheduler has not seen all objects yet"
	}
	return c.book.Admit(convert.PodKey(pod))
}

// StartTogether returns the gangs in the next plan of ref's group; nil if the group cannot start, whatever capacity is free.
func (c *Cache) StartTogether(ref gang.Ref) []gang.Ref {
	return read(c, func() []gang.Ref { return c.book.StartTogether(ref) })
}

// Seat returns a member's node assignment in the plan of its group; the zero value for none.
func (c *Cache) Seat(pod *v1.Pod) gang.NodeAssignment {
	return read(c, func() gang.NodeAssignment { return c.book.NodeAssignment(convert.PodKey(pod)) })
}

// Tried returns the group of a pod and whether it waits for its victims (reserved). tried is whether a plan was ever searched in this pod's
// scheduling cycle.
func (c *Cache) Tried(pod *v1.Pod) (group gang.Ref, tried, reserved bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	group = c.groupKey(pod)
	return group, c.book.Tried(convert.PodKey(pod)), c.book.Reserved(group)
}

// Step returns how far the scheduler is with the member of that name and UID: assumed, binding or bound. It returns gang.NotAssumed if
// there is no such member.
func (c *Cache) Step(pod, uid string) gang.Step {
	return read(c, func() gang.Step { return c.book.Step(pod, uid) })
}

// Place returns the node to which a member is assigned, "" for none, and whether the plan is confirmed. For a pod without a gang it returns
// its reserved node, which is never confirmed.
func (c *Cache) Place(pod *v1.Pod) (node string, confirmed bool) {
	c.mu.RLock()
	at, alone := c.singleReservations[convert.PodKey(pod)]
	c.mu.RUnlock()
	if alone && at.pod.UID == pod.UID {
		return at.node, false
	}
	seat := c.Seat(pod)
	return seat.Node, seat.Confirmed
}

// Reserved returns whether a group has a reservation: it waits for its victims to terminate.
func (c *Cache) Reserved(group gang.Ref) bool {
	return read(c, func() bool { return c.book.Reserved(group) })
}

// DoesWithout returns whether the gang's group has all gangs that it needs without this one.
func (c *Cache) DoesWithout(ref gang.Ref) bool {
	return read(c, func() bool { return c.book.IsOptionalNow(ref) })
}

// AwaitsMembers returns whether members of a group have a reserved or planned node and are not bound yet.
func (c *Cache) AwaitsMembers(group gang.Ref) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.book.Reserved(group) || c.book.ReservesFuture(group) {
		return true
	}
	g, ok := c.book.GroupOf(group)
	return ok && slices.ContainsFunc(g.Pending, func(m gang.Member) bool { return g.Places[m.Pod] != "" })
}

// HasPlace returns whether a member of a gang has a node assignment. It returns false for pods without a gang.
func (c *Cache) HasPlace(pod *v1.Pod) bool {
	if source.GangOf(pod).IsZero() {
		return false
	}
	node, _ := c.Place(pod)
	return node != ""
}

// HasNode returns whether a member of a gang has a node assignment or is bound.
func (c *Cache) HasNode(pod *v1.Pod) bool {
	return read(c, func() bool { return c.book.HasNode(convert.PodKey(pod)) })
}

// Starves returns whether a group has a capacity hold because it starves.
func (c *Cache) Starves(group gang.Ref) bool {
	return read(c, func() bool { return c.book.HoldsCapacity(group) })
}

// Follow makes the book produce the effect Moved.
func (c *Cache) Follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book.Follow = true
}
