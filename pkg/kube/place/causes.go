package place

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// causes returns, by the reasons of lacks that leave it open, the taint, the label or the resource on nodes that explains the reason.
// It returns none if members have different requirements.
func (a *Attempt) causes(lacks map[string]int) map[string]string {
	if len(a.kinds) != 1 || len(lacks) == 0 {
		return nil
	}
	pod, out := a.kinds[0].pod, map[string]string{}
	for reason := range lacks {
		cause := ""
		switch resource, short := strings.CutPrefix(reason, "Insufficient "); {
		case short && !strings.Contains(resource, " "): // the resource of a node
			if !a.someNode(func(n *v1.Node) bool { q := n.Status.Allocatable[v1.ResourceName(resource)]; return !q.IsZero() }) {
				cause = resource
			}
		case strings.Contains(reason, "untolerated taint"):
			cause = a.untoleratedTaints(pod)
		case strings.Contains(reason, "node affinity/selector"):
			cause = a.unmatchedSelector(pod)
		}
		if cause != "" {
			out[reason] = cause
		}
	}
	return out
}

func (a *Attempt) someNode(has func(*v1.Node) bool) bool {
	for _, n := range a.allNodes {
		if n != nil && n.Node() != nil && has(n.Node()) {
			return true
		}
	}
	return false
}

// untoleratedTaints lists the taints that keep a pod off nodes, the most frequent of at most two.
func (a *Attempt) untoleratedTaints(pod *v1.Pod) string {
	nodes := map[string]int{}
	a.someNode(func(n *v1.Node) bool {
		for i := range n.Spec.Taints {
			taint := &n.Spec.Taints[i]
			tolerates := func(t v1.Toleration) bool { return t.ToleratesTaint(klog.Background(), taint, true) }
			if taint.Effect != v1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations, tolerates) {
				nodes[taint.ToString()]++
				break
			}
		}
		return false
	})
	names := slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		if nodes[a] != nodes[b] {
			return nodes[b] - nodes[a]
		}
		return strings.Compare(a, b)
	})
	return strings.Join(names[:min(2, len(names))], " or ")
}

// unmatchedSelector lists the labels of a pod's nodeSelector that no node has.
func (a *Attempt) unmatchedSelector(pod *v1.Pod) string {
	var unmatched []string
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		if value := pod.Spec.NodeSelector[key]; !a.someNode(func(n *v1.Node) bool { got, ok := n.Labels[key]; return ok && got == value }) {
			unmatched = append(unmatched, key+"="+value)
		}
	}
	return strings.Join(unmatched, ", ")
}

// unlabelled says which label of a layer no node has, and which labels the first node has instead; "" if the layer is unknown.
func (a *Attempt) unlabelled(layer string) string {
	for _, l := range a.Net.Layers() {
		missing := !a.someNode(func(n *v1.Node) bool { return l.Domain(n.Labels) != "" })
		if missing && len(l.Keys) > 0 {
			text := "no node has label " + strings.Join(l.Keys, " or ")
			a.someNode(func(n *v1.Node) bool {
				var has []string
				for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
					if !strings.HasPrefix(key, "kubernetes.io/") && len(has) < 4 {
						has = append(has, key)
					}
				}
				if len(has) > 0 {
					text += fmt.Sprintf("; node %s has %s", n.Name, strings.Join(has, ", "))
				}
				return true
			})
			return text
		}
		if l.Name == layer {
			break
		}
	}
	return ""
}
