package place

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/maintenance"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Plan counts the capacity of nodes and returns a plan for the pending members, or why there is none. The error is a plugin's failure.
func (a *Attempt) Plan(ctx context.Context) (Outcome, *Refusal, error) {
	counts, err := a.count(ctx)
	if err != nil {
		return Outcome{}, nil, err
	}
	found, refusal, err := a.chooseAvoiding(ctx)
	if err == nil && refusal == nil {
		found, err = a.respectReservations(ctx, found)
	}
	if err != nil || refusal == nil {
		return found, nil, err
	}
	if found, ok := a.optimisticPlan(ctx); ok {
		return found, nil, nil
	}
	plugins, everywhere := a.unschedulablePlugins()
	diagnosis := diagnose(a.Nodes, counts).withLimits(a.limited, counts).withSpares(a.spares).withMaintenance(a.maintained)
	return Outcome{}, &Refusal{
		Plan: refusal, Diagnosis: a.withShortages(diagnosis, refusal), Avoided: a.avoided(),
		Plugins: plugins, Everywhere: everywhere,
	}, nil
}

// chooseAvoiding returns a plan that uses no node of a lost member. For an Evictable gang it first tries to avoid the nodes from which the
// gang would be evicted for a promised start. If there is no such plan, it returns any plan.
func (a *Attempt) chooseAvoiding(ctx context.Context) (Outcome, *plan.Refusal, error) {
	faults, yielded := a.faults(), map[string]bool(nil)
	if lowest := a.Lowest(); a.Group.Evictable && lowest != nil {
		yielded = a.planner.cache.NodesToYield(lowest)
	}
	var avoided []func(int) bool
	if len(yielded) > 0 {
		avoided = append(avoided, func(i int) bool { return faults[i] || yielded[a.Net.Tree.NodeName(i)] })
	}
	if len(faults) > 0 {
		avoided = append(avoided, func(i int) bool { return faults[i] })
	}
	for _, avoids := range avoided {
		found, refusal, err := a.Without(avoids).Choose(ctx, nil)
		if err != nil || refusal == nil {
			return found, nil, err
		}
	}
	return a.Choose(ctx, nil)
}

// Choose returns a plan for the counted members as if the pods in gone, by node index, had terminated; nil is none.
func (a *Attempt) Choose(ctx context.Context, gone [][]*v1.Pod) (Outcome, *plan.Refusal, error) {
	dependent := a.Dependent()
	if !dependent && a.EqualMembers() {
		w, sum := a.World, a.sum
		if gone != nil {
			w.Free, sum = a.FreeWithout(ctx, gone), nil
		}
		p, refusal := plan.ChooseFrom(w, a.Request(), sum)
		if refusal != nil {
			return Outcome{}, refusal, nil
		}
		return Outcome{Places: a.Assign(p)}, nil, nil
	}
	return a.chooseJob(ctx, dependent, gone)
}

// EqualMembers returns whether package plan suffices: one kind, one set that gathers, all gangs needed, no multiple with running members.
func (a *Attempt) EqualMembers() bool {
	if len(a.kinds) > 1 || len(a.Sets) > 0 || a.Group.Choice.Any() {
		return false
	}
	return len(a.Group.Bound) == 0 || a.All.MaxMultiple() == 1
}

// Dependent returns whether a member's place may depend on where other members are, even on other nodes.
func (a *Attempt) Dependent() bool {
	return slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.Dependent(len(a.kinds) == 1) })
}

// KeptOffBy returns whether the running pod keeps any member off nodes other than its own, such as by anti-affinity.
func (a *Attempt) KeptOffBy(pod *v1.Pod) bool {
	return slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.KeptOffBy(pod) })
}

// SeeksPod returns whether any member has a required affinity for pods such as this one.
func (a *Attempt) SeeksPod(pod *v1.Pod) bool {
	return slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.Seeks(pod) })
}

