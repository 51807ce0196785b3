package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// attempt is one try to place a group on one snapshot of the cluster.
type attempt struct {
	*Plugin
	group *cache.Group
	net   *cache.Topology
	nodes []fwk.NodeInfo // by node index of net's tree; nil where there is none, or one to avoid

	kinds     []kind
	kindOf    map[string]int // by member
	all, each plan.Gather
	world     plan.World
	counted   bool
	crowd     map[int]fit.Pods         // by node index, who is counted there besides the snapshot
	answers   []map[string]offer.Slots // by node index, what the Filters said before
}

// kind is members that need the same.
type kind struct {
	pod     *v1.Pod // the first of them
	counter *fit.Counter
	slots   []offer.Slots // by node index
}

// outcome is what an attempt has found.
type outcome struct {
	places  []gang.Place
	inOrder bool // members must come in the order of the places
}

func (p *Plugin) newAttempt(group *cache.Group, nodes []fwk.NodeInfo) *attempt {
	l := p.layouts.of(p.Cache, nodes)
	a := &attempt{Plugin: p, group: group, net: l.net, nodes: l.nodes}
	a.leaveOut()
	a.crowd = a.findCrowd()
	return a
}

// leaveOut takes away the nodes that the group must not go to. The layout is not changed.
func (a *attempt) leaveOut() {
	if len(a.group.Avoid) == 0 && !a.victims.anyStuck(a.group.Key) {
		return
	}
	a.nodes = slices.Clone(a.nodes)
	for i, n := range a.nodes {
		if n != nil && a.avoids(n) {
			a.nodes[i] = nil
		}
	}
}

// avoids says whether the group must not go to a node: it refused a member although a
// plan had put it there, or holds a victim that did not leave in time.
func (a *attempt) avoids(n fwk.NodeInfo) bool {
	_, refused := a.group.Avoid[n.Node().Name]
	return refused || a.victims.avoid(a.group.Key, n)
}

// plan chooses places for the group's pending members. The error is the message for
// the user.
func (a *attempt) plan(ctx context.Context) (outcome, error) {
	lacks, err := a.count(ctx)
	if err != nil {
		return outcome{}, err
	}
	found, refusal, err := a.choose(ctx, nil)
	switch {
	case err != nil:
		return outcome{}, err
	case refusal != nil:
		return outcome{}, errors.New(refusal.String() + lacks.String() + a.avoided())
	}
	return found, nil
}

// choose plans as if the pods that are gone, by node index, had left; nil means nobody.
func (a *attempt) choose(ctx context.Context, gone [][]*v1.Pod) (outcome, *plan.Refusal, error) {
	dependent := a.dependent()
	if !dependent && a.alike() {
		w := a.world
		if gone != nil {
			w.Free = a.freeWithout(ctx, gone)
		}
		p, refusal := plan.Choose(w, a.request())
		if refusal != nil {
			return outcome{}, refusal, nil
		}
		return outcome{places: a.assign(p)}, nil, nil
	}
	return a.chooseJob(ctx, dependent, gone)
}

// alike says whether the members differ in nothing that a plan must know: neither in
// what they need nor in whom they gather with, nor where some of them are already.
func (a *attempt) alike() bool {
	if len(a.kinds) > 1 || a.each.Must > 0 || len(a.each.Prefer) > 0 || maxMultiple(a.each) > 1 {
		return false
	}
	return len(a.group.Bound) == 0 || maxMultiple(a.all) == 1
}

func maxMultiple(g plan.Gather) (most offer.Slots) {
	for l := range g.Multiple {
		most = max(most, g.Multiple.At(l))
	}
	return max(most, 1)
}

// dependent says whether members may depend on one another across nodes.
func (a *attempt) dependent() bool {
	return slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.Dependent(len(a.kinds) == 1) })
}

// request is what like members ask for.
func (a *attempt) request() plan.Request {
	return plan.Request{
		Want: offer.Slots(len(a.group.Pending)), Min: offer.Slots(max(1, a.group.Need())),
		Must: a.all.Must, Prefer: a.all.Prefer, Multiple: a.all.Multiple,
	}
}

// count asks the Filters what each node takes and reads the request off the group.
func (a *attempt) count(ctx context.Context) (lacks, error) {
	tree := a.net.Tree
	a.all, a.each = convert.Gather(a.group.Gather, tree, len(a.group.Gangs))
	a.world = plan.World{Tree: tree, Bound: a.bound("")}
	a.attract()
	if err := a.sortKinds(ctx); err != nil {
		return lacks{}, err
	}
	counts := make([]fit.Counts, len(a.kinds))
	for k := range a.kinds {
		counts[k] = a.memory.Count(ctx, a.kinds[k].counter, a.nodes, a.crowd)
		a.kinds[k].slots = counts[k].Slots
	}
	a.world.Free = a.least()
	a.counted, a.answers = true, make([]map[string]offer.Slots, len(a.nodes))
	return lacks{a.nodes, counts}, nil
}

