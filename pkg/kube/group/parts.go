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

// The members of a gang may form sub-groups by their labels (source.SubGroups), or belong to several tasks. The
// book knows one gang. Planners see each sub-group or task as a gang, and the members without one as another.

// split replaces a gang by its sub-groups, or says which of them are missing.
func (g *Group) split(r *Record) gang.Obstacle {
	if r.Declared == nil || len(r.Declared.SubGroups) == 0 {
		g.splitTasks(r)
		return gang.Obstacle{}
	}
	index := slices.IndexFunc(g.Gangs, func(of gang.Gang) bool { return of.Ref == r.Ref })
	p := g.parts(r)
	need := g.Gangs[index].Need
	if need > 0 { // a gang that was complete once continues with the remaining members
		if why := p.shortage(r.Declared.SubGroups, r.Pods); why != "" {
			return gang.Obstacle{By: gang.Missing, Words: why}
		}
	}
	if missing := need - p.placeable(); missing > 0 {
		words := fmt.Sprintf("%d more members are needed than whole sub-groups and members without a sub-group have", missing)
		return gang.Obstacle{By: gang.Missing, Words: words}
	}
	parts := g.choose(p, index, need, r.Declared.SubGroups)
	for i, s := range p.all {
		if s.policy >= 0 && r.Declared.SubGroups[s.policy].Gather != nil {
			g.Constraints = append(g.Constraints, convert.Own{Gangs: []gang.Ref{parts[i].Ref}, Gather: r.Declared.SubGroups[s.policy].Gather})
		}
	}
	g.replace(index, parts, p)
	return gang.Obstacle{}
}

// splitTasks makes a gang with spare members start with the minimum of each task. The first members of any task
// fill the rest of its minimum.
func (g *Group) splitTasks(r *Record) {
	index := slices.IndexFunc(g.Gangs, func(whole gang.Gang) bool { return whole.Ref == r.Ref })
	if r.Declared == nil || len(r.Declared.Tasks) == 0 || g.Gangs[index].Need == 0 {
		return
	}
	p := g.parts(r)
	if whole := g.Gangs[index]; len(p.all) > 1 && p.placeable() > whole.Need {
		parts := p.tasks(whole, r.Declared.Tasks)
		if g.Choice != nil {
			var all []choice.Gang
			for _, part := range parts {
				all = append(all, choice.Gang{Need: part.Need})
			}
			g.Choice.Gangs = slices.Concat(g.Choice.Gangs[:index], all, g.Choice.Gangs[index+1:])
		}
		g.replace(index, parts, p)
	}
}

// tasks returns the parts as gangs; minimum is the minimum of each task.
func (p *parts) tasks(whole gang.Gang, minimum map[string]int) (out []gang.Gang) {
	left := whole.Need
	for _, s := range p.all {
		part := whole
		part.Ref, part.Started = whole.Ref.Part(s.name), s.placed
		part.Need = min(max(0, minimum[s.name]-s.placed), s.exist-s.placed)
		left -= part.Need
		out = append(out, part)
	}
	for i, s := range p.all {
		extra := min(max(0, left), s.exist-s.placed-out[i].Need)
		left -= extra
		out[i].Need += extra
		out[i].Min = s.placed + out[i].Need
	}
	return out
}

// replace replaces a gang by its parts.
func (g *Group) replace(index int, parts []gang.Gang, p *parts) {
	whole := g.Gangs[index].Ref
	g.Gangs = slices.Concat(g.Gangs[:index], parts, g.Gangs[index+1:])
	for _, members := range [][]gang.Member{g.Pending, g.Bound} {
		for i := range members {
			if m := &members[i]; m.Gang == whole {
				m.Gang = whole.Part(p.subGroupOf[m.Pod])
			}
		}
	}
	if g.Choice != nil {
		g.Count()
	}
}

// parts are the sub-groups of a gang, ordered by policy and name. Last come the members without a sub-group.
type parts struct {
	all        []*subGroup
	subGroupOf map[string]string // by member
}

type subGroup struct {
	name          string
	policy        int // -1 is none
	size          int
	exist, placed int
}

