package cache

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// The objects that own gangs, and what is known of them and of resources that may not be read.

// findOwner notes who may say something of a gang. c.mu is held.
func (c *Cache) findOwner(r *record) {
	g := r.Gang
	g.Done = r.Finished // they name it, too
	key, ok := source.OwnerOf(g)
	if key == r.owner || !ok && r.Object == nil { // who has no members left keeps what was said
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

// disown forgets who owns a gang. c.mu is held.
func (c *Cache) disown(r *record) {
	if delete(c.owned[r.owner], r.Ref); len(c.owned[r.owner]) == 0 {
		delete(c.owned, r.owner)
	}
	r.owner, r.Owner = source.OwnerKey{}, nil
}

// ownerOf is the object of that name, if a gang is one of its own. c.mu is held.
func (c *Cache) ownerOf(key source.OwnerKey, r *record) *source.Owned {
	if o := c.owners[key]; o.Owns(r.Ref) {
		return o
	}
	return nil
}

// setOwner notes what an object says of the gangs that it owns.
func (c *Cache) setOwner(o *source.Owned) {
	c.mu.Lock()
	was := c.owners[o.Key]
	o.Follows(was)
	about := c.family(o.Key)
	c.fileOwner(o.Key, o)
	for ref := range c.owned[o.Key] {
		r := c.gangs[ref]
		r.Owner = c.ownerOf(o.Key, r)
	}
	maps.Copy(about, c.family(o.Key))
	effects, notes := c.redeclareSome(about)
	notes = append(notes, c.unheeded(was, o)...)
	c.mu.Unlock()
	c.do(effects)
	c.tell(notes)
}

// wantsOwner returns the kind of objects that are to be read for a pod that names no gang; "" if they are, or need not be. c.mu is held.
func (c *Cache) wantsOwner(pod *v1.Pod) string {
	key, ok := source.MayOwn(pod)
	if !ok || !c.serves[pod.Spec.SchedulerName] || c.kinds[key.Kind].wanted {
		return ""
	}
	return key.Kind
}

// want has objects of a kind read. c.mu is held.
func (c *Cache) want(name string) {
	kind := c.kinds[name]
	kind.wanted = true
	c.kinds[name] = kind
}

// unheeded is what a Job says without effect, unless people were told when it was as it was before. c.mu is held.
func (c *Cache) unheeded(was, is *source.Owned) []Note {
	if is.Unheeded == "" || !c.open.Load() || !c.serves[is.Scheduler] || was != nil && was.Unheeded == is.Unheeded {
		return nil
	}
	return []Note{{About: is.Object, Warning: true, Reason: InvalidAnnotation, Message: is.Unheeded}}
}

// dropOwner notes that an object is gone. What it has said ends with it: a process that begins
// now could not know it. Who runs goes on.
func (c *Cache) dropOwner(key source.OwnerKey) {
	c.mu.Lock()
	about := c.family(key)
	c.fileOwner(key, nil)
	for ref := range c.owned[key] {
		c.gangs[ref].Owner = nil
	}
	effects, notes := c.redeclareSome(about)
	c.mu.Unlock()
	c.do(effects)
	c.tell(notes)
}

// fileOwner notes what an object says, or with nil that there is none. c.mu is held.
func (c *Cache) fileOwner(key source.OwnerKey, o *source.Owned) {
	if was := c.owners[key]; was != nil && was.Parent != (source.OwnerKey{}) {
		if delete(c.below[was.Parent], key); len(c.below[was.Parent]) == 0 {
			delete(c.below, was.Parent)
		}
	}
	if o == nil {
		delete(c.owners, key)
		return
	}
	c.owners[key] = o
	if o.Parent != (source.OwnerKey{}) {
		if c.below[o.Parent] == nil {
			c.below[o.Parent] = map[source.OwnerKey]bool{}
		}
		c.below[o.Parent][key] = true
	}
}

// above are the parents of an owner, from the next one up. c.mu is held.
func (c *Cache) above(o *source.Owned) (all []*source.Owned) {
	for o != nil && o.Parent != (source.OwnerKey{}) && len(all) < source.MaxLevels {
		if o = c.owners[o.Parent]; o != nil {
			all = append(all, o)
		}
	}
	return all
}

// children are the objects through which a gang's owner makes pods, or the Jobs of its members, which are noted and read from now on. c.mu is held.
func (c *Cache) children(r *record, g source.Gang) (all []*source.Owned) {
	if source.ChildKind(r.owner.Kind) != "" {
		for key := range c.below[r.owner] {
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

// leaveJobs forgets which Jobs have pods in a gang. c.mu is held.
func (c *Cache) leaveJobs(r *record) {
	for key := range r.jobs {
		if delete(c.jobs[key], r.Ref); len(c.jobs[key]) == 0 {
			delete(c.jobs, key)
		}
	}
	r.jobs = nil
}

// family are the gangs of an owner, and where owners have parents, of all that have its root.
// c.mu is held.
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
		for child := range c.below[key] {
			add(child)
		}
	}
	add(root)
	maps.Copy(all, c.jobs[key])
	add(key) // in a circle, or below more levels than are legal, that is not below the root
	return all
}

// deny notes whether a resource may not be read, which whoever needs it is told.
func (c *Cache) deny(resource schema.GroupVersionResource, is bool) {
	c.mu.Lock()
	var effects []gang.Effect
	var notes []Note
	if c.denied[resource] != is {
		c.denied[resource] = is
		for _, ref := range c.refs() {
			if r := c.gangs[ref]; r != nil && source.Reads(r.Gang, r.owner, resource) {
				effects = append(effects, c.redeclare(r)...)
				notes = append(notes, c.takeNotes(r)...)
			}
		}
	}
	c.mu.Unlock()
	c.do(effects)
	c.tell(notes)
}

// ownerKind is what is known of a kind of owners.
type ownerKind struct {
	wanted   bool // gangs name such owners
	looked   bool // since then it was found out whether it is served
	expected bool // its objects are watched: all are known, or soon will be
}

// seeks says whether gangs name owners of a kind for which nobody has looked since the first of them came: it may have
// been installed a moment ago, and what its objects say would be missing. c.mu is held.
func (c *Cache) seeks(name string) bool {
	kind := c.kinds[name]
	return c.later && name != "" && kind.wanted && !kind.expected && !kind.looked
}

// wants says whether there are gangs that objects of a kind may own, and whether nobody has looked for it since they came.
func (c *Cache) wants(kind string) (wanted, missing bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.kinds[kind].wanted, c.seeks(kind)
}

// look notes that a kind was looked for, and whether its objects are watched from now on. The gangs that name such owners
// are declared anew.
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
	c.do(effects)
}
