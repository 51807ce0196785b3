package place

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// chooseJob is Choose for heterogeneous or interdependent members (package mixed). dependent says that they are interdependent.
func (a *Attempt) chooseJob(ctx context.Context, dependent bool, gone [][]*v1.Pod) (found Outcome, refusal *plan.Refusal, err error) {
	job, classes := a.Job()
	w := mixed.World{World: a.World, Take: a.nodeCapacity(ctx, gone), Work: a.work, Penalties: a.penalties()}
	if gone != nil {
		w.Free = a.FreeWithout(ctx, gone)
	}
	if dependent {
		trial, trialErr := a.newTrial(ctx, gone)
		if trialErr != nil {
			return Outcome{}, nil, trialErr
		}
		defer func() {
			a.trialPlugins = trial.RejectingPlugins()
			if closeErr := trial.Close(); err == nil {
				err = closeErr
			}
		}()
		w.Trial = a.limitTrial(trial)
	}
	p, refusal := mixed.Choose(w, job)
	if refusal != nil {
		a.nameGangs(refusal)
		return Outcome{}, refusal, nil
	}
	return Outcome{Places: a.AssignJob(p, classes), InOrder: p.InOrder}, nil, nil
}

// A refusal names at most mostNamed gangs of each set that is too large, and no further one after mostNamedBytes.
const (
	mostNamed      = 3
	mostNamedBytes = 128
)

// nameGangs sets the names of the gangs in each TooLarge entry of the refusal.
func (a *Attempt) nameGangs(r *plan.Refusal) {
	for i := range r.TooLarge {
		t := &r.TooLarge[i]
		names, n := displayName(a.Group.Gangs[t.Gangs[0]].Ref), 1
		for ; n < min(len(t.Gangs), mostNamed) && len(names) < mostNamedBytes; n++ {
			names += ", " + displayName(a.Group.Gangs[t.Gangs[n]].Ref)
		}
		switch t.Name = "gang " + names; {
		case len(t.Gangs) > n:
			t.Name = fmt.Sprintf("gangs %s and %d more together", names, len(t.Gangs)-n)
		case n > 1:
			t.Name = fmt.Sprintf("gangs %s together", names)
		}
	}
}

// displayName returns the name of a gang, or of a part of it, for messages.
func displayName(ref gang.Ref) string {
	part := ref.PartName()
	if part == "" {
		return ref.String()
	}
	words := strings.FieldsFunc(part, unicode.IsControl)
	return ref.String() + map[bool]string{true: " (sub-group ", false: " ("}[len(words) > 1] + strings.Join(words, " ") + ")"
}

// Job returns the group's request for package mixed, and the pending members by class and rank. A class is one kind of one gang.
func (a *Attempt) Job() (mixed.Job, [][]gang.Member) {
	job := mixed.Job{All: a.All, Sets: a.Sets, Choice: a.Group.Choice}
	gangs := map[gang.Ref]int{}
	if a.oneGang() {
		job.Gangs = []mixed.Gang{{Need: offer.Slots(len(a.Group.Pending)), Bound: a.World.Bound}}
	} else {
		for i, g := range a.Group.Gangs {
			gangs[g.Ref] = i
			job.Gangs = append(job.Gangs, mixed.Gang{Need: offer.Slots(g.Need), Bound: a.bound(g.Ref)})
		}
	}
	var members [][]gang.Member
	known := map[mixed.Put]int{} // by gang and kind
	for rank, m := range a.Group.Pending {
		key := mixed.Put{Class: gangs[m.Gang], Node: a.kindOf[m.Pod]}
		c, ok := known[key]
		if !ok {
			c = len(members)
			known[key] = c
			members = append(members, nil)
			job.Classes = append(job.Classes, mixed.Class{Gang: gangs[m.Gang], Kind: a.kindOf[m.Pod]})
		}
		members[c] = append(members[c], m)
		job.Classes[c].Ranks = append(job.Classes[c].Ranks, rank)
	}
	return job, members
}

// oneGang returns whether the group can be planned as one gang: all members start or none, and they gather together.
func (a *Attempt) oneGang() bool {
	return !a.Group.Choice.Any() && a.Group.Need() == len(a.Group.Pending) && len(a.Sets) == 0
}

// nodeCapacity returns a function of (node, load, kind): how many members of kind the node takes beside load and without the pods in gone.
func (a *Attempt) nodeCapacity(ctx context.Context, gone [][]*v1.Pod) func(int, []offer.Slots, int) offer.Slots {
	return func(node int, load []offer.Slots, kind int) offer.Slots {
		if a.Nodes[node] == nil {
			return 0
		}
		var goneOnNode []*v1.Pod
		if gone != nil {
			goneOnNode = gone[node]
		}
		return a.Capacity(ctx, Question{Node: node, Kind: kind, Load: load, Gone: goneOnNode})
	}
}

// Question asks how many members of Kind the node takes beside Load (number by kind) after the pods in Gone have terminated.
type Question struct {
	Node, Kind int
	Load       []offer.Slots
	Gone       []*v1.Pod
}

// key returns a text that is equal for equal questions about one node.
func (q Question) key() string {
	var buffer [64]byte
	b := strconv.AppendInt(buffer[:0], int64(q.Kind), 10)
	for _, n := range q.Load {
		b = strconv.AppendInt(append(b, ','), int64(n), 10)
	}
	for _, p := range q.Gone {
		b = append(append(b, ' '), p.UID...)
	}
	return string(b)
}

// answers remembers results of Capacity by node and Question.key. Most attempts need none, so byNode is allocated at first use.
type answers struct {
	once   sync.Once
	byNode []map[string]offer.Slots
}

