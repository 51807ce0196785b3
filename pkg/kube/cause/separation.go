package cause

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Separation is a cause why members do not start: each needs a separate domain (by a node label), and no domain of Layer has enough.
type Separation struct {
	convert.Repulsion
	Need, Have int    // separate domains
	Layer      string // "" if the members gather in no layer
}

// Helps returns a text for users: which additional nodes would let the members start.
func (a Separation) Helps() string {
	remedy := "more nodes"
	if a.Key != v1.LabelHostname {
		remedy = "nodes with more values of " + a.Key
	}
	if a.Layer != "" {
		remedy += fmt.Sprintf(" in one %s domain", a.Layer)
	}
	return remedy
}

// Separations returns why need members cannot start: each needs a separate domain, and there are too few. Free capacity does not matter.
// A node for which takes returns false is not counted; takes may be nil.
func (s Search) Separations(need int, takes func(node int) bool) (out []Separation) {
	pending := s.Group.Pending
	out = s.separationsIn(s.All.Must, pending, len(pending)-need, takes)
	for _, set := range s.Sets {
		if set.Must <= s.All.Must || s.Group.Choice.Any() {
			continue // such gangs may stay out of the plan
		}
		refs, spare := s.refs(set.Gangs), 0
		members := slices.DeleteFunc(slices.Clone(pending), func(m gang.Member) bool { return !slices.Contains(refs, m.Gang) })
		for _, g := range set.Gangs {
			spare -= s.Group.Gangs[g].Need
		}
		out = append(out, s.separationsIn(set.Must, members, spare+len(members), takes)...)
	}
	slices.SortFunc(out, func(a, b Separation) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Layer, b.Layer), cmp.Compare(b.Need-b.Have, a.Need-a.Have))
	})
	return slices.CompactFunc(out, func(a, b Separation) bool { return a.Field == b.Field && a.Layer == b.Layer })
}

// separationsIn returns the separations of members that gather in one domain of layer. A plan need not include spare of them.
func (s Search) separationsIn(layer int, members []gang.Member, spare int, takes func(node int) bool) (out []Separation) {
	count := map[convert.Repulsion]int{}
	for _, m := range members {
		for _, reason := range convert.ApartOf(s.Group.Pods[m.Pod]) {
			count[reason]++
		}
	}
	for reason, n := range count {
		separation := Separation{Repulsion: reason, Need: n - spare, Have: s.mostDomains(reason.Key, layer, takes)}
		if layer > 0 {
			separation.Layer = s.Tree.LayerNames()[layer]
		}
		if separation.Have > 0 && separation.Have < separation.Need {
			out = append(out, separation)
		}
	}
	return out
}

// mostDomains returns how many distinct values the node label key has in the domain of layer that has the most.
func (s Search) mostDomains(key string, layer int, takes func(node int) bool) (most int) {
	tree := s.Tree
	values := map[topology.ID]map[string]bool{}
	for i, node := range s.Nodes {
		d := tree.Ancestor(tree.Node(i), layer)
		if node == nil || layer > 0 && !tree.Named(d) || takes != nil && !takes(i) {
			continue
		}
		value, ok := node.Node().Labels[key]
		if !ok && key == v1.LabelHostname {
			value, ok = tree.NodeName(i), true
		}
		if !ok {
			continue
		}
		if values[d] == nil {
			values[d] = map[string]bool{}
		}
		values[d][value] = true
		most = max(most, len(values[d]))
	}
	return most
}
