// Package lineage records which objects own which gangs. A gang has an owner, such as a JobSet, and an owner may have a parent. The members
// of a gang may be pods of Jobs.
//
//	parent ──► owner ──► gang ◄── Job
//
// It knows keys of objects and gangs. It must not know what the objects declare, except their parent.
// Invariant: a set exists only while it is not empty, and every walk ends, even in a cycle of parents.
package lineage

import (
	"maps"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Graph has the objects that own gangs, and their gangs. It has no lock.
type Graph struct {
	// Objects are the known objects. Only Store changes them.
	Objects  map[source.OwnerKey]*source.Owned
	gangs    index[gang.Ref]        // by owner
	jobs     index[gang.Ref]        // gangs of other APIs whose members are pods of a Job, by this Job
	children index[source.OwnerKey] // by parent
}

// New returns an empty Graph.
func New() *Graph {
	return &Graph{
		Objects: map[source.OwnerKey]*source.Owned{}, gangs: index[gang.Ref]{}, jobs: index[gang.Ref]{}, children: index[source.OwnerKey]{},
	}
}

// index has a set for each key.
type index[V comparable] map[source.OwnerKey]map[V]bool

func (x index[V]) add(key source.OwnerKey, value V) {
	if x[key] == nil {
		x[key] = map[V]bool{}
	}
	x[key][value] = true
}

func (x index[V]) remove(key source.OwnerKey, value V) {
	if delete(x[key], value); len(x[key]) == 0 {
		delete(x, key)
	}
}

// Store records an object by its key and its parent; nil deletes it.
func (g *Graph) Store(key source.OwnerKey, o *source.Owned) {
	if old := g.Objects[key]; old != nil && old.Parent != (source.OwnerKey{}) {
		g.children.remove(old.Parent, key)
	}
	if o == nil {
		delete(g.Objects, key)
		return
	}
	g.Objects[key] = o
	if o.Parent != (source.OwnerKey{}) {
		g.children.add(o.Parent, key)
	}
}

// Add records a gang of an owner.
func (g *Graph) Add(owner source.OwnerKey, ref gang.Ref) { g.gangs.add(owner, ref) }

// Remove is the reverse of Add.
func (g *Graph) Remove(owner source.OwnerKey, ref gang.Ref) { g.gangs.remove(owner, ref) }

// AddJob records that members of a gang are pods of a Job.
func (g *Graph) AddJob(job source.OwnerKey, ref gang.Ref) { g.jobs.add(job, ref) }

// RemoveJob is the reverse of AddJob.
func (g *Graph) RemoveJob(job source.OwnerKey, ref gang.Ref) { g.jobs.remove(job, ref) }

// Gangs returns the gangs of an owner. The caller must not change the result.
func (g *Graph) Gangs(owner source.OwnerKey) map[gang.Ref]bool { return g.gangs[owner] }

// Above returns the ancestors of an owner, which may be nil; the parent first.
func (g *Graph) Above(o *source.Owned) (all []*source.Owned) {
	for o != nil && o.Parent != (source.OwnerKey{}) && len(all) < source.MaxLevels {
		if o = g.Objects[o.Parent]; o != nil {
			all = append(all, o)
		}
	}
	return all
}

// Children returns the known objects whose parent is an owner, in no order.
func (g *Graph) Children(owner source.OwnerKey) (all []*source.Owned) {
	for key := range g.children[owner] {
		all = append(all, g.Objects[key])
	}
	return all
}

// Related returns the gangs of an owner, of all owners with the same root, and of a Job's pods.
func (g *Graph) Related(key source.OwnerKey) map[gang.Ref]bool {
	root := key
	for range source.MaxLevels {
		o := g.Objects[root]
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
		maps.Copy(all, g.gangs[key])
		for child := range g.children[key] {
			add(child)
		}
	}
	add(root)
	maps.Copy(all, g.jobs[key])
	add(key) // in a cycle, or below too many levels, that is not below the root
	return all
}
