package group

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// The members of a gang may form sub-groups by their labels (source.SubGroups), which only its object
// knows, or be of several tasks. To the book the gang is one; planners see each sub-group or task as a gang
// of its own in the group, and those that are in none as another.

// split gives a gang's sub-groups the place of the gang in a group, or says which of them are missing.
func (g *Group) split(r *Record) gang.Refusal {
	if r.Declared == nil || len(r.Declared.SubGroups) == 0 {
		g.splitTasks(r)
		return gang.Refusal{}
	}
	at := slices.IndexFunc(g.Gangs, func(of gang.Gang) bool { return of.Ref == r.Ref })
	p := g.parts(r)
	need := g.Gangs[at].Need
	if need > 0 { // a gang that was whole once goes on with those who are left
		if why := p.lack(r.Declared.SubGroups, r.Pods); why != "" {
			return gang.Refusal{By: gang.Missing, Words: why}
		}
	}
	if left := need - p.most(); left > 0 {
		return gang.Refusal{By: gang.Missing, Words: fmt.Sprintf("%d more members are needed than whole sub-groups and members without a sub-group have", left)}
	}
	parts := g.choose(p, at, need, r.Declared.SubGroups)
	for i, s := range p.all {
		if s.policy >= 0 && r.Declared.SubGroups[s.policy].Gather != nil {
			g.Own = append(g.Own, convert.Own{Gangs: []gang.Ref{parts[i].Ref}, Gather: r.Declared.SubGroups[s.policy].Gather})
		}
	}
	g.replace(at, parts, p)
	return gang.Refusal{}
}

// splitTasks has a gang start with as many members of each of its tasks as these need, where it has more
// members than it needs in all. What it needs beyond that any task may give: those that come first do.
func (g *Group) splitTasks(r *Record) {
	at := slices.IndexFunc(g.Gangs, func(of gang.Gang) bool { return of.Ref == r.Ref })
	if r.Declared == nil || len(r.Declared.Tasks) == 0 || g.Gangs[at].Need == 0 {
		return
	}
	p := g.parts(r)
	if of := g.Gangs[at]; len(p.all) > 1 && p.most() > of.Need {
		parts := p.tasks(of, r.Declared.Tasks)
		if g.Choice != nil {
			var all []choice.Gang
			for _, part := range parts {
				all = append(all, choice.Gang{Need: part.Need})
			}
			g.Choice.Gangs = slices.Concat(g.Choice.Gangs[:at], all, g.Choice.Gangs[at+1:])
		}
		g.replace(at, parts, p)
	}
}

// tasks are the parts of a gang in the shape of gangs, where each is a task that needs so many members.
func (p *parts) tasks(of gang.Gang, least map[string]int) (out []gang.Gang) {
	left := of.Need
	for _, s := range p.all {
		is := of
		is.Ref, is.Started = of.Ref.Part(s.name), s.placed
		is.Need = min(max(0, least[s.name]-s.placed), s.exist-s.placed)
		left -= is.Need
		out = append(out, is)
	}
	for i, s := range p.all {
		more := min(max(0, left), s.exist-s.placed-out[i].Need)
		left -= more
		out[i].Need += more
		out[i].Min = s.placed + out[i].Need
	}
	return out
}

