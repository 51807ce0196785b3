package place

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// Argument degraded: a degraded node adds to the penalty of each member on it, more than all soft preferences of the whole group can add.
// So of plans that are equal by the rules before soft preferences, the one with the fewest members on degraded nodes comes first.

// isDegraded returns whether a node matches an entry of the argument degraded.
func isDegraded(node *v1.Node, by config.Degraded) bool {
	return slices.ContainsFunc(by.Conditions, func(d config.DegradedCondition) bool {
		return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
			return string(c.Type) == d.Type && c.Status == d.Status
		})
	}) || slices.ContainsFunc(by.Labels, func(label string) bool {
		key, value, _ := strings.Cut(label, "=")
		current, labelled := node.Labels[key]
		return labelled && current == value
	}) || slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool {
		return slices.Contains(by.Taints, t.Key)
	})
}

// degraded returns a function of a node index: whether the node is degraded for the group. It returns nil if no node can be. For a group
// with running members the nodes of its lost members are degraded for AvoidAfterFault.
func (a *Attempt) degraded() func(node int) bool {
	by := a.planner.Args().Degraded
	if by.IsZero() {
		return nil
	}
	faults := a.faults()
	return func(i int) bool { return a.Nodes[i] != nil && (faults[i] || isDegraded(a.Nodes[i].Node(), by)) }
}

// faults returns the nodes of lost members that the group avoids, by node index; nil without running members.
func (a *Attempt) faults() map[int]bool {
	by := a.planner.Args().Degraded
	if by.IsZero() || len(a.Group.Bound) == 0 {
		return nil
	}
	faults, now := map[int]bool{}, a.planner.cache.Clock.Now()
	for name, at := range a.planner.cache.Faults(a.Group.Key) {
		if i, ok := a.Net.Tree.NodeIndex(name); ok && now.Sub(at) < by.AvoidAfterFault.Duration {
			faults[i] = true
		}
	}
	return faults
}

// DegradedNodes returns on how many degraded nodes a plan has members.
func (a *Attempt) DegradedNodes(places []gang.Assignment) int {
	used, degraded := map[int]bool{}, a.degraded()
	for _, p := range places {
		if i, ok := a.Net.Tree.NodeIndex(p.Node); ok && degraded != nil && degraded(i) {
			used[i] = true
		}
	}
	return len(used)
}

// chargeDegraded adds the penalty of degraded nodes to the penalties of all kinds.
func (a *Attempt) chargeDegraded() {
	degraded := a.degraded()
	if degraded == nil {
		return
	}
	var nodes []int
	for i := range a.Nodes {
		if degraded(i) {
			nodes = append(nodes, i)
		}
	}
	if len(nodes) == 0 {
		return
	}
	most := int64(0)
	for _, k := range a.kinds {
		if len(k.penalty) > 0 {
			most = max(most, slices.Max(k.penalty))
		}
	}
	charge := most*int64(len(a.Group.Pending)) + 1
	for k := range a.kinds {
		kind := &a.kinds[k]
		if kind.penalty = slices.Clone(kind.penalty); kind.penalty == nil {
			kind.penalty = make([]int64, len(a.Nodes))
		}
		for _, i := range nodes {
			kind.penalty[i] += charge
		}
	}
}
