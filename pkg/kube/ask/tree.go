package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/picture"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// SlotSize is the size of a slot: a member of Gang, a pod with Requests, or a whole node if both are empty.
type SlotSize struct {
	Gang     *Target
	Requests v1.ResourceList
}

// ParseRequests parses a list of resources such as "cpu=8,nvidia.com/gpu=8".
func ParseRequests(text string) (v1.ResourceList, error) {
	out := v1.ResourceList{}
	for _, req := range strings.Split(text, ",") {
		name, amount, ok := strings.Cut(req, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q: it must be like cpu=8", req)
		}
		q, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", req, err)
		}
		_, twice := out[v1.ResourceName(name)]
		switch {
		case q.Sign() <= 0:
			return nil, fmt.Errorf("%q: must be more than 0", req)
		case twice:
			return nil, fmt.Errorf("%q: %s is listed twice", req, name)
		case !isResource(name):
			return nil,
				fmt.Errorf("%q: supported values: cpu, memory, ephemeral-storage, hugepages-SIZE, or a name with a domain, such as nvidia.com/gpu", req)
		}
		out[v1.ResourceName(name)] = q
	}
	return out, nil
}

// isResource reports whether a container may request a resource of this name.
func isResource(name string) bool {
	switch v1.ResourceName(name) {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return true
	}
	return len(validation.IsQualifiedName(name)) == 0 && (strings.Contains(name, "/") || strings.HasPrefix(name, v1.ResourceHugePagesPrefix))
}

// Topology is the tree of domains with its slots.
type Topology struct {
	Branch
	For string `json:"for"` // what a slot is for, in words
	// Gangs are the running gangs, with their letters in the picture.
	Gangs      []Letter `json:"gangs,omitempty"`
	Unlabelled []string `json:"unlabelled,omitempty"` // nodes without a name at some layer
	Problem    string   `json:"problem,omitempty"`    // with the ClusterNetworkTopology, or with the argument spares

	tree     *topology.Tree
	marks    []picture.Marks
	unlisted bool // a ClusterNetworkTopology may exist
}

// Branch is a domain, and the domains below. Slots are free, used by running pods, or reserved for waiting members. A broken node
// (cordoned or not ready) has none of these.
type Branch struct {
	Layer    string `json:"layer"`
	Path     string `json:"path"` // "" is the whole cluster
	Nodes    int    `json:"nodes"`
	Broken   int    `json:"broken"` // nodes
	Free     int    `json:"free"`
	Used     int    `json:"used"`
	Reserved int    `json:"reserved"`
	// Spare is the number of nodes that new gangs leave unused by the argument spares. Their slots count as free.
	Spare    int      `json:"spare,omitempty"`
	Children []Branch `json:"children,omitempty"`
}

// Letter stands for a gang in the picture.
type Letter struct {
	Letter string `json:"letter"`
	Gang   string `json:"gang"`
	Pods   int    `json:"pods"`
}

// Picture draws the nodes: a letter for each pod of a gang, # for a pod without a gang, x for a reserved slot, . for a free slot,
// SpareMark for a free slot of a spare node, ! before a broken node, - for an empty node without free slots.
func (t *Topology) Picture() string { return picture.Draw(t.tree, t.marks) }

// Layers returns the names of the layers, from the top down.
func (t *Topology) Layers() []string { return t.tree.LayerNames() }

// Cut removes the branches below a layer. The error says that the layer does not exist, or that this is unknown.
func (t *Topology) Cut(layer string) error {
	switch {
	case slices.Contains(t.Layers(), layer):
		t.Branch.cut(layer)
		return nil
	case t.unlisted:
		return &UnlistedError{"a layer " + layer}
	}
	return &LayerError{layer, t.Layers()}
}

// cut removes the children of each domain of a layer.
func (b *Branch) cut(layer string) {
	if b.Layer == layer {
		b.Children = nil
	}
	for i := range b.Children {
		b.Children[i].cut(layer)
	}
}

// The marks that package picture has no name for.
const (
	broken   = "!"
	nothing  = "-"
	reserved = picture.Placed
)

// SpareMark is the mark of a free slot on a spare node.
const SpareMark = "+"

// leaf is the state of one node.
type leaf struct {
	free, used, reserved int
	broken, spare        bool
	marks                picture.Marks
}

