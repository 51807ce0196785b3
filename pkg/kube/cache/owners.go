package cache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// This file has the objects that own gangs, and the resources that may not be read.

// findOwner sets the owner of a gang: the object that may declare something about it. c.mu is locked.
func (c *Cache) findOwner(r *record) {
	g := r.Gang
	g.Finished = r.Finished // they name it, too
	key, ok := source.OwnerOf(g)
	if key == r.owner || !ok && r.Object == nil { // without members the old owner stays
		return
	}
	c.removeOwner(r)
	if !ok {
		return
	}
	r.owner, r.Owner = key, c.ownerOf(key, r)
	c.lineage.Add(key, r.Ref)
	c.requestKind(key.Kind)
	if child := source.ChildKind(key.Kind); child != "" {
		c.requestKind(child)
	}
}

// removeOwner removes the owner of a gang. c.mu is locked.
func (c *Cache) removeOwner(r *record) {
	c.lineage.Remove(r.owner, r.Ref)
	r.owner, r.Owner = source.OwnerKey{}, nil
}

// ownerOf returns the object with that key if it owns the gang, else nil. c.mu is locked.
func (c *Cache) ownerOf(key source.OwnerKey, r *record) *source.Owned {
	if o := c.lineage.Objects[key]; o.Owns(r.Ref) {
		return o
	}
	return nil
}

// setOwner records an object that owns gangs, and redeclares the related gangs.
func (c *Cache) setOwner(o *source.Owned) {
	c.mu.Lock()
	old := c.lineage.Objects[o.Key]
	o.CarryOver(old)
	refs := c.lineage.Related(o.Key)
	c.lineage.Store(o.Key, o)
	for ref := range c.lineage.Gangs(o.Key) {
		r := c.gangs[ref]
		r.Owner = c.ownerOf(o.Key, r)
	}
	maps.Copy(refs, c.lineage.Related(o.Key))
	effects, notes := c.redeclareSome(refs)
	effects = append(effects, c.endRecreatedBy(o.Key)...)
	differ := endsDiffer(old, o)
	if differ {
		running := old != nil || !o.Started.IsZero()
		effects = append(effects, c.endsChanged(running, slices.SortedFunc(maps.Keys(refs), compareRefs)...)...)
	}
	notes = append(notes, c.ineffectiveNotes(old, o)...)
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
	if differ && c.FreeOf != nil {
		c.FreeOf(o.Key)
	}
}

// unreadOwnerKind returns the kind of a pod's owner if objects of this kind are not requested yet; else "". The pod has no gang. c.mu is
// locked.
func (c *Cache) unreadOwnerKind(pod *v1.Pod) string {
	key, ok := source.JobOf(pod)
	if !ok || !c.serves[pod.Spec.SchedulerName] || c.kinds[key.Kind].wanted {
		return ""
	}
	return key.Kind
}

// requestKind requests that objects of a kind are watched. c.mu is locked.
func (c *Cache) requestKind(name string) {
	kind := c.kinds[name]
	kind.wanted = true
	c.kinds[name] = kind
}

// ineffectiveNotes returns a note about declarations of a Job that have no effect, if these have changed since old (or nil). c.mu is
// locked.
func (c *Cache) ineffectiveNotes(old, current *source.Owned) []Note {
	if current.Ineffective == "" || !c.open.Load() || !c.serves[current.Scheduler] || old != nil && old.Ineffective == current.Ineffective {
		return nil
	}
	return []Note{{About: current.Object, Warning: true, Reason: reasons.InvalidAnnotation, Message: current.Ineffective}}
}

// dropOwner deletes an object that owned gangs, with its declarations. Running gangs continue.
func (c *Cache) dropOwner(key source.OwnerKey) {
	c.mu.Lock()
	refs := c.lineage.Related(key)
	c.lineage.Store(key, nil)
	for ref := range c.lineage.Gangs(key) {
		c.gangs[ref].Owner = nil
	}
	effects, notes := c.redeclareSome(refs)
	effects = append(effects, c.endRecreatedBy(key)...)
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
}

// children returns the known objects through which a gang's owner makes pods. If the owner's kind has no such objects, it returns the known
// Jobs of the members, and sets r.jobs. c.mu is locked.
func (c *Cache) children(r *record, g source.Gang) (all []*source.Owned) {
	if source.ChildKind(r.owner.Kind) != "" {
		return c.lineage.Children(r.owner)
	}
	c.removeJobs(r)
	r.jobs = source.JobsOf(g)
	for key := range r.jobs {
		c.requestKind(key.Kind)
		c.lineage.AddJob(key, r.Ref)
		if job := c.lineage.Objects[key]; job != nil {
			all = append(all, job)
		}
	}
	return all
}

// removeJobs removes the recorded Jobs of a gang's members. c.mu is locked.
func (c *Cache) removeJobs(r *record) {
	for key := range r.jobs {
		c.lineage.RemoveJob(key, r.Ref)
	}
	r.jobs = nil
}

// setDenied records whether permission to read a resource is missing, and redeclares the gangs that need it.
func (c *Cache) setDenied(resource schema.GroupVersionResource, denied bool) {
	c.mu.Lock()
	var effects []gang.Effect
	var notes []Note
	if c.denied[resource] != denied {
		c.denied[resource] = denied
		for _, ref := range c.refs() {
			if r := c.gangs[ref]; r != nil && source.Reads(r.Gang, r.owner, resource) {
				effects = append(effects, c.redeclare(r)...)
				notes = append(notes, c.takeNotes(r)...)
			}
		}
	}
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
}

// ownerKind is the state of a kind of owners.
type ownerKind struct {
	wanted   bool // gangs name such owners
	looked   bool // discovery has searched for the kind
	expected bool // its objects are watched
}

// awaitsDiscovery returns whether gangs name owners of a kind for which discovery has not searched yet. The kind may have been installed
// recently. c.mu is locked.
func (c *Cache) awaitsDiscovery(name string) bool {
	kind := c.kinds[name]
	return c.laterServed && name != "" && kind.wanted && !kind.expected && !kind.looked
}

// AwaitsOwners returns whether members name owners of a kind that is not watched: it is not served, or discovery has not searched yet.
func (c *Cache) AwaitsOwners() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.ContainsFunc(slices.Collect(maps.Values(c.kinds)), func(kind ownerKind) bool { return kind.wanted && !kind.expected })
}

// kindState returns whether gangs name owners of a kind, and whether discovery must search for it.
func (c *Cache) kindState(kind string) (wanted, missing bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.kinds[kind].wanted, c.awaitsDiscovery(kind)
}

// recordDiscovery records that discovery has searched for a kind, and whether its objects are watched. It redeclares the gangs with owners
// of this kind.
func (c *Cache) recordDiscovery(name string, expected bool) {
	c.mu.Lock()
	var effects []gang.Effect
	if expected || c.awaitsDiscovery(name) {
		kind := c.kinds[name]
		kind.looked, kind.expected = true, kind.expected || expected
		c.kinds[name] = kind
		for _, ref := range c.refs() {
			if r := c.gangs[ref]; r.owner.Kind == name {
				effects = append(effects, c.redeclare(r)...)
			}
		}
	}
	c.mu.Unlock()
	c.carryOut(effects)
}
