package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// hasPlaces reports whether nodes are reserved for the gang itself, and not only for other gangs of its group.
func (v *View) hasPlaces(ref gang.Ref) bool {
	return slices.ContainsFunc(v.cache().Pending(ref), v.hasPlace)
}

// reserved fills e for a gang with reserved nodes: its nodes, its victims, and the gangs that may take the nodes first.
func (v *View) reserved(ctx context.Context, e *Explanation, ref gang.Ref) error {
	e.Reason = ""
	e.Next = &Next{Nodes: []string{}}
	trial, err := v.try(ctx, ref)
	if err != nil || trial == nil {
		return err
	}
	var boundNodes []string
	for _, m := range trial.Attempt.Group.Pending { // only the gang itself, with all its sub-groups
		if node := trial.Attempt.Group.Places[m.Pod]; node != "" && m.Gang.Whole() == ref {
			e.Next.Nodes = append(e.Next.Nodes, node)
		}
	}
	for _, m := range trial.Attempt.Group.Bound {
		if m.Gang.Whole() == ref {
			boundNodes = append(boundNodes, m.Node)
		}
	}
	e.Next.Domain = enclosing(v.cache().Topology().Tree, slices.Concat(e.Next.Nodes, boundNodes))
	e.Next.Why = v.Eviction(ref)
	v.addVictims(ctx, e.Next, trial)
	if e.Next.Rivals, err = v.takers(ctx, ref, trial, e.Next.Nodes); err != nil {
		return err
	}
	e.WaitsFor = e.Next.sentence()
	v.costs(e, ref)
	return nil
}

// leftOut fills e for a gang without reserved nodes while nodes are reserved for other gangs of its group. The gang may start after
// those. The text names the domain where it may fit and no nodes, since none are reserved for it.
func (v *View) leftOut(ctx context.Context, e *Explanation, ref gang.Ref) error {
	trial, err := v.try(ctx, ref)
	if err != nil {
		return err
	}
	if trial != nil {
		nodes, err := v.nodesAfterTermination(ctx, trial, ref)
		if err != nil {
			return err
		}
		if len(nodes) > 0 {
			e.WaitsFor = "Nodes are reserved for other gangs of the group, and these suffice for the group; " +
				"when these gangs start, this gang may fit in " +
				domainText(enclosing(v.cache().Topology().Tree, nodes)) + ", too."
			return nil
		}
	}
	e.WaitsFor = "Nodes are reserved for other gangs of the group, and these suffice for the group; no node is reserved for this gang."
	e.Remedy = &Remedy{Message: "pods that terminate, or nodes that are added, after the other gangs have started"}
	return nil
}

// nodesAfterTermination returns the nodes that attempt t would choose for the waiting members of ref if all terminating pods were
// gone; nil if there would be no plan.
func (v *View) nodesAfterTermination(ctx context.Context, t *plugin.Trial, ref gang.Ref) (nodes []string, err error) {
	a := t.Attempt
	if !a.CapacityKnown() {
		return nil, nil
	}
	terminating := make([][]*v1.Pod, len(a.Nodes))
	for i, n := range a.Nodes {
		if n != nil {
			terminating[i] = v.terminatingOn(t, n)
		}
	}
	found, refusal, err := a.Choose(ctx, terminating)
	if err != nil || refusal != nil {
		return nil, err
	}
	ownMember := map[string]bool{}
	for _, m := range a.Group.Pending {
		ownMember[m.Pod] = m.Gang.Whole() == ref
	}
	for _, p := range found.Places {
		if ownMember[p.Pod] {
			nodes = append(nodes, p.Node)
		}
	}
	return nodes, nil
}

// terminatingOn returns the pods of a node that terminate.
func (v *View) terminatingOn(t *plugin.Trial, n fwk.NodeInfo) []*v1.Pod {
	return slices.DeleteFunc(podsOn(n), func(p *v1.Pod) bool { return !t.Preemptor.Victims.Terminates(p, v.Now()) })
}

// enclosing returns the path of the deepest domain that holds the nodes.
func enclosing(tree *topology.Tree, nodes []string) string {
	var indices []int
	for _, node := range nodes {
		if i, ok := tree.NodeIndex(node); ok {
			indices = append(indices, i)
		}
	}
	domain, _ := tree.Enclosing(slices.Values(indices))
	return tree.Path(domain)
}

// addVictims sets n.Evicts to the victims of reservation t, and n.Terminating to the pods on its nodes that terminate for another
// reason. The first n.inTheWay entries of n.Evicts are on its nodes.
func (v *View) addVictims(ctx context.Context, n *Next, t *plugin.Trial) {
	victims, inTheWay := t.Preemptor.Victims, map[types.UID]bool{}
	asked := func(p *v1.Pod) bool { return victims.IsVictim(t.Attempt.Group.Key, p) }
	for _, p := range victims.Leaving(t.Attempt, v.Now()).Blocking(ctx, t.Attempt) {
		inTheWay[p.UID] = true
		if n.Why != nil && !asked(p) {
			n.Terminating = append(n.Terminating, nameOn(p))
		} else {
			n.Evicts = append(n.Evicts, nameOn(p))
		}
	}
	n.inTheWay = len(n.Evicts)
	for _, p := range v.Pods() {
		if !inTheWay[p.UID] && asked(p) {
			n.Evicts = append(n.Evicts, nameOn(p))
		}
	}
	for _, names := range [][]string{n.Evicts[:n.inTheWay], n.Evicts[n.inTheWay:], n.Terminating} {
		slices.SortFunc(names, topology.CompareNames)
	}
}

// sentence returns what a gang with a reservation waits for, as a sentence.
func (n *Next) sentence() string {
	var out []string
	if len(n.Evicts) > 0 {
		out = append(out, map[bool]string{true: "Would evict ", false: "Waits for "}[n.Why != nil]+joinNames(n.Evicts))
	}
	if len(n.Terminating) > 0 {
		out = append(out,
			fmt.Sprintf("%s %s anyway", joinNames(n.Terminating), map[bool]string{true: "terminates", false: "terminate"}[len(n.Terminating) == 1]))
	}
	unless := ""
	if len(n.Rivals) > 0 {
		unless = ", unless members of " + joinNames(n.Rivals) + " use these nodes first"
	}
	switch len(n.Evicts) + len(n.Terminating) {
	case 0:
		return fmt.Sprintf("The reserved nodes in %s are free: the gang starts when the scheduler tries it%s.", domainText(n.Domain), unless)
	case 1:
		return fmt.Sprintf("%s; the gang starts in %s when that pod has terminated%s.", strings.Join(out, "; "), domainText(n.Domain), unless)
	}
	return fmt.Sprintf("%s; the gang starts in %s when these pods have terminated%s.", strings.Join(out, "; "), domainText(n.Domain), unless)
}

// nameOn returns "namespace/name on node".
func nameOn(p *v1.Pod) string { return convert.PodKey(p) + " on " + p.Spec.NodeName }

// maxNames bounds the names in a sentence.
const maxNames = 3

// joinNames lists the first maxNames names, and counts the rest.
func joinNames(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

// domainText returns path, or "the cluster" for "".
func domainText(path string) string {
	if path == "" {
		return "the cluster"
	}
	return path
}
