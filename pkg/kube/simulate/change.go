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

// ChangeForms are the legal forms of a change.
const ChangeForms = "evict=NAMESPACE/POD, evict=gang/NAMESPACE/NAME, cordon=NODE, add-nodes=N,like=NODE"

// mostAdded bounds the nodes that one change adds.
const mostAdded = 10000

// Change is something that somebody might do to a cluster.
type Change struct {
	text string
	make func(*cluster) (steps []step, did string, err error)
}

// step is objects that are brought in together.
type step []object

func (c Change) String() string { return c.text }

// Changed is a change that was made.
type Changed struct {
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

// ParseChange reads one of ChangeForms.
func ParseChange(text string) (Change, error) {
	verb, of, _ := strings.Cut(text, "=")
	c := Change{text: text}
	words := strings.Split(of, "/")
	if words[0] == "gang" {
		words = strings.SplitN(of, "/", 3) // a gang's name may have a stroke
	}
	ok := of != "" && !slices.Contains(words, "")
	switch {
	case ok && verb == "evict" && len(words) == 2:
		c.make = func(now *cluster) ([]step, string, error) { return now.evictPod(words[0], words[1]) }
	case ok && verb == "evict" && len(words) == 3 && words[0] == "gang":
		c.make = func(now *cluster) ([]step, string, error) { return now.evictGang(words[1], words[2]) }
	case ok && verb == "cordon" && len(words) == 1:
		c.make = func(now *cluster) ([]step, string, error) { return now.cordon(of) }
	case ok && verb == "add-nodes":
		number, like, found := strings.Cut(of, ",like=")
		if !found || like == "" {
			break
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > mostAdded {
			return c, &ChangeError{text, fmt.Errorf("%q nodes: supported values: 1 to %d", number, mostAdded)}
		}
		c.make = func(now *cluster) ([]step, string, error) { return now.addNodes(n, like) }
	}
	if c.make == nil {
		return c, &ChangeError{text, errors.New("supported values: " + ChangeForms)}
	}
	return c, nil
}

// Change makes changes, one after the other, before anybody is scheduled who is not yet. The error
// is a *ChangeError, or Run's.
func (w *World) Change(ctx context.Context, all []Change) error {
	for _, c := range all {
		steps, did, err := c.make(w.cluster)
		if err != nil {
			return &ChangeError{c.text, err}
		}
		for _, s := range steps {
			if err := w.bring(ctx, s); err != nil {
				return err
			}
		}
		w.changed = append(w.changed, Changed{c.text, did})
	}
	return nil
}

// bring applies objects and waits until everybody has seen them.
func (w *World) bring(ctx context.Context, s step) error {
	come, err := w.cluster.apply(&Set{objects: s})
	if err != nil {
		return err
	}
	return w.come(ctx, come)
}

// given marks where objects of changes come from.
func given(o runtime.Object) object { return object{o, kindOf(o), Position{File: "a change"}} }

// node returns a copy of a node.
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
	return nil, fmt.Errorf("there is no node %s; there are %s", name, several(names))
}

// mostListed bounds the names in a sentence.
const mostListed = 10

func several(names []string) string {
	if len(names) <= mostListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostListed], ", "), len(names)-mostListed)
}

func (c *cluster) cordon(name string) ([]step, string, error) {
	n, err := c.node(name)
	if err != nil {
		return nil, "", err
	}
	if n.Spec.Unschedulable {
		return nil, name + " was cordoned already", nil
	}
	return []step{{given(cordoned(n))}}, name + " takes no new pod", nil
}

// cordoned marks a node as kubectl does, and as the controller of nodes does thereupon.
func cordoned(n *v1.Node) *v1.Node {
	n.Spec.Unschedulable = true
	taint := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.MatchTaint(&taint) }) {
		n.Spec.Taints = append(n.Spec.Taints, taint)
	}
	return n
}

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
	return []step{c.leaving([]*v1.Pod{pod})}, onNode(pod) + " leaves", nil
}

