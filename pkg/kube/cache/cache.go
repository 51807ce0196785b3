// Package cache turns what the API server says into the topology tree and the gang
// book. It is the one owner of both: the one lock and the one clock.
//
//	informers ──► handlers ──► book.Apply(event, now) ──► effects ──► Do
//	                      └──► topology, brought up to date when asked for after a change
//
// Effects are carried out after the lock is released: the scheduler calls in here
// with its queue locked, so nothing in here may call the queue with this lock held.
// The package knows nothing of placement.
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

// Options are what a Cache needs from outside.
type Options struct {
	// Aware false makes every gang a gang without topology.
	Aware bool
	// Limits may change while the scheduler runs: Configure.
	Limits
	Clock clock.WithTicker
	// Leading says whether this process schedules; a standby only watches. It is asked
	// until it says yes: who stops leading exits.
	Leading func() bool
	// Do carries out effects.
	Do func([]gang.Effect)
	// Note tells people about an object; it must not block.
	Note func(Note)
	// Free is called with a pod that waits and no longer names a gang: nothing else would
	// have it tried. nil means that nobody need know.
	Free func(*v1.Pod)
	// Leaves says whether a pod was asked to leave, which need not be seen yet; nil means
	// that nobody is. It must not call the cache.
	Leaves func(*v1.Pod) bool
	// Lacks says what a pod names that does not exist, for which the scheduler keeps it out of its queue, ""
	// if nothing; nil means that nobody lacks anything. It must not call the cache.
	Lacks func(*v1.Pod) string
	// Ticked is called now and then, after the book was told that time passes; nil is nobody.
	Ticked func()
	// Beside are resources that others read, through the same client, and as part of what must have
	// been seen once.
	Beside []Beside
}

// Beside is a resource that clusters need not serve, and who hears of its objects, as they are now.
type Beside struct {
	Resource  schema.GroupVersionResource
	Set, Drop func(*unstructured.Unstructured)
}

// Note is an event to be.
type Note struct {
	About   runtime.Object
	Warning bool
	Reason  string
	Message string
}

// Cache owns the tree and the book.
type Cache struct {
	Options
	open  atomic.Bool  // everything was seen once, and this process leads
	asked atomic.Int64 // when Resuming was first asked before that, in Unix nanoseconds

	rivals rivals

	mu        sync.RWMutex
	book      *gang.Book
	serves    map[string]bool // scheduler names of our profiles
	gangs     map[gang.Ref]*record
	owners    map[source.OwnerKey]*source.Owned
	owned     map[source.OwnerKey]map[gang.Ref]bool        // gangs, by whom they name as their owner
	below     map[source.OwnerKey]map[source.OwnerKey]bool // owners, by whom they name as their parent
	jobs      map[source.OwnerKey]map[gang.Ref]bool        // gangs of another API with members that are pods of a Job, by this Job
	named     map[string]map[gang.Ref]bool                 // gangs, by namespace/name
	elsewhere map[gang.Ref]map[string]string               // what names another gang, by the gang that a controller meant and by pod
	denied    map[schema.GroupVersionResource]bool         // what may not be read
	kinds     map[string]ownerKind                         // kinds of owners
	later     bool                                         // the API server may begin to serve more of them
	pods      map[string]*v1.Pod                           // members of gangs
	afar      int                                          // how many of them keep others off domains
	templates map[*v1.Pod]Template                         // what those of them need that wait
	onNode    map[string]map[string]bool                   // of them, those that are bound, by node
	nominated map[string]string                            // pods that are nominated for a node, of gangs or not, and that node
	alone     map[string]aloneAt                           // pods without a gang for which a node is reserved
	found     map[string]string                            // members that were nominated for a node when this process began, and that node
	bereft    []Bereft                                     // groups for which a process before this one may have kept places
	strays    map[string]*stray                            // pods without a gang that might have meant one
	nodes     map[string]*v1.Node
	gone      map[string]bool // nodes that were deleted, as long as the scheduler may not know
	losses    []loss          // members that went last, the first of them first
	network   network.Spec
	unused    map[string]*koordinator.ClusterNetworkTopology // those of other names
	moved     map[string]bool                                // nodes that have changed since the last tree
	afresh    bool                                           // they all have: the layers are others
	changes   uint64                                         // counts changes of the network
	grades    sync.Map                                       // by UID, priorities of members whose gang's object says another one than they do
	current   atomic.Pointer[Topology]                       // nil after a change

	building sync.Mutex     // who makes a tree has it; it is taken before mu, and what takes long is done without mu
	tree     *topology.Tree // the last one that was made
}

