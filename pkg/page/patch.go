package page

import (
	"reflect"
	"slices"
	"time"
)

// Patch is the difference between two States. A nil field means no change.
type Patch struct {
	At      *time.Time     `json:"at,omitempty"`
	Source  *string        `json:"source,omitempty"`
	For     *string        `json:"for,omitempty"`
	Layers  *[]string      `json:"layers,omitempty"`
	Nodes   *Edits[Node]   `json:"nodes,omitempty"`
	Gangs   *Edits[Gang]   `json:"gangs,omitempty"`
	Waiting *Edits[Waiter] `json:"waiting,omitempty"`
	Problem *string        `json:"problem,omitempty"`
}

// Edits are the difference between two lists. Apply them in this order: Gone removes entries by their position in the old list. Came
// inserts entries by their position in the new list. Changed replaces entries that are in both.
type Edits[T any] struct {
	Gone    []int   `json:"gone,omitempty"`
	Came    []At[T] `json:"came,omitempty"`
	Changed []At[T] `json:"changed,omitempty"`
}

// At is an entry and its position in the new list.
type At[T any] struct {
	At int `json:"at"`
	Is T   `json:"is"`
}

// Diff returns the patch that turns old into current.
func Diff(old, current *State) *Patch {
	p := &Patch{
		Source: changed(old.Source, current.Source), For: changed(old.For, current.For), Problem: changed(old.Problem, current.Problem),
		Nodes:   edits(old.Nodes, current.Nodes, func(n Node) string { return n.Path }),
		Gangs:   edits(old.Gangs, current.Gangs, func(g Gang) string { return g.Name }),
		Waiting: edits(old.Waiting, current.Waiting, func(w Waiter) string { return w.Gang }),
	}
	if !old.At.Equal(current.At) {
		p.At = &current.At
	}
	if !slices.Equal(old.Layers, current.Layers) {
		p.Layers = &current.Layers
	}
	return p
}

// Apply returns a copy of old with the patch applied.
func (p *Patch) Apply(old *State) *State {
	out := *old
	if p.At != nil {
		out.At = *p.At
	}
	for field, to := range map[*string]*string{&out.Source: p.Source, &out.For: p.For, &out.Problem: p.Problem} {
		if to != nil {
			*field = *to
		}
	}
	if p.Layers != nil {
		out.Layers = *p.Layers
	}
	out.Nodes = p.Nodes.apply(old.Nodes)
	out.Gangs = p.Gangs.apply(old.Gangs)
	out.Waiting = p.Waiting.apply(old.Waiting)
	return &out
}

// changed returns current, or nil if it equals old.
func changed(old, current string) *string {
	if old == current {
		return nil
	}
	return &current
}

// edits returns the difference between two lists of entries with names; nil if they are equal. An entry that moves toward the front is
// removed and inserted.
func edits[T any](old, current []T, name func(T) string) *Edits[T] {
	positions := make(map[string]int, len(old))
	for i := range old {
		positions[name(old[i])] = i
	}
	var e Edits[T]
	next := 0 // position in the old list
	for i := range current {
		position, found := positions[name(current[i])]
		if next < len(old) && name(old[next]) == name(current[i]) {
			position, found = next, true // also for several entries of one name
		}
		if !found || position < next {
			e.Came = append(e.Came, At[T]{i, current[i]})
			continue
		}
		for ; next < position; next++ {
			e.Gone = append(e.Gone, next)
		}
		next++
		if !reflect.DeepEqual(old[position], current[i]) {
			e.Changed = append(e.Changed, At[T]{i, current[i]})
		}
	}
	for ; next < len(old); next++ {
		e.Gone = append(e.Gone, next)
	}
	if e.Gone == nil && e.Came == nil && e.Changed == nil {
		return nil
	}
	return &e
}

// apply returns a copy of old with the edits applied; old itself for nil.
func (e *Edits[T]) apply(old []T) []T {
	if e == nil {
		return old
	}
	out := make([]T, 0, len(old)-len(e.Gone)+len(e.Came))
	removals, insertions := e.Gone, e.Came
	for i := range old {
		if len(removals) > 0 && removals[0] == i {
			removals = removals[1:]
			continue
		}
		for len(insertions) > 0 && insertions[0].At == len(out) {
			out, insertions = append(out, insertions[0].Is), insertions[1:]
		}
		out = append(out, old[i])
	}
	for _, c := range insertions {
		out = append(out, c.Is)
	}
	for _, c := range e.Changed {
		out[c.At] = c.Is
	}
	return out
}
