package connect

import (
	"context"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
)

// trimNodes makes f's node informer store nodes without managedFields, which no reader needs, and with shared strings (shareStrings).
// managedFields are a sixth of a scheduler's memory in a large cluster. kube-scheduler removes them from pods.
func trimNodes(ctx context.Context, f informers.SharedInformerFactory) {
	w := &stringPool{}
	err := f.Core().V1().Nodes().Informer().SetTransform(func(object any) (any, error) {
		node, ok := object.(*v1.Node)
		if !ok {
			return object, nil
		}
		return w.shareStrings(node), nil
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot drop unused fields of nodes; nodes need more memory", "err", err)
	}
}

// maxStrings limits a stringPool: when it is full, it is emptied, since nodes are deleted and some strings belong to one node only.
// Strings longer than maxStringLength bytes are not shared.
const (
	maxStrings      = 1 << 16
	maxStringLength = 512
)

// stringPool has one copy of each string that nodes share.
type stringPool struct {
	mu     sync.Mutex
	copies map[string]string
}

// shareStrings returns a copy of a node without managedFields. Strings that many nodes have, such as label keys and image names, are
// in memory once. The node itself is not changed: its caller may still read it.
func (w *stringPool) shareStrings(node *v1.Node) *v1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	trimmedNode := *node
	trimmedNode.ManagedFields = nil
	// values of annotations mostly differ between nodes
	trimmedNode.Labels, trimmedNode.Annotations = shareKeys(w, node.Labels), shareKeys(w, node.Annotations)
	for key, value := range trimmedNode.Labels {
		if key != v1.LabelHostname {
			trimmedNode.Labels[key] = w.intern(value)
		}
	}
	trimmedNode.Spec.Taints = copyEach(node.Spec.Taints, func(t *v1.Taint) {
		t.Key = w.intern(t.Key)
		t.Value = w.intern(t.Value)
		t.Effect = v1.TaintEffect(w.intern(string(t.Effect)))
	})
	trimmedNode.Status.Capacity, trimmedNode.Status.Allocatable = shareKeys(w, node.Status.Capacity), shareKeys(w, node.Status.Allocatable)
	trimmedNode.Status.Conditions = copyEach(node.Status.Conditions, func(c *v1.NodeCondition) {
		c.Type, c.Status = v1.NodeConditionType(w.intern(string(c.Type))), v1.ConditionStatus(w.intern(string(c.Status)))
		c.Reason, c.Message = w.intern(c.Reason), w.intern(c.Message)
	})
	trimmedNode.Status.Images = copyEach(node.Status.Images, func(i *v1.ContainerImage) {
		i.Names = copyEach(i.Names, func(name *string) { *name = w.intern(*name) })
	})
	info := &trimmedNode.Status.NodeInfo
	for _, word := range []*string{
		&info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion, &info.KubeletVersion, &info.OperatingSystem, &info.Architecture,
	} {
		*word = w.intern(*word)
	}
	return &trimmedNode
}

// copyEach returns a copy of list; it calls do with a pointer to each item of the copy.
func copyEach[T any](list []T, do func(*T)) []T {
	if list == nil {
		return nil
	}
	copies := make([]T, len(list))
	copy(copies, list)
	for i := range copies {
		do(&copies[i])
	}
	return copies
}

// shareKeys returns a copy of a map whose keys are shared strings of w.
func shareKeys[K ~string, V any, M ~map[K]V](w *stringPool, source M) M {
	if source == nil {
		return nil
	}
	result := make(M, len(source))
	for key, value := range source {
		result[K(w.intern(string(key)))] = value
	}
	return result
}

// intern returns a string equal to word: the one in the pool if there is one. The caller holds w.mu.
func (w *stringPool) intern(word string) string {
	firstCopy, ok := w.copies[word]
	switch {
	case ok:
		return firstCopy
	case len(word) > maxStringLength:
		return word
	}
	if w.copies == nil || len(w.copies) >= maxStrings {
		w.copies = map[string]string{}
	}
	word = strings.Clone(word) // it may be a part of a large string
	w.copies[word] = word
	return word
}
