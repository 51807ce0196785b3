package testcluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Held has a pod wait for Holder, inside or outside.
func Held(p *v1.Pod, where string) *v1.Pod {
	metav1.SetMetaDataLabel(&p.ObjectMeta, "hold", where)
	return p
}

func (c *Cluster) create(gvr schema.GroupVersionResource, namespace string, object map[string]any) {
	c.t.Helper()
	u := &unstructured.Unstructured{Object: object}
	u.SetUID(types.UID(u.GetName()))
	u.SetCreationTimestamp(metav1.Now())
	_, err := c.Custom.Resource(gvr).Namespace(namespace).Create(context.Background(), u, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// InOneSpine has all members of a gang in one spine.
const InOneSpine = `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}`

// Gang makes a PodGroup and its members, NAME-0 and so on, all of one spine. Members with
// a node run.
func (c *Cluster) Gang(name string, least int, members ...*v1.Pod) {
	c.t.Helper()
	c.GangWith(map[string]string{scheduling.AnnotationTopologySpec: InOneSpine}, name, least, members...)
}

// GangWith is Gang with these annotations of the PodGroup.
func (c *Cluster) GangWith(annotations map[string]string, name string, least int, members ...*v1.Pod) {
	c.t.Helper()
	said := map[string]any{}
	for k, v := range annotations {
		said[k] = v
	}
	c.create(sigs.PodGroups, "default", map[string]any{
		"apiVersion": sigs.GroupVersion.String(), "kind": "PodGroup",
		"metadata": map[string]any{"name": name, "namespace": "default", "annotations": said},
		"spec":     map[string]any{"minMember": int64(least)},
	})
	for i, p := range members {
		p.Name = fmt.Sprintf("%s-%d", name, i)
		metav1.SetMetaDataLabel(&p.ObjectMeta, scheduling.LabelPodGroup, name)
		c.Pod(p)
	}
}

var volcano = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}

// VolcanoGang makes a PodGroup of Volcano with this spec, and its members, NAME-0 and so on, before the scheduler
// runs.
func (c *Cluster) VolcanoGang(name string, spec map[string]any, members ...*v1.Pod) {
	c.t.Helper()
	c.Serves = append(c.Serves, volcano)
	c.create(volcano, "default", map[string]any{
		"apiVersion": volcano.GroupVersion().String(), "kind": "PodGroup",
		"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": spec,
	})
	for i, p := range members {
		p.Name = fmt.Sprintf("%s-%d", name, i)
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, "scheduling.k8s.io/group-name", name)
		c.Pod(p)
	}
}

// A makes a pod of a priority and a size, on a node if that is given.
func A(name string, priority int32, cpus, node string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{
			SchedulerName: scheduling.SchedulerName, Priority: &priority, NodeName: node,
			Containers: []v1.Container{
				{Name: "main", Image: "none", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(cpus)}}},
			},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	if node != "" {
		p.Status.Phase = v1.PodRunning
		p.Status.StartTime = &metav1.Time{Time: time.Unix(1000, 0)}
	}
	return p
}

// Of makes so many pods.
func Of(n int, newPod func() *v1.Pod) (pods []*v1.Pod) {
	for range n {
		pods = append(pods, newPod())
	}
	return pods
}

// Pending makes members that wait.
func Pending(n int, priority int32, cpus string) []*v1.Pod {
	return Of(n, func() *v1.Pod { return A("", priority, cpus, "") })
}

// Younger makes a pod one that has just begun to run.
func Younger(p *v1.Pod) *v1.Pod {
	p.Status.StartTime = &metav1.Time{Time: time.Unix(2000, 0)}
	return p
}

// Pod has a pod exist, with its name for a UID if it has none.
func (c *Cluster) Pod(p *v1.Pod) {
	c.t.Helper()
	p.Namespace, p.UID, p.CreationTimestamp = "default", cmp.Or(p.UID, types.UID(p.Name)), metav1.Now()
	c.alone(func(tracker clienttesting.ObjectTracker) error { return tracker.Add(p) })
}

// Remove has a pod be gone.
func (c *Cluster) Remove(name string) {
	c.t.Helper()
	c.alone(func(tracker clienttesting.ObjectTracker) error { return tracker.Delete(Pods, "default", name) })
}

