package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// comesAgain is how long an evicted gang takes until its pods are there again.
const comesAgain = 60 * time.Millisecond

// policy is what differs between plays on the virtual clock. The first of policies is Muster's, and its numbers are what the others'
// differences are from.
type policy struct {
	name string
	// byPriority takes victims of a priority only if victims of lower priorities do not free enough capacity. Then it
	// evicts the fewest pods.
	byPriority bool
	// ends has it known when gangs end: of the leafs that take a gang that is chosen which is busy least longer by it, then the fullest.
	ends bool
	// late is how much later a gang is looked at, for each of its pods; again is how much later a gang that was evicted is.
	late, again time.Duration
}

var policies = []policy{
	{name: "muster"},
	{name: "lowest priority first", byPriority: true},
	{name: "ends are known", ends: true},
	{name: "0.2 s a pod later", late: 200 * time.Millisecond},
	{name: "2 s after an eviction", again: 2 * time.Second},
}

// virtual plays a trace on a virtual clock to the planner itself: only gangs take time. A pod takes a whole node. Gangs
// of higher priority come first, then gangs that have waited longer. A gang that fits is not passed over.
type virtual struct {
	policy
	tree    *topology.Tree
	nodes   []Node // by node of the tree
	has     []*attempt
	waiting []*attempt
	agenda  agenda
	now     time.Duration
	events  []Event
}

// attempt is a run of a gang.
type attempt struct {
	*Gang
	run     int
	since   time.Duration
	started time.Duration
	nodes   []int // of the tree
	gone    bool
}

func playVirtual(by policy, t Trace) Columns {
	v := &virtual{policy: by}
	v.build(t.Cluster)
	for i := range t.Gangs {
		g := &t.Gangs[i]
		v.agenda.add(g.At, func() { v.come(&attempt{Gang: g}, 0) })
	}
	for len(v.agenda) > 0 {
		v.now = v.agenda[0].at
		for len(v.agenda) > 0 && v.agenda[0].at == v.now {
			v.agenda.pop()()
		}
		v.schedule()
	}
	return Judge(t, v.events)
}

func (v *virtual) build(c Cluster) {
	byName := map[string]Node{}
	var nodes []topology.Node
	for _, n := range c.Nodes() {
		if !n.Broken {
			byName[n.Name] = n
			nodes = append(nodes, topology.Node{Name: n.Name, Path: []string{n.Spine, n.Leaf}})
		}
	}
	v.tree = topology.Build([]string{"Spine", "Leaf"}, nodes)
	for i := range nodes {
		v.nodes = append(v.nodes, byName[v.tree.NodeName(i)])
	}
	v.has = make([]*attempt, len(nodes))
}

func (v *virtual) tell(kind EventKind, a *attempt, pod int, node string) {
	v.events = append(v.events, Event{At: v.now, Kind: kind, Gang: a.Name, Run: a.run, Pod: fmt.Sprintf("%s-%d", a.Name, pod), Node: node})
}

// come creates all pods of a run, which the policy sees so much later.
func (v *virtual) come(a *attempt, later time.Duration) {
	a.since = v.now
	v.tell(Created, a, 0, "")
	v.agenda.add(v.now+later+v.late*time.Duration(a.Size), func() { v.waiting = append(v.waiting, a) })
}

// schedule tries all gangs that wait, and begins again when one has started.
func (v *virtual) schedule() {
	slices.SortStableFunc(v.waiting, func(a, b *attempt) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.since, b.since))
	})
	for i := 0; i < len(v.waiting); i++ {
		if a := v.waiting[i]; v.try(a) {
			v.waiting = slices.DeleteFunc(v.waiting, func(w *attempt) bool { return w == a })
			i = -1
		}
	}
}

// try starts a gang, if need be with an eviction.
func (v *virtual) try(a *attempt) bool {
	w := plan.World{Tree: v.tree, Free: v.free(a.Gang)}
	r := plan.Request{Want: offer.Slots(a.Size), Min: offer.Slots(a.Size)}
	if leaf := v.tree.Depth() - 1; a.Must {
		r.Must = leaf
	} else {
		r.Prefer = plan.PreferGather(leaf-1, leaf)
	}
	p, _ := plan.Choose(w, r)
	if p == nil {
		e := v.evict(w, r, a.Gang)
		if e == nil {
			return false
		}
		for _, pick := range e.Victims {
			if of := v.has[pick.Node]; of != nil { // else it went with another of its gang
				v.leave(of, Evicted)
				v.agenda.add(v.now+comesAgain, func() { v.come(&attempt{Gang: of.Gang, run: of.run + 1}, v.again) })
			}
		}
		p = e.Plan
	}
	if v.ends && v.tree.Layer(p.Domain) == v.tree.Depth()-1 {
		p = v.leastLonger(a, w, r, p)
	}
	v.start(a, p)
	return true
}

// leastLonger is a plan in one leaf like p, in that which the gang keeps busy least longer than it is anyway.
func (v *virtual) leastLonger(a *attempt, w plan.World, r plan.Request, p *plan.Plan) *plan.Plan {
	all, least := w.Free, time.Duration(math.MaxInt64)
	tightest := len(all)
	for d := range topology.ID(v.tree.Len()) {
		if v.tree.Layer(d) != v.tree.Depth()-1 {
			continue
		}
		lo, hi := v.tree.Nodes(d)
		w.Free = make([]offer.Slots, len(all))
		free, until := 0, v.now
		for n := lo; n < hi; n++ {
			w.Free[n] = all[n]
			free += int(all[n])
			if of := v.has[n]; of != nil {
				until = max(until, of.started+of.Lasts)
			}
		}
		longer := max(0, v.now+a.Lasts-until)
		if free < a.Size || longer > least || longer == least && free >= tightest {
			continue
		}
		if here, _ := plan.Choose(w, r); here != nil {
			p, least, tightest = here, longer, free
		}
	}
	return p
}

