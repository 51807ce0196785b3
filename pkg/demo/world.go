package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/picture"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// objects are the cluster's objects that the demo reads: the kinds in a picture, and events.
type objects struct {
	nodes    []v1.Node
	pods     []v1.Pod
	events   []v1.Event
	topology koordinator.ClusterNetworkTopology
}

// decodeObjects reads a List of these kinds, as "kubectl get -o json" prints it.
func decodeObjects(list string) (objects, error) {
	var o objects
	var raw struct{ Items []json.RawMessage }
	if err := json.Unmarshal([]byte(list), &raw); err != nil {
		return o, err
	}
	for _, item := range raw.Items {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(item, &kind); err != nil {
			return o, err
		}
		var err error
		switch kind.Kind {
		case "Node":
			o.nodes, err = appendDecoded(o.nodes, item)
		case "Pod":
			o.pods, err = appendDecoded(o.pods, item)
		case "Event":
			o.events, err = appendDecoded(o.events, item)
		case "ClusterNetworkTopology":
			err = json.Unmarshal(item, &o.topology)
		}
		if err != nil {
			return o, fmt.Errorf("%s: %w", kind.Kind, err)
		}
	}
	return o, nil
}

func appendDecoded[T any](list []T, raw []byte) ([]T, error) {
	var one T
	err := json.Unmarshal(raw, &one)
	return append(list, one), err
}

// picture returns the picture of the cluster with slots of the size of member. It has mark(pod) once for each slot that a pod takes.
func (o objects) picture(member *v1.Pod, mark func(*v1.Pod) string) (*picture.Cluster, error) {
	layers, err := koordinator.OrderLayers(o.topology.Spec)
	if err != nil {
		return nil, err
	}
	layers = layers[:len(layers)-1] // the last one is the nodes
	names := make([]string, len(layers))
	for i, l := range layers {
		names[i] = l.Name
	}
	nodes := make([]topology.Node, len(o.nodes))
	for i, n := range o.nodes {
		nodes[i] = topology.Node{Name: n.Name, Path: pathOf(n.Labels, layers)}
	}
	c := &picture.Cluster{Tree: topology.Build(names, nodes)}
	c.Nodes = make([]picture.Marks, c.Tree.NumNodes())
	for _, n := range o.nodes {
		i, _ := c.Tree.NodeIndex(n.Name)
		c.Nodes[i] = o.marks(n, member, mark)
	}
	return c, nil
}

// pathOf returns the domains that a node's labels name.
func pathOf(labels map[string]string, layers []koordinator.Layer) []string {
	path := make([]string, len(layers))
	for i, l := range layers {
		for _, key := range l.LabelKeys {
			if path[i] = labels[key]; path[i] != "" {
				break
			}
		}
	}
	return path
}

// marks returns the marks of node n: first for its pods, then for its free slots.
func (o objects) marks(n v1.Node, member *v1.Pod, mark func(*v1.Pod) string) picture.Marks {
	unit := requests(member)
	free := n.Status.Allocatable.DeepCopy()
	before := slotsIn(free, unit)
	var marks picture.Marks
	for i := range o.pods {
		pod := &o.pods[i]
		if pod.Spec.NodeName != n.Name || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		for name, used := range requests(pod) {
			remaining := free[name]
			remaining.Sub(used)
			free[name] = remaining
		}
		after := slotsIn(free, unit)
		marks = append(marks, slices.Repeat(picture.Marks{mark(pod)}, before-after)...)
		before = after
	}
	return append(marks, slices.Repeat(picture.Marks{picture.Free}, before)...)
}

// requests returns a pod's requests, with its slot among the node's pods.
func requests(pod *v1.Pod) v1.ResourceList {
	out := resource.PodRequests(pod, resource.PodResourcesOptions{})
	out[v1.ResourcePods] = *quantity.NewQuantity(1, quantity.DecimalSI)
	return out
}

// slotsIn returns how many times unit fits in free.
func slotsIn(free, unit v1.ResourceList) int {
	slots := int64(-1)
	for name, one := range unit {
		if one.IsZero() {
			continue
		}
		available := free[name]
		if n := max(0, available.MilliValue()) / one.MilliValue(); slots < 0 || n < slots {
			slots = n
		}
	}
	return int(slots)
}

// drawOffers returns the drawn cluster, with the number of free slots at the end of each domain's line.
func drawOffers(c *picture.Cluster) string {
	sums := offer.Sum(c.Tree, c.Count(picture.Free)) // free slots by domain
	lines := []string{"  cluster"}
	counts := []string{strconv.Itoa(int(sums[topology.Root])) + " free"}
	next := domainsOf(c.Tree)
	for line := range strings.SplitSeq(strings.TrimSuffix(picture.Draw(c.Tree, c.Nodes), "\n"), "\n") {
		count := ""
		if len(next) > 0 && headOf(line) == drawnName(c.Tree, next[0]) {
			count, next = strconv.Itoa(int(sums[next[0]])), next[1:]
		}
		lines, counts = append(lines, "    "+line), append(counts, count)
	}
	wide := 0
	for _, line := range lines {
		wide = max(wide, utf8.RuneCountInString(line))
	}
	var out strings.Builder
	for i, line := range lines {
		number, word, _ := strings.Cut(counts[i], " ")
		row := fmt.Sprintf("%-*s %3s %s", wide+2, line, number, word)
		out.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	return out.String()
}

// domainsOf lists the domains with a line of their own in a picture, from the top.
func domainsOf(t *topology.Tree) (domains []topology.ID) {
	for d := topology.Root + 1; int(d) < t.Len(); d++ {
		if !t.IsNode(d) {
			domains = append(domains, d)
		}
	}
	return domains
}

// headOf returns the name at the beginning of a picture's line; "" if it continues another line.
func headOf(line string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
	return name
}

// drawnName returns the name of domain d in a picture.
func drawnName(t *topology.Tree, d topology.ID) string {
	if !t.Named(d) {
		return "-"
	}
	return t.Name(d)
}
