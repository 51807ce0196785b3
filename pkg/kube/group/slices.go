package group

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// A gang with podCountMultiple consists of slices: so many members in one domain each. When members have finished and are not recreated, the
// members that are left may be no multiple. Then the remainder is one smaller slice, and planners see it as a gang of its own in the group:
//
//	podCountMultiple 4, 3 of 8 members have finished    one slice of 4, the last slice of 1

// The names of the parts, as planners see them.
const (
	wholeSlices = "whole slices"
	LastSlice   = "last slice"
)

// splitSlices splits a gang into its whole slices and its last slice, if finished members leave a remainder. tree is nil if it is not known.
func (g *Group) splitSlices(r *Record, tree *topology.Tree) {
	at := slices.IndexFunc(g.Gangs, func(of gang.Gang) bool { return of.Ref == r.Ref })
	d, of := r.Declared, g.Gangs[at]
	if d == nil || !d.Multiples || d.Gather == nil || len(d.SubGroups)+len(d.Tasks) > 0 || g.Choice != nil || of.Finished+of.Completed == 0 {
		return
	}
	var rules []scheduling.GatherRule
	for _, rule := range d.Gather.Rules {
		if rule.PodCountMultiple > 1 && (rule.Scope == scheduling.ScopePodGroup || len(g.Gangs) == 1) {
			rules = append(rules, rule)
		}
	}
	members := slices.DeleteFunc(slices.Concat(g.Bound, g.Pending), func(m gang.Member) bool { return m.Gang != r.Ref })
	if len(rules) == 0 || len(members)+of.Finished < of.Min {
		return // no rule, or members are still to be recreated
	}
	slices.SortStableFunc(rules, func(x, y scheduling.GatherRule) int { return x.PodCountMultiple - y.PodCountMultiple })
	left := len(members) % rules[0].PodCountMultiple
	if left == 0 && !slices.ContainsFunc(rules, func(r scheduling.GatherRule) bool { return len(members)%r.PodCountMultiple != 0 }) {
		return
	}
	g.leaveSlices(r.Ref)
	p := &parts{of: map[string]string{}}
	last := lastOf(members, left, rules[0], tree)
	for _, name := range []string{wholeSlices, LastSlice} {
		s := &subGroup{name: name, policy: -1}
		for _, m := range members {
			if last[m.Pod] == (name == LastSlice) {
				p.of[m.Pod] = name
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
		g.Own = append(g.Own, own)
	}
	g.replace(at, p.sliced(of), p)
}

// lastOf are the members of the last slice of so many: those of a domain that has so many beyond its whole slices, else the last that wait.
func lastOf(members []gang.Member, left int, rule scheduling.GatherRule, tree *topology.Tree) map[string]bool {
	last, bound := map[string]bool{}, map[topology.ID][]string{}
	for _, m := range members {
		if d, ok := domainOf(tree, m.Node, rule.Layer); ok {
			bound[d] = append(bound[d], m.Pod)
		}
	}
	host := topology.ID(-1)
	for d, pods := range bound {
		if left > 0 && len(pods)%rule.PodCountMultiple == left && (host < 0 || d < host) {
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
	for _, pod := range pods[max(0, len(pods)-left):] {
		last[pod] = true
	}
	return last
}

// domainOf is the domain of a layer that a node is in; ok is false if that is not known.
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

// leaveSlices takes the multiples of each gang from what the group asks for, but for one gang, which says them itself.
func (g *Group) leaveSlices(but gang.Ref) {
	if g.Gather != nil {
		var each []scheduling.GatherRule
		g.Gather, each = withoutMultiples(g.Gather, len(g.Gangs) == 1)
		for _, ref := range g.Whole() {
			if ref != but && len(each) > 0 {
				g.Own = append(g.Own, convert.Own{Gangs: []gang.Ref{ref}, Gather: &scheduling.GatherSpec{Rules: each}})
			}
		}
	}
	for i := range g.Own {
		if own := &g.Own[i]; slices.Equal(own.Gangs, []gang.Ref{but}) {
			own.Gather, _ = withoutMultiples(own.Gather, true)
		}
	}
}

// withoutMultiples is a spec without multiples, of each gang or of all, and the rules that had them.
func withoutMultiples(g *scheduling.GatherSpec, all bool) (out *scheduling.GatherSpec, had []scheduling.GatherRule) {
	out = &scheduling.GatherSpec{Rules: slices.Clone(g.Rules)}
	for i := range out.Rules {
		if r := &out.Rules[i]; r.PodCountMultiple > 1 && (all || r.Scope == scheduling.ScopePodGroup) {
			had = append(had, *r)
			r.PodCountMultiple = 1
		}
	}
	return out, had
}

// divisor is the greatest number that divides both.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sliced are the parts of a gang in the shape of gangs: what it needs and has lost comes from the whole slices first.
func (p *parts) sliced(of gang.Gang) (out []gang.Gang) {
	need, lost := of.Need, max(0, of.Min-of.Started)
	for _, s := range p.all {
		is, waits := of, s.exist-s.placed
		is.Ref, is.Started = of.Ref.Part(s.name), s.placed
		is.Need = min(need, waits)
		is.Min = s.placed + max(is.Need, min(lost, waits))
		need, lost = need-is.Need, lost-min(lost, waits)
		out = append(out, is)
	}
	return out
}
