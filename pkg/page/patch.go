package page

import (
	"reflect"
	"slices"
	"time"
)

// Patch makes a State into another one. What is nil stays as it is.
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

// Edits make a list into another one: first those go that are gone, by where they were in the
// old list, then those come that are new, by where they are in the new one, from the front; last
// those change that are in both.
type Edits[T any] struct {
	Gone    []int   `json:"gone,omitempty"`
	Came    []At[T] `json:"came,omitempty"`
	Changed []At[T] `json:"changed,omitempty"`
}

// At is an entry, and where it is in the new list.
type At[T any] struct {
	At int `json:"at"`
	Is T   `json:"is"`
}

// Diff is the patch that makes old into now.
func Diff(old, now *State) *Patch {
	p := &Patch{
		Source: changed(old.Source, now.Source), For: changed(old.For, now.For), Problem: changed(old.Problem, now.Problem),
		Nodes:   edits(old.Nodes, now.Nodes, func(n Node) string { return n.Path }),
		Gangs:   edits(old.Gangs, now.Gangs, func(g Gang) string { return g.Name }),
		Waiting: edits(old.Waiting, now.Waiting, func(w Waiter) string { return w.Gang }),
	}
	if !old.At.Equal(now.At) {
		p.At = &now.At
	}
	if !slices.Equal(old.Layers, now.Layers) {
		p.Layers = &now.Layers
	}
	return p
}

// Apply returns what a patch makes of a State, which stays as it is.
func (p *Patch) Apply(old *State) *State {
	now := *old
	if p.At != nil {
		now.At = *p.At
	}
	for field, to := range map[*string]*string{&now.Source: p.Source, &now.For: p.For, &now.Problem: p.Problem} {
		if to != nil {
			*field = *to
		}
	}
	if p.Layers != nil {
		now.Layers = *p.Layers
	}
	now.Nodes, now.Gangs, now.Waiting = p.Nodes.apply(old.Nodes), p.Gangs.apply(old.Gangs), p.Waiting.apply(old.Waiting)
	return &now
}

func changed(old, now string) *string {
	if old == now {
		return nil
	}
	return &now
}

// edits are nil if the lists are equal. An entry that is further to the front than it was, past
// one that stays, is gone and comes again.
func edits[T any](old, now []T, name func(T) string) *Edits[T] {
	where := make(map[string]int, len(old))
	for i := range old {
		where[name(old[i])] = i
	}
	var e Edits[T]
	next := 0 // of the old list
	for i := range now {
		was, known := where[name(now[i])]
		if next < len(old) && name(old[next]) == name(now[i]) {
			was, known = next, true // also of several of one name
		}
		if !known || was < next {
			e.Came = append(e.Came, At[T]{i, now[i]})
			continue
		}
		for ; next < was; next++ {
			e.Gone = append(e.Gone, next)
		}
		next++
		if !reflect.DeepEqual(old[was], now[i]) {
			e.Changed = append(e.Changed, At[T]{i, now[i]})
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

func (e *Edits[T]) apply(old []T) []T {
	if e == nil {
		return old
	}
	now := make([]T, 0, len(old)-len(e.Gone)+len(e.Came))
	gone, came := e.Gone, e.Came
	for i := range old {
		if len(gone) > 0 && gone[0] == i {
			gone = gone[1:]
			continue
		}
		for len(came) > 0 && came[0].At == len(now) {
			now, came = append(now, came[0].Is), came[1:]
		}
		now = append(now, old[i])
	}
	for _, c := range came {
		now = append(now, c.Is)
	}
	for _, c := range e.Changed {
		now[c.At] = c.Is
	}
	return now
}
