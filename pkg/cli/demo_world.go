package cli

import (
	"cmp"
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
	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/picture"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// objects are what the API server holds of some kinds: those that make a picture, and
// events.
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

// picture draws the cluster for a gang of pods like member. A pod that is bound is drawn
// by its mark, once for each slot that it takes.
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

// marks draws one node.
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
			left := free[name]
			left.Sub(used)
			free[name] = left
		}
		after := slotsIn(free, unit)
		marks = append(marks, slices.Repeat(picture.Marks{mark(pod)}, before-after)...)
		before = after
	}
	return append(marks, slices.Repeat(picture.Marks{picture.Free}, before)...)
}

// requests are what a pod asks for, and its place among the node's pods.
func requests(pod *v1.Pod) v1.ResourceList {
	out := resource.PodRequests(pod, resource.PodResourcesOptions{})
	out[v1.ResourcePods] = *quantity.NewQuantity(1, quantity.DecimalSI)
	return out
}

// slotsIn counts how often unit fits in what is free.
func slotsIn(free, unit v1.ResourceList) int {
	slots := int64(-1)
	for name, one := range unit {
		if one.IsZero() {
			continue
		}
		left := free[name]
		if n := max(0, left.MilliValue()) / one.MilliValue(); slots < 0 || n < slots {
			slots = n
		}
	}
	return int(slots)
}

// freeSlots counts the free slots of every domain, by ID.
func freeSlots(c *picture.Cluster) []offer.Slots { return offer.Sum(c.Tree, c.World().Free) }

// drawOffers draws the cluster, and beside each domain its free slots.
func drawOffers(c *picture.Cluster) string {
	sums := freeSlots(c)
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

// domainsOf lists what has a line of its own in a picture, from the top.
func domainsOf(t *topology.Tree) (domains []topology.ID) {
	for d := topology.Root + 1; int(d) < t.Len(); d++ {
		if !t.IsNode(d) {
			domains = append(domains, d)
		}
	}
	return domains
}

// headOf returns the name with which a line of a picture begins, "" if the line continues
// another one, and drawnName that of a domain.
func headOf(line string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
	return name
}

func drawnName(t *topology.Tree, d topology.ID) string {
	if !t.Named(d) {
		return "-"
	}
	return t.Name(d)
}

// explainPlan says where a gang goes that finds room, and by which rules.
func explainPlan(c *picture.Cluster, request string) (text string, err error) {
	r, err := picture.ParseRequest(c.Tree, strings.Fields(request))
	if err != nil {
		return "", err
	}
	p, refusal := plan.Choose(c.World(), r)
	if refusal != nil {
		return "", fmt.Errorf("no plan: %s", refusal)
	}
	sums := freeSlots(c)
	rows := [][]string{{"layer", "largest", fmt.Sprintf("room for %d", r.Want)}}
	var fits []topology.ID
	for layer := c.Tree.Depth(); layer >= 0 && len(fits) == 0; layer-- {
		most := offer.Slots(0)
		for d := topology.Root; int(d) < c.Tree.Len(); d++ {
			if c.Tree.Layer(d) != layer {
				continue
			}
			most = max(most, sums[d])
			if sums[d] >= r.Want {
				fits = append(fits, d)
			}
		}
		rows = append(rows, []string{c.Tree.LayerNames()[layer], fmt.Sprint(most), named(c.Tree, fits, sums)})
	}
	return inColumns(rows) + "\n" + wrap(fmt.Sprintf(
		"The deepest layer that has room for all wins. Of its candidates binpack takes the one with the fewest free slots, %s: "+
			"large holes stay whole for large gangs.", c.Tree.Path(p.Domain)), 0, demoWidth) + "\n", nil
}

// named names domains and their slots.
func named(t *topology.Tree, domains []topology.ID, sums []offer.Slots) string {
	if len(domains) == 0 {
		return "none"
	}
	var out []string
	for _, d := range domains {
		out = append(out, fmt.Sprintf("%s (%d)", t.Path(d), sums[d]))
	}
	return strings.Join(out, ", ")
}

// explainEviction says whom a gang has evicted that finds no room, and by which rules.
// A possible victim is any letter in the picture.
func explainEviction(c *picture.Cluster, request string) (string, error) {
	r, err := picture.ParseRequest(c.Tree, strings.Fields(request))
	if err != nil {
		return "", err
	}
	victims := c.Victims(r.Want)
	e := evict.Choose(c.World(), r, victims)
	if e == nil {
		return "", fmt.Errorf("no eviction makes a plan")
	}
	empty := c
	for _, letter := range victimLetters(c) {
		empty = empty.Mark(letter, picture.Free)
	}
	sums, all := freeSlots(c), freeSlots(empty)
	choice := evict.Consider(c.World(), r, victims, e)
	won := choice.Considered[0].Domain
	slices.SortFunc(choice.Considered, func(a, b evict.Considered) int { return cmp.Compare(a.Domain, b.Domain) })
	rows := [][]string{{"domain", "free now", "with all victims gone", fmt.Sprintf("evictions for %d", r.Want)}}
	for _, d := range choice.Considered {
		evictions := "never enough"
		if d.Outcome == evict.Possible {
			evictions = fmt.Sprint(d.Cost.Pods)
		}
		if d.Domain == won {
			evictions += "   <- chosen"
		}
		rows = append(rows, []string{pathOrCluster(c.Tree, d.Domain), fmt.Sprint(sums[d.Domain]), fmt.Sprint(all[d.Domain]), evictions})
	}
	var gone []string
	for _, v := range e.Victims {
		gone = append(gone, c.Tree.NodeName(v.Node))
	}
	return inColumns(rows) + "\n" + wrap(fmt.Sprintf("%s So the pod on %s leaves, and nobody else.",
		sayRule(choice.Rule, pathOrCluster(c.Tree, won)), strings.Join(gone, ", ")), 0, demoWidth) + "\n", nil
}

// sayRule says what decided between the domain that won and the next best.
func sayRule(rule evict.Rule, won string) string {
	switch rule {
	case evict.Alone:
		return "Nowhere else is any eviction enough."
	case evict.ByPods:
		return fmt.Sprintf("Fewest evictions win: %s needs the fewest.", won)
	case evict.ByBinpack:
		return fmt.Sprintf("Fewest evictions win. Between equals binpack decides, as if all possible victims had gone: %s has the fewest slots.", won)
	}
	return fmt.Sprintf("%s wins by this rule: %s.", won, rule)
}

func pathOrCluster(t *topology.Tree, d topology.ID) string { return cmp.Or(t.Path(d), "the cluster") }

// victimLetters lists the marks of possible victims.
func victimLetters(c *picture.Cluster) (out []string) {
	for _, marks := range c.Nodes {
		for _, m := range marks {
			if m >= "a" && m <= "z" && m != picture.Placed && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out
}

// inColumns sets rows in columns, numbers and words alike to the left.
func inColumns(rows [][]string) string {
	wide := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		line := " "
		for i, cell := range row {
			line += fmt.Sprintf(" %-*s  ", wide[i], cell)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}
