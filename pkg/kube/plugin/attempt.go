package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// attempt is one try to place a group on one snapshot of the cluster.
type attempt struct {
	*Plugin
	group *cache.Group
	net   *cache.Topology
	nodes []fwk.NodeInfo // by node index of net's tree; nil where there is none, or one to avoid

	counters map[string]*fit.Counter // by template
	world    plan.World
	request  plan.Request
	counted  bool
}

func (p *Plugin) newAttempt(group *cache.Group, nodes []fwk.NodeInfo) *attempt {
	net := p.Cache.Topology()
	a := &attempt{Plugin: p, group: group, net: net, nodes: make([]fwk.NodeInfo, net.Tree.NumNodes()), counters: map[string]*fit.Counter{}}
	for _, n := range nodes {
		if i, ok := net.Tree.NodeIndex(n.Node().Name); ok && !p.victims.avoid(group.Key, n) {
			a.nodes[i] = n
		}
	}
	return a
}

// plan chooses places for the group's pending members. The error is the message for
// the user.
func (a *attempt) plan(ctx context.Context) ([]gang.Place, error) {
	lacks, err := a.count(ctx)
	if err != nil {
		return nil, err
	}
	chosen, refusal := plan.Choose(a.world, a.request)
	if refusal != nil {
		if len(a.counters) > 1 {
			return nil, errors.New(refusal.String() + " (the members differ: each is counted as the neediest of them)" + lacks.String())
		}
		return nil, errors.New(refusal.String() + lacks.String())
	}
	places := a.assign(chosen)
	if len(a.counters) > 1 {
		if why := a.verify(ctx, places); why != "" {
			return nil, errors.New("the members differ, and the plan found for them does not pass the Filters: " + why)
		}
	}
	return places, nil
}

// count asks the Filters what each node takes and reads the request off the group.
func (a *attempt) count(ctx context.Context) (lacks, error) {
	tree := a.net.Tree
	a.request = convert.Request(a.group.Gather, tree, len(a.group.Pending), a.group.Need())
	a.world = plan.World{Tree: tree, Free: make([]offer.Slots, tree.NumNodes()), Bound: make([]offer.Slots, tree.NumNodes())}
	for _, m := range a.group.Bound {
		if i, ok := tree.NodeIndex(m.Node); ok {
			a.world.Bound[i]++
		}
	}
	a.attract()
	for _, pod := range a.templates() {
		if _, err := a.counter(ctx, pod); err != nil {
			return lacks{}, err
		}
	}
	reasons := make([][]string, len(a.nodes))
	a.each(ctx, func(i int, n fwk.NodeInfo) {
		a.world.Free[i], reasons[i] = a.countNode(ctx, n)
	})
	a.counted = true
	return histogram(a.nodes, reasons), nil
}

// countNode returns how many members a node takes, whichever they are: the least of
// any template. For members that need the same that is exact. For unlike members it
// never promises too much as long as needs add up, since any mix of k members needs
// no more of anything than k of the neediest.
func (a *attempt) countNode(ctx context.Context, n fwk.NodeInfo) (least offer.Slots, reasons []string) {
	first := true
	for _, c := range a.counters {
		slots, why := c.Count(ctx, n, a.others(n))
		status := slots < least || first
		if status {
			least, first = slots, false
		}
		if slots == 0 {
			reasons = append(reasons, why...)
		}
	}
	return least, reasons
}

// each calls do for every node of the snapshot, in parallel.
func (a *attempt) each(ctx context.Context, do func(i int, n fwk.NodeInfo)) {
	a.profile.Parallelizer().Until(ctx, len(a.nodes), func(i int) {
		if a.nodes[i] != nil {
			do(i, a.nodes[i])
		}
	}, Name)
}

// templates returns one pending member of each kind, by rank.
func (a *attempt) templates() (pods []*v1.Pod) {
	seen := map[string]bool{}
	for _, m := range a.group.Pending {
		pod := a.group.Pods[m.Pod]
		if key := convert.Template(pod); !seen[key] {
			seen[key] = true
			pods = append(pods, pod)
		}
	}
	return pods
}

