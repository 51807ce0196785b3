package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// Some GangGroups are declared as a tree of Kubernetes' own PodGroups: as many gangs start together as the
// CompositePodGroup needs, each whole, and the remaining gangs later.

// What comes of them.
const (
	treesWhole  = "gangs of a tree made whole without the others"
	treesJoined = "gangs of a tree that have followed"
	treesParted = "gangs of a tree evicted without the others"
	partsWhole  = "members of sub-groups bound"
	partsLeft   = "sub-groups evicted whole, of a gang that runs on"
	partsSpare  = "sub-groups evicted in part, of a gang that could spare none"
)

// inTree says that the gang is one of a tree.
func (g *gangSpec) inTree() bool { return g.least > 0 && g.part == 0 }

// tree names the CompositePodGroup of a gang.
func (g *gangSpec) tree() string { return "tree-" + g.group[0] }

func (g *gangSpec) treeObject() string {
	return written("CompositePodGroup", nativeAPI+"/v1alpha3", g.tree(), map[string]any{}, map[string]any{"spec": map[string]any{
		"schedulingPolicy": map[string]any{"gang": map[string]any{"minGroupCount": g.least}},
	}})
}

// withTrees has some GangGroups declared as trees.
func withTrees(d *drawer, h history) history {
	byPods, least := map[string]bool{}, map[string]int{}
	for _, e := range h {
		if e.gang != nil && e.gang.byPods {
			byPods[e.gang.name] = true
		}
	}
	for i, e := range h {
		if e.gang == nil || len(e.gang.group) < 2 || slices.ContainsFunc(e.gang.group,
			func(name string) bool { return byPods[name] || name[0] == 'x' }) {
			continue
		}
		key := strings.Join(e.gang.group, ",")
		if _, known := least[key]; !known {
			if least[key] = 0; d.chance(60) {
				least[key] = d.upTo(1, len(e.gang.group))
			}
		}
		if least[key] > 0 {
			g := *e.gang
			g.api, g.least = nativeAPI, least[key]
			h[i].gang = &g
		}
	}
	return h
}

// withParts has members of a gang form sub-groups of two, of which so many are needed as are needed for
// its minMember, or one less.
func withParts(g *gangSpec, members int) {
	g.part, g.least = 2, min(g.min/2, members/2)
	if nameHash(g.name)%2 > 0 {
		g.least = max(0, g.least-1)
	}
}

// partOf returns the sub-group of a member: members with adjacent numbers form one.
func partOf(g *gangSpec, pod string) string {
	n, _ := strconv.Atoi(pod[strings.LastIndexAny(pod, "-")+1:])
	return fmt.Sprint(n / g.part)
}

// judgeParts: no member of a sub-group starts alone, unless the binding of another member was lost.
func (w *world) judgeParts(fresh map[string][]*v1.Pod) error {
	for _, node := range sortedKeys(fresh) {
		for _, p := range fresh[node] {
			g := w.gangs[w.members[p.Name]]
			if g == nil || g.part == 0 || w.excused([]string{g.name}) {
				continue
			}
			if w.retried[p.UID] {
				continue // the other members may have been replaced since its binding was lost
			}
			run, before := 0, 0
			pending, bound := w.membersOf(g.name)
			if slices.ContainsFunc(pending, func(o *v1.Pod) bool { return o.Labels["part"] == p.Labels["part"] && !w.since[o.UID].IsZero() }) {
				continue
			}
			for _, o := range append(bound, w.finishedOf(g.name)...) {
				if o.Labels["part"] != p.Labels["part"] {
					continue
				}
				if run++; !slices.Contains(fresh[o.Spec.NodeName], o) {
					before++
				}
			}
			if w.counts[partsWhole]++; before == 0 && run < g.part {
				return wrong("in part", "%s starts without the rest of its sub-group", p.Name)
			}
		}
	}
	return nil
}

// judgeParted: a gang that runs on without evicted members keeps no part of a sub-group that was whole, if
// the gang could spare it. Finished members count for missing members, but not beside their replacements.
func (w *world) judgeParted(group []string, fresh map[types.UID]bool) error {
	for _, name := range group {
		g := w.gangs[name]
		if g == nil || g.part == 0 {
			continue
		}
		left, stay, ran := map[string]int{}, map[string][]string{}, 0
		for _, p := range w.sorted() {
			if w.members[p.Name] != name || p.Spec.NodeName == "" || done(p) {
				continue
			}
			switch part := p.Labels["part"]; {
			case fresh[p.UID]:
				left[part], ran = left[part]+1, ran+1
			case p.DeletionTimestamp == nil:
				stay[part], ran = append(stay[part], p.Name), ran+1
			}
		}
		for _, part := range sortedKeys(left) {
			switch {
			case len(stay[part]) == 0:
				w.counts[partsLeft]++
			case left[part]+len(stay[part]) < g.part || ran-g.min < g.part:
				w.counts[partsSpare]++
			case len(w.unasked) == 0 && on(leftInPart):
				return wrong(leftInPart, "%v stay of a sub-group of %s, of which others were evicted", stay[part], name)
			}
		}
	}
	return nil
}

