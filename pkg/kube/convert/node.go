package convert

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ready returns whether a node has the condition Ready, or no such condition, as nodes that are read from files.
func Ready(node *v1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return true
}

// OnEveryNode returns whether a pod belongs to a DaemonSet, or to the node itself.
func OnEveryNode(pod *v1.Pod) bool {
	o := metav1.GetControllerOf(pod)
	return o != nil && (o.Kind == "DaemonSet" || o.Kind == "Node")
}
