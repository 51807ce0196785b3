package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// ChangeForms lists the supported forms of a change.
const ChangeForms = "evict=NAMESPACE/POD, evict=gang/NAMESPACE/NAME, cordon=NODE, fail=NODE, add-nodes=N,like=NODE"

// maxAddedNodes bounds the nodes that one change adds.
const maxAddedNodes = 10000

// Change is a hypothetical change to a cluster, such as an eviction or a new node.
type Change struct {
	text    string
	prepare func(*cluster) (steps []step, did string, err error)
}

// step is a list of objects that are applied together.
type step []object

func (c Change) String() string { return c.text }

// ChangeReport is a change that was made, and its effect in words.
type ChangeReport struct {
	Change string `json:"change"`
	Did    string `json:"did"`
}

// ChangeError says why a change cannot be made.
type ChangeError struct {
	Change string
	Err    error
}

func (e *ChangeError) Error() string { return e.Change + ": " + e.Err.Error() }
func (e *ChangeError) Unwrap() error { return e.Err }

// ParseChange parses a change in one of ChangeForms.
func ParseChange(text string) (Change, error) {
	verb, target, _ := strings.Cut(text, "=")
	c := Change{text: text}
	words := strings.Split(target, "/")
	if words[0] == "gang" {
		words = strings.SplitN(target, "/", 3) // the name of a gang may contain a slash
	}
	ok := target != "" && !slices.Contains(words, "")
	switch {
	case ok && verb == "evict" && len(words) == 2:
		c.prepare = func(now *cluster) ([]step, string, error) { return now.evictPod(words[0], words[1]) }
	case ok && verb == "evict" && len(words) == 3 && words[0] == "gang":
		c.prepare = func(now *cluster) ([]step, string, error) { return now.evictGang(words[1], words[2]) }
	case ok && verb == "cordon" && len(words) == 1:
		c.prepare = func(now *cluster) ([]step, string, error) { return now.cordon(target) }
	case ok && verb == "fail" && len(words) == 1:
		c.prepare = func(now *cluster) ([]step, string, error) { return now.fail(target) }
	case ok && verb == "add-nodes":
		number, like, found := strings.Cut(target, ",like=")
		if !found || like == "" {
			break
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > maxAddedNodes {
			return c, &ChangeError{text, fmt.Errorf("%q nodes: supported values: 1 to %d", number, maxAddedNodes)}
		}
		c.prepare = func(now *cluster) ([]step, string, error) { return now.addNodes(n, like) }
	}
	if c.prepare == nil {
		return c, &ChangeError{text, errors.New("supported values: " + ChangeForms)}
	}
	return c, nil
}

// Change makes the changes in order, before the scheduler tries any pod that has no node. The error is a *ChangeError, or one of Run's.
func (w *World) Change(ctx context.Context, all []Change) error {
	for _, c := range all {
		steps, did, err := c.prepare(w.cluster)
		if err != nil {
			return &ChangeError{c.text, err}
		}
		for _, s := range steps {
			if err := w.applyStep(ctx, s); err != nil {
				return err
			}
		}
		w.changed = append(w.changed, ChangeReport{c.text, did})
	}
	return nil
}

// applyStep applies objects and returns once every watcher has seen them.
func (w *World) applyStep(ctx context.Context, s step) error { return w.Apply(ctx, &Set{objects: s}) }

// fromChange returns o as an object of the set; its position, for messages, is "a change".
func fromChange(o runtime.Object) object { return object{o, kindOf(o), Position{File: "a change"}} }

// node returns a copy of a node. The error lists the nodes that exist.
func (c *cluster) node(name string) (*v1.Node, error) {
	o, err := c.get(nodes, key{name: name})
	if err == nil {
		return o.(*v1.Node).DeepCopy(), nil
	}
	all, _ := c.list(nodes, "", nil)
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no node %s, nor any other", name)
	}
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = o.(*v1.Node).Name
	}
	slices.SortFunc(names, topology.CompareNames)
	return nil, fmt.Errorf("there is no node %s; there are %s", name, joinNames(names))
}

// maxListedNames bounds the names in a sentence.
const maxListedNames = 10

func joinNames(names []string) string {
	if len(names) <= maxListedNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListedNames], ", "), len(names)-maxListedNames)
}