// Request returns the pending members as package plan's request, for members with equal requirements.
func (a *Attempt) Request() plan.Request {
	return plan.Request{
		Want: offer.Slots(len(a.Group.Pending)), Min: offer.Slots(max(1, a.Group.Need())),
		Must: a.All.Must, Prefer: a.All.Prefer, Multiple: a.All.Multiple,
	}
}

// count sets the input of the plan: the request of the group, and by the Filters how many members of each kind each node takes.
func (a *Attempt) count(ctx context.Context) ([]fit.Counts, error) {
	tree := a.Net.Tree
	a.All, a.Sets = convert.Gather(a.Group.Gather, a.Group.Constraints, tree, a.Group.Gangs)
	a.World = plan.World{Tree: tree, Bound: a.bound(gang.Ref{})}
	a.countAttracting()
	if err := a.groupIntoKinds(ctx); err != nil {
		return nil, err
	}
	a.preferClaimLayer()
	a.addPreferences()
	if err := a.setPenalties(ctx); err != nil {
		return nil, err
	}
	counts := make([]fit.Counts, len(a.kinds))
	for k := range a.kinds {
		counts[k] = a.memory.Count(ctx, a.kinds[k].counter, a.Nodes, a.beside)
		a.kinds[k].slots = counts[k].Slots
	}
	a.planner.applyLimits(a)
	for i := range a.limited.remaining {
		for k := range a.kinds {
			a.kinds[k].slots[i] = a.limited.allow(i, k, nil, a.kinds[k].slots[i])
		}
	}
	a.keepSpares()
	a.World.Free, a.counts = a.least(), counts
	a.counted, a.answers, a.sum = true, &answers{}, offer.Sum(tree, a.World.Free)
	return counts, nil
}

// preferClaimLayer adds a preferred layer to a group without topology constraints, if its ResourceClaims work best within that layer.
func (a *Attempt) preferClaimLayer() {
	if a.Group.Gather != nil || len(a.Group.Constraints) > 0 {
		return
	}
	if layer, ok := a.Net.LayerOf(a.pages.Near()); ok {
		a.All.Prefer = append(a.All.Prefer, plan.Preference{Layer: layer})
	}
}

