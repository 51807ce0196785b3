package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/workqueue"
	sigsyaml "sigs.k8s.io/yaml"
)

// Labels that name a node's domains.
const (
	SpineLabel = "network.topology.nvidia.com/spine"
	BlockLabel = "network.topology.nvidia.com/block"
)

// Nodes returns spines × blocksPerSpine × nodesPerBlock equal nodes. Blocks and nodes are numbered through the whole cluster:
//
//	Nodes(2, 2, 2)    spine-0  block-0  node-0 node-1
//	                           block-1  node-2 node-3
//	                  spine-1  block-2  node-4 node-5
//	                           block-3  node-6 node-7
func Nodes(spines, blocksPerSpine, nodesPerBlock int) []*v1.Node {
	var nodes []*v1.Node
	for block := range spines * blocksPerSpine {
		for range nodesPerBlock {
			name := fmt.Sprintf("node-%d", len(nodes))
			capacity := v1.ResourceList{
				v1.ResourceCPU:    resource.MustParse("8"),
				v1.ResourceMemory: resource.MustParse("32Gi"),
				v1.ResourcePods:   resource.MustParse("110"),
			}
			nodes = append(nodes, &v1.Node{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
				ObjectMeta: metav1.ObjectMeta{
					Name:        name,
					Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
					Labels: map[string]string{
						SpineLabel:       fmt.Sprintf("spine-%d", block/blocksPerSpine),
						BlockLabel:       fmt.Sprintf("block-%d", block),
						v1.LabelHostname: name,
					},
				},
				Status: v1.NodeStatus{Capacity: capacity, Allocatable: capacity.DeepCopy()},
			})
		}
	}
	return nodes
}

// ReadNodes returns the Nodes in a YAML or JSON stream, or an error if it has other objects.
func ReadNodes(r io.Reader) ([]*v1.Node, error) {
	var nodes []*v1.Node
	docs := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for i := 1; ; i++ {
		var raw runtime.RawExtension
		switch err := docs.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return nodes, nil
		case err != nil:
			return nil, fmt.Errorf("object %d: %w", i, err)
		case len(raw.Raw) == 0 || string(raw.Raw) == "null":
			continue
		}
		node := &v1.Node{}
		if err := sigsyaml.Unmarshal(raw.Raw, &node.TypeMeta); err != nil {
			return nil, fmt.Errorf("object %d: %w", i, err)
		}
		if node.Kind != "Node" || node.APIVersion != "v1" {
			return nil, fmt.Errorf("object %d is %s %s, want v1 Node", i, node.APIVersion, node.Kind)
		}
		if err := sigsyaml.UnmarshalStrict(raw.Raw, node); err != nil {
			return nil, fmt.Errorf("object %d: %w", i, err)
		}
		nodes = append(nodes, node)
	}
}

// readyPatience is how long AddNodes waits for one more node to become Ready.
const readyPatience = time.Minute

// AddNodes creates nodes and waits until all of them are Ready. It is an error if no further node becomes Ready for a minute.
func (c *Cluster) AddNodes(ctx context.Context, nodes []*v1.Node) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	const atOnce = 16
	workqueue.ParallelizeUntil(ctx, atOnce, len(nodes), func(i int) {
		if _, err := client.CoreV1().Nodes().Create(ctx, nodes[i], metav1.CreateOptions{}); err != nil {
			cancel(fmt.Errorf("create node %s: %w", nodes[i].Name, err))
		}
	})
	if err := context.Cause(ctx); err != nil {
		return err
	}
	go func() {
		select {
		case <-c.kwok.Done():
			cancel(c.kwok.failure())
		case <-ctx.Done():
		}
	}()
	return waitReady(ctx, client, nodes, c.kwok.silence)
}

// waitReady waits until all nodes are Ready. If no further node becomes Ready for readyPatience, it returns the error of silence.
func waitReady(ctx context.Context, client kubernetes.Interface, nodes []*v1.Node, silence func(time.Duration) error) error {
	missing := map[string]bool{}
	for _, n := range nodes {
		missing[n.Name] = true
	}
	if len(missing) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(readyPatience, func() { cancel(silence(readyPatience)) })
	defer patience.Stop()
	api := client.CoreV1().Nodes()
	list := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return api.Watch(ctx, o) },
	}, client)
	_, err := watchtools.UntilWithSync(ctx, list, &v1.Node{}, nil, func(event watch.Event) (bool, error) {
		if node, ok := event.Object.(*v1.Node); ok && missing[node.Name] && ready(node) {
			delete(missing, node.Name)
			patience.Reset(readyPatience)
		}
		return len(missing) == 0, nil
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("%d of %d nodes are not ready: %w", len(missing), len(nodes), err)
	}
	return nil
}

func ready(node *v1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