func (v *virtual) free(g *Gang) []offer.Slots {
	free := make([]offer.Slots, len(v.nodes))
	for n, of := range v.has {
		if of == nil && v.takes(n, g) {
			free[n] = 1
		}
	}
	return free
}

// takes says whether a pod could use the node if the node were free.
func (v *virtual) takes(node int, g *Gang) bool { return g.Type == "" || g.Type == v.nodes[node].Type }

func (v *virtual) start(a *attempt, p *plan.Plan) {
	a.started = v.now
	for _, at := range p.Places {
		v.has[at.Node] = a
		v.tell(Bound, a, len(a.nodes), v.nodes[at.Node].Name)
		a.nodes = append(a.nodes, at.Node)
	}
	v.agenda.add(v.now+a.Lasts, func() {
		if !a.gone {
			v.tell(Finished, a, 0, "")
			v.leave(a, Gone)
		}
	})
}

// leave ends a run, all pods at once. The first pod gets the event first, the others Gone.
func (v *virtual) leave(a *attempt, first EventKind) {
	a.gone = true
	for i, n := range a.nodes {
		v.has[n] = nil
		v.tell(first, a, i, "")
		first = Gone
	}
}

// evict chooses victims of lower priority, or nil if all of them do not free enough capacity. Gangs are evicted whole.
func (v *virtual) evict(w plan.World, r plan.Request, g *Gang) *evict.Found {
	ceiling := g.Priority - 1
	if v.byPriority {
		ceiling = 0
	}
	for ; ceiling < g.Priority; ceiling++ {
		nodes, gangs := v.victims(w, g, ceiling)
		if found := evict.Cheapest(evict.Problem{World: w, Request: r, Nodes: nodes, Gangs: gangs}); found.Plan != nil {
			return &found
		}
	}
	return nil
}

// victims is what the nodes would offer if some gangs up to a priority were evicted.
func (v *virtual) victims(w plan.World, g *Gang, ceiling int) (nodes []evict.RawNode, gangs []evict.Gang) {
	nodes = make([]evict.RawNode, len(v.nodes))
	numbers := map[*attempt]int{}
	for n, of := range v.has {
		free, takes := w.Free[n], v.takes(n, g)
		nodes[n].Slots = func(gone []int) offer.Slots {
			if takes && len(gone) > 0 {
				return 1
			}
			return free
		}
		if of == nil || of.Priority > ceiling {
			continue
		}
		if numbers[of] == 0 {
			gangs = append(gangs, evict.Gang{Whole: true})
			numbers[of] = len(gangs)
		}
		victim := evict.Victim{
			Name: fmt.Sprintf("%s-%d", of.Name, n), Priority: int32(of.Priority), Started: int64(of.started), Gang: numbers[of],
		}
		nodes[n].Victims = []evict.Victim{victim}
		gang := &gangs[numbers[of]-1]
		gang.Cost = gang.Cost.Add(evict.CostOf(victim))
	}
	return nodes, gangs
}

// printVirtual compares policies: means of all traces of a kind, and by how much a policy differs from the first one.
// The difference is the mean of all traces, with its standard error.
func printVirtual(out io.Writer, traces []Trace) {
	for _, kind := range kindsOf(traces) {
		fmt.Fprintf(out, "**%s**\n\n| |", kind)
		by := make([][]Result, len(policies))
		for i, p := range policies {
			fmt.Fprintf(out, " %s |", p.name)
			for _, t := range traces {
				if t.Kind == kind {
					by[i] = append(by[i], Result{Trace: kind, Seed: t.Seed, Columns: playVirtual(p, t)})
				}
			}
		}
		fmt.Fprint(out, "\n|---|")
		for range policies {
			fmt.Fprint(out, "--:|")
		}
		fmt.Fprintln(out)
		for _, c := range columns {
			if c.name == written {
				continue
			}
			fmt.Fprintf(out, "| %s |", c.name)
			for _, of := range by {
				fmt.Fprintf(out, " %s |", difference(c, of, by[0]))
			}
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out)
	}
}

func kindsOf(traces []Trace) (kinds []string) {
	for _, t := range traces {
		if !slices.Contains(kinds, t.Kind) {
			kinds = append(kinds, t.Kind)
		}
	}
	return kinds
}

// difference is a mean, and how far it is from another, in pairs.
func difference(c column, of, from []Result) string {
	n, mean, sum, squares := float64(len(of)), 0.0, 0.0, 0.0
	for i := range of {
		d := c.of(of[i]) - c.of(from[i])
		mean, sum, squares = mean+c.of(of[i])/n, sum+d/n, squares+d*d/n
	}
	if squares == 0 {
		return fmt.Sprintf("%.2f", mean)
	}
	return fmt.Sprintf("%.2f (%+.2f ± %.2f)", mean, sum, math.Sqrt(max(0, squares-sum*sum)/n))
}
