package history

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

const (
	// WholeNode is the number of GPUs of a node.
	WholeNode  = 8
	profile    = "muster-scheduler"
	gangLabel  = "pod-group.scheduling.sigs.k8s.io"
	groupsAPI  = "scheduling.sigs.k8s.io"
	spineRules = `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}`
)

// readable returns how the simulation reads objects of a kind; group is "" for Kubernetes' own.
func readable(kind, group string) simulate.Readable {
	for _, r := range simulate.Kinds() {
		if r.Kind == kind && r.Resource.Group == group {
			return r
		}
	}
	panic("the simulation reads no " + kind)
}

// setOf returns a set of pods, nodes and PodGroups.
func setOf(objects ...runtime.Object) (*simulate.Set, error) {
	set := &simulate.Set{}
	for _, o := range objects {
		r := readable("Pod", "")
		switch o.(type) {
		case *v1.Node:
			r = readable("Node", "")
		case *unstructured.Unstructured:
			r = readable("PodGroup", groupsAPI)
		}
		if err := set.AddListed(r, o, "the history"); err != nil {
			return nil, err
		}
	}
	set.GiveObjects()
	return set, nil
}

// cluster returns the nodes, and the layers of the topology.
func (o Options) cluster() (*simulate.Set, error) {
	var all []runtime.Object
	for n := range o.Nodes {
		all = append(all, o.node(n, ""))
	}
	set, err := setOf(all...)
	if err != nil {
		return nil, err
	}
	layers, err := examples.FS.ReadFile("clusternetworktopology.yaml")
	if err != nil {
		return nil, err
	}
	return set, set.Add("clusternetworktopology.yaml", layers)
}

// SpineOf returns the spine of a node.
func (o Options) SpineOf(node int) int { return node / o.Spine }

func nodeName(node int) string { return fmt.Sprintf("node-%d", node) }

// node returns a node with a taint, or without if taint is "".
func (o Options) node(n int, taint string) *v1.Node {
	all := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(WholeNode, resource.DecimalSI), v1.ResourcePods: resource.MustParse("110")}
	out := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(n), Labels: map[string]string{
			localcluster.SpineLabel: fmt.Sprintf("spine-%d", o.SpineOf(n)), localcluster.BlockLabel: fmt.Sprintf("block-%d", n/8),
			v1.LabelHostname: nodeName(n),
		}},
		Status: v1.NodeStatus{
			Capacity: all, Allocatable: all.DeepCopy(), Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
	if taint != "" {
		out.Spec.Taints = []v1.Taint{{Key: taint, Effect: v1.TaintEffectNoSchedule}}
	}
	switch taint {
	case v1.TaintNodeNotReady:
		out.Spec.Taints = append(out.Spec.Taints, v1.Taint{Key: taint, Effect: v1.TaintEffectNoExecute})
		out.Status.Conditions[0].Status = v1.ConditionFalse
	case v1.TaintNodeUnschedulable:
		out.Spec.Unschedulable = true
	}
	return out
}

// podGroup returns the gang of a job: all pods together, in one spine.
func podGroup(j *Job) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": groupsAPI + "/v1alpha1",
		"kind":       "PodGroup",
		"metadata": map[string]any{
			"namespace": metav1.NamespaceDefault, "name": j.Name,
			"annotations": map[string]any{"gang.scheduling.koordinator.sh/network-topology-spec": spineRules},
		},
		"spec": map[string]any{"minMember": int64(j.Nodes)},
	}}
}

// pod returns a pod that takes so many GPUs, for which CPUs stand; inGroup is the name of its PodGroup, or "".
func pod(name, inGroup string, gpus int) *v1.Pod {
	requests := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: v1.PodSpec{
			SchedulerName: profile,
			Containers:    []v1.Container{{Name: "main", Image: "none", Resources: v1.ResourceRequirements{Requests: requests}}},
		},
	}
	if inGroup != "" {
		out.Labels = map[string]string{gangLabel: inGroup}
	}
	return out
}

// deleted returns o with a deletion timestamp.
func deleted[T metav1.Object](o T, now time.Time) T {
	o.SetDeletionTimestamp(&metav1.Time{Time: now})
	return o
}