// parts sorts the existing and the succeeded members of a gang.
func (g *Group) parts(r *Record) *parts {
	p := &parts{subGroupOf: map[string]string{}}
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
		p.subGroupOf[key] = name
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

// shortage says which policy selects no pod, or has too few complete sub-groups; "" if none.
func (p *parts) shortage(policies []source.SubGroups, members map[string]*v1.Pod) string {
	for i := range policies {
		policy := &policies[i]
		selected := false
		complete := 0
		for _, pod := range members {
			selected = selected || policy.Of(pod) != ""
		}
		for _, s := range p.all {
			if s.policy == i && s.exist >= s.size {
				complete++
			}
		}
		switch {
		case !selected:
			const none = "spec.subGroupPolicy %q selects none of %d members, and the gang waits: correct its selector or the members' labels"
			return fmt.Sprintf(none, policy.Name, len(members))
		case complete < policy.MinSubGroups:
			const tooFew = "policy %q needs %d complete sub-groups of %d members, and has %d"
			return fmt.Sprintf(tooFew, policy.Name, policy.MinSubGroups, policy.Size, complete)
		}
	}
	return ""
}

// placeable returns how many members may be placed: those of complete or started sub-groups, and those without one.
func (p *parts) placeable() (n int) {
	for _, s := range p.all {
		if s.policy < 0 || s.exist >= s.size || s.placed > 0 {
			n += s.exist - s.placed
		}
	}
	return n
}

// required returns how many members the sub-groups that the policies require must still place.
func (p *parts) required(policies []source.SubGroups) (n int) {
	for i, policy := range policies {
		started := 0
		for _, s := range p.all {
			if s.policy == i && s.placed >= s.size {
				started++
			}
		}
		n += max(0, policy.MinSubGroups-started) * policy.Size
	}
	return n
}

// follows returns whether the members of s start one by one: they are in no sub-group, or in a started one.
func (s *subGroup) follows(need int) bool {
	return s.policy < 0 || s.placed >= s.size || s.placed > 0 && (need == 0 || s.exist < s.size)
}

// anyFollows returns whether any waiting members start one by one.
func (p *parts) anyFollows(need int) bool {
	return slices.ContainsFunc(p.all, func(s *subGroup) bool { return s.exist > s.placed && s.follows(need) })
}

// choose returns a gang's parts as gangs, and adds the choice between them. A sub-group starts complete or not at
// all. Members of a started one, or of none, start one by one. Before the gang starts, each policy requires its
// number of sub-groups, and the gang its minimum; then members without a sub-group precede further sub-groups. If
// no policy requires any, the plan with most members wins. After the start each part uses free capacity only. Pods
// may be evicted for lost members: for those that replace one, else for a sub-group.
func (g *Group) choose(p *parts, index, need int, policies []source.SubGroups) (out []gang.Gang) {
	whole := g.Gangs[index]
	if g.Choice == nil {
		g.Choice = &choice.Choice{}
		for _, groupGang := range g.Gangs {
			g.Choice.Gangs = append(g.Choice.Gangs, choice.Gang{Need: groupGang.Need})
		}
	}
	lost := 0
	if need == 0 {
		lost = max(0, whole.Min-whole.Started)
	}
	if lost > 0 && !p.anyFollows(need) {
		g.Choice.Totals = append(g.Choice.Totals, 1) // a sub-group is needed
	} else {
		g.Choice.Totals = append(g.Choice.Totals, need)
	}
	withoutSubGroup := 0
	if slices.ContainsFunc(policies, func(s source.SubGroups) bool { return s.MinSubGroups > 0 }) {
		withoutSubGroup = max(0, need-p.required(policies))
	}
	var parts []choice.Gang
	for _, s := range p.all {
		part := choice.Gang{Total: len(g.Choice.Totals)}
		if s.policy < 0 {
			part.Need = min(withoutSubGroup, s.exist-s.placed)
		}
		if s.policy >= 0 {
			part.Above = []choice.Level{{Name: fmt.Sprint(whole.Ref.ID(), " policy ", s.policy)}}
			if need > 0 {
				part.Above[0].Least = policies[s.policy].MinSubGroups
			}
		}
		follow := 0 // members for which pods may be evicted though a plan may leave them out
		if s.follows(need) {
			follow = min(lost, s.exist-s.placed)
			lost -= follow
		} else {
			part.Open, part.Need = s.placed == 0 || !g.Holding, s.size-s.placed
		}
		parts = append(parts, part)
		partGang := whole
		partGang.Ref = whole.Ref.Part(s.name)
		partGang.Min = s.placed + part.Need + follow
		partGang.Need = part.Need
		partGang.Started = s.placed
		out = append(out, partGang)
	}
	g.Choice.Gangs = slices.Concat(g.Choice.Gangs[:index], parts, g.Choice.Gangs[index+1:])
	return out
}