// Lacks returns the distinct messages, sorted, of Filters that reject members on a node.
// Call it before the next attempt: that attempt overwrites the messages.
func (a *Attempt) Lacks(node int) (all []string) {
	for _, c := range a.counts {
		all = append(all, c.Why(node).All()...)
	}
	if a.isSpare(node) {
		all = append(all, spareReason)
	}
	if window, closed := a.maintained.closed[node]; closed {
		all = append(all, maintenance.Reason(window))
	}
	if why := a.reservedFor[node]; why != "" {
		all = append(all, "node(s) are in a domain with "+why)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// least returns by node index how many members the node takes, whatever their kind: the lowest count of all kinds.
// A kind that fits no node is skipped if members are interdependent: it may fit beside other members.
func (a *Attempt) least() []offer.Slots {
	if len(a.kinds) == 1 {
		return a.kinds[0].slots
	}
	least := make([]offer.Slots, len(a.Nodes))
	firstKind := true
	for _, k := range a.kinds {
		if !slices.ContainsFunc(k.slots, func(n offer.Slots) bool { return n > 0 }) && a.Dependent() {
			continue
		}
		for i, n := range k.slots {
			if firstKind || n < least[i] {
				least[i] = n
			}
		}
		firstKind = false
	}
	return least
}

// bound returns by node index how many members of a gang run there, of all gangs if ref is zero. It returns nil if no member runs.
func (a *Attempt) bound(ref gang.Ref) []offer.Slots {
	if len(a.Group.Bound) == 0 {
		return nil
	}
	out := make([]offer.Slots, a.Net.Tree.NumNodes())
	for _, m := range a.Group.Bound {
		if i, ok := a.Net.Tree.NodeIndex(m.Node); ok && (ref.IsZero() || m.Gang == ref) {
			out[i]++
		}
	}
	return out
}

// groupIntoKinds sets a.kinds and a.kindOf: it groups the pending members by equal requirements.
func (a *Attempt) groupIntoKinds(ctx context.Context) error {
	if a.kindOf != nil {
		return nil
	}
	a.kindOf = make(map[string]int, len(a.Group.Pending))
	templateOf, demand := a.templates()
	pages, err := fit.Open(ctx, a.planner.ledgers, demand)
	if err != nil {
		return err
	}
	a.pages = pages
	type kindKey struct{ counter, closed, owner string }
	kinds, kindByKey := make([]int, len(demand)), map[kindKey]int{}
	for t, d := range demand {
		c, err := fit.NewCounter(ctx, a.profile, d.Pod, a.pages...)
		if err != nil {
			return err
		}
		c.CloseDomains(a.reservedMembers.ClosedDomains(d.Pod))
		key := kindKey{c.Key(), c.ClosedDomains().Key(), ""}
		if a.owners != nil {
			key.owner = a.owners.Of(d.Pod)
		}
		// Templates may differ in fields that no Filter reads, such as labels.
		k, ok := kindByKey[key]
		if !ok || c.Key() == "" {
			k = len(a.kinds)
			a.kinds = append(a.kinds, kind{pod: d.Pod, counter: c, owner: key.owner})
		}
		kinds[t], kindByKey[key] = k, k
	}
	a.applyClosedDomains()
	for i, m := range a.Group.Pending {
		a.kindOf[m.Pod] = kinds[templateOf[i]]
	}
	return nil
}

// Template returns a key that is equal for pods with equal requirements and equal ResourceClaim allocations.
func (p *Planner) Template(pod *v1.Pod) string {
	return convert.Template(pod) + fit.MemberKey(p.ledgers, pod)
}

// templates returns the distinct templates of the pending members with their number of members, and each member's template index.
func (a *Attempt) templates() (templateOf []int, demand []fit.Demand) {
	pods := make([]*v1.Pod, len(a.Group.Pending))
	for i, m := range a.Group.Pending {
		pods[i] = a.Group.Pods[m.Pod]
	}
	type templateKey struct {
		template cache.Template
		apart    string
	}
	templateOf = make([]int, len(pods))
	known := map[templateKey]int{}
	for i, template := range a.planner.cache.Templates(pods) {
		key := templateKey{template, fit.MemberKey(a.planner.ledgers, pods[i])} // as in Planner.Template
		t, ok := known[key]
		if !ok {
			t = len(demand)
			known[key], demand = t, append(demand, fit.Demand{Pod: pods[i]})
		}
		templateOf[i] = t
		demand[t].Members++
	}
	return templateOf, demand
}

// OneOfEach returns the key of one member of each kind, except the representative's kind. The attempt may not include the representative.
func (a *Attempt) OneOfEach(representative *v1.Pod) (keys []string) {
	representativeKind, known := a.kindOf[convert.PodKey(representative)]
	for k := range a.kinds {
		if k != representativeKind || !known {
			keys = append(keys, convert.PodKey(a.kinds[k].pod))
		}
	}
	return keys
}

// unschedulablePlugins returns the plugins that reject members of any kind, sorted, and whether one rejects a kind on all nodes.
func (a *Attempt) unschedulablePlugins() (plugins []string, everywhere bool) {
	plugins = slices.Clone(a.trialPlugins)
	for _, k := range a.kinds {
		plugins = append(plugins, k.counter.RejectingPlugins()...)
		everywhere = everywhere || k.counter.RejectedOnAllNodes()
	}
	for _, limit := range a.limited.reasons {
		if limit.plugin != "" {
			plugins = append(plugins, limit.plugin)
		}
	}
	slices.Sort(plugins)
	return slices.Compact(plugins), everywhere
}
