package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// MaxLevels is the maximal depth of Kubernetes' trees of PodGroups, including the PodGroups.
const MaxLevels = 4

// nativeFamily returns g.More, extended with what the PodGroup's ancestors declare and with its group: the PodGroups that start with
// it. Above is set if the group can start without some of its gangs.
func nativeFamily(g Gang) More {
	out, t := g.More, treeOf(g)
	out.Group = t.group()
	top := t.chain[len(t.chain)-1]
	if top.TopologyKey != "" {
		out.Values = maps.Clone(out.Values)
		if out.Values == nil {
			out.Values = map[string]string{}
		}
		out.Values[FieldParentTopologyKey] = top.TopologyKey
	}
	if p := top.Priority; p != nil {
		if out.Priority != nil && *out.Priority != *p {
			out.Notes = append(slices.Clone(out.Notes), Note{reasons.InvalidAnnotation, fmt.Sprintf(
				"spec.priority: %d of PodGroup %s has no effect: %s has priority %d, which counts; write the same priority in both",
				*out.Priority, g.Ref, top.Key, *p)})
		}
		out.Priority = p
	}
	if top.NeverPreempts != nil {
		out.NeverPreempts = top.NeverPreempts
	}
	if out.Problem == nil {
		out.Problem = t.problem()
	}
	if out.Problem == nil {
		out.WaitsFor, out.Problem = t.missing()
	}
	switch {
	case out.Problem != nil || out.WaitsFor != "" && !t.known():
		out.Group = nil
	case out.WaitsFor != "": // running members continue
		out.WaitsFor, out.Missing = "", out.WaitsFor
		out.Branches, out.Above = t.branches(), levels(t.chain)
	default:
		out.Branches, out.Above = t.branches(), t.above()
	}
	return out
}

// tree is the tree of a PodGroup, as far as that PodGroup needs it.
type tree struct {
	chain      []*Owned                     // the CompositePodGroups above it, from its parent up
	members    []Gang                       // the PodGroups that start with it
	composites []*Owned                     // the CompositePodGroups above members, including the root
	childNames map[OwnerKey]map[string]bool // the names of the children of each CompositePodGroup
}

// ancestors returns the CompositePodGroups above a PodGroup, from its parent up.
func (g *Gang) ancestors() []*Owned { return append([]*Owned{g.Owner}, g.Above...) }

// treeOf returns the tree of g. Its members are all PodGroups below the same root. If the root has policy basic (Size 0), its
// members are the PodGroups below the same child of the root.
func treeOf(g Gang) *tree {
	t := &tree{chain: g.ancestors(), childNames: map[OwnerKey]map[string]bool{}}
	root := t.chain[len(t.chain)-1]
	known := map[OwnerKey]bool{}
	for _, s := range g.Siblings {
		if s.Owner == nil {
			continue
		}
		chain := s.ancestors()
		below := "PodGroup " + s.Ref.String()
		for _, c := range chain {
			if t.childNames[c.Key] == nil {
				t.childNames[c.Key] = map[string]bool{}
			}
			t.childNames[c.Key][below] = true
			below = c.Key.String()
		}
		if root.Size == 0 && root.Problem == nil && !t.sameChild(chain, s.Ref == g.Ref) {
			continue
		}
		t.members = append(t.members, s)
		for _, c := range chain {
			if !known[c.Key] {
				known[c.Key] = true
				t.composites = append(t.composites, c)
			}
		}
	}
	return t
}

// sameChild says whether a PodGroup with ancestors chain is below the same child of the root as the tree's PodGroup, or self is true.
func (t *tree) sameChild(chain []*Owned, self bool) bool {
	n := len(t.chain)
	return self || n > 1 && len(chain) > 1 && chain[len(chain)-2].Key == t.chain[n-2].Key
}

// group returns the gangs that start together; nil if there is only one.
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