// forNode returns the remembered results of one node, to be read and written. nodes is the number of nodes.
func (a *answers) forNode(node, nodes int) map[string]offer.Slots {
	a.once.Do(func() { a.byNode = make([]map[string]offer.Slots, nodes) })
	if a.byNode[node] == nil {
		a.byNode[node] = map[string]offer.Slots{}
	}
	return a.byNode[node]
}

// Capacity returns the answer to a question, and remembers it. Only one goroutine may call it for one node at a time.
func (a *Attempt) Capacity(ctx context.Context, q Question) offer.Slots {
	if a.owners != nil && len(q.Gone) > 0 {
		return a.capacityByOwner(ctx, q)
	}
	return a.capacityForAll(ctx, q)
}

// capacityForAll is Capacity if all members may use the capacity of the pods in q.Gone.
func (a *Attempt) capacityForAll(ctx context.Context, q Question) offer.Slots {
	loaded := slices.ContainsFunc(q.Load, func(s offer.Slots) bool { return s > 0 })
	if !loaded && len(q.Gone) == 0 {
		return a.kinds[q.Kind].slots[q.Node]
	}
	answers := a.answers.forNode(q.Node, len(a.Nodes))
	key := q.key()
	if slots, ok := answers[key]; ok {
		return slots
	}
	beside := slices.Clone(a.beside[q.Node])
	for k, many := range q.Load {
		for range many {
			beside = append(beside, a.kinds[k].counter.Member())
		}
	}
	slots, _ := a.kinds[q.Kind].counter.CountWithout(ctx, a.Nodes[q.Node], beside, q.Gone)
	slots = a.limited.allow(q.Node, q.Kind, q.Load, slots)
	answers[key] = slots
	return slots
}

// Loads returns, by node index and kind, how many members are assigned there; nil for a node without assignments.
func (a *Attempt) Loads(places []gang.Assignment) [][]offer.Slots {
	loads := make([][]offer.Slots, len(a.Nodes))
	for _, place := range places {
		i, ok := a.Net.Tree.NodeIndex(place.Node)
		if !ok {
			continue
		}
		if loads[i] == nil {
			loads[i] = make([]offer.Slots, len(a.kinds))
		}
		loads[i][a.kindOf[place.Pod]]++
	}
	return loads
}

// Holds returns whether a node takes all members of load (number by kind) after the pods in gone have terminated.
func (a *Attempt) Holds(ctx context.Context, node int, load []offer.Slots, gone []*v1.Pod) bool {
	beside := make([]offer.Slots, len(load))
	for k, many := range load {
		if many > 0 && a.Capacity(ctx, Question{Node: node, Kind: k, Load: beside, Gone: gone}) < many {
			return false
		}
		beside[k] = many
	}
	return true
}

// CountWithout returns how many members, whatever their kind, a node takes after the pods in gone have terminated.
func (a *Attempt) CountWithout(ctx context.Context, node int, gone []*v1.Pod) (least offer.Slots) {
	for k := range a.kinds {
		if slots := a.Capacity(ctx, Question{Node: node, Kind: k, Gone: gone}); k == 0 || slots < least {
			least = slots
		}
	}
	return least
}

// FreeWithout returns CountWithout of every node by node index; gone is by node index, too.
func (a *Attempt) FreeWithout(ctx context.Context, gone [][]*v1.Pod) []offer.Slots {
	free := make([]offer.Slots, len(a.Nodes))
	a.OnEach(ctx, func(i int, _ fwk.NodeInfo) {
		free[i] = a.CountWithout(ctx, i, gone[i])
	})
	return free
}

// newTrial returns a trial on a what-if snapshot: without the pods in gone, and with the pods of a.beside. The caller closes it.
func (a *Attempt) newTrial(ctx context.Context, gone [][]*v1.Pod) (*fit.Trial, error) {
	pods := make([]*v1.Pod, len(a.kinds))
	for k := range pods {
		pods[k] = a.kinds[k].pod
	}
	names := make([]string, len(a.Nodes))
	for i, n := range a.Nodes {
		if n != nil { // excluded nodes stay in the snapshot and take no member
			names[i] = a.Net.Tree.NodeName(i)
		}
	}
	s, err := fit.NewTrial(ctx, a.profile, pods, names, a.pages...)
	if err != nil {
		return nil, err
	}
	for k := range pods {
		s.CloseDomains(k, a.kinds[k].counter.ClosedDomains())
	}
	for i, n := range a.Nodes {
		if n == nil || gone == nil {
			continue
		}
		for _, p := range gone[i] {
			s.Remove(p)
		}
	}
	for i, n := range a.Nodes {
		if n == nil {
			continue
		}
		for _, p := range a.beside[i] {
			s.Add(names[i], p)
		}
	}
	return s, nil
}

// AssignJob returns the node assignments of a plan, in its order; classes has the members by class and rank. Within a class, lower ranks
// get the nodes that come first in the plan, or in the tree if the plan prescribes an order.
func (a *Attempt) AssignJob(p *mixed.Plan, classes [][]gang.Member) []gang.Assignment {
	byRank := slices.Clone(p.Puts)
	if p.InOrder {
		slices.SortStableFunc(byRank, func(x, y mixed.Put) int { return cmp.Compare(x.Node, y.Node) })
	}
	next := make([]int, len(classes))
	onNode := map[mixed.Put][]gang.Member{}
	for _, put := range byRank {
		onNode[put] = append(onNode[put], classes[put.Class][next[put.Class]])
		next[put.Class]++
	}
	places := make([]gang.Assignment, 0, len(p.Puts))
	for _, put := range p.Puts {
		m := onNode[put][0]
		onNode[put] = onNode[put][1:]
		places = append(places, gang.Assignment{Pod: m.Pod, Node: a.Net.Tree.NodeName(put.Node)})
	}
	return places
}
