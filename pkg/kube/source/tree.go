package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// MaxLevels is how deep Kubernetes' trees of PodGroups may be, the PodGroups included.
const MaxLevels = 4

// nativeFamily adds to what a PodGroup says what those above it in its tree say, and the other
// PodGroups of that: all of them are one group. If some CompositePodGroup has more children than
// it needs, the levels above say who may be left out.
func nativeFamily(g Gang) More {
	out, t := g.More, treeOf(g)
	out.Group = t.group()
	top := t.chain[len(t.chain)-1]
	if top.TopologyKey != "" {
		out.Words = maps.Clone(out.Words)
		if out.Words == nil {
			out.Words = map[string]string{}
		}
		out.Words[FieldParentTopologyKey] = top.TopologyKey
	}
	if p := top.Priority; p != nil {
		if out.Priority != nil && *out.Priority != *p {
			out.Notes = append(slices.Clone(out.Notes), Note{InvalidAnnotation, fmt.Sprintf(
				"spec.priority: %d of PodGroup %s has no effect: the priority of %s, %d, counts; supported values: the same on both", *out.Priority, g.Ref, top.Key, *p)})
		}
		out.Priority = p
	}
	if top.Never != nil {
		out.Never = top.Never
	}
	if out.Problem == nil {
		out.Problem = t.problem()
	}
	if out.Problem == nil {
		out.Waits, out.Problem = t.counts()
	}
	switch {
	case out.Problem != nil || out.Waits != "" && !t.known():
		out.Group = nil
	case out.Waits != "": // those who have started go on
		out.Waits, out.Lacks = "", out.Waits
		out.Branches, out.Above = t.branches(), levels(t.chain)
	default:
		out.Branches, out.Above = t.branches(), t.above()
	}
	return out
}

// tree is what a PodGroup sees of the one that it is in.
type tree struct {
	chain   []*Owned // the CompositePodGroups above it, from the next one up
	members []Gang   // the PodGroups that start with it
	inner   []*Owned // the CompositePodGroups that they have in common with it, or alone, the root included
	parts   map[OwnerKey]map[string]bool
}

// up are the CompositePodGroups above a PodGroup, from the next one up.
func (g *Gang) up() []*Owned { return append([]*Owned{g.Owner}, g.Above...) }

// treeOf finds who starts together with a PodGroup: whoever is below the same root, or where that
// lets its children start one by one, below the same child of it.
func treeOf(g Gang) *tree {
	t := &tree{chain: g.up(), parts: map[OwnerKey]map[string]bool{}}
	root := t.chain[len(t.chain)-1]
	known := map[OwnerKey]bool{}
	for _, s := range g.Siblings {
		if s.Owner == nil {
			continue
		}
		chain := s.up()
		below := "PodGroup " + s.Ref.String()
		for _, c := range chain {
			if t.parts[c.Key] == nil {
				t.parts[c.Key] = map[string]bool{}
			}
			t.parts[c.Key][below] = true
			below = c.Key.String()
		}
		if root.Size == 0 && root.Problem == nil && !t.sameChild(chain, s.Ref == g.Ref) {
			continue
		}
		t.members = append(t.members, s)
		for _, c := range chain {
			if !known[c.Key] {
				known[c.Key] = true
				t.inner = append(t.inner, c)
			}
		}
	}
	return t
}

// sameChild says whether a PodGroup is below the same child of the root.
func (t *tree) sameChild(chain []*Owned, itself bool) bool {
	n := len(t.chain)
	return itself || n > 1 && len(chain) > 1 && chain[len(chain)-2].Key == t.chain[n-2].Key
}

// group are the gangs that start together; nil if one is alone.
func (t *tree) group() (refs []gang.Ref) {
	for i := range t.members {
		refs = append(refs, t.members[i].Ref)
	}
	if len(refs) < 2 {
		return nil
	}
	sortRefs(refs)
	return refs
}