// inParts places each part of a gang whole, or leaves it out.
func (f *fitting) inParts(g *gangSpec, of fittingGang) {
	f.gangs, f.optional, f.total = nil, true, of.need
	if of.need > 0 {
		f.least = g.least
	}
	parts := map[string]*fittingGang{}
	at := func(p *v1.Pod) *fittingGang {
		if parts[p.Labels["part"]] == nil {
			parts[p.Labels["part"]] = &fittingGang{reached: of.reached}
		}
		return parts[p.Labels["part"]]
	}
	for _, p := range of.pending {
		at(p).pending = append(at(p).pending, p)
	}
	for _, p := range of.bound {
		at(p).bound = append(at(p).bound, p)
	}
	done := map[string]int{}
	for _, p := range f.finishedOf(g.name) {
		if p.Status.Phase == v1.PodSucceeded {
			done[p.Labels["part"]]++
		}
	}
	for _, name := range sortedKeys(parts) {
		part := parts[name]
		placed := len(part.bound) + done[name]
		exist := placed + len(part.pending)
		switch {
		case placed >= g.part:
			f.started++
		case placed > 0 && (of.need == 0 || exist < g.part):
		case exist < g.part:
			part.pending, part.out = nil, true
		default:
			part.may, part.need = true, g.part-placed
		}
		f.gangs = append(f.gangs, *part)
	}
}

// least is how many gangs of a group must run.
func (w *world) least(group []string) int {
	for _, name := range group {
		if g := w.gangs[name]; g != nil && g.inTree() {
			return g.least
		}
	}
	return len(group)
}

// mayMiss reports whether a group may run without a gang that has no running member: enough other gangs are
// whole.
func (w *world) mayMiss(group []string, name string) bool {
	whole := 0
	for _, other := range group {
		if w.whole[other] {
			whole++
		}
	}
	_, bound := w.membersOf(name)
	return w.gangs[name] != nil && w.gangs[name].inTree() && len(bound) == 0 && whole >= w.least(group)
}

// goesOn reports whether a gang of a tree may run without another gang of the tree (decision 20). The gang must have
// been whole before these pods were bound, and the other gang has no running member.
func (w *world) goesOn(name, without string, fresh map[string][]*v1.Pod) bool {
	_, others := w.membersOf(without)
	g := w.gangs[name]
	if g == nil || !g.inTree() || len(others) > 0 {
		return false
	}
	_, bound := w.membersOf(name)
	old := slices.DeleteFunc(bound, func(p *v1.Pod) bool {
		return slices.ContainsFunc(fresh[p.Spec.NodeName], func(f *v1.Pod) bool { return f.UID == p.UID })
	})
	need := g.min
	if (g.policy == "" || g.policy == "once-satisfied") && (w.reached[name] || w.whole[name]) {
		need = 1 // a replacement follows the running members
	}
	return len(old)+len(w.finishedOf(name)) >= need
}

// leavesWith returns the gangs that are evicted when one has too few members: only that gang, if enough other
// gangs are whole.
func (w *world) leavesWith(group []string, name string) []string {
	whole := 0
	for _, other := range group {
		if !w.short([]string{other}) {
			whole++
		}
	}
	if g := w.gangs[name]; g != nil && g.inTree() && whole >= g.least {
		return []string{name}
	}
	return group
}

// countTrees counts what came of trees in the end.
func (w *world) countTrees() {
	for _, group := range w.groups() {
		if w.least(group) == len(group) {
			continue
		}
		whole := 0
		for _, name := range group {
			if w.whole[name] {
				whole++
			}
		}
		switch {
		case whole == len(group):
			w.counts[treesJoined]++
		case whole >= w.least(group):
			w.counts[treesWhole]++
		}
	}
}

// TestMinMemberIsRaised: a gang of a running tree now needs more members than exist. It has started: the
// waiting member counts towards minMember, and pods may be evicted for it. No pod is evicted for a member of
// the other gang, which is whole.
func TestMinMemberIsRaised(t *testing.T) {
	quietLogs(t)
	gang := func(name string) event {
		rule := ruleSpec{layer: scheduling.NodeTopologyLayer, multiple: 1, must: true}
		return event{
			kind: gangPut,
			gang: &gangSpec{name: name, min: 1, timeout: 30, api: nativeAPI, group: []string{"ta", "tb"}, least: 2, rules: []ruleSpec{rule}},
		}
	}
	member := func(name, of string, cpu int) event {
		return event{kind: memberPut, pod: &podSpec{name: name, gang: of, room: room{cpu: cpu}, priority: 9, rank: -1}}
	}
	h := history{
		{kind: topologySet, layers: []string{"SpineLayer", "BlockLayer"}},
		{kind: nodePut, node: &nodeSpec{name: "n0", spine: "s0", block: "b0", cpu: 5}},
		{kind: podPut, pod: &podSpec{name: "runs", room: room{cpu: 1}, priority: 5, rank: -1, node: "n0"}},
		gang("ta"), gang("tb"), member("ta-0", "ta", 3), member("ta-1", "ta", 3), member("tb-0", "tb", 1), member("tb-1", "tb", 1),
		{kind: settledDown},
	}
	for least, gone := range map[int]bool{1: false, 3: true} {
		raised := event{kind: gangMin, name: "tb", n: least}
		w, err := playFor(t, append(slices.Clone(h), raised, event{kind: longTimeLeft}))
		require.NoError(t, err, "%v", w.trace)
		require.Equal(t, gone, w.pods["default/runs"] == nil, w.trace)
		require.Equal(t, gone, w.pods["default/tb-1"].Spec.NodeName != "", w.trace)
		require.Empty(t, w.pods["default/ta-1"].Spec.NodeName, w.trace)
	}
}