// replace puts the parts of a gang in its place.
func (g *Group) replace(at int, parts []gang.Gang, p *parts) {
	whole := g.Gangs[at].Ref
	g.Gangs = slices.Concat(g.Gangs[:at], parts, g.Gangs[at+1:])
	for _, members := range [][]gang.Member{g.Pending, g.Bound} {
		for i := range members {
			if m := &members[i]; m.Gang == whole {
				m.Gang = whole.Part(p.of[m.Pod])
			}
		}
	}
	if g.Choice != nil {
		g.Count()
	}
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
func (g *Group) parts(r *Record) *parts {
	p := &parts{of: map[string]string{}}
	known := map[string]*subGroup{}
	count := func(key string, pod *v1.Pod, placed bool) {
		name, policy := r.Declared.SubGroupOf(pod)
		s := known[name]
		if s == nil {
			s = &subGroup{name: name, policy: policy}
			if policy >= 0 {
				s.size = r.Declared.SubGroups[policy].Size
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
	for key, pod := range r.Finished {
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

// most is how many members may be placed: those of whole sub-groups, of those that run already, and
// those who are in none.
func (p *parts) most() (n int) {
	for _, s := range p.all {
		if s.policy < 0 || s.exist >= s.size || s.placed > 0 {
			n += s.exist - s.placed
		}
	}
	return n
}

// first is how many members those sub-groups have yet to place that the policies ask for.
func (p *parts) first(policies []source.SubGroups) (n int) {
	for i, policy := range policies {
		run := 0
		for _, s := range p.all {
			if s.policy == i && s.placed >= s.size {
				run++
			}
		}
		n += max(0, policy.Least-run) * policy.Size
	}
	return n
}

// follows says whether its members start one by one, and not all at once: they are in no sub-group,
// or in one that runs.
func (s *subGroup) follows(need int) bool {
	return s.policy < 0 || s.placed >= s.size || s.placed > 0 && (need == 0 || s.exist < s.size)
}

// anyFollows says whether any of those who wait start one by one.
func (p *parts) anyFollows(need int) bool {
	return slices.ContainsFunc(p.all, func(s *subGroup) bool { return s.exist > s.placed && s.follows(need) })
}

// choose says which of a gang's parts are to be placed, and returns them in the shape of gangs. A
// sub-group starts whole or not at all; who is in none, and whoever belongs to one that runs, starts
// one by one. As long as the gang has yet to start, so many sub-groups of each policy must as it
// asks for, and so many members in all as the gang needs: beyond those sub-groups who is in none
// comes before more of them. If no policy asks for any, nobody comes first: those start of whom the most
// find room. Then each starts when there is room; only what has been lost of what the gang needs may
// others be evicted for: those who replace somebody, or if nobody does, a sub-group.
func (g *Group) choose(p *parts, at, need int, policies []source.SubGroups) (out []gang.Gang) {
	of := g.Gangs[at]
	if g.Choice == nil {
		g.Choice = &choice.Choice{}
		for _, gang := range g.Gangs {
			g.Choice.Gangs = append(g.Choice.Gangs, choice.Gang{Need: gang.Need})
		}
	}
	lost := 0
	if need == 0 {
		lost = max(0, of.Min-of.Started)
	}
	if lost > 0 && !p.anyFollows(need) {
		g.Choice.Totals = append(g.Choice.Totals, 1) // it is a sub-group, then, or nobody
	} else {
		g.Choice.Totals = append(g.Choice.Totals, need)
	}
	bare := 0
	if slices.ContainsFunc(policies, func(s source.SubGroups) bool { return s.Least > 0 }) {
		bare = max(0, need-p.first(policies))
	}
	var parts []choice.Gang
	for _, s := range p.all {
		part := choice.Gang{Total: len(g.Choice.Totals)}
		if s.policy < 0 {
			part.Need = min(bare, s.exist-s.placed)
		}
		if s.policy >= 0 {
			part.Above = []choice.Level{{Name: fmt.Sprint(of.Ref.ID(), " policy ", s.policy)}}
			if need > 0 {
				part.Above[0].Least = policies[s.policy].Least
			}
		}
		follow := 0 // for whom others may be evicted though a plan may leave them out
		if s.follows(need) {
			follow = min(lost, s.exist-s.placed)
			lost -= follow
		} else {
			part.Open, part.Need = s.placed == 0 || !g.Holding, s.size-s.placed
		}
		parts = append(parts, part)
		is := of
		is.Ref, is.Min, is.Need, is.Started = of.Ref.Part(s.name), s.placed+part.Need+follow, part.Need, s.placed
		out = append(out, is)
	}
	g.Choice.Gangs = slices.Concat(g.Choice.Gangs[:at], parts, g.Choice.Gangs[at+1:])
	return out
}