// problem returns an error if the tree has a cycle, is too deep, or has an invalid CompositePodGroup; else nil.
func (t *tree) problem() error {
	last := t.chain[len(t.chain)-1]
	if name := last.Parent.Name; name != "" {
		if slices.ContainsFunc(t.chain, func(c *Owned) bool { return c.Key == last.Parent }) {
			return fmt.Errorf("%s: spec.parentCompositePodGroupName: %q is below this group; name one above it, or none", last.Key, name)
		}
	}
	for _, m := range append([]Gang{{Owner: t.chain[0], Above: t.chain[1:]}}, t.members...) {
		if chain := m.ancestors(); len(chain) >= MaxLevels {
			top := chain[MaxLevels-2]
			return fmt.Errorf("%s: spec.parentCompositePodGroupName: %q makes the tree too deep; remove it: a tree has at most %d levels",
				top.Key, top.Parent.Name, MaxLevels)
		}
	}
	for _, c := range t.composites {
		if c.Problem != nil {
			return c.Problem
		}
		if c.Size == 0 && c.Parent != (OwnerKey{}) {
			return fmt.Errorf(
				"%s: spec.schedulingPolicy.basic has no effect below another CompositePodGroup; use gang, with "+
					"minGroupCount from 1 to the number of its children, %d", c.Key, len(t.childNames[c.Key]))
		}
	}
	return nil
}

// known says whether all ancestors of the PodGroup are known.
func (t *tree) known() bool { return t.chain[len(t.chain)-1].Parent == (OwnerKey{}) }

// missing returns a message on the first CompositePodGroup with fewer children than its minimum; "" if there is none, or if the
// group can start without it. problem is set for a topology key of a CompositePodGroup with policy basic and several children.
func (t *tree) missing() (waits string, problem error) {
	if last := t.chain[len(t.chain)-1]; !t.known() {
		return fmt.Sprintf("%s, which %s names, was not found", last.Parent, last.Key), nil
	}
	for _, c := range t.composites {
		switch n := len(t.childNames[c.Key]); {
		case c.Size == 0 && n > 1 && c.TopologyKey != "":
			problem = fmt.Errorf(
				"%s: spec.schedulingConstraints.topology does not work with schedulingPolicy.basic; use gang, with "+
					"minGroupCount from 1 to the number of its PodGroups, %d", c.Key, n)
		case c.Size == 0:
		case n < c.Size && waits == "":
			waits = fmt.Sprintf("%s has %d of the %d %s that it needs", c.Key, n, c.Size, t.childNoun(c))
		}
		if problem != nil {
			return "", problem
		}
	}
	if all := t.choice(); waits != "" && all.Holds(all.Sustainable(all.All())) {
		return "", nil
	}
	return waits, nil
}

// choice returns the tree's PodGroups with the levels above each. Package choice computes from it which subsets may start.
func (t *tree) choice() *choice.Choice {
	c := &choice.Choice{}
	for i := range t.members {
		c.Gangs = append(c.Gangs, choice.Gang{Above: levels(t.members[i].ancestors()), Open: true})
	}
	return c
}

// above returns the levels above the PodGroup; nil if the whole group is needed.
func (t *tree) above() []choice.Level {
	if slices.ContainsFunc(t.composites, func(c *Owned) bool { return 0 < c.Size && c.Size < len(t.childNames[c.Key]) }) {
		return levels(t.chain)
	}
	return nil
}

// levels returns a level for each CompositePodGroup that starts its children together.
func levels(chain []*Owned) (out []choice.Level) {
	for _, c := range chain {
		if c.Size > 0 {
			out = append(out, choice.Level{Name: c.Key.String(), Least: c.Size})
		}
	}
	return out
}

// childNoun returns "PodGroups" if all children of c are PodGroups, else "children".
func (t *tree) childNoun(c *Owned) string {
	for key := range t.childNames[c.Key] {
		if !strings.HasPrefix(key, "PodGroup ") {
			return "children"
		}
	}
	return "PodGroups"
}

// branches returns the CompositePodGroups below the root that name a label key, with their gangs.
func (t *tree) branches() (out []branch) {
	for _, c := range t.composites {
		if c.TopologyKey == "" || c.Parent == (OwnerKey{}) {
			continue
		}
		b := branch{where: c.Key.String(), keys: nativeKeys, values: map[string]string{FieldTopologyKey: c.TopologyKey}}
		for i := range t.members {
			if slices.ContainsFunc(t.members[i].ancestors(), func(o *Owned) bool { return o.Key == c.Key }) {
				b.gangs = append(b.gangs, t.members[i].Ref)
			}
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b branch) int { return topology.CompareNames(a.where, b.where) })
	return out
}