func (a *attempt) counter(ctx context.Context, pod *v1.Pod) (*fit.Counter, error) {
	key := convert.Template(pod)
	if c := a.counters[key]; c != nil {
		return c, nil
	}
	c, err := fit.NewCounter(ctx, a.profile, pod)
	if err != nil {
		return nil, err
	}
	a.counters[key] = c
	return c, nil
}

// others returns what must be counted on a node besides the snapshot: places planned
// for other groups, and pods that the scheduler has nominated there, of no lower
// priority than any pending member.
func (a *attempt) others(n fwk.NodeInfo) (pods fit.Pods) {
	speaker := a.lowest()
	seen := map[string]bool{}
	for _, p := range a.Cache.PlacesOn(n.Node().Name, speaker) {
		if info, err := framework.NewPodInfo(p); err == nil {
			seen[string(p.UID)] = true
			pods = append(pods, info)
		}
	}
	for _, info := range a.profile.NominatedPodsForNode(n.Node().Name) {
		p := info.GetPod()
		if seen[string(p.UID)] || convert.GangOf(p) != "" || convert.Priority(p) < convert.Priority(speaker) {
			continue // gangs' nominations stand for places, and those are counted already
		}
		pods = append(pods, info)
	}
	return pods
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
		if n == nil {
			continue
		}
		for _, p := range n.GetPods() {
			if convert.Selector(p.GetPod()) == want {
				a.world.Attract[i]++
			}
		}
	}
}

// assign gives the members their places in rank order: first those that make each
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

// placesFit says why the reserved places cannot be taken now; "" if they can.
func (a *attempt) placesFit(ctx context.Context) string {
	var places []gang.Place
	for _, m := range a.group.Pending {
		if node := a.group.Places[m.Pod]; node != "" {
			places = append(places, gang.Place{Pod: m.Pod, Node: node})
		}
	}
	return a.verify(ctx, places)
}

// verify puts the members on their nodes one after the other and says which does not
// pass the Filters; "" if all do.
func (a *attempt) verify(ctx context.Context, places []gang.Place) string {
	there := map[string]fit.Pods{}
	for _, at := range places {
		i, ok := a.net.Tree.NodeIndex(at.Node)
		if !ok || a.nodes[i] == nil {
			return "node " + at.Node + " is gone"
		}
		pod := a.group.Pods[at.Pod]
		c, err := a.counter(ctx, pod)
		if err != nil {
			return err.Error()
		}
		if _, ok := there[at.Node]; !ok {
			there[at.Node] = a.others(a.nodes[i])
		}
		if s := c.Fits(ctx, a.nodes[i], there[at.Node]); !s.IsSuccess() {
			return fmt.Sprintf("%s on %s: %s", at.Pod, at.Node, s.Message())
		}
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return err.Error()
		}
		there[at.Node] = append(there[at.Node], info)
	}
	return ""
}

// lacks counts what nodes without a slot are short of.
type lacks struct {
	nodes  int
	counts map[string]int
}

func histogram(nodes []fwk.NodeInfo, reasons [][]string) lacks {
	l := lacks{counts: map[string]int{}}
	for i, n := range nodes {
		if n == nil {
			continue
		}
		l.nodes++
		for _, r := range slices.Compact(slices.Sorted(slices.Values(reasons[i]))) {
			l.counts[r]++
		}
	}
	return l
}

// String is how kube-scheduler words it, after a comma; "" if nothing is lacking.
func (l lacks) String() string {
	if len(l.counts) == 0 {
		return ""
	}
	var parts []string
	for r, n := range l.counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, r))
	}
	slices.Sort(parts)
	return fmt.Sprintf(", 0/%d nodes are available: %s", l.nodes, strings.Join(parts, ", "))
}
