package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// askedWorld is a small cluster in which gangs wait.
type askedWorld struct {
	number   int
	layers   []layer // from the top down, without the nodes'
	topology *unstructured.Unstructured
	nodes    []*v1.Node
	teams    []askedTeam // gangs that run
	groups   []*unstructured.Unstructured
	budgets  []*policyv1.PodDisruptionBudget
	running  []*v1.Pod
	waiting  []*v1.Pod // members of gangs, in the order of these
	gangs    []askedGang

	random *rand.Rand
}

// layer is one of the topology's, and the label that names its domains.
type layer struct{ name, label string }

// askedTeam is a gang that runs.
type askedTeam struct {
	name, class string
	pods        int
}

// askedGang is a gang with waiting members.
type askedGang struct {
	name  string
	about string // the special trait of the gang.
	least int    // minMember.
	runs  int    // so many members run already.
	alike bool   // its members need the same, and it starts without other gangs.
	must  string // the layer in one domain of which it gathers; "" is none.
	odd   bool   // counts of members must be multiples.
}

// askedClasses are the PriorityClasses. Gangs of the last one do not preempt.
var askedClasses = map[string]int32{"p1": 1, "p5": 5, "p9": 9}

const politeClass = "p9-never"

var allLayers = []layer{{"SpineLayer", localcluster.SpineLabel}, {"BlockLayer", localcluster.BlockLabel}, {"RackLayer", "example.com/rack"}}

// diskLabel is one that some nodes have, and some gangs want.
const diskLabel = "example.com/disk"

// drawAsked draws a world. Its random numbers are its own.
func drawAsked(seed uint64, number int) *askedWorld {
	w := &askedWorld{number: number, random: rand.New(rand.NewPCG(seed, uint64(number)))}
	w.layers = allLayers[:1+w.random.IntN(len(allLayers))]
	w.topology = topologyOf(w.layers)
	w.drawNodes()
	w.drawRunning()
	for range w.between(1, 4) {
		w.drawGang()
	}
	return w
}

func (w *askedWorld) between(low, high int) int { return low + w.random.IntN(high-low+1) }

// one of n is true.
func (w *askedWorld) oneOf(n int) bool { return w.random.IntN(n) == 0 }

func pick[T any](w *askedWorld, of ...T) T { return of[w.random.IntN(len(of))] }

func topologyOf(layers []layer) *unstructured.Unstructured {
	var spec []any
	parent := ""
	for _, l := range append(slices.Clone(layers), layer{name: "NodeTopologyLayer"}) {
		one := map[string]any{"topologyLayer": l.name}
		if l.label != "" {
			one["labelKey"] = []any{l.label}
		}
		if parent != "" {
			one["parentTopologyLayer"] = parent
		}
		spec, parent = append(spec, one), l.name
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": koordinator.GroupVersion.String(), "kind": "ClusterNetworkTopology",
		"metadata": map[string]any{"name": scheduling.TopologyName},
		"spec":     map[string]any{"networkTopologySpec": spec},
	}}
}

const mostNodes = 14

// drawNodes draws domains of different sizes, with nodes of different sizes. Some nodes take no pod, and some have no
// topology labels.
func (w *askedWorld) drawNodes() {
	var grow func(names []string)
	grow = func(names []string) {
		if len(names) < len(w.layers) {
			for i := range w.between(1, 3) {
				grow(append(slices.Clone(names), fmt.Sprintf("%c%d", w.layers[len(names)].name[0]+'a'-'A', i)))
			}
			return
		}
		for range w.between(1, 5-len(w.layers)) {
			if len(w.nodes) == mostNodes {
				return
			}
			w.nodes = append(w.nodes, w.drawNode(names))
		}
	}
	grow(nil)
}

func (w *askedWorld) drawNode(names []string) *v1.Node {
	n := localcluster.Nodes(1, 1, 1)[0]
	n.Name = fmt.Sprintf("m%d", len(w.nodes))
	n.Labels = map[string]string{v1.LabelHostname: n.Name}
	for i, name := range names {
		n.Labels[w.layers[i].label] = name
	}
	if w.oneOf(24) {
		delete(n.Labels, w.layers[w.random.IntN(len(names))].label)
	}
	if w.oneOf(2) {
		n.Labels[diskLabel] = "fast"
	}
	n.Spec.Unschedulable = w.oneOf(12)
	cpu := *resource.NewQuantity(int64(pick(w, 1, 2, 4, 4, 6, 8, 8)), resource.DecimalSI)
	n.Status.Capacity[v1.ResourceCPU], n.Status.Allocatable[v1.ResourceCPU] = cpu, cpu
	return n
}