// Topology returns the tree with slots of size want. The caller must call it before any method that runs the scheduler.
func (v *View) Topology(ctx context.Context, want SlotSize) (*Topology, error) {
	net := v.cache().Topology()
	out := &Topology{Problem: net.Problem, tree: net.Tree, For: "whole nodes"}
	if net.Object == nil {
		out.Problem = "there is no ClusterNetworkTopology " + "default"
		if out.unlisted = v.kindUnlisted(topologyResource); out.unlisted {
			out.Problem += " that you may list"
		}
	}
	out.Problem = cmp.Or(out.Problem, v.Shared().SpareProblems())
	leaves := make([]leaf, net.Tree.NumNodes())
	var pods []*v1.Pod
	switch {
	case want.Gang != nil:
		ref, err := v.find(*want.Gang)
		if err != nil {
			return nil, err
		}
		if pods = v.members(ref); len(pods) == 0 {
			return nil, fmt.Errorf("gang %s has no members", ref)
		}
		pods, out.For = v.withAhead(ref, pods), "members of "+ref.String()
	case len(want.Requests) > 0:
		pods, out.For = []*v1.Pod{v.template(want.Requests)}, "pods that request "+wordsOf(want.Requests)
	}
	name := v.ProfileNames()[0]
	first := v.Shared().Profile(name)
	nodes, err := v.infos(ctx, net.Tree, v.Profile(name))
	if err != nil {
		return nil, err
	}
	letters := v.letters(nodes, out)
	for i, n := range nodes {
		if n != nil {
			leaves[i] = v.leaf(n, letters)
		}
	}
	if pods == nil {
		for i := range leaves {
			leaves[i].countAsWhole()
		}
	} else if err := v.countSlots(ctx, net.Tree, pods, leaves); err != nil {
		return nil, err
	}
	spare := first.Spares(net, nodes, func(i int) bool { return leaves[i].reserved > 0 })
	for i := range leaves {
		l := &leaves[i]
		free := picture.Marks{picture.Free}
		if l.spare = spare[i]; l.spare {
			free = picture.Marks{SpareMark}
		}
		l.marks = slices.Concat(l.marks, slices.Repeat(picture.Marks{reserved}, l.reserved), slices.Repeat(free, l.free))
		if l.broken {
			l.marks = slices.Concat(picture.Marks{broken}, l.marks)
		}
		if len(l.marks) == 0 {
			l.marks = picture.Marks{nothing}
		}
		out.marks = append(out.marks, l.marks)
		if unlabelled(net.Tree, i) {
			out.Unlabelled = append(out.Unlabelled, net.Tree.NodeName(i))
		}
	}
	out.Branch = branch(net.Tree, topology.Root, leaves)
	return out, nil
}

// members returns the waiting members of a gang, or if there are none, the running ones.
func (v *View) members(ref gang.Ref) []*v1.Pod {
	if pods := v.cache().Pending(ref); len(pods) > 0 {
		return pods
	}
	pods, _ := v.cache().Running(ref)
	return pods
}

// withAhead returns pods, extended with the future members of gang ref: a controller creates them later, and they are planned now.
func (v *View) withAhead(ref gang.Ref, pods []*v1.Pod) []*v1.Pod {
	group, refusal := v.cache().Group(pods[0])
	if refusal.Exists() {
		return pods
	}
	for _, m := range group.Future {
		if p := group.Pods[m.Pod]; m.Gang == ref && p != nil {
			pods = append(pods, p)
		}
	}
	return pods
}

// template returns a pod with these requests, for Muster's first profile.
func (v *View) template(requests v1.ResourceList) *v1.Pod {
	limits := v1.ResourceList{}
	for name, q := range requests {
		if strings.Contains(string(name), "/") {
			limits[name] = q
		}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "asked", UID: "asked"},
		Spec: v1.PodSpec{
			SchedulerName: v.ProfileNames()[0],
			Containers:    []v1.Container{{Name: "asked", Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}},
		},
	}
}