// least is how many members each node takes whichever they are: those of the neediest
// kind, but for kinds that fit nowhere as long as others are not there.
func (a *attempt) least() []offer.Slots {
	if len(a.kinds) == 1 {
		return a.kinds[0].slots
	}
	least := make([]offer.Slots, len(a.nodes))
	first := true
	for _, k := range a.kinds {
		if !slices.ContainsFunc(k.slots, func(n offer.Slots) bool { return n > 0 }) && a.dependent() {
			continue
		}
		for i, n := range k.slots {
			if first || n < least[i] {
				least[i] = n
			}
		}
		first = false
	}
	return least
}

// bound counts, by node index, the members of a gang that run already; of all gangs
// if it is "". nil says that none does.
func (a *attempt) bound(gangName string) []offer.Slots {
	if len(a.group.Bound) == 0 {
		return nil
	}
	out := make([]offer.Slots, a.net.Tree.NumNodes())
	for _, m := range a.group.Bound {
		if i, ok := a.net.Tree.NodeIndex(m.Node); ok && (gangName == "" || m.Gang == gangName) {
			out[i]++
		}
	}
	return out
}

// onEach calls do for every node of the snapshot, in parallel.
func (a *attempt) onEach(ctx context.Context, do func(i int, n fwk.NodeInfo)) {
	a.profile.Parallelizer().Until(ctx, len(a.nodes), func(i int) {
		if a.nodes[i] != nil {
			do(i, a.nodes[i])
		}
	}, Name)
}

// sortKinds finds out which pending members need the same.
func (a *attempt) sortKinds(ctx context.Context) error {
	if a.kindOf != nil {
		return nil
	}
	a.kindOf = make(map[string]int, len(a.group.Pending))
	known := map[string]int{}
	for _, m := range a.group.Pending {
		pod := a.group.Pods[m.Pod]
		key := convert.Template(pod)
		k, ok := known[key]
		if !ok {
			c, err := fit.NewCounter(ctx, a.profile, pod)
			if err != nil {
				return err
			}
			k = len(a.kinds)
			known[key] = k
			a.kinds = append(a.kinds, kind{pod: pod, counter: c})
		}
		a.kindOf[m.Pod] = k
	}
	return nil
}

// findCrowd returns, by node index, who must be counted on nodes besides the snapshot:
// places planned for other groups, and pods that the scheduler has nominated there, of no
// lower priority than any pending member.
func (a *attempt) findCrowd() map[int]fit.Pods {
	speaker := a.lowest()
	if speaker == nil {
		return nil
	}
	crowd := map[int]fit.Pods{}
	seen := map[types.UID]bool{}
	for i, placed := range a.Cache.PlacesIn(a.net.Tree, speaker) {
		for _, p := range placed {
			if info, err := framework.NewPodInfo(p); err == nil {
				seen[p.UID] = true
				crowd[i] = append(crowd[i], info)
			}
		}
	}
	for _, node := range a.Cache.NominatedNodes() {
		i, ok := a.net.Tree.NodeIndex(node)
		if !ok {
			continue
		}
		for _, info := range a.profile.NominatedPodsForNode(node) {
			p := info.GetPod()
			if seen[p.UID] || a.Cache.HasPlace(p) || a.Cache.SameGroup(p, speaker) || convert.Priority(p) < convert.Priority(speaker) {
				continue // places are counted already, and the group's own are not in its way
			}
			crowd[i] = append(crowd[i], info)
		}
	}
	return crowd
}

// lowest returns the pending member of lowest priority.
func (a *attempt) lowest() *v1.Pod {
	var low *v1.Pod
	for _, m := range a.group.Pending {
		if pod := a.group.Pods[m.Pod]; low == nil || convert.Priority(pod) < convert.Priority(low) {
			low = pod
		}
	}
	return low
}

// attract counts, by node, the pods with the same network-topology-selector.
func (a *attempt) attract() {
	want := convert.Selector(a.group.Pods[a.group.Pending[0].Pod])
	if want == "" {
		return
	}
	a.world.Attract = make([]offer.Slots, len(a.nodes))
	for i, n := range a.nodes {
		if n != nil {
			a.world.Attract[i] = attracting(n, want)
		}
	}
}

// assign gives like members their places in rank order: first those that make each
// gang whole, then further ones, lowest ranks first, as many as were placed.
func (a *attempt) assign(p *plan.Plan) []gang.Place {
	chosen := a.chosen(int(p.Count()))
	places := make([]gang.Place, 0, len(chosen))
	for _, at := range p.Places {
		for range at.Count {
			places = append(places, gang.Place{Pod: chosen[len(places)].Pod, Node: a.net.Tree.NodeName(at.Node)})
		}
	}
	return places
}

