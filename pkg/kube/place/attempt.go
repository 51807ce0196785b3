package place

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Plan chooses places for the group's pending members, or says why there are none. The
// error is a plugin's failure.
func (a *Attempt) Plan(ctx context.Context) (Outcome, *Refusal, error) {
	counts, err := a.count(ctx)
	if err != nil {
		return Outcome{}, nil, err
	}
	found, refusal, err := a.Choose(ctx, nil)
	if err == nil && refusal == nil {
		found, err = a.modestly(ctx, found)
	}
	if err != nil || refusal == nil {
		return found, nil, err
	}
	if found, ok := a.hopefully(ctx); ok {
		return found, nil, nil
	}
	plugins, everywhere := a.refusedBy()
	return Outcome{}, &Refusal{
		Plan: refusal, Diagnosis: a.short(diagnose(a.Nodes, counts).with(a.limited, counts), refusal), Avoided: a.avoided(),
		Plugins: plugins, Everywhere: everywhere,
	}, nil
}

// Choose plans as if the pods that are gone, by node index, had left; nil means nobody.
func (a *Attempt) Choose(ctx context.Context, gone [][]*v1.Pod) (Outcome, *plan.Refusal, error) {
	dependent := a.Dependent()
	if !dependent && a.Alike() {
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

// Alike says whether the members differ in nothing that a plan must know: neither in
// what they need nor in whom they gather with, nor where some of them are already.
func (a *Attempt) Alike() bool {
	if len(a.kinds) > 1 || len(a.Sets) > 0 || a.Group.Choice.Any() {
		return false
	}
	return len(a.Group.Bound) == 0 || maxMultiple(a.All) == 1
}

func maxMultiple(g plan.Gather) (most offer.Slots) {
	for l := range g.Multiple {
		most = max(most, g.Multiple.At(l))
	}
	return max(most, 1)
}

// Dependent says whether members may depend on one another across nodes.
func (a *Attempt) Dependent() bool {
	return slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.Dependent(len(a.kinds) == 1) })
}

// KeptOffBy says whether a pod that runs keeps some members off other nodes than its own: what those take depends on
// whether it is there.
func (a *Attempt) KeptOffBy(pod *v1.Pod) bool {
	return slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.KeptOffBy(pod) })
}

// Seek says whether some members must be near pods such as this one.
func (a *Attempt) Seek(pod *v1.Pod) bool {
	return slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.Seeks(pod) })
}

// Request is what like members ask for.
func (a *Attempt) Request() plan.Request {
	return plan.Request{
		Want: offer.Slots(len(a.Group.Pending)), Min: offer.Slots(max(1, a.Group.Need())),
		Must: a.All.Must, Prefer: a.All.Prefer, Multiple: a.All.Multiple,
	}
}

// count asks the Filters what each node takes and reads the request off the group.
func (a *Attempt) count(ctx context.Context) ([]fit.Counts, error) {
	tree := a.Net.Tree
	a.All, a.Sets = convert.Gather(a.Group.Gather, a.Group.Own, tree, a.Group.Gangs)
	a.World = plan.World{Tree: tree, Bound: a.bound(gang.Ref{})}
	a.attract()
	if err := a.sortKinds(ctx); err != nil {
		return nil, err
	}
	a.near()
	a.preferred()
	if err := a.soften(ctx); err != nil {
		return nil, err
	}
	counts := make([]fit.Counts, len(a.kinds))
	for k := range a.kinds {
		counts[k] = a.memory.Count(ctx, a.kinds[k].counter, a.Nodes, a.beside)
		a.kinds[k].slots = counts[k].Slots
	}
	a.planner.limit(a)
	for i := range a.limited.left {
		for k := range a.kinds {
			a.kinds[k].slots[i] = a.limited.allow(i, k, nil, a.kinds[k].slots[i])
		}
	}
	a.World.Free, a.counts = a.least(), counts
	a.counted, a.answers, a.sum = true, &answers{}, offer.Sum(tree, a.World.Free)
	return counts, nil
}

// near has members gather, if possible, that nobody has asked to, where what they claim works best so.
func (a *Attempt) near() {
	if a.Group.Gather != nil || len(a.Group.Own) > 0 {
		return
	}
	if layer, ok := a.Net.LayerOf(a.pages.Near()); ok {
		a.All.Prefer = append(a.All.Prefer, plan.Preference{Layer: layer})
	}
}

