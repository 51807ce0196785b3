// Package cache turns what the API server reports into the topology tree and the gang book. It owns both, with one
// lock and one clock. It knows the objects of all integrations. It must not know how gangs are placed.
//
//	informers ──► handlers ──► book.Apply(event, now) ──► effects ──► Do
//	                      └──► topology, updated when it is asked for after a change
//
// Invariant: effects are carried out without the lock. The scheduler calls the cache with its queue locked, so the
// cache must not call the queue while it holds the lock.
package cache

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/network"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Options are the dependencies of a Cache.
type Options struct {
	// Aware enables topology; without it every gang is placed without topology.
	Aware bool
	// Limits may change at run time: Configure.
	Limits
	Clock clock.WithTicker
	// Leading says whether this process schedules; a standby only watches. It is asked until it returns true: a
	// process that loses leadership exits.
	Leading func() bool
	// Do carries out effects.
	Do func([]gang.Effect)
	// Note publishes an event about an object; it must not block.
	Note func(Note)
	// Free is called with a pending pod that left its gang, because no event retries it. nil disables the call.
	Free func(*v1.Pod)
	// Leaves says whether a pod is being evicted, which may not be visible yet; nil means none is. It must not call
	// the cache.
	Leaves func(*v1.Pod) bool
	// Lacks returns a missing object that a pod names and that keeps it out of the queue; "" if none. nil means
	// none is missing. It must not call the cache.
	Lacks func(*v1.Pod) string
	// Ticked is called after each tick of the book; nil disables the call.
	Ticked func()
	// ExtraResource are resources of other components that are read through the same client. Their first lists are part of
	// what must have been seen.
	ExtraResources []ExtraResource
}

// ExtraResource is an optional resource and the handlers of its objects.
type ExtraResource struct {
	Resource  schema.GroupVersionResource
	Set, Drop func(*unstructured.Unstructured)
}

// Note is an event to be published.
type Note struct {
	About   runtime.Object
	Warning bool
	Reason  string
	Message string
}

// Cache owns the tree and the book.
type Cache struct {
	Options
	open       atomic.Bool  // everything was seen once, and this process leads
	firstAsked atomic.Int64 // when Resuming was first asked before that, in Unix nanoseconds

	rivals rivals

	mu               sync.RWMutex
	book             *gang.Book
	serves           map[string]bool // scheduler names of our profiles
	gangs            map[gang.Ref]*record
	owners           map[source.OwnerKey]*source.Owned
	owned            map[source.OwnerKey]map[gang.Ref]bool        // by owner
	childOwners      map[source.OwnerKey]map[source.OwnerKey]bool // by parent
	jobs             map[source.OwnerKey]map[gang.Ref]bool        // gangs of another API with members that are pods of a Job, by this Job
	named            map[string]map[gang.Ref]bool                 // by namespace/name
	elsewhere        map[gang.Ref]map[string]string               // for each gang that a controller meant: pod -> the other gang that it names
	denied           map[schema.GroupVersionResource]bool         // resources without read permission
	kinds            map[string]ownerKind
	laterServed      bool                         // the API server may serve further resources later
	pods             map[string]*v1.Pod           // members of gangs
	farReaching      int                          // number of pods with a constraint that reaches beyond their node
	templates        map[*v1.Pod]Template         // of pending members
	onNode           map[string]map[string]bool   // bound members, by node
	nominated        map[string]string            // nominated pods of any kind, and the node
	singles          map[string]singleReservation // pods without a gang that have a reserved node
	foundNominations map[string]string            // members that were nominated at the start, and the node
	bereft           []LostReservation            // groups for which an earlier process may have reserved future members
	strays           map[string]*stray            // pods without a gang that may have meant one
	nodes            map[string]*v1.Node
	deletedNodes     map[string]bool // deleted nodes that a snapshot may still hold
	losses           []loss          // recently deleted members, the oldest first
	network          network.Spec
	unused           map[string]*koordinator.ClusterNetworkTopology // topologies with another name
	movedNodes       map[string]bool                                // nodes changed since the last tree
	allMoved         bool                                           // all nodes changed, because the layers did
	changes          uint64                                         // counts changes of the network
	priorities       sync.Map                                       // by UID, priorities of members whose gang's object overrides theirs
	current          atomic.Pointer[Topology]                       // nil after a change

	building sync.Mutex     // held while a tree is built; taken before mu
	tree     *topology.Tree // the latest
}

// Limits are what users configure for all gangs. c.mu guards those of a Cache.
type Limits struct {
	// Leave is how long a reservation found after a restart waits for victims.
	Leave time.Duration
	// Wait and Policy are the defaults of gangs.
	Wait   time.Duration
	Policy gang.MatchPolicy
	// Starve is how long a gang is unschedulable before capacity is held for it; 0 disables that.
	Starve time.Duration
}

// Patience returns how long a victim is waited for beyond its grace period.
func (c *Cache) Patience() time.Duration { return read(c, func() time.Duration { return c.Leave }) }

// Configure sets new limits. Gangs without limits of their own follow; a wait that has begun keeps its end.
func (c *Cache) Configure(l Limits) {
	c.mu.Lock()
	old := c.Limits
	c.Limits, c.book.Starve = l, l.Starve
	var effects []gang.Effect
	if old.Wait != l.Wait || old.Policy != l.Policy {
		for _, ref := range c.refs() {
			if r := c.gangs[ref]; r != nil && r.Declared != nil {
				effects = append(effects, c.redeclare(r)...)
			}
		}
	}
	c.mu.Unlock()
	c.carryOut(effects)
}