func cpusOf(n *v1.Node) int { return int(n.Status.Allocatable.Cpu().Value()) }

// drawRunning draws running pods. Some of them are members of gangs, and some are protected.
func (w *askedWorld) drawRunning() {
	for i := range w.random.IntN(4) {
		w.teams = append(w.teams, askedTeam{name: fmt.Sprintf("v%d", i), class: pick(w, "p1", "p1", "p5", "p9")})
	}
	budget, crowd := w.oneOf(4), pick(w, 0, 2, 3, 4, 4, 4)
	for i, n := range w.nodes {
		for free := cpusOf(n); free > 0 && w.random.IntN(4) < crowd; {
			used := w.between(1, min(4, free))
			free -= used
			p := newPod(fmt.Sprintf("run-%d-%d", i, len(w.running)), int64(used)*1000, pick(w, "p1", "p1", "p1", "p5", "p9"))
			p.Spec.NodeName, p.Labels = n.Name, map[string]string{}
			if t := w.random.IntN(2*len(w.teams) + 1); t < len(w.teams) {
				w.teams[t].pods++
				p.Labels[scheduling.LabelPodGroup], p.Spec.PriorityClassName = w.teams[t].name, w.teams[t].class
			}
			if w.oneOf(12) {
				p.Labels[scheduling.LabelDisablePreemptible] = "true"
			}
			if budget && w.oneOf(2) {
				p.Labels[budgetLabel] = "budget"
			}
			w.running = append(w.running, p)
		}
	}
	if budget {
		w.drawBudget()
	}
	for _, t := range w.teams {
		if t.pods > 0 {
			w.groups = append(w.groups, podGroup(t.name, max(1, t.pods-pick(w, 0, 0, 1, 2)), nil))
		}
	}
}

// drawBudget makes a budget, with the status that a controller would write.
func (w *askedWorld) drawBudget() {
	pods := int32(0)
	for _, p := range w.running {
		if p.Labels[budgetLabel] != "" {
			pods++
		}
	}
	allowed := min(pods, int32(w.random.IntN(3)))
	least := intstr.FromInt32(pods - allowed)
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "budget", Namespace: metav1.NamespaceDefault}}
	b.Spec.MinAvailable, b.Spec.Selector = &least, &metav1.LabelSelector{MatchLabels: map[string]string{budgetLabel: "budget"}}
	b.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: 1, DisruptionsAllowed: allowed, CurrentHealthy: pods, DesiredHealthy: pods - allowed, ExpectedPods: pods,
	}
	w.budgets = append(w.budgets, b)
}

func podGroup(name string, least int, annotations map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": sigs.GroupVersion.String(), "kind": "PodGroup",
		"metadata": map[string]any{"name": name, "namespace": metav1.NamespaceDefault, "annotations": annotations},
		"spec":     map[string]any{"minMember": int64(least)},
	}}
}

// drawGang draws a gang that waits, or two that start together.
func (w *askedWorld) drawGang() {
	if running := w.running; len(running) > 0 && w.oneOf(10) && w.lateMember() {
		return
	}
	g := askedGang{name: fmt.Sprintf("g%d", len(w.gangs)), alike: true}
	class, members, cpu := pick(w, "p1", "p5", "p5", "p9", "p9", "p9"), w.between(1, 5), pick(w, 1, 1, 1, 2, 2, 3)
	if w.oneOf(10) {
		class = politeClass
	}
	g.least = members
	annotations := map[string]any{}
	rules := w.drawRules(&g)
	switch w.random.IntN(24) {
	case 0:
		g.least, g.about = members+1, "a member is missing"
	case 1, 2:
		g.least, g.about = w.between(1, members), "has more members than it needs"
	case 3:
		rules, g.about = `{"layer":"spineLayer","strategy":"MustGather"}`, "names no layer"
	case 4:
		annotations[scheduling.AnnotationGroups], g.about, g.alike = groupsOf([]string{g.name, "stranger"}), "lists a stranger", false
	case 5:
		cpu, g.about = 9, "larger than any node"
	case 6:
		members, g.about = 40, "larger than any domain"
		g.least = members
	}
	if rules != "" {
		annotations[scheduling.AnnotationTopologySpec] = `{"gatherStrategy":[` + rules + `]}`
	}
	unlike := members > 1 && w.oneOf(8)
	selects := w.oneOf(12)
	names := []string{g.name}
	if g.about == "" && w.oneOf(10) {
		names = append(names, fmt.Sprintf("g%d", len(w.gangs)+1))
		annotations[scheduling.AnnotationGroups], g.about, g.alike = groupsOf(names), "two that start together", false
	}
	for _, name := range names {
		g.name = name
		g.alike = g.alike && !unlike
		w.gangs = append(w.gangs, g)
		w.groups = append(w.groups, podGroup(name, g.least, annotations))
		for i := range members {
			p := newPod(fmt.Sprintf("%s-%d", name, i), int64(cpu)*1000, class)
			if unlike && i == 0 {
				p = newPod(fmt.Sprintf("%s-%d", name, i), 500, class)
			}
			p.Labels = map[string]string{scheduling.LabelPodGroup: name}
			if selects {
				p.Spec.NodeSelector = map[string]string{diskLabel: "fast"}
			}
			w.waiting = append(w.waiting, p)
		}
	}
}

