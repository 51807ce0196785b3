package cache

import (
	"maps"

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
	if c.owned[key] == nil {
		c.owned[key] = map[gang.Ref]bool{}
	}
	c.owned[key][r.Ref] = true
	c.requestKind(key.Kind)
	if child := source.ChildKind(key.Kind); child != "" {
		c.requestKind(child)
	}
}

// removeOwner removes the owner of a gang. c.mu is locked.
func (c *Cache) removeOwner(r *record) {
	if delete(c.owned[r.owner], r.Ref); len(c.owned[r.owner]) == 0 {
		delete(c.owned, r.owner)
	}
	r.owner, r.Owner = source.OwnerKey{}, nil
}

// ownerOf returns the object with that key if it owns the gang, else nil. c.mu is locked.
func (c *Cache) ownerOf(key source.OwnerKey, r *record) *source.Owned {
	if o := c.owners[key]; o.Owns(r.Ref) {
		return o
	}
	return nil
}

// setOwner records an object that owns gangs, and redeclares the related gangs.
func (c *Cache) setOwner(o *source.Owned) {
	c.mu.Lock()
	old := c.owners[o.Key]
	o.CarryOver(old)
	refs := c.relatedGangs(o.Key)
	c.storeOwner(o.Key, o)
	for ref := range c.owned[o.Key] {
		r := c.gangs[ref]
		r.Owner = c.ownerOf(o.Key, r)
	}
	maps.Copy(refs, c.relatedGangs(o.Key))
	effects, notes := c.redeclareSome(refs)
	effects = append(effects, c.endRecreatedBy(o.Key)...)
	notes = append(notes, c.ineffectiveNotes(old, o)...)
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
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
	refs := c.relatedGangs(key)
	c.storeOwner(key, nil)
	for ref := range c.owned[key] {
		c.gangs[ref].Owner = nil
	}
	effects, notes := c.redeclareSome(refs)
	effects = append(effects, c.endRecreatedBy(key)...)
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
}

// storeOwner records an object that owns gangs, by its key and its parent; nil deletes it. c.mu is locked.
func (c *Cache) storeOwner(key source.OwnerKey, o *source.Owned) {
	if old := c.owners[key]; old != nil && old.Parent != (source.OwnerKey{}) {
		if delete(c.childOwners[old.Parent], key); len(c.childOwners[old.Parent]) == 0 {
			delete(c.childOwners, old.Parent)
		}
	}
	if o == nil {
		delete(c.owners, key)
		return
	}
	c.owners[key] = o
	if o.Parent != (source.OwnerKey{}) {
		if c.childOwners[o.Parent] == nil {
			c.childOwners[o.Parent] = map[source.OwnerKey]bool{}
		}
		c.childOwners[o.Parent][key] = true
	}
}

// above returns the ancestors of an owner, the parent first. c.mu is locked.
func (c *Cache) above(o *source.Owned) (all []*source.Owned) {
	for o != nil && o.Parent != (source.OwnerKey{}) && len(all) < source.MaxLevels {
		if o = c.owners[o.Parent]; o != nil {
			all = append(all, o)
		}
	}
	return all
}

// children returns the known objects through which a gang's owner makes pods. If the owner's kind has no such objects, it returns the known
// Jobs of the members, and sets r.jobs. c.mu is locked.
func (c *Cache) children(r *record, g source.Gang) (all []*source.Owned) {
	if source.ChildKind(r.owner.Kind) != "" {
		for key := range c.childOwners[r.owner] {
			all = append(all, c.owners[key])
		}
		return all
	}
	c.removeJobs(r)
	r.jobs = source.JobsOf(g)
	for key := range r.jobs {
		if c.requestKind(key.Kind); c.jobs[key] == nil {
			c.jobs[key] = map[gang.Ref]bool{}
		}
		if c.jobs[key][r.Ref] = true; c.owners[key] != nil {
			all = append(all, c.owners[key])
		}
	}
	return all
}

// removeJobs removes the recorded Jobs of a gang's members. c.mu is locked.
func (c *Cache) removeJobs(r *record) {
	for key := range r.jobs {
		if delete(c.jobs[key], r.Ref); len(c.jobs[key]) == 0 {
			delete(c.jobs, key)
		}
	}
	r.jobs = nil
}

// relatedGangs returns the gangs of an owner, of all owners with the same root, and of a Job's pods. c.mu is locked.
func (c *Cache) relatedGangs(key source.OwnerKey) map[gang.Ref]bool {
	root := key
	for range source.MaxLevels {
		o := c.owners[root]
		if o == nil || o.Parent == (source.OwnerKey{}) {
			break
		}
		root = o.Parent
	}
	all, seen := map[gang.Ref]bool{}, map[source.OwnerKey]bool{}
	var add func(source.OwnerKey)
	add = func(key source.OwnerKey) {
		if seen[key] {
			return
		}
		seen[key] = true
		maps.Copy(all, c.owned[key])
		for child := range c.childOwners[key] {
			add(child)
		}
	}
	add(root)
	maps.Copy(all, c.jobs[key])
	add(key) // in a cycle, or below too many levels, that is not below the root
	return all
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