// New returns an empty Cache. No gang enters the scheduler before Start has seen everything once.
func New(o Options) *Cache {
	book := gang.New(topology.CompareNames)
	book.Starve = o.Starve
	return &Cache{
		Options:          o,
		book:             book,
		serves:           map[string]bool{},
		gangs:            map[gang.Ref]*record{},
		owners:           map[source.OwnerKey]*source.Owned{},
		owned:            map[source.OwnerKey]map[gang.Ref]bool{},
		childOwners:      map[source.OwnerKey]map[source.OwnerKey]bool{},
		jobs:             map[source.OwnerKey]map[gang.Ref]bool{},
		named:            map[string]map[gang.Ref]bool{},
		elsewhere:        map[gang.Ref]map[string]string{},
		denied:           map[schema.GroupVersionResource]bool{},
		kinds:            map[string]ownerKind{},
		pods:             map[string]*v1.Pod{},
		templates:        map[*v1.Pod]Template{},
		onNode:           map[string]map[string]bool{},
		nominated:        map[string]string{},
		singles:          map[string]singleReservation{},
		foundNominations: map[string]string{},
		strays:           map[string]*stray{},
		nodes:            map[string]*v1.Node{},
		deletedNodes:     map[string]bool{},
		unused:           map[string]*koordinator.ClusterNetworkTopology{},
		tree:             topology.Build(nil, nil),
	}
}

// read returns the result of f under the read lock.
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

// Resuming says whether pods without a gang must wait for partially bound gangs, or for the cache to open. The
// latter wait is limited by openWait.
func (c *Cache) Resuming() bool {
	if !c.open.Load() {
		now := c.Clock.Now().UnixNano()
		c.firstAsked.CompareAndSwap(0, now)
		return now-c.firstAsked.Load() < int64(openWait)
	}
	return read(c, c.book.Resuming)
}

// Serves says whether a profile of this process schedules the pod.
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

// HandleHeld brings a member to the barrier. It says whether the member may bind at once, or why it must go back.
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

// Forget drops a reservation that cannot be kept.
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

// tickEvery is how often waits are checked. It limits how late a timeout is.
const tickEvery = time.Second

// tick tells the book that time passes.
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

// Admit says whether a pod of a gang may enter the scheduler, or what it waits for.
func (c *Cache) Admit(pod *v1.Pod) (ok bool, why string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.admit(pod)
}

// admit is Admit with c.mu held.
func (c *Cache) admit(pod *v1.Pod) (ok bool, why string) {
	if !c.open.Load() {
		return false, "the scheduler has not seen all objects yet"
	}
	return c.book.Admit(convert.PodKey(pod))
}

// StartTogether returns the gangs that take part in the next plan of ref's group; nil if it cannot start, whatever capacity is free.
func (c *Cache) StartTogether(ref gang.Ref) []gang.Ref {
	return read(c, func() []gang.Ref { return c.book.StartTogether(ref) })
}

// Seat returns a member's assignment in the plan of its group.
func (c *Cache) Seat(pod *v1.Pod) gang.NodeAssignment {
	return read(c, func() gang.NodeAssignment { return c.book.NodeAssignment(convert.PodKey(pod)) })
}

// Tried returns the group of a pod, whether a plan was ever searched in the pod's cycle, and whether the group
// waits for its victims.
func (c *Cache) Tried(pod *v1.Pod) (group gang.Ref, tried, reserved bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	group = c.groupKey(pod)
	return group, c.book.Tried(convert.PodKey(pod)), c.book.Reserved(group)
}

// Step says how far the member of that name and UID is on its way to its node.
func (c *Cache) Step(pod, uid string) gang.Step {
	return read(c, func() gang.Step { return c.book.Step(pod, uid) })
}

// Place returns the node that a member is assigned, and whether the plan is confirmed. For a pod without a gang it
// returns the reserved node.
func (c *Cache) Place(pod *v1.Pod) (node string, confirmed bool) {
	c.mu.RLock()
	at, alone := c.singles[convert.PodKey(pod)]
	c.mu.RUnlock()
	if alone && at.pod.UID == pod.UID {
		return at.node, false
	}
	seat := c.Seat(pod)
	return seat.Node, seat.Confirmed
}

// Reserved says whether a group waits for its victims to terminate.
func (c *Cache) Reserved(group gang.Ref) bool {
	return read(c, func() bool { return c.book.Reserved(group) })
}

// DoesWithout says whether the gang's group has what it needs without the gang.
func (c *Cache) DoesWithout(ref gang.Ref) bool {
	return read(c, func() bool { return c.book.IsOptionalNow(ref) })
}

// AwaitsMembers says whether members of a group have a reserved or planned node and no binding yet.
func (c *Cache) AwaitsMembers(group gang.Ref) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.book.Reserved(group) || c.book.ReservesFuture(group) {
		return true
	}
	g, ok := c.book.GroupOf(group)
	return ok && slices.ContainsFunc(g.Pending, func(m gang.Member) bool { return g.Places[m.Pod] != "" })
}

// HasPlace says whether a pod has an assignment in a plan.
func (c *Cache) HasPlace(pod *v1.Pod) bool {
	if source.GangOf(pod).IsZero() {
		return false
	}
	node, _ := c.Place(pod)
	return node != ""
}

// HasNode says whether a member of a gang has an assignment or a node.
func (c *Cache) HasNode(pod *v1.Pod) bool {
	return read(c, func() bool { return c.book.HasNode(convert.PodKey(pod)) })
}

// Starves says whether capacity is held for a starving group.
func (c *Cache) Starves(group gang.Ref) bool {
	return read(c, func() bool { return c.book.HoldsCapacity(group) })
}

// Follow enables the effect Moved.
func (c *Cache) Follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book.Follow = true
}