// drawRules draws up to two rules, one a layer.
func (w *askedWorld) drawRules(g *askedGang) string {
	var rules []string
	for i, l := range w.layers {
		if len(rules) == 2 || w.oneOf(2) || i > 0 && w.oneOf(2) {
			continue
		}
		rule := map[string]any{"layer": l.name, "strategy": pick(w, "MustGather", "MustGather", "PreferGather")}
		if rule["strategy"] == "MustGather" {
			g.must = l.name
		}
		if w.oneOf(8) {
			rule["podCountMultiple"], g.odd = 2, true
		}
		text, _ := json.Marshal(rule)
		rules = append(rules, string(text))
	}
	return strings.Join(rules, ",")
}

// lateMember has a member of a gang that runs wait; in some worlds the gang needs it. It says whether there is
// such a gang.
func (w *askedWorld) lateMember() bool {
	for _, t := range w.teams {
		known := slices.ContainsFunc(w.gangs, func(g askedGang) bool { return g.name == t.name })
		if t.pods == 0 || known {
			continue
		}
		g := askedGang{name: t.name, about: "a late member", runs: t.pods}
		i := slices.IndexFunc(w.groups, func(u *unstructured.Unstructured) bool { return u.GetName() == t.name })
		if w.oneOf(2) {
			w.groups[i] = podGroup(t.name, t.pods+1, nil)
			g.about = "a member that is lacking"
		}
		least, _, _ := unstructured.NestedInt64(w.groups[i].Object, "spec", "minMember")
		g.least = int(least)
		p := newPod(t.name+"-late", int64(w.between(1, 3))*1000, t.class)
		p.Labels = map[string]string{scheduling.LabelPodGroup: t.name}
		w.gangs, w.waiting = append(w.gangs, g), append(w.waiting, p)
		return true
	}
	return false
}

// members are the pods of a gang that wait.
func (w *askedWorld) members(gang string) (pods []*v1.Pod) {
	for _, p := range w.waiting {
		if p.Labels[scheduling.LabelPodGroup] == gang {
			pods = append(pods, p)
		}
	}
	return pods
}

// runsOn are the nodes of a gang's members that run.
func (w *askedWorld) runsOn(gang string) (nodes []string) {
	for _, p := range w.running {
		if p.Labels[scheduling.LabelPodGroup] == gang {
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	return nodes
}

// path is a node's, with the names that it has, or that of the deepest domain in which all of some nodes are.
func (w *askedWorld) path(nodes ...string) string {
	var common []string
	for i, name := range nodes {
		at := slices.IndexFunc(w.nodes, func(n *v1.Node) bool { return n.Name == name })
		if at < 0 {
			return "?"
		}
		var path []string
		for _, l := range w.layers {
			path = append(path, w.nodes[at].Labels[l.label])
		}
		path = append(path, name)
		if i == 0 {
			common = path
			continue
		}
		k := 0
		for k < len(common) && common[k] == path[k] {
			k++
		}
		common = common[:k]
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(common), func(s string) bool { return s == "" }), "/")
}

func (w *askedWorld) String() string {
	var out []string
	for _, g := range w.gangs {
		out = append(out, strings.TrimSpace(g.name+" "+g.about))
	}
	return fmt.Sprintf("world %d: %d nodes in %d layers, %d pods run, waiting are %s", w.number, len(w.nodes), len(w.layers), len(w.running),
		strings.Join(out, ", "))
}
