package connect

import (
	"context"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
)

// trimNodes removes managedFields from all nodes: no reader needs them, and they are a sixth of what a scheduler keeps of a
// large cluster. kube-scheduler does so for pods. Strings that many nodes have, such as label keys and image names, are stored
// once.
func trimNodes(ctx context.Context, f informers.SharedInformerFactory) {
	w := &words{}
	err := f.Core().V1().Nodes().Informer().SetTransform(func(object any) (any, error) {
		node, ok := object.(*v1.Node)
		if !ok {
			return object, nil
		}
		return w.sharing(node), nil
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Nodes are kept whole", "err", err)
	}
}

// Limits of the shared strings: some belong to one node only, and nodes are deleted. When there are too many, all are forgotten
// and later nodes share again. Longer strings are rarely shared.
const (
	mostWords   = 1 << 16
	longestWord = 512
)

// words are strings that nodes share.
type words struct {
	mu    sync.Mutex
	known map[string]string
}

// sharing returns a copy of a node without managedFields, with shared strings. The node itself stays unchanged, since its
// caller may still read it.
func (w *words) sharing(node *v1.Node) *v1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := *node
	own.ManagedFields = nil
	own.Labels, own.Annotations = shared(w, node.Labels), shared(w, node.Annotations) // values of annotations mostly differ between nodes
	for key, value := range own.Labels {
		if key != v1.LabelHostname {
			own.Labels[key] = w.of(value)
		}
	}
	own.Spec.Taints = each(node.Spec.Taints, func(t *v1.Taint) {
		t.Key, t.Value, t.Effect = w.of(t.Key), w.of(t.Value), v1.TaintEffect(w.of(string(t.Effect)))
	})
	own.Status.Capacity, own.Status.Allocatable = shared(w, node.Status.Capacity), shared(w, node.Status.Allocatable)
	own.Status.Conditions = each(node.Status.Conditions, func(c *v1.NodeCondition) {
		c.Type, c.Status = v1.NodeConditionType(w.of(string(c.Type))), v1.ConditionStatus(w.of(string(c.Status)))
		c.Reason, c.Message = w.of(c.Reason), w.of(c.Message)
	})
	own.Status.Images = each(node.Status.Images, func(i *v1.ContainerImage) {
		i.Names = each(i.Names, func(name *string) { *name = w.of(*name) })
	})
	info := &own.Status.NodeInfo
	for _, word := range []*string{
		&info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion, &info.KubeletVersion, &info.OperatingSystem, &info.Architecture,
	} {
		*word = w.of(*word)
	}
	return &own
}

// each returns a copy of a list after do was called with each item.
func each[T any](list []T, do func(*T)) []T {
	if list == nil {
		return nil
	}
	own := make([]T, len(list))
	copy(own, list)
	for i := range own {
		do(&own[i])
	}
	return own
}

// shared returns a copy of a map with shared keys.
func shared[K ~string, V any, M ~map[K]V](w *words, of M) M {
	if of == nil {
		return nil
	}
	own := make(M, len(of))
	for key, value := range of {
		own[K(w.of(string(key)))] = value
	}
	return own
}

// of returns the first copy of a string. The caller holds w.mu.
func (w *words) of(word string) string {
	known, ok := w.known[word]
	switch {
	case ok:
		return known
	case len(word) > longestWord:
		return word
	}
	if w.known == nil || len(w.known) >= mostWords {
		w.known = map[string]string{}
	}
	word = strings.Clone(word) // it may be a part of a large string
	w.known[word] = word
	return word
}
