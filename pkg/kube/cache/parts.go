package cache

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// The members of a gang may form sub-groups by their labels (source.SubGroups), which only its object
// knows. To the book the gang is one; planners see each sub-group as a gang of its own in the group,
// and those that are in none as another.

// split gives a gang's sub-groups the place of the gang in a group, or says which of them are missing.
func (g *Group) split(r *record) gang.Refusal {
	if r.declared == nil || len(r.declared.SubGroups) == 0 {
		return gang.Refusal{}
	}
	at := slices.IndexFunc(g.Gangs, func(of gang.Gang) bool { return of.Ref == r.Ref })
	p := g.parts(r)
	need := g.Gangs[at].Need
	if need > 0 { // a gang that was whole once goes on with those who are left
		if why := p.lack(r.declared.SubGroups, r.Pods); why != "" {
			return gang.Refusal{By: gang.Missing, Words: why}
		}
	}
	parts, left := p.gangs(g.Gangs[at], need, r.declared.SubGroups)
	if left > 0 {
		return gang.Refusal{By: gang.Missing, Words: fmt.Sprintf("%d more members are needed than whole sub-groups have, and those who are in none", left)}
	}
	for i, s := range p.all {
		if s.policy >= 0 && r.declared.SubGroups[s.policy].Gather != nil {
			g.Own = append(g.Own, convert.Own{Gangs: []gang.Ref{parts[i].Ref}, Gather: r.declared.SubGroups[s.policy].Gather})
		}
	}
	g.Gangs = slices.Concat(g.Gangs[:at], parts, g.Gangs[at+1:])
	for _, members := range [][]gang.Member{g.Pending, g.Bound} {
		for i := range members {
			if m := &members[i]; m.Gang == r.Ref {
				m.Gang = r.Ref.Part(p.of[m.Pod])
			}
		}
	}
	return gang.Refusal{}
}

// parts are the sub-groups of a gang, in the order of their policies and names, and last those who
// are in none.
type parts struct {
	all []*subGroup
	of  map[string]string // by member
}

type subGroup struct {
	name          string
	policy        int // -1 is none
	size          int
	exist, placed int
}

// parts sorts those members of a gang that exist for the scheduler, and those that have succeeded.
func (g *Group) parts(r *record) *parts {
	p := &parts{of: map[string]string{}}
	known := map[string]*subGroup{}
	count := func(key string, pod *v1.Pod, placed bool) {
		name, policy := r.declared.SubGroupOf(pod)
		s := known[name]
		if s == nil {
			s = &subGroup{name: name, policy: policy}
			if policy >= 0 {
				s.size = r.declared.SubGroups[policy].Size
			}
			known[name] = s
			p.all = append(p.all, s)
		}
		p.of[key] = name
		s.exist++
		if placed {
			s.placed++
		}
	}
	for i, members := range [][]gang.Member{g.Pending, g.Bound} {
		for _, m := range members {
			if pod := r.Pods[m.Pod]; m.Gang == r.Ref && pod != nil {
				count(m.Pod, pod, i == 1)
			}
		}
	}
	for key, pod := range r.done {
		if pod.Status.Phase == v1.PodSucceeded {
			count(key, pod, true)
		}
	}
	slices.SortFunc(p.all, func(a, b *subGroup) int {
		switch {
		case a.policy == b.policy:
			return topology.CompareNames(a.name, b.name)
		case a.policy < 0:
			return 1
		case b.policy < 0:
			return -1
		}
		return a.policy - b.policy
	})
	return p
}

// lack says which policy selects nobody, or has too few whole sub-groups; "" if none.
func (p *parts) lack(policies []source.SubGroups, members map[string]*v1.Pod) string {
	for i := range policies {
		policy, any, whole := &policies[i], false, 0
		for _, pod := range members {
			any = any || policy.Of(pod) != ""
		}
		for _, s := range p.all {
			if s.policy == i && s.exist >= s.size {
				whole++
			}
		}
		switch {
		case !any:
			return fmt.Sprintf("spec.subGroupPolicy %q selects none of %d members", policy.Name, len(members))
		case whole < policy.Least:
			return fmt.Sprintf("%d of %d sub-groups of policy %q have %d members", whole, policy.Least, policy.Name, policy.Size)
		}
	}
	return ""
}

// gangs are the parts in the shape of gangs. Of a gang that needs some more members, in this order are
// needed: as many whole sub-groups as each policy asks for, in the order of their names; who is in
// none; further whole ones; and members that these have beyond their size. left is how many there are
// too few. Parts that are not needed ask for nobody, as members beyond minMember do.
func (p *parts) gangs(of gang.Gang, need int, policies []source.SubGroups) (out []gang.Gang, left int) {
	out = make([]gang.Gang, len(p.all))
	left = need
	taken := make([]int, len(policies))
	needs := make([]bool, len(p.all))
	take := func(i, many int) {
		many = min(many, p.all[i].exist-p.all[i].placed-out[i].Need)
		out[i].Need += many
		left -= many
		needs[i] = true
	}
	whole := func(s *subGroup) bool { return s.policy >= 0 && s.exist >= s.size }
	if need > 0 {
		for i, s := range p.all {
			if whole(s) && taken[s.policy] < policies[s.policy].Least {
				taken[s.policy]++
				take(i, max(0, s.size-s.placed))
			}
		}
		for i, s := range p.all {
			if left > 0 && s.policy < 0 {
				take(i, left)
			}
		}
		for i, s := range p.all {
			if left > 0 && whole(s) && !needs[i] {
				take(i, max(0, s.size-s.placed))
			}
		}
		for i, s := range p.all {
			if left > 0 && whole(s) {
				take(i, left)
			}
		}
	}
	for i, s := range p.all {
		need := out[i].Need
		out[i] = of
		out[i].Ref, out[i].Min, out[i].Need, out[i].Started = of.Ref.Part(s.name), s.placed+need, need, s.placed
	}
	return out, max(0, left)
}
