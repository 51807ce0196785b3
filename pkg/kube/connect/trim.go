package connect

import (
	"context"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
)

// trimNodes leaves out of all nodes who wrote which field when: nobody here reads it, and
// it is a sixth of what a scheduler keeps of a large cluster. kube-scheduler does so for
// pods. What many nodes have in common, the names of labels and images for one, is kept once.
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

// What bounds the words that are remembered: some are of one node only, and nodes go. When there are too many all are forgotten, and the nodes that come then
// share with one another. Words longer than that are rarely those of another node.
const (
	mostWords   = 1 << 16
	longestWord = 512
)

// words are those that nodes have in common.
type words struct {
	mu    sync.Mutex
	known map[string]string
}

// sharing is a node without the history of its fields, of which equal words are the same piece of memory as those of other nodes. The node itself is not
// changed: whoever gave it may still read it.
func (w *words) sharing(node *v1.Node) *v1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := *node
	own.ManagedFields = nil
	own.Labels, own.Annotations = shared(w, node.Labels), shared(w, node.Annotations) // what annotations say is mostly of this node alone
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

// each is a copy of a list, with something done to each of its items.
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

// shared is a copy of a map of which the keys are words of many.
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

// of is the word as it was met first. w.mu is held.
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
	word = strings.Clone(word) // it may be a piece of something large
	w.known[word] = word
	return word
}
