package group

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// A gang with podCountMultiple consists of slices: each has that many members in one domain. If members finish and are not recreated, the
// number of the others may be no multiple. Then there is one smaller slice, the last one, which is a separate gang for planners:
//
//	podCountMultiple 4, 3 of 8 members have finished    one slice of 4, the last slice of 1

// The names of the parts. LastSlice is the smaller slice.
const (
	wholeSlices = "whole slices"
	LastSlice   = "last slice"
)

// splitSlices replaces a gang by its whole slices and its last slice, if finished members are the cause of a remainder. tree may be nil.
func (g *Group) splitSlices(r *Record, tree *topology.Tree) {
	index := slices.IndexFunc(g.Gangs, func(whole gang.Gang) bool { return whole.Ref == r.Ref })
	d, whole := r.Declared, g.Gangs[index]
	if d == nil || !d.Multiples || d.Gather == nil || len(d.SubGroups)+len(d.Tasks) > 0 || g.Choice != nil ||
		whole.Finished+whole.Completed == 0 {
		return
	}
	var rules []scheduling.GatherRule
	for _, rule := range d.Gather.Rules {
		if rule.PodCountMultiple > 1 && (rule.Scope == scheduling.ScopePodGroup || len(g.Gangs) == 1) {
			rules = append(rules, rule)
		}
	}
	members := slices.DeleteFunc(slices.Concat(g.Bound, g.Pending), func(m gang.Member) bool { return m.Gang != r.Ref })
	if len(rules) == 0 || len(members)+whole.Finished < whole.Min {
		return // no constraint, or members are still to be recreated
	}
	slices.SortStableFunc(rules, func(x, y scheduling.GatherRule) int { return x.PodCountMultiple - y.PodCountMultiple })
	remainder := len(members) % rules[0].PodCountMultiple
	if remainder == 0 && !slices.ContainsFunc(rules, func(r scheduling.GatherRule) bool { return len(members)%r.PodCountMultiple != 0 }) {
		return
	}
	g.moveMultiples(r.Ref)
	p := &parts{subGroupOf: map[string]string{}}
	last := lastOf(members, remainder, rules[0], tree)
	for _, name := range []string{wholeSlices, LastSlice} {
		s := &subGroup{name: name, policy: -1}
		for _, m := range members {
			if last[m.Pod] == (name == LastSlice) {
				p.subGroupOf[m.Pod] = name
				if s.exist++; m.Node != "" {
					s.placed++
				}
			}
		}
		if s.exist > 0 {
			p.all = append(p.all, s)
		}
	}
	for _, s := range p.all {
		own := convert.Own{Gangs: []gang.Ref{r.Ref.Part(s.name)}, Gather: &scheduling.GatherSpec{}}
		for _, rule := range rules {
			rule.PodCountMultiple = divisor(s.exist, rule.PodCountMultiple)
			if s.name == LastSlice {
				rule.PodCountMultiple = s.exist
			}
			own.Gather.Rules = append(own.Gather.Rules, rule)
		}
		g.Constraints = append(g.Constraints, own)
	}
	g.replace(index, p.sliced(whole), p)
}

// lastOf returns the keys of the members of the last slice, which has size members. If the bound members in a domain have a remainder of
// that size, the last of these are the last slice; else the last pending members are.
func lastOf(members []gang.Member, size int, rule scheduling.GatherRule, tree *topology.Tree) map[string]bool {
	last, bound := map[string]bool{}, map[topology.ID][]string{}
	for _, m := range members {
		if d, ok := domainOf(tree, m.Node, rule.Layer); ok {
			bound[d] = append(bound[d], m.Pod)
		}
	}
	host := topology.ID(-1)
	for d, pods := range bound {
		if size > 0 && len(pods)%rule.PodCountMultiple == size && (host < 0 || d < host) {
			host = d
		}
	}
	pods := bound[host]
	if host < 0 {
		for _, m := range members {
			if m.Node == "" {
				pods = append(pods, m.Pod)
			}
		}
	}
	for _, pod := range pods[max(0, len(pods)-size):] {
		last[pod] = true
	}
	return last
}

// domainOf returns the domain of a layer that contains a node; ok is false if it is unknown.
func domainOf(t *topology.Tree, node, layer string) (d topology.ID, ok bool) {
	if t == nil || node == "" {
		return 0, false
	}
	l, known := t.LayerIndex(layer)
	i, exists := t.NodeIndex(node)
	if !known || !exists {
		return 0, false
	}
	return t.Ancestor(t.Node(i), l), true
}

// moveMultiples removes the multiples from the group's constraint, and adds them as constraints of each gang except one. The gang except is
// split into slices, which get constraints of their own; its own multiples are removed, too.
func (g *Group) moveMultiples(except gang.Ref) {
	if g.Gather != nil {
		var each []scheduling.GatherRule
		g.Gather, each = withoutMultiples(g.Gather, len(g.Gangs) == 1)
		for _, ref := range g.Whole() {
			if ref != except && len(each) > 0 {
				g.Constraints = append(g.Constraints, convert.Own{Gangs: []gang.Ref{ref}, Gather: &scheduling.GatherSpec{Rules: each}})
			}
		}
	}
	for i := range g.Constraints {
		if own := &g.Constraints[i]; slices.Equal(own.Gangs, []gang.Ref{except}) {
			own.Gather, _ = withoutMultiples(own.Gather, true)
		}
	}
}

// withoutMultiples returns a copy of g without multiples, and the rules that had them. If all is false, it changes only rules for single
// gangs.
func withoutMultiples(g *scheduling.GatherSpec, all bool) (out *scheduling.GatherSpec, removed []scheduling.GatherRule) {
	out = &scheduling.GatherSpec{Rules: slices.Clone(g.Rules)}
	for i := range out.Rules {
		if r := &out.Rules[i]; r.PodCountMultiple > 1 && (all || r.Scope == scheduling.ScopePodGroup) {
			removed = append(removed, *r)
			r.PodCountMultiple = 1
		}
	}
	return out, removed
}

// divisor returns the greatest common divisor of a and b.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sliced returns the parts of the gang whole as gangs. Members that the gang needs, or has lost, are taken from the whole slices first.
func (p *parts) sliced(whole gang.Gang) (out []gang.Gang) {
	need, lost := whole.Need, max(0, whole.Min-whole.Started)
	for _, s := range p.all {
		part, waits := whole, s.exist-s.placed
		part.Ref, part.Started = whole.Ref.Part(s.name), s.placed
		part.Need = min(need, waits)
		part.Min = s.placed + max(part.Need, min(lost, waits))
		need, lost = need-part.Need, lost-min(lost, waits)
		out = append(out, part)
	}
	return out
}
