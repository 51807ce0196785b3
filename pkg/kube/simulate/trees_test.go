package simulate

import (
	"slices"
	"strings"
)

// Some GangGroups are declared as a tree of Kubernetes' own PodGroups: of the gangs so many start
// together as the CompositePodGroup needs, each whole, and the others later.

// What comes of them.
const (
	treesWhole  = "gangs of a tree made whole without the others"
	treesJoined = "gangs of a tree that have followed"
	treesParted = "gangs of a tree evicted, and others of it not"
)

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
		if e.gang == nil || len(e.gang.group) < 2 || slices.ContainsFunc(e.gang.group, func(name string) bool { return byPods[name] || name[0] == 'x' }) {
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

// least is how many gangs of a group must run.
func (w *world) least(group []string) int {
	for _, name := range group {
		if g := w.gangs[name]; g != nil && g.least > 0 {
			return g.least
		}
	}
	return len(group)
}

// mayMiss says whether a group may do without a gang of which nobody runs: enough others are whole.
func (w *world) mayMiss(group []string, name string) bool {
	whole := 0
	for _, other := range group {
		if w.whole[other] {
			whole++
		}
	}
	_, bound := w.membersOf(name)
	return w.gangs[name] != nil && w.gangs[name].least > 0 && len(bound) == 0 && whole >= w.least(group)
}

// leavesWith are the gangs that leave when one has too few members: it alone, if enough others
// have as many as they need.
func (w *world) leavesWith(group []string, name string) []string {
	whole := 0
	for _, other := range group {
		if !w.short([]string{other}) {
			whole++
		}
	}
	if g := w.gangs[name]; g != nil && g.least > 0 && whole >= g.least {
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