// Edit changes a pod, as a user does.
func (c *Cluster) Edit(name string, change func(*v1.Pod)) {
	c.t.Helper()
	c.alone(func(tracker clienttesting.ObjectTracker) error {
		p := c.Get(name).DeepCopy()
		p.ResourceVersion += "2" // or the scheduler takes it for what it knows
		change(p)
		return tracker.Update(Pods, p, "default")
	})
}

// Node makes one more node, "spine/block/node=CPUs".
func (c *Cluster) Node(word string) {
	c.t.Helper()
	c.alone(func(tracker clienttesting.ObjectTracker) error { return tracker.Add(nodeOf(word)) })
}

// EditNode changes a node, as a user does.
func (c *Cluster) EditNode(name string, change func(*v1.Node)) {
	c.t.Helper()
	c.alone(func(tracker clienttesting.ObjectTracker) error {
		o, err := tracker.Get(nodes, "", name)
		if err != nil {
			return err
		}
		n := o.(*v1.Node).DeepCopy()
		n.ResourceVersion += "2"
		change(n)
		return tracker.Update(nodes, n, "")
	})
}

// nodes names the resource to the client's tracker.
var nodes = v1.SchemeGroupVersion.WithResource("nodes")

// nodeOf reads "spine/block/node=CPUs".
func nodeOf(word string) *v1.Node {
	path, cpus, _ := strings.Cut(word, "=")
	names := strings.Split(path, "/")
	list := v1.ResourceList{"cpu": resource.MustParse(cpus), "pods": resource.MustParse("20")}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: names[2], Labels: map[string]string{"spine": names[0], "block": names[1], v1.LabelHostname: names[2]},
		},
		Status: v1.NodeStatus{Capacity: list, Allocatable: list},
	}
}

// Quota makes an ElasticQuota with a max, before the scheduler runs.
func (c *Cluster) Quota(name, most string, labels map[string]any) {
	c.t.Helper()
	if !slices.Contains(c.Serves, convert.ElasticQuotas) {
		c.Serves = append(c.Serves, convert.ElasticQuotas)
	}
	c.create(convert.ElasticQuotas, "default", map[string]any{
		"apiVersion": convert.ElasticQuotas.GroupVersion().String(), "kind": "ElasticQuota",
		"metadata": map[string]any{"name": name, "namespace": "default", "labels": labels},
		"spec":     map[string]any{"max": map[string]any{"cpu": most}},
	})
}

// EditQuota sets a quota's max, as a user does, and removes its min.
func (c *Cluster) EditQuota(name, most string) {
	c.t.Helper()
	c.EditQuotaSpec(name, map[string]any{"max": map[string]any{"cpu": most}})
}

// EditQuotaSpec replaces a quota's spec, as a user does.
func (c *Cluster) EditQuotaSpec(name string, spec map[string]any) {
	c.t.Helper()
	client := c.Custom.Resource(convert.ElasticQuotas).Namespace("default")
	is, err := client.Get(context.Background(), name, metav1.GetOptions{})
	require.NoError(c.t, err)
	is.Object["spec"] = spec
	_, err = client.Update(context.Background(), is, metav1.UpdateOptions{})
	require.NoError(c.t, err)
}

// EditGang changes a PodGroup's spec, as a user does.
func (c *Cluster) EditGang(name string, change func(spec map[string]any)) {
	c.t.Helper()
	client := c.Custom.Resource(sigs.PodGroups).Namespace("default")
	group, err := client.Get(context.Background(), name, metav1.GetOptions{})
	require.NoError(c.t, err)
	change(group.Object["spec"].(map[string]any))
	_, err = client.Update(context.Background(), group, metav1.UpdateOptions{})
	require.NoError(c.t, err)
}

// alone changes objects while no request is under way: a patch reads an object and writes it
// later, which would undo what came between.
func (c *Cluster) alone(change func(clienttesting.ObjectTracker) error) {
	c.t.Helper()
	c.Client.Lock()
	err := change(c.Client.Tracker())
	c.Client.Unlock()
	require.NoError(c.t, err)
}