func (c *cluster) evictGang(namespace, name string) ([]step, string, error) {
	var on []*v1.Pod
	waiting, leaving := 0, 0
	all, _ := c.list(pods, namespace, nil)
	for _, o := range all {
		pod := o.(*v1.Pod)
		ref := source.Of(pod)
		switch {
		case ref.Namespace != namespace || ref.Name != name || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed:
		case pod.DeletionTimestamp != nil:
			leaving++
		case pod.Spec.NodeName == "":
			waiting++
		default:
			on = append(on, pod)
		}
	}
	switch {
	case len(on) > 0:
	case leaving > 0:
		return nil, "its pods were leaving already", nil
	case waiting > 0:
		return nil, "", fmt.Errorf("gang %s/%s is on no node: its members wait", namespace, name)
	default:
		return nil, "", fmt.Errorf("there is no gang %s/%s with members", namespace, name)
	}
	slices.SortFunc(on, func(a, b *v1.Pod) int { return topology.CompareNames(a.Name, b.Name) })
	names := make([]string, len(on))
	for i, pod := range on {
		names[i] = onNode(pod)
	}
	verb := "leave"
	if len(on) == 1 {
		verb = "leaves"
	}
	return []step{c.leaving(on)}, several(names) + " " + verb, nil
}

func onNode(pod *v1.Pod) string { return convert.PodKey(pod) + " on " + pod.Spec.NodeName }

// leaving are pods as they are when somebody deletes them.
func (c *cluster) leaving(all []*v1.Pod) (out step) {
	for _, pod := range all {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp = &metav1.Time{Time: c.now()}
		out = append(out, given(pod))
	}
	return out
}

// addNodes adds copies of a node, each with the devices and the limits on volumes that it has.
func (c *cluster) addNodes(n int, like string) ([]step, string, error) {
	template, err := c.node(like)
	if err != nil {
		return nil, "", err
	}
	if errs := validation.IsDNS1123Subdomain(fmt.Sprintf("%s-added-%d", like, mostAdded)); len(errs) > 0 {
		return nil, "", fmt.Errorf("the name of node %s cannot be made longer: %s", like, errs[0])
	}
	var out step
	var names []string
	for i := 1; len(names) < n; i++ {
		name := fmt.Sprintf("%s-added-%d", like, i)
		if _, err := c.get(nodes, key{name: name}); err == nil {
			continue
		}
		out = append(append(out, given(freshNode(template, name))), c.equipment(like, name)...)
		names = append(names, name)
	}
	return []step{out}, several(names), nil
}

// freshNode is a node like another that has just joined and is ready. Where a label of the other
// has its name, that of the new one has the new name.
func freshNode(like *v1.Node, name string) *v1.Node {
	n := &v1.Node{Spec: v1.NodeSpec{Taints: lasting(like.Spec.Taints)}}
	n.Name, n.Labels, n.Annotations = name, map[string]string{}, like.Annotations
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

// lasting are the taints that say nothing of the state in which a node is.
func lasting(taints []v1.Taint) (out []v1.Taint) {
	for _, t := range taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") && !strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/") {
			out = append(out, t)
		}
	}
	return out
}

// equipment are the objects that drivers would write for a node that is like another.
func (c *cluster) equipment(like, name string) (out step) {
	if o, err := c.get(csiNodes, key{name: like}); err == nil {
		is := o.(*storagev1.CSINode)
		out = append(out, given(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *is.Spec.DeepCopy()}))
	}
	if o, err := c.get(convert.Devices, key{name: like}); err == nil {
		is := o.(*unstructured.Unstructured)
		fresh := &unstructured.Unstructured{Object: map[string]any{"spec": is.DeepCopy().Object["spec"]}}
		fresh.SetGroupVersionKind(is.GroupVersionKind())
		fresh.SetName(name)
		fresh.SetLabels(is.GetLabels())
		fresh.SetAnnotations(is.GetAnnotations())
		out = append(out, object{fresh, kinds()[is.GroupVersionKind().GroupKind()], Position{File: "a change"}})
	}
	devices, _ := c.list(resourceSlices, "", nil)
	for _, o := range devices {
		is := o.(*resourcev1.ResourceSlice)
		if is.Spec.NodeName == nil || *is.Spec.NodeName != like {
			continue
		}
		fresh := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: is.Name + "-" + name}, Spec: *is.Spec.DeepCopy()}
		fresh.Spec.NodeName = &name
		if fresh.Spec.Pool.Name == like {
			fresh.Spec.Pool.Name = name
		} else {
			fresh.Spec.Pool.Name += "-" + name
		}
		out = append(out, given(fresh))
	}
	return out
}