// cordon returns the step that cordons a node. It changes nothing itself.
func (c *cluster) cordon(name string) ([]step, string, error) {
	n, err := c.node(name)
	if err != nil {
		return nil, "", err
	}
	if n.Spec.Unschedulable {
		return nil, name + " was cordoned already", nil
	}
	return []step{{fromChange(cordoned(n))}}, name + " takes no new pod", nil
}

// cordoned sets n unschedulable, with the taint that the node lifecycle controller adds, and returns n.
func cordoned(n *v1.Node) *v1.Node {
	n.Spec.Unschedulable = true
	taint := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.MatchTaint(&taint) }) {
		n.Spec.Taints = append(n.Spec.Taints, taint)
	}
	return n
}

// fail returns the steps that delete a node with its pods, and recreate the pods that have a controller. A LeaderWorkerSet recreates the
// whole group of a lost pod. It changes nothing itself.
func (c *cluster) fail(name string) ([]step, string, error) {
	n, err := c.node(name)
	if err != nil {
		return nil, "", err
	}
	all, _ := c.list(pods, "", nil)
	var onNode, lost, recreated []*v1.Pod
	for _, o := range all {
		if pod := o.(*v1.Pod); pod.Spec.NodeName == name {
			onNode = append(onNode, pod)
		}
	}
	for _, o := range all {
		pod := o.(*v1.Pod)
		withLost := func(other *v1.Pod) bool { return source.SameLeaderWorkerSetGroup(other, pod) }
		if pod.Spec.NodeName != name && !slices.ContainsFunc(onNode, withLost) {
			continue
		}
		lost = append(lost, pod)
		if len(pod.OwnerReferences) > 0 && !convert.OnEveryNode(pod) && !convert.Finished(pod) {
			recreated = append(recreated, pod)
		}
	}
	fresh := c.recreated(recreated)
	n.DeletionTimestamp = &metav1.Time{Time: c.now()}
	did := name + " is gone, and no pod is recreated"
	if len(recreated) > 0 {
		names := make([]string, len(recreated))
		for i, pod := range recreated {
			names[i] = convert.PodKey(pod)
		}
		slices.SortFunc(names, topology.CompareNames)
		did = name + " is gone; recreated: " + joinNames(names)
	}
	return []step{append(c.deletedPods(lost), fromChange(n)), fresh}, did, nil
}

// evictPod returns the step that deletes a pod with a node. It changes nothing itself.
func (c *cluster) evictPod(namespace, name string) ([]step, string, error) {
	o, err := c.get(pods, key{namespace, name})
	if err != nil {
		return nil, "", fmt.Errorf("there is no pod %s/%s", namespace, name)
	}
	pod := o.(*v1.Pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return nil, convert.PodKey(pod) + " was leaving already", nil
	case pod.Spec.NodeName == "":
		return nil, "", fmt.Errorf("pod %s/%s is on no node", namespace, name)
	}
	return []step{c.deletedPods([]*v1.Pod{pod})}, onNode(pod) + " leaves", nil
}

// evictGang returns the step that deletes all members with a node. It changes nothing itself.
func (c *cluster) evictGang(namespace, name string) ([]step, string, error) {
	var assigned []*v1.Pod
	waitingCount, terminatingCount := 0, 0
	all, _ := c.list(pods, namespace, nil)
	for _, o := range all {
		pod := o.(*v1.Pod)
		ref := source.GangOf(pod)
		switch {
		case ref.Namespace != namespace || ref.Name != name || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed:
		case pod.DeletionTimestamp != nil:
			terminatingCount++
		case pod.Spec.NodeName == "":
			waitingCount++
		default:
			assigned = append(assigned, pod)
		}
	}
	switch {
	case len(assigned) > 0:
	case terminatingCount > 0:
		return nil, "its pods were leaving already", nil
	case waitingCount > 0:
		return nil, "", fmt.Errorf("gang %s/%s is on no node: its members wait", namespace, name)
	default:
		return nil, "", fmt.Errorf("there is no gang %s/%s with members", namespace, name)
	}
	slices.SortFunc(assigned, func(a, b *v1.Pod) int { return topology.CompareNames(a.Name, b.Name) })
	names := make([]string, len(assigned))
	for i, pod := range assigned {
		names[i] = onNode(pod)
	}
	verb := "leave"
	if len(assigned) == 1 {
		verb = "leaves"
	}
	return []step{c.deletedPods(assigned)}, joinNames(names) + " " + verb, nil
}