// wordsOf returns requests as text, sorted: "cpu=8,memory=1Gi".
func wordsOf(requests v1.ResourceList) string {
	var words []string
	for name, q := range requests {
		words = append(words, fmt.Sprintf("%s=%s", name, q.String()))
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

// infos returns the nodes of a profile by index of the tree; nil for a missing node.
func (v *View) infos(ctx context.Context, tree *topology.Tree, profile framework.Framework) ([]fwk.NodeInfo, error) {
	out := make([]fwk.NodeInfo, tree.NumNodes())
	infos, err := v.Nodes(ctx, profile)
	for _, n := range infos {
		if i, ok := tree.NodeIndex(n.Node().Name); ok {
			out[i] = n
		}
	}
	return out, err
}

// lowest is a pod of the lowest priority, which must respect all reservations.
var lowest = &v1.Pod{Spec: v1.PodSpec{Priority: new(int32(math.MinInt32))}}

const alphabet = "abcdefghijklmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // without x, which marks a reserved slot

// letters assigns letters to running gangs, the largest first; gangs beyond the alphabet get "?".
func (v *View) letters(nodes []fwk.NodeInfo, out *Topology) map[gang.Ref]string {
	count := map[gang.Ref]int{}
	for _, n := range nodes {
		if n == nil {
			continue
		}
		for _, pod := range podsOn(n) {
			if ref := source.GangOf(pod); !ref.IsZero() {
				count[ref]++
			}
		}
	}
	letters := map[gang.Ref]string{}
	for i, ref := range largestFirst(count) {
		letters[ref] = "?"
		if i < len(alphabet) {
			letters[ref] = alphabet[i : i+1]
		}
		out.Gangs = append(out.Gangs, Letter{letters[ref], ref.String(), count[ref]})
	}
	return letters
}

// largestFirst returns gangs by number of pods, and between equals by name.
func largestFirst(pods map[gang.Ref]int) []gang.Ref {
	return slices.SortedFunc(maps.Keys(pods), func(a, b gang.Ref) int {
		return cmp.Or(pods[b]-pods[a], a.Compare(b, topology.CompareNames))
	})
}

// leaf returns a node's marks for its pods, its number of reserved slots, and whether it is broken.
func (v *View) leaf(n fwk.NodeInfo, letters map[gang.Ref]string) leaf {
	l := leaf{broken: isBroken(n.Node())}
	for _, pod := range podsOn(n) {
		switch ref := source.GangOf(pod); {
		case !ref.IsZero():
			l.marks = append(l.marks, letters[ref])
		case !convert.OnEveryNode(pod):
			l.marks = append(l.marks, picture.Taken)
		}
	}
	slices.Sort(l.marks)
	for _, p := range v.cache().PlacesOn(n.Node().Name, lowest) {
		if p.Spec.NodeName == "" {
			l.reserved++
		}
	}
	return l
}

// countAsWhole sets l's counts for slots of a whole node: at most one slot, used if a pod is there.
func (l *leaf) countAsWhole() {
	l.reserved = min(l.reserved, 1)
	switch {
	case len(l.marks) > 0:
		l.used, l.reserved = 1, 0
	case l.broken:
		l.reserved = 0
	case l.reserved == 0:
		l.free = 1
	}
}

// countSlots sets the counts of leaves for slots of the size of pods.
func (v *View) countSlots(ctx context.Context, tree *topology.Tree, pods []*v1.Pod, leaves []leaf) error {
	var free, held, empty []offer.Slots
	err := v.eachTemplate(ctx, tree, pods, func(c *fit.Counter, nodes []fwk.NodeInfo) {
		current := make([]offer.Slots, len(nodes))
		besideReserved := make([]offer.Slots, len(nodes))
		onEmpty := make([]offer.Slots, len(nodes))
		v.onEach(ctx, pods[0], nodes, func(i int, n fwk.NodeInfo) {
			current[i], _ = c.Count(ctx, n, nil)
			besideReserved[i], _ = c.Count(ctx, n, v.reservedOn(n, pods[0]))
			onEmpty[i], _ = c.CountWithout(ctx, n, nil, podsOn(n))
		})
		free = fewer(free, besideReserved, empty, onEmpty)
		held = fewer(held, current, empty, onEmpty)
		empty = fewer(empty, onEmpty, empty, onEmpty)
	})
	if err != nil || free == nil {
		return err
	}
	for i := range leaves {
		l := &leaves[i]
		l.free = int(free[i])
		l.reserved = int(held[i] - free[i])
		l.used = max(0, int(empty[i]-held[i]))
	}
	return nil
}

// reservedOn returns the waiting pods for which node n is reserved, except members of pod's own group.
func (v *View) reservedOn(n fwk.NodeInfo, pod *v1.Pod) (all fit.Pods) {
	low := &v1.Pod{ObjectMeta: pod.ObjectMeta, Spec: v1.PodSpec{Priority: new(int32(-1 << 31))}}
	for _, p := range v.cache().PlacesOn(n.Node().Name, low) {
		if info, err := framework.NewPodInfo(p); err == nil {
			all = append(all, info)
		}
	}
	return all
}

// isBroken says whether a node is cordoned or not ready, so that it takes no new pod. Only taints keep pods away from a node that is not
// ready: the node controller adds them.
func isBroken(n *v1.Node) bool {
	return n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule && (t.Key == v1.TaintNodeNotReady || t.Key == v1.TaintNodeUnreachable)
	})
}

// unlabelled reports whether a domain of the node has no name.
func unlabelled(tree *topology.Tree, node int) bool {
	for d := tree.Node(node); d != topology.Root; d = tree.Parent(d) {
		if !tree.Named(d) {
			return true
		}
	}
	return false
}

// branch returns domain d with its children and the sums of their counts.
func branch(tree *topology.Tree, d topology.ID, leaves []leaf) Branch {
	b := Branch{Layer: tree.LayerNames()[tree.Layer(d)], Path: pathOf(tree, d)}
	if tree.IsNode(d) {
		i, _ := tree.Nodes(d)
		b.Nodes = 1
		b.Free = leaves[i].free
		b.Used = leaves[i].used
		b.Reserved = leaves[i].reserved
		if leaves[i].broken {
			b.Broken = 1
		}
		if leaves[i].spare {
			b.Spare = 1
		}
		return b
	}
	for k := range tree.Children(d) {
		c := branch(tree, k, leaves)
		b.Nodes += c.Nodes
		b.Broken += c.Broken
		b.Free += c.Free
		b.Used += c.Used
		b.Reserved += c.Reserved
		b.Spare += c.Spare
		b.Children = append(b.Children, c)
	}
	return b
}

// pathOf returns a domain's path, with - for a missing name.
func pathOf(tree *topology.Tree, d topology.ID) string {
	var names []string
	for ; d != topology.Root; d = tree.Parent(d) {
		names = append(names, cmp.Or(tree.Name(d), "-"))
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}
