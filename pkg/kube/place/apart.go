package place

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Apart is a reason why members need a domain each of its own, where the best domain of a layer has too few of these.
type Apart struct {
	convert.Apart
	Need, Have int
	Layer      string // "" where members gather in no layer
}

// Helps names the nodes that would help.
func (a Apart) Helps() string {
	is := "more nodes"
	if a.Key != v1.LabelHostname {
		is = "nodes with more values of " + a.Key
	}
	if a.Layer != "" {
		is += fmt.Sprintf(" in one %s domain", a.Layer)
	}
	return is
}

// apart returns why members cannot be together, if there are too few domains for as many. The members need so many of those that wait.
// What is free does not count, but nodes that take no member with every pod gone are left out, if bare, which has counted, is not nil.
func (a *Attempt) apart(need int, bare *Attempt) (out []Apart) {
	pending := a.Group.Pending
	out = a.apartIn(a.All.Must, pending, len(pending)-need, bare)
	for _, set := range a.Sets {
		if set.Must <= a.All.Must || a.Group.Choice.Any() {
			continue // or it may be left out
		}
		refs, spare := a.refs(set.Gangs), 0
		of := slices.DeleteFunc(slices.Clone(pending), func(m gang.Member) bool { return !slices.Contains(refs, m.Gang) })
		for _, g := range set.Gangs {
			spare -= a.Group.Gangs[g].Need
		}
		out = append(out, a.apartIn(set.Must, of, spare+len(of), bare)...)
	}
	slices.SortFunc(out, func(a, b Apart) int {
		return cmp.Or(cmp.Compare(a.Says, b.Says), cmp.Compare(a.Layer, b.Layer), cmp.Compare(b.Need-b.Have, a.Need-a.Have))
	})
	return slices.CompactFunc(out, func(a, b Apart) bool { return a.Says == b.Says && a.Layer == b.Layer })
}

// apartIn is apart for members that gather in one domain of a layer, of which so many may be left out.
func (a *Attempt) apartIn(layer int, members []gang.Member, spare int, bare *Attempt) (out []Apart) {
	count := map[convert.Apart]int{}
	for _, m := range members {
		for _, is := range convert.ApartOf(a.Group.Pods[m.Pod]) {
			count[is]++
		}
	}
	for is, n := range count {
		one := Apart{Apart: is, Need: n - spare, Have: a.mostDomains(is.Key, layer, bare)}
		if layer > 0 {
			one.Layer = a.Net.Tree.LayerNames()[layer]
		}
		if one.Have > 0 && one.Have < one.Need {
			out = append(out, one)
		}
	}
	return out
}

// mostDomains returns the highest number of values that a label of nodes has in one domain of a layer.
func (a *Attempt) mostDomains(key string, layer int, bare *Attempt) (most int) {
	tree := a.Net.Tree
	values := map[topology.ID]map[string]bool{}
	for i, node := range a.Nodes {
		d := tree.Ancestor(tree.Node(i), layer)
		takes := func(k kind) bool { return k.slots[i] > 0 }
		if node == nil || layer > 0 && !tree.Named(d) || bare != nil && !slices.ContainsFunc(bare.kinds, takes) {
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