// Limits are what users allow gangs. c.mu guards those of a Cache.
type Limits struct {
	// Leave is how long a reservation found after a restart waits for victims.
	Leave time.Duration
	// Wait and Policy are the defaults for gangs that do not say.
	Wait   time.Duration
	Policy gang.MatchPolicy
	// Starve is how long a gang is refused before free places are kept for it; 0 means for
	// ever.
	Starve time.Duration
}

// Patience is how long after its time somebody who leaves is waited for.
func (c *Cache) Patience() time.Duration { return read(c, func() time.Duration { return c.Leave }) }

// Configure has other limits hold from now on. Gangs that do not say wait as long, and match, as these
// do; a wait that has begun ends when it was to.
func (c *Cache) Configure(l Limits) {
	c.mu.Lock()
	was := c.Limits
	c.Limits, c.book.Starve = l, l.Starve
	var effects []gang.Effect
	if was.Wait != l.Wait || was.Policy != l.Policy {
		for _, ref := range c.refs() {
			if r := c.gangs[ref]; r != nil && r.Declared != nil {
				effects = append(effects, c.redeclare(r)...)
			}
		}
	}
	c.mu.Unlock()
	c.do(effects)
}

// New returns an empty Cache. Nothing enters the scheduler before Start has seen
// everything once.
func New(o Options) *Cache {
	book := gang.New(topology.CompareNames)
	book.Starve = o.Starve
	return &Cache{
		Options:   o,
		book:      book,
		serves:    map[string]bool{},
		gangs:     map[gang.Ref]*record{},
		owners:    map[source.OwnerKey]*source.Owned{},
		owned:     map[source.OwnerKey]map[gang.Ref]bool{},
		below:     map[source.OwnerKey]map[source.OwnerKey]bool{},
		jobs:      map[source.OwnerKey]map[gang.Ref]bool{},
		named:     map[string]map[gang.Ref]bool{},
		elsewhere: map[gang.Ref]map[string]string{},
		denied:    map[schema.GroupVersionResource]bool{},
		kinds:     map[string]ownerKind{},
		pods:      map[string]*v1.Pod{},
		templates: map[*v1.Pod]Template{},
		onNode:    map[string]map[string]bool{},
		nominated: map[string]string{},
		alone:     map[string]aloneAt{},
		found:     map[string]string{},
		strays:    map[string]*stray{},
		nodes:     map[string]*v1.Node{},
		gone:      map[string]bool{},
		unused:    map[string]*koordinator.ClusterNetworkTopology{},
		tree:      topology.Build(nil, nil),
	}
}

// read returns what f reads of the cache and the book at one moment.
func read[T any](c *Cache, f func() T) T {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return f()
}

// Serve notes that pods of this scheduler name are ours. Call it before Start's
// informers run.
func (c *Cache) Serve(schedulerName string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serves[schedulerName] = true
}

// patience is how long pods without a gang wait for the cache to open.
const patience = 10 * time.Second

// Resuming says whether pods without a gang should wait: gangs that were partially bound when
// this process began have not been tried yet, or nobody can know whether there are any.
// If that takes long (something cannot be listed), they need not.
func (c *Cache) Resuming() bool {
	if !c.open.Load() {
		now := c.Clock.Now().UnixNano()
		c.asked.CompareAndSwap(0, now)
		return now-c.asked.Load() < int64(patience)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.book.Resuming()
}

// Serves says whether a pod is one for our profiles.
func (c *Cache) Serves(pod *v1.Pod) bool {
	return read(c, func() bool { return c.serves[pod.Spec.SchedulerName] })
}

// Handle applies one event now and carries out its effects.
func (c *Cache) Handle(ev gang.Event) {
	c.mu.Lock()
	effects := c.book.Apply(ev, c.Clock.Now())
	c.mu.Unlock()
	c.do(effects)
}

// HandleHeld brings a member to the barrier and says whether it may bind at once, or
// why it must go back.
func (c *Cache) HandleHeld(p *v1.Pod) (open bool, back string) {
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
			back = e.Why
			continue
		}
		others = append(others, e)
	}
	c.do(others)
	return open, back
}

