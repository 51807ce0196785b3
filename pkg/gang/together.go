package gang

import (
	"maps"
	"slices"
	"strings"
)

// Who belongs together is asked at every step and seldom changes: each gang keeps its
// group, and regroup is called for all whose group may be another now.

// groupOf returns, sorted, the gangs that must start together with the named one. The
// slice is shared.
func (b *Book) groupOf(name string) []string {
	if g := b.gangs[name]; g != nil {
		return g.group
	}
	return b.connected(name)
}

// groupKey names the group of a gang.
func (b *Book) groupKey(name string) string {
	if g := b.gangs[name]; g != nil {
		return g.key
	}
	return strings.Join(b.connected(name), ",")
}

func gangsOf(key string) []string { return strings.Split(key, ",") }

// connected finds the group of a gang: those that it lists, those that list it, and
// theirs.
func (b *Book) connected(name string) []string {
	if g := b.gangs[name]; len(b.listed[name]) == 0 && (g == nil || len(g.lists()) == 0) {
		return []string{name}
	}
	seen := map[string]bool{name: true}
	for todo := []string{name}; len(todo) > 0; {
		n := todo[0]
		todo = todo[1:]
		var next []string
		if g := b.gangs[n]; g != nil {
			next = g.lists()
		}
		for _, other := range append(slices.Collect(maps.Keys(b.listed[n])), next...) {
			if !seen[other] {
				seen[other] = true
				todo = append(todo, other)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), b.names)
}

// list notes whom a gang lists.
func (b *Book) list(spec *Spec) {
	for _, other := range spec.Group {
		if b.listed[other] == nil {
			b.listed[other] = map[string]bool{}
		}
		b.listed[other][spec.Name] = true
	}
}

func (b *Book) unlist(spec *Spec) {
	for _, other := range spec.Group {
		delete(b.listed[other], spec.Name)
		if len(b.listed[other]) == 0 {
			delete(b.listed, other)
		}
	}
}

// regroup finds the groups of these gangs, and of all that are in one with them, anew.
func (b *Book) regroup(names []string) {
	done := map[string]bool{}
	for _, name := range names {
		if done[name] {
			continue
		}
		group := b.connected(name)
		key := strings.Join(group, ",")
		for _, other := range group {
			done[other] = true
			if g := b.gangs[other]; g != nil && g.key != key {
				g.group, g.key = group, key
				b.moved(g)
			}
		}
	}
}

// moved is called when a gang has come to another group: what its members are to the plan
// may differ.
func (b *Book) moved(g *gang) {
	for _, m := range g.members {
		b.change(m, b.notePlace)
	}
	if group := b.groups[g.key]; group != nil {
		b.inTurn(group, group.turn)
	}
}
