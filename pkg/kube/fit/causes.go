package fit

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Causes returns more precise causes of some Filter messages in lacks, by message: the resource that no node has, the taints that a pod
// does not tolerate, or the labels of a nodeSelector that no node has. pods has one member of each kind.
func Causes(nodes []fwk.NodeInfo, pods []*v1.Pod, lacks map[string]int) map[string]string {
	out := map[string]string{}
	for reason := range lacks {
		cause := ""
		switch resource, short := strings.CutPrefix(reason, "Insufficient "); {
		case short && !strings.Contains(resource, " "): // a resource of nodes
			if !someNode(nodes, func(n *v1.Node) bool { q := n.Status.Allocatable[v1.ResourceName(resource)]; return !q.IsZero() }) {
				cause = resource
			}
		case strings.Contains(reason, "untolerated taint"):
			cause = untoleratedTaints(nodes, pods)
		case strings.Contains(reason, "node affinity/selector"):
			cause = unmatchedLabels(nodes, pods)
		}
		if cause != "" {
			out[reason] = cause
		}
	}
	return out
}

func someNode(nodes []fwk.NodeInfo, has func(*v1.Node) bool) bool {
	return slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool { return n != nil && n.Node() != nil && has(n.Node()) })
}

// untoleratedTaints returns, as a text, taints of the nodes that one of the pods does not tolerate: two or more if there are.
func untoleratedTaints(nodes []fwk.NodeInfo, pods []*v1.Pod) string {
	found := map[string]bool{}
	someNode(nodes, func(n *v1.Node) bool {
		for i := range n.Spec.Taints {
			taint := &n.Spec.Taints[i]
			tolerates := func(t v1.Toleration) bool { return t.ToleratesTaint(klog.Background(), taint, true) }
			for _, pod := range pods {
				if taint.Effect != v1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations, tolerates) {
					found[taint.ToString()] = true
				}
			}
		}
		return len(found) > 1
	})
	return strings.Join(slices.Sorted(maps.Keys(found)), " or ")
}

// unmatchedLabels returns, as a text, the labels of the pods' nodeSelectors that no node has.
func unmatchedLabels(nodes []fwk.NodeInfo, pods []*v1.Pod) string {
	unmatched := map[string]bool{}
	for _, pod := range pods {
		for key, value := range pod.Spec.NodeSelector {
			if !someNode(nodes, func(n *v1.Node) bool { got, ok := n.Labels[key]; return ok && got == value }) {
				unmatched[key+"="+value] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(unmatched)), ", ")
}