// chosen returns the n members that get a place, by rank.
func (a *attempt) chosen(n int) []gang.Member {
	need := map[string]int{}
	for _, g := range a.group.Gangs {
		need[g.Name] = g.Need
	}
	var first, rest []int
	for i, m := range a.group.Pending {
		if need[m.Gang] > 0 {
			need[m.Gang]--
			first = append(first, i)
		} else {
			rest = append(rest, i)
		}
	}
	picked := append(first, rest...)[:n]
	sort.Ints(picked)
	out := make([]gang.Member, n)
	for i, k := range picked {
		out[i] = a.group.Pending[k]
	}
	return out
}

// missing says which node of a reservation no longer exists; "" if all do.
func (a *attempt) missing() string {
	for _, pod := range slices.Sorted(maps.Keys(a.group.Places)) {
		node := a.group.Places[pod]
		if i, ok := a.net.Tree.NodeIndex(node); !ok || a.nodes[i] == nil {
			return "reserved node " + node + " is gone"
		}
	}
	return ""
}

// apart says why the reserved places no longer obey the gang's MustGather rules, which
// can be when the tree has changed; "" if they do.
func (a *attempt) apart() string {
	all, each := convert.Gather(a.group.Gather, a.net.Tree, len(a.group.Gangs))
	var everybody []string
	gangs := map[string][]string{}
	for _, m := range a.group.Pending {
		if node := a.group.Places[m.Pod]; node != "" {
			everybody = append(everybody, node)
			gangs[m.Gang] = append(gangs[m.Gang], node)
		}
	}
	for _, m := range a.group.Bound {
		everybody = append(everybody, m.Node)
		if gangs[m.Gang] != nil { // those who got no new place stay where they are
			gangs[m.Gang] = append(gangs[m.Gang], m.Node)
		}
	}
	why := a.apartAt(everybody, all.Must)
	for _, name := range slices.Sorted(maps.Keys(gangs)) {
		why = cmp.Or(why, a.apartAt(gangs[name], each.Must))
	}
	return why
}

// apartAt says that nodes are not in one domain of a layer.
func (a *attempt) apartAt(nodes []string, layer int) string {
	tree := a.net.Tree
	domain := topology.ID(-1)
	for _, n := range nodes {
		i, ok := tree.NodeIndex(n)
		switch {
		case ok && domain < 0:
			domain = tree.Node(i)
		case ok:
			domain = tree.Common(domain, tree.Node(i))
		}
	}
	if domain < 0 || tree.Layer(domain) >= layer {
		return ""
	}
	return "the reserved places are no longer in one domain of " + tree.LayerNames()[layer]
}

// placesFit says why the reserved places cannot be taken once those in gone have left, by
// node index; "" if they can. Where it matters it says in which order.
func (a *attempt) placesFit(ctx context.Context, gone [][]*v1.Pod) (turn []string, why string) {
	if err := a.sortKinds(ctx); err != nil {
		return nil, err.Error()
	}
	if a.dependent() {
		return a.placesFitTogether(ctx, gone)
	}
	return nil, a.placesFitAlone(ctx, gone)
}

// placesFitAlone is placesFit for members that do not depend on one another.
func (a *attempt) placesFitAlone(ctx context.Context, gone [][]*v1.Pod) string {
	there := map[string]fit.Pods{}
	for _, m := range a.group.Pending {
		name := a.group.Places[m.Pod]
		if name == "" {
			continue
		}
		i, ok := a.net.Tree.NodeIndex(name)
		if !ok || a.nodes[i] == nil {
			return "node " + name + " is gone"
		}
		if _, ok := there[name]; !ok {
			there[name] = slices.Clone(a.crowd[i])
		}
		if s := a.kinds[a.kindOf[m.Pod]].counter.FitsWithout(ctx, a.nodes[i], there[name], gone[i]); !s.IsSuccess() {
			return fmt.Sprintf("%s on %s: %s", m.Pod, name, s.Message())
		}
		info, err := framework.NewPodInfo(a.group.Pods[m.Pod])
		if err != nil {
			return err.Error()
		}
		there[name] = append(there[name], info)
	}
	return ""
}

// avoided says which nodes were left out since they refused a member before; "" if
// none were.
func (a *attempt) avoided() string {
	const listed = 3
	names := slices.Sorted(maps.Keys(a.group.Avoid))
	if len(names) == 0 {
		return ""
	}
	var parts []string
	for _, n := range names[:min(len(names), listed)] {
		parts = append(parts, fmt.Sprintf("%s (%s)", n, a.group.Avoid[n]))
	}
	more := ""
	if len(names) > listed {
		more = fmt.Sprintf(" and %d more", len(names)-listed)
	}
	return ", left out for this attempt: " + strings.Join(parts, ", ") + more
}
