package cache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/note"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// takeNotes returns the unpublished notes about a gang, and marks them as published. Until the cache opens it returns none. c.mu is locked.
func (c *Cache) takeNotes(r *record) []Note {
	if r.Declared == nil || !c.open.Load() || !c.servesGang(r) {
		return nil
	}
	return r.published.Take("", note.OfGang(&r.Record))
}

// podNotes returns the unpublished notes about one member, and marks them as published. c.mu is locked.
func (c *Cache) podNotes(pod *v1.Pod, r *record) []Note {
	if !c.open.Load() || !c.serves[pod.Spec.SchedulerName] {
		return nil
	}
	return r.published.Take(string(pod.UID), note.OfMember(&r.Record, pod))
}

// allNotes returns the unpublished notes about all gangs, members, owners, stray pods and nodes. c.mu is locked.
func (c *Cache) allNotes() (notes []Note) {
	for _, ref := range c.refs() {
		r := c.gangs[ref]
		notes = append(notes, c.takeNotes(r)...)
		for _, key := range slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames) {
			notes = append(notes, c.podNotes(r.Pods[key], r)...)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.lineage.Objects), source.OwnerKey.Compare) {
		notes = append(notes, c.ineffectiveNotes(nil, c.lineage.Objects[key])...)
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.strays), topology.CompareNames) {
		notes = append(notes, c.strayNotes(c.strays[key])...)
	}
	for _, name := range slices.SortedFunc(maps.Keys(c.nodes), topology.CompareNames) {
		notes = append(notes, note.OfNode(c.nodes[name])...)
	}
	return notes
}

// publish publishes notes as events.
func (c *Cache) publish(notes []Note) {
	for _, n := range note.Merge(notes) {
		c.Note(n)
	}
}