func onNode(pod *v1.Pod) string { return convert.PodKey(pod) + " on " + pod.Spec.NodeName }

// deletedPods returns copies of pods with a deletion timestamp.
func (c *cluster) deletedPods(all []*v1.Pod) (out step) {
	for _, pod := range all {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp = &metav1.Time{Time: c.now()}
		out = append(out, fromChange(pod))
	}
	return out
}

// addNodes returns the step that adds n copies of node like, each with its devices and volume limits. It changes nothing itself.
func (c *cluster) addNodes(n int, like string) ([]step, string, error) {
	template, err := c.node(like)
	if err != nil {
		return nil, "", err
	}
	if errs := validation.IsDNS1123Subdomain(fmt.Sprintf("%s-added-%d", like, maxAddedNodes)); len(errs) > 0 {
		return nil, "", fmt.Errorf("the name of node %s cannot be made longer: %s", like, errs[0])
	}
	var out step
	var names []string
	for i := 1; len(names) < n; i++ {
		name := fmt.Sprintf("%s-added-%d", like, i)
		if _, err := c.get(nodes, key{name: name}); err == nil {
			continue
		}
		out = append(append(out, fromChange(freshNode(template, name))), c.driverObjects(like, name)...)
		names = append(names, name)
	}
	return []step{out}, joinNames(names), nil
}

// freshNode returns a ready node with the labels, taints and capacity of like. A label whose value is the name of like gets the new name.
func freshNode(like *v1.Node, name string) *v1.Node {
	n := &v1.Node{Spec: v1.NodeSpec{Taints: permanentTaints(like.Spec.Taints)}}
	n.Name = name
	n.Labels = map[string]string{}
	n.Annotations = like.Annotations
	for k, v := range like.Labels {
		if v == like.Name {
			v = name
		}
		n.Labels[k] = v
	}
	n.Status.Capacity, n.Status.Allocatable = like.Status.Capacity, like.Status.Allocatable
	n.Status.NodeInfo, n.Status.Features = like.Status.NodeInfo, like.Status.Features
	n.Status.DeclaredFeatures = like.Status.DeclaredFeatures
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	return n.DeepCopy()
}

// permanentTaints returns the taints that do not describe a passing state of the node.
func permanentTaints(taints []v1.Taint) (out []v1.Taint) {
	for _, t := range taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") && !strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/") {
			out = append(out, t)
		}
	}
	return out
}

// driverObjects returns the objects that device and volume drivers would write for a new node that is like another.
func (c *cluster) driverObjects(like, name string) (out step) {
	if o, err := c.get(csiNodes, key{name: like}); err == nil {
		original := o.(*storagev1.CSINode)
		out = append(out, fromChange(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *original.Spec.DeepCopy()}))
	}
	if o, err := c.get(convert.Devices, key{name: like}); err == nil {
		original := o.(*unstructured.Unstructured)
		fresh := &unstructured.Unstructured{Object: map[string]any{"spec": original.DeepCopy().Object["spec"]}}
		fresh.SetGroupVersionKind(original.GroupVersionKind())
		fresh.SetName(name)
		fresh.SetLabels(original.GetLabels())
		fresh.SetAnnotations(original.GetAnnotations())
		out = append(out, object{fresh, kinds()[original.GroupVersionKind().GroupKind()], Position{File: "a change"}})
	}
	devices, _ := c.list(resourceSlices, "", nil)
	for _, o := range devices {
		original := o.(*resourcev1.ResourceSlice)
		if original.Spec.NodeName == nil || *original.Spec.NodeName != like {
			continue
		}
		fresh := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: original.Name + "-" + name}, Spec: *original.Spec.DeepCopy()}
		fresh.Spec.NodeName = &name
		if fresh.Spec.Pool.Name == like {
			fresh.Spec.Pool.Name = name
		} else {
			fresh.Spec.Pool.Name += "-" + name
		}
		out = append(out, fromChange(fresh))
	}
	return out
}
