package quota

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Tree is quotas, parents before children. Invariant: it never changes.
type Tree struct {
	resources []string
	number    map[string]int // by resource
	nodes     []node
	byName    map[string]int
}

// node is a quota of a tree.
type node struct {
	Spec
	parent     int       // -1 at the top
	top        int       // the topmost quota of its tree
	beside     int       // for a Detached quota, the top of the tree whose total it reduces; else -1
	children   []int     // by name
	unweighted []int     // resources in neither its weight nor its max
	weights    []weights // of its children, by resource
	min        vector
	max        vector
	weight     vector
	hasMin     []bool // by resource: its min names it
	named      []bool // by resource: its min or max names it
	broken     string // why its pods wait; "" if the quota can be used
}

// NewTree returns a tree of the specs, and the errors in them. An error in one quota never affects unrelated quotas.
func NewTree(specs []Spec) (*Tree, []Problem) {
	g := &treeBuilder{specs: specs, valid: map[string]int{}}
	g.selectValid()
	t := &Tree{byName: map[string]int{}, number: map[string]int{}}
	for _, i := range g.valid {
		t.resources = append(t.resources, names(specs[i].Min, specs[i].Max)...)
	}
	slices.Sort(t.resources)
	t.resources = slices.Compact(t.resources)
	for r, name := range t.resources {
		t.number[name] = r
	}
	for _, i := range g.order() {
		t.addQuota(g, i)
	}
	t.linkChildren()
	slices.SortStableFunc(g.problems, func(a, b Problem) int { return cmp.Compare(a.Spec, b.Spec) })
	return t, g.problems
}

// treeBuilder selects and orders the quotas of a tree, and collects problems.
type treeBuilder struct {
	specs    []Spec
	valid    map[string]int // by name, index of the quota that counts
	problems []Problem
}

// problem records a problem of quota i.
func (g *treeBuilder) problem(i int, stops bool, format string, args ...any) {
	g.problems = append(g.problems, Problem{Spec: i, Message: fmt.Sprintf(format, args...), Stops: stops})
}

// selectValid selects for each name the quota that counts: the oldest, and of equally old ones the first.
func (g *treeBuilder) selectValid() {
	for i, s := range g.specs {
		j, ok := g.valid[s.Name]
		if !ok {
			g.valid[s.Name] = i
			continue
		}
		if s.Created < g.specs[j].Created {
			i, j, g.valid[s.Name] = j, i, i
		}
		g.problem(i, true, "there is an older quota named %q, which counts", g.specs[j].Name)
	}
}

// order returns the quotas that count, parents before children, siblings by name. A cycle is entered at its first quota by name.
func (g *treeBuilder) order() (out []int) {
	below := map[string][]int{}
	all := slices.SortedFunc(maps.Values(g.valid), func(i, j int) int { return strings.Compare(g.specs[i].Name, g.specs[j].Name) })
	for _, i := range all {
		below[g.parent(i)] = append(below[g.parent(i)], i)
	}
	listed := map[int]bool{}
	var list func(parent string)
	list = func(parent string) {
		for _, i := range below[parent] {
			if !listed[i] {
				listed[i] = true
				out = append(out, i)
				list(g.specs[i].Name)
			}
		}
	}
	list("")
	for _, i := range all {
		if !listed[i] { // part of a cycle
			listed[i] = true
			out = append(out, i)
			list(g.specs[i].Name)
		}
	}
	return out
}

// parent returns the name of a quota's parent; "" if it does not exist.
func (g *treeBuilder) parent(i int) string {
	p := g.specs[i].Parent
	if _, ok := g.valid[p]; !ok {
		return ""
	}
	return p
}

// addQuota appends quota i to the tree, below its parent, which is already added unless the two form a cycle.
func (t *Tree) addQuota(g *treeBuilder, i int) {
	s := g.specs[i]
	n := node{Spec: s, parent: -1, top: len(t.nodes), beside: -1, broken: s.Invalid}
	if s.Invalid != "" {
		g.problem(i, true, "%s", s.Invalid)
	}
	stop := func(format string, args ...any) {
		if n.broken == "" {
			g.problem(i, true, format, args...)
			n.broken = fmt.Sprintf(format, args...)
		}
	}
	p, added := t.byName[s.Parent]
	switch _, known := g.valid[s.Parent]; {
	case s.Parent == "":
	case !known:
		stop("its parent %q does not exist; create that quota, or name a quota that is marked as a parent", s.Parent)
	case !added:
		stop("its parent %q is below the quota itself; name another quota that is marked as a parent, or none", s.Parent)
	case s.Detached:
		n.beside = t.nodes[p].top
	default:
		n.parent, n.top = p, t.nodes[p].top
		if !t.nodes[p].Inner {
			stop("its parent %q is not marked as a parent; set its label is-parent to \"true\", or name another quota", s.Parent)
		} else if t.nodes[p].broken != "" && n.broken == "" {
			n.broken = "quota " + s.Parent + " above it cannot be used: " + t.nodes[p].broken
		}
	}
	for _, bad := range negative(s) {
		stop("%s is negative; write 0 or more", bad)
	}
	t.limits(&n, func(format string, args ...any) { g.problem(i, false, format, args...) })
	t.byName[s.Name] = len(t.nodes)
	t.nodes = append(t.nodes, n)
}