// problem says what is wrong with the shape of the tree above the PodGroup, or with one in it.
func (t *tree) problem() error {
	last := t.chain[len(t.chain)-1]
	if name := last.Parent.Name; name != "" {
		if slices.ContainsFunc(t.chain, func(c *Owned) bool { return c.Key == last.Parent }) {
			return fmt.Errorf("%s: spec.parentCompositePodGroupName: %q is invalid here; supported values: one that is not below it", last.Key, name)
		}
	}
	for _, m := range append([]Gang{{Owner: t.chain[0], Above: t.chain[1:]}}, t.members...) {
		if chain := m.up(); len(chain) >= MaxLevels {
			top := chain[MaxLevels-2]
			return fmt.Errorf("%s: spec.parentCompositePodGroupName: %q is invalid here; supported values: none, since a tree has at most %d levels", top.Key, top.Parent.Name, MaxLevels)
		}
	}
	for _, c := range t.inner {
		if c.Problem != nil {
			return c.Problem
		}
		if c.Size == 0 && c.Parent != (OwnerKey{}) {
			return fmt.Errorf("%s: spec.schedulingPolicy.basic below another CompositePodGroup; supported values: gang, with minGroupCount from 1 to the number of its children, %d", c.Key, len(t.parts[c.Key]))
		}
	}
	return nil
}

// known says whether all above the PodGroup are known.
func (t *tree) known() bool { return t.chain[len(t.chain)-1].Parent == (OwnerKey{}) }

// counts says which CompositePodGroup waits for children. One that can be left out keeps nobody
// waiting.
func (t *tree) counts() (waits string, problem error) {
	if last := t.chain[len(t.chain)-1]; !t.known() {
		return fmt.Sprintf("%s, which %s names, is not known", last.Parent, last.Key), nil
	}
	for _, c := range t.inner {
		switch n := len(t.parts[c.Key]); {
		case c.Size == 0 && n > 1 && c.TopologyKey != "":
			problem = fmt.Errorf("%s: spec.schedulingConstraints.topology with schedulingPolicy.basic; supported values: with gang, and minGroupCount from 1 to the number of its PodGroups, %d", c.Key, n)
		case c.Size == 0:
		case n < c.Size && waits == "":
			waits = fmt.Sprintf("%s has %d of the %d %s that it needs", c.Key, n, c.Size, t.children(c))
		}
		if problem != nil {
			return "", problem
		}
	}
	if all := t.choice(); waits != "" && all.Holds(all.Lasting(all.All())) {
		return "", nil
	}
	return waits, nil
}

// choice is which of the PodGroups may start without the others.
func (t *tree) choice() *choice.Choice {
	c := &choice.Choice{}
	for i := range t.members {
		c.Gangs = append(c.Gangs, choice.Gang{Above: levels(t.members[i].up()), Open: true})
	}
	return c
}

// above are the levels above the PodGroup; nil if all of its group is needed.
func (t *tree) above() []choice.Level {
	if slices.ContainsFunc(t.inner, func(c *Owned) bool { return 0 < c.Size && c.Size < len(t.parts[c.Key]) }) {
		return levels(t.chain)
	}
	return nil
}

// levels are those CompositePodGroups that start no child alone.
func levels(chain []*Owned) (out []choice.Level) {
	for _, c := range chain {
		if c.Size > 0 {
			out = append(out, choice.Level{Name: c.Key.String(), Least: c.Size})
		}
	}
	return out
}

// children are what a CompositePodGroup has below it, in a word.
func (t *tree) children(c *Owned) string {
	for key := range t.parts[c.Key] {
		if !strings.HasPrefix(key, "PodGroup ") {
			return "children"
		}
	}
	return "PodGroups"
}

// branches are the CompositePodGroups below the root that name a label key, with the gangs below
// them.
func (t *tree) branches() (out []branch) {
	for _, c := range t.inner {
		if c.TopologyKey == "" || c.Parent == (OwnerKey{}) {
			continue
		}
		b := branch{where: c.Key.String(), keys: nativeKeys, words: map[string]string{FieldTopologyKey: c.TopologyKey}}
		for i := range t.members {
			if slices.ContainsFunc(t.members[i].up(), func(o *Owned) bool { return o.Key == c.Key }) {
				b.gangs = append(b.gangs, t.members[i].Ref)
			}
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b branch) int { return topology.CompareNames(a.where, b.where) })
	return out
}
