package cache

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// This file keeps the objects that own gangs, and the resources that may not be read.

// findOwner records the object that may declare something about a gang. c.mu is held.
func (c *Cache) findOwner(r *record) {
	g := r.Gang
	g.Finished = r.Finished // they name it, too
	key, ok := source.OwnerOf(g)
	if key == r.owner || !ok && r.Object == nil { // without members the old owner stays
		return
	}
	c.disown(r)
	if !ok {
		return
	}
	r.owner, r.Owner = key, c.ownerOf(key, r)
	if c.owned[key] == nil {
		c.owned[key] = map[gang.Ref]bool{}
	}
	c.owned[key][r.Ref] = true
	c.want(key.Kind)
	if child := source.ChildKind(key.Kind); child != "" {
		c.want(child)
	}
}

// disown removes a gang's owner. c.mu is held.
func (c *Cache) disown(r *record) {
	if delete(c.owned[r.owner], r.Ref); len(c.owned[r.owner]) == 0 {
		delete(c.owned, r.owner)
	}
	r.owner, r.Owner = source.OwnerKey{}, nil
}

// ownerOf returns the object with that key if it owns the gang, or nil. c.mu is held.
func (c *Cache) ownerOf(key source.OwnerKey, r *record) *source.Owned {
	if o := c.owners[key]; o.Owns(r.Ref) {
		return o
	}
	return nil
}

// setOwner records what an object declares about its gangs.
func (c *Cache) setOwner(o *source.Owned) {
	c.mu.Lock()
	old := c.owners[o.Key]
	o.CarryOver(old)
	refs := c.family(o.Key)
	c.fileOwner(o.Key, o)
	for ref := range c.owned[o.Key] {
		r := c.gangs[ref]
		r.Owner = c.ownerOf(o.Key, r)
	}
	maps.Copy(refs, c.family(o.Key))
	effects, notes := c.redeclareSome(refs)
	notes = append(notes, c.unheeded(old, o)...)
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
}

// wantsOwner returns the kind of owner to read for a pod without a gang; "" if none, or read already. c.mu is held.
func (c *Cache) wantsOwner(pod *v1.Pod) string {
	key, ok := source.JobOf(pod)
	if !ok || !c.serves[pod.Spec.SchedulerName] || c.kinds[key.Kind].wanted {
		return ""
	}
	return key.Kind
}

// want requests that objects of a kind are read. c.mu is held.
func (c *Cache) want(name string) {
	kind := c.kinds[name]
	kind.wanted = true
	c.kinds[name] = kind
}

// unheeded returns a note on what a Job declares without effect, if it changed. c.mu is held.
func (c *Cache) unheeded(old, current *source.Owned) []Note {
	if current.Ineffective == "" || !c.open.Load() || !c.serves[current.Scheduler] || old != nil && old.Ineffective == current.Ineffective {
		return nil
	}
	return []Note{{About: current.Object, Warning: true, Reason: reasons.InvalidAnnotation, Message: current.Ineffective}}
}

// dropOwner deletes an object and its declarations, which a new process could not know. Running gangs continue.
func (c *Cache) dropOwner(key source.OwnerKey) {
	c.mu.Lock()
	refs := c.family(key)
	c.fileOwner(key, nil)
	for ref := range c.owned[key] {
		c.gangs[ref].Owner = nil
	}
	effects, notes := c.redeclareSome(refs)
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
}

// fileOwner records an object; nil deletes it. c.mu is held.
func (c *Cache) fileOwner(key source.OwnerKey, o *source.Owned) {
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

// above returns the ancestors of an owner, the parent first. c.mu is held.
func (c *Cache) above(o *source.Owned) (all []*source.Owned) {
	for o != nil && o.Parent != (source.OwnerKey{}) && len(all) < source.MaxLevels {
		if o = c.owners[o.Parent]; o != nil {
			all = append(all, o)
		}
	}
	return all
}

// children returns the objects through which a gang's owner makes pods, or the Jobs of its members, which it also
// records. c.mu is held.
func (c *Cache) children(r *record, g source.Gang) (all []*source.Owned) {
	if source.ChildKind(r.owner.Kind) != "" {
		for key := range c.childOwners[r.owner] {
			all = append(all, c.owners[key])
		}
		return all
	}
	c.leaveJobs(r)
	r.jobs = source.JobsOf(g)
	for key := range r.jobs {
		if c.want(key.Kind); c.jobs[key] == nil {
			c.jobs[key] = map[gang.Ref]bool{}
		}
		if c.jobs[key][r.Ref] = true; c.owners[key] != nil {
			all = append(all, c.owners[key])
		}
	}
	return all
}

// leaveJobs forgets the Jobs of a gang's members. c.mu is held.
func (c *Cache) leaveJobs(r *record) {
	for key := range r.jobs {
		if delete(c.jobs[key], r.Ref); len(c.jobs[key]) == 0 {
			delete(c.jobs, key)
		}
	}
	r.jobs = nil
}

// family returns the gangs of an owner, and of all owners with the same root. c.mu is held.
func (c *Cache) family(key source.OwnerKey) map[gang.Ref]bool {
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

// deny records whether a resource lacks read permission, and redeclares the gangs that need it.
func (c *Cache) deny(resource schema.GroupVersionResource, denied bool) {
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
	looked   bool // discovery has looked for it since
	expected bool // its objects are watched
}

// seeks says whether gangs name owners of a kind that discovery has not looked for since: it may have been
// installed meanwhile. c.mu is held.
func (c *Cache) seeks(name string) bool {
	kind := c.kinds[name]
	return c.laterServed && name != "" && kind.wanted && !kind.expected && !kind.looked
}

// wants says whether gangs name owners of a kind, and whether discovery must look for it.
func (c *Cache) wants(kind string) (wanted, missing bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.kinds[kind].wanted, c.seeks(kind)
}

// look records that discovery looked for a kind, and whether its objects are watched. It redeclares the gangs of
// such owners.
func (c *Cache) look(name string, expected bool) {
	c.mu.Lock()
	var effects []gang.Effect
	if expected || c.seeks(name) {
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