// Lacks is what a node is short of that takes nobody of some kind, in the Filters' words, each once.
// It is to be asked before the next attempt is made.
func (a *Attempt) Lacks(node int) (all []string) {
	for _, c := range a.counts {
		all = append(all, c.Why(node).All()...)
	}
	if why := a.kept[node]; why != "" {
		all = append(all, "node(s) are in a domain with "+why)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// least is how many members each node takes whichever they are: those of the neediest
// kind, but for kinds that fit nowhere as long as others are not there.
func (a *Attempt) least() []offer.Slots {
	if len(a.kinds) == 1 {
		return a.kinds[0].slots
	}
	least := make([]offer.Slots, len(a.Nodes))
	first := true
	for _, k := range a.kinds {
		if !slices.ContainsFunc(k.slots, func(n offer.Slots) bool { return n > 0 }) && a.Dependent() {
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
// if it is the zero Ref. nil says that none does.
func (a *Attempt) bound(of gang.Ref) []offer.Slots {
	if len(a.Group.Bound) == 0 {
		return nil
	}
	out := make([]offer.Slots, a.Net.Tree.NumNodes())
	for _, m := range a.Group.Bound {
		if i, ok := a.Net.Tree.NodeIndex(m.Node); ok && (of.IsZero() || m.Gang == of) {
			out[i]++
		}
	}
	return out
}

// sortKinds finds out which pending members need the same.
func (a *Attempt) sortKinds(ctx context.Context) error {
	if a.kindOf != nil {
		return nil
	}
	a.kindOf = make(map[string]int, len(a.Group.Pending))
	of, demand := a.templates()
	pages, err := fit.Open(ctx, a.planner.ledgers, demand)
	if err != nil {
		return err
	}
	a.pages = pages
	type likeness struct{ counter, off, owner string }
	kinds, alike := make([]int, len(demand)), map[likeness]int{}
	for t, d := range demand {
		c, err := fit.NewCounter(ctx, a.profile, d.Pod, a.pages...)
		if err != nil {
			return err
		}
		c.KeepOff(a.comers.Off(d.Pod))
		like := likeness{c.Key(), c.Off().Key(), ""}
		if a.owners != nil {
			like.owner = a.owners.Of(d.Pod)
		}
		// Templates may differ in what no Filter reads now: labels, for one.
		k, ok := alike[like]
		if !ok || c.Key() == "" {
			k = len(a.kinds)
			a.kinds = append(a.kinds, kind{pod: d.Pod, counter: c, owner: like.owner})
		}
		kinds[t], alike[like] = k, k
	}
	a.keepOff()
	for i, m := range a.Group.Pending {
		a.kindOf[m.Pod] = kinds[of[i]]
	}
	return nil
}

// Template is equal for pods that are counted alike: they are written alike, and none has anything already that others have not.
func (p *Planner) Template(pod *v1.Pod) string {
	return convert.Template(pod) + fit.Apart(p.ledgers, pod)
}

// templates are those of the pending members, and which of them each member has.
func (a *Attempt) templates() (of []int, demand []fit.Demand) {
	pods := make([]*v1.Pod, len(a.Group.Pending))
	for i, m := range a.Group.Pending {
		pods[i] = a.Group.Pods[m.Pod]
	}
	type alike struct {
		template cache.Template
		apart    string
	}
	of = make([]int, len(pods))
	known := map[alike]int{}
	for i, template := range a.planner.cache.Templates(pods) {
		key := alike{template, fit.Apart(a.planner.ledgers, pods[i])} // as Planner.Template has it
		t, ok := known[key]
		if !ok {
			t = len(demand)
			known[key], demand = t, append(demand, fit.Demand{Pod: pods[i]})
		}
		of[i] = t
		demand[t].Members++
	}
	return of, demand
}

// OneOfEach lists one member of each kind but that of the speaker, who need not be one of those whom the attempt is for.
func (a *Attempt) OneOfEach(speaker *v1.Pod) (keys []string) {
	of, known := a.kindOf[convert.PodKey(speaker)]
	for k := range a.kinds {
		if k != of || !known {
			keys = append(keys, convert.PodKey(a.kinds[k].pod))
		}
	}
	return keys
}

// refusedBy says which plugins refused members of any kind, and whether one of them does so
// on all nodes.
func (a *Attempt) refusedBy() (plugins []string, everywhere bool) {
	plugins = slices.Clone(a.refusers)
	for _, k := range a.kinds {
		plugins = append(plugins, k.counter.Refusers()...)
		everywhere = everywhere || k.counter.Everywhere()
	}
	for _, is := range a.limited.why {
		if is.plugin != "" {
			plugins = append(plugins, is.plugin)
		}
	}
	slices.Sort(plugins)
	return slices.Compact(plugins), everywhere
}