// Forget gives up a reservation that cannot be kept.
func (c *Cache) Forget(group gang.Ref, why string) {
	c.mu.Lock()
	effects := c.book.Forget(group, why)
	c.mu.Unlock()
	c.do(effects)
}

func (c *Cache) do(effects []gang.Effect) {
	if len(effects) > 0 {
		c.Do(effects)
	}
}

// tickEvery is how often waits are checked. It bounds how late a timeout is.
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
			if !c.open.Load() && c.asked.Load() != 0 && !c.Resuming() {
				c.do([]gang.Effect{{Verb: gang.GoOn}})
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

// Waits says whether those who wait of a gang cannot start whatever is free.
func (c *Cache) Waits(of gang.Ref) bool { return read(c, func() bool { return c.book.Waits(of) }) }

// Seat returns a member's place in the plan of its group.
func (c *Cache) Seat(pod *v1.Pod) gang.Seat {
	return read(c, func() gang.Seat { return c.book.Seat(convert.PodKey(pod)) })
}

// Tried names the group of a pod, and says whether a plan was ever looked for in the pod's cycle, and whether the
// group waits with a reservation for its victims to terminate.
func (c *Cache) Tried(pod *v1.Pod) (group gang.Ref, tried, reserved bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	group = c.groupKey(pod)
	return group, c.book.Tried(convert.PodKey(pod)), c.book.Reserved(group)
}

// Step says how far the member of that name and UID has come on its way to its node.
func (c *Cache) Step(pod, uid string) gang.Step {
	return read(c, func() gang.Step { return c.book.Step(pod, uid) })
}

// Place returns the node that a member has a place on, and whether the plan may be
// carried out. Of a pod without a gang it is the node that is reserved for it until victims have terminated.
func (c *Cache) Place(pod *v1.Pod) (node string, confirmed bool) {
	c.mu.RLock()
	at, alone := c.alone[convert.PodKey(pod)]
	c.mu.RUnlock()
	if alone && at.pod.UID == pod.UID {
		return at.node, false
	}
	seat := c.Seat(pod)
	return seat.Node, seat.Confirmed
}

// Reserved says whether a group waits with a reservation for its victims to leave.
func (c *Cache) Reserved(group gang.Ref) bool {
	return read(c, func() bool { return c.book.Reserved(group) })
}

// DoesWithout says whether a gang's group has what it needs without it.
func (c *Cache) DoesWithout(ref gang.Ref) bool {
	return read(c, func() bool { return c.book.DoesWithout(ref) })
}

// Comes says whether members of a group have yet to come to places that are reserved, planned or kept for them.
func (c *Cache) Comes(group gang.Ref) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.book.Reserved(group) || c.book.KeepsAhead(group) {
		return true
	}
	g, ok := c.book.GroupOf(group)
	return ok && slices.ContainsFunc(g.Pending, func(m gang.Member) bool { return g.Places[m.Pod] != "" })
}

// HasPlace says whether a pod has a place in a plan.
func (c *Cache) HasPlace(pod *v1.Pod) bool {
	if source.Of(pod).IsZero() {
		return false
	}
	node, _ := c.Place(pod)
	return node != ""
}

// HasNode says whether a member of a gang has a place in a plan, or a node.
func (c *Cache) HasNode(pod *v1.Pod) bool {
	return read(c, func() bool { return c.book.Has(convert.PodKey(pod)) })
}

// Starves says whether something is saved for a group, since it was refused for long.
func (c *Cache) Starves(group gang.Ref) bool {
	return read(c, func() bool { return c.book.Saves(group) })
}

// Follow has an effect tell of each member that gets a place or a node, or loses it, from now on.
func (c *Cache) Follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book.Follow = true
}
