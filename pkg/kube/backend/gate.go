package backend

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Gate adds the scheduling gate name to a pod, after the pod's other gates. It returns false if the pod has that gate already.
func Gate(pod *unstructured.Unstructured, name string) bool {
	gates, _, _ := unstructured.NestedSlice(pod.Object, "spec", "schedulingGates")
	if slices.ContainsFunc(gates, isGate(name)) {
		return false
	}
	return unstructured.SetNestedSlice(pod.Object, append(gates, map[string]any{"name": name}), "spec", "schedulingGates") == nil
}

// isGate returns a function that says whether a decoded scheduling gate has this name.
func isGate(name string) func(any) bool {
	return func(gate any) bool {
		object, ok := gate.(map[string]any)
		return ok && object["name"] == name
	}
}
