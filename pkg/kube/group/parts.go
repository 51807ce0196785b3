package group

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// The members of a gang may form sub-groups by their labels (source.SubGroups), or belong to several tasks. In the gang book they are one
// gang. For planners each sub-group or task is a gang, and the members without one are a further gang.

// split replaces a gang in the group by its sub-groups or tasks. If required sub-groups are incomplete, it returns an obstacle.
func (g *Group) split(r *Record) gang.Obstacle {
	if r.Declared == nil || len(r.Declared.SubGroups) == 0 {
		g.splitTasks(r)
		return gang.Obstacle{}
	}
	index := slices.IndexFunc(g.Gangs, func(gangOfGroup gang.Gang) bool { return gangOfGroup.Ref == r.Ref })
	p := g.parts(r)
	need := g.Gangs[index].Need
	if need > 0 { // a gang that was complete once continues with the remaining members
		if why := p.shortage(r.Declared.SubGroups, r.Pods); why != "" {
			return gang.Obstacle{By: gang.Missing, Words: why}
		}
	}
	if missing := need - p.placeable(); missing > 0 {
		return gang.Obstacle{By: gang.Missing, Words: fmt.Sprintf("members of incomplete sub-groups do not count, and minMember lacks "+
			"%d members: create the missing members of a sub-group, or lower minMember", missing)}
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

// splitTasks replaces a gang by its tasks if more members exist than it needs. Each task then needs its own minimum, and the first members
// of any task are needed for the rest of the gang's minimum.
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

// tasks returns the parts of the gang whole as gangs, with how many members each needs. minimum is the minimum of each task by name.
func (p *parts) tasks(whole gang.Gang, minimum map[string]int) (out []gang.Gang) {
	remaining := whole.Need
	for _, s := range p.all {
		part := whole
		part.Ref, part.Started = whole.Ref.Part(s.name), s.placed
		part.Need = min(max(0, minimum[s.name]-s.placed), s.exist-s.placed)
		remaining -= part.Need
		out = append(out, part)
	}
	for i, s := range p.all {
		extra := min(max(0, remaining), s.exist-s.placed-out[i].Need)
		remaining -= extra
		out[i].Need += extra
		out[i].Min = s.placed + out[i].Need
	}
	return out
}

// replace replaces the gang at an index by its parts, and changes the gang of its members accordingly.
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

// parts are the sub-groups of a gang, ordered by policy and name. The members without a sub-group are the last part.
type parts struct {
	all        []*subGroup
	subGroupOf map[string]string // name of the sub-group, by member
}

type subGroup struct {
	name          string
	policy        int // index of its policy; -1 for members without a sub-group
	size          int // number of members when complete; 0 for members without a sub-group
	exist, placed int // number of members; of those, how many are bound or have succeeded
}

// parts returns the sub-groups of a gang's existing and succeeded members.
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

// shortage returns a message about the first policy that selects no pod or has too few complete sub-groups; "" if there is none.
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
			return fmt.Sprintf("spec.subGroupPolicy %q needs %d complete sub-groups of %d members, and has %d: create members, "+
				"or lower minSubGroups and minMember", policy.Name, policy.MinSubGroups, policy.Size, complete)
		}
	}
	return ""
}

// placeable returns how many members that are not placed may be placed: members of complete or started sub-groups, and members without one.
func (p *parts) placeable() (n int) {
	for _, s := range p.all {
		if s.policy < 0 || s.exist >= s.size || s.placed > 0 {
			n += s.exist - s.placed
		}
	}
	return n
}

// required returns how many members are still to be placed until each policy has its minimal number of complete sub-groups.
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

// startsOneByOne returns whether the members of s may start one by one: s has members without a sub-group, or a started one. need is how
// many members the gang still needs.
func (s *subGroup) startsOneByOne(need int) bool {
	return s.policy < 0 || s.placed >= s.size || s.placed > 0 && (need == 0 || s.exist < s.size)
}

// anyStartsOneByOne returns whether any pending members may start one by one.
func (p *parts) anyStartsOneByOne(need int) bool {
	return slices.ContainsFunc(p.all, func(s *subGroup) bool { return s.exist > s.placed && s.startsOneByOne(need) })
}

// choose returns a gang's parts as gangs, and adds the choice between them to g.Choice. need is how many members the gang still needs.
//
// A sub-group starts complete or not at all. Members of a started one, and members without one, start one by one. To start, the gang needs
// the minimal number of sub-groups of each policy, and its minimum. Members without a sub-group are preferred to further sub-groups, unless
// no policy requires any: then the plan with most members is preferred. After the start each part uses only free capacity. But pods may be
// evicted to replace lost members: by members that start one by one, or if there are none, by a sub-group.
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
	if lost > 0 && !p.anyStartsOneByOne(need) {
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
		follow := 0 // members for which pods may be evicted, although a plan need not include them
		if s.startsOneByOne(need) {
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

// SubGroup has some members of one sub-group of a gang.
type SubGroup struct {
	Part   gang.Ref // of the gang
	Policy int      // index of its policy; -1 is for members without a sub-group
	Size   int      // number of members of a complete sub-group
	Least  int      // number of sub-groups of its policy that the gang needs
	Pods   []*v1.Pod
}

// SubGroupsOf returns members of the gang grouped by sub-group, in the order of policies; members without a sub-group are last. It returns
// nil for a gang without policies.
func (r *Record) SubGroupsOf(members []*v1.Pod) (out []SubGroup) {
	if r.Declared == nil || len(r.Declared.SubGroups) == 0 {
		return nil
	}
	for _, p := range members {
		name, policy := r.Declared.SubGroupOf(p)
		part := r.Ref.Part(name)
		index := slices.IndexFunc(out, func(s SubGroup) bool { return s.Part == part })
		if index < 0 {
			index = len(out)
			out = append(out, SubGroup{Part: part, Policy: policy})
			if policy >= 0 {
				out[index].Size, out[index].Least = r.Declared.SubGroups[policy].Size, r.Declared.SubGroups[policy].MinSubGroups
			}
		}
		out[index].Pods = append(out[index].Pods, p)
	}
	slices.SortStableFunc(out, func(a, b SubGroup) int { return cmp.Compare(uint(a.Policy), uint(b.Policy)) })
	return out
}