// negative returns a description of each amount of a quota below zero.
func negative(s Spec) (all []string) {
	for _, l := range []struct {
		field string
		list  List
	}{{"min", s.Min}, {"max", s.Max}, {"shared-weight", s.Weight}} {
		for _, r := range names(l.list) {
			if l.list[r] < 0 {
				all = append(all, fmt.Sprintf("%s of %s, %d,", l.field, r, l.list[r]))
			}
		}
	}
	return all
}

// limits sets the amounts of n from its Spec. It calls warn if a min exceeds the max.
func (t *Tree) limits(n *node, warn func(format string, args ...any)) {
	size := len(t.resources)
	n.min = make(vector, size)
	n.max = make(vector, size)
	n.weight = make(vector, size)
	n.hasMin, n.named = make([]bool, size), make([]bool, size)
	for r, name := range t.resources {
		least, hasMin := n.Min[name]
		most, hasMax := n.Max[name]
		n.hasMin[r], n.named[r] = hasMin, hasMin || hasMax
		if !hasMax {
			most = math.MaxInt64
		}
		if least > most {
			warn("min of %s is above max, so max counts as min; lower min or raise max", name)
			least = most
		}
		weight, weighs := n.Weight[name]
		switch {
		case !weighs && hasMax:
			weight = most
		case !weighs:
			n.unweighted = append(n.unweighted, r)
		}
		n.min[r] = max(least, 0)
		n.max[r] = max(most, 0)
		n.weight[r] = max(weight, 0)
	}
}

// linkChildren sets children and weights of all quotas.
func (t *Tree) linkChildren() {
	for i, n := range t.nodes {
		if n.parent >= 0 {
			t.nodes[n.parent].children = append(t.nodes[n.parent].children, i)
		}
	}
	for i := range t.nodes {
		n := &t.nodes[i]
		n.weights = make([]weights, len(t.resources))
		t.setDefaultWeights(n.children)
		for r := range n.weights {
			n.weights[r] = sumWeights(len(n.children), func(c int) int64 { return t.nodes[n.children[c]].weight[r] })
		}
	}
}

// setDefaultWeights gives children with neither weight nor max the largest weight of their siblings.
func (t *Tree) setDefaultWeights(children []int) {
	heaviest := make(vector, len(t.resources))
	for r := range heaviest {
		heaviest[r] = 1
	}
	for _, c := range children {
		for r, w := range t.nodes[c].weight {
			heaviest[r] = max(heaviest[r], w)
		}
	}
	for _, c := range children {
		for _, r := range t.nodes[c].unweighted {
			t.nodes[c].weight[r] = heaviest[r]
		}
	}
}

// weights is a sum of weights. All weights are shifted right by shift bits, so that the sum does not overflow.
type weights struct {
	sum   uint64
	shift int
}

func sumWeights(n int, weight func(i int) int64) (w weights) {
	var largest uint64
	for i := range n {
		largest = max(largest, uint64(weight(i)))
	}
	w.shift = max(0, bits.Len64(largest)+bits.Len(uint(n))-64)
	for i := range n {
		w.sum += w.shifted(weight(i))
	}
	return w
}

func (w weights) shifted(weight int64) uint64 { return uint64(weight) >> w.shift }

// Has returns whether a quota of that name exists.
func (t *Tree) Has(name string) bool { _, ok := t.byName[name]; return ok }

// Resources returns the resources named by any min or max.
func (t *Tree) Resources() []string { return slices.Clone(t.resources) }

// Names returns the names of the quotas, parents before children.
func (t *Tree) Names() (all []string) {
	for _, n := range t.nodes {
		all = append(all, n.Name)
	}
	return all
}

// Spec returns a quota as it was declared, and why its pods wait; "" if they do not. An unknown quota returns the zero Spec.
func (t *Tree) Spec(name string) (s Spec, broken string) {
	if i, ok := t.byName[name]; ok {
		return t.nodes[i].Spec, t.nodes[i].broken
	}
	return Spec{}, ""
}

// Path returns the names of the quotas from the top of a quota's tree down to it, which is included; nil for an unknown quota.
func (t *Tree) Path(name string) (path []string) {
	i, ok := t.byName[name]
	if !ok {
		return nil
	}
	for ; i >= 0; i = t.nodes[i].parent {
		path = append(path, t.nodes[i].Name)
	}
	slices.Reverse(path)
	return path
}

// maxAmount bounds each amount of a pod, so that sums of many pods do not overflow.
const maxAmount = 1 << 47

// vector returns l as a vector, without resources that no quota names. Negative amounts become 0.
func (t *Tree) vector(l List) vector {
	v := make(vector, len(t.resources))
	for name, n := range l {
		if r, ok := t.number[name]; ok {
			v[r] = min(max(n, 0), maxAmount)
		}
	}
	return v
}

// list returns the amounts of v that are nonzero or named.
func (t *Tree) list(v vector, named []bool) List {
	out := List{}
	for r, n := range v {
		if n != 0 || named[r] {
			out[t.resources[r]] = n
		}
	}
	return out
}
