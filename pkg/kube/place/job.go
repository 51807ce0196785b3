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

// chooseJob plans for members that differ, or depend on one another.
func (a *Attempt) chooseJob(ctx context.Context, dependent bool, gone [][]*v1.Pod) (found Outcome, refusal *plan.Refusal, err error) {
	job, classes := a.Job()
	w := mixed.World{World: a.World, Take: a.taker(ctx, gone), Work: a.work, Penalties: a.penalties()}
	if gone != nil {
		w.Free = a.FreeWithout(ctx, gone)
	}
	if dependent {
		trial, trialErr := a.trial(ctx, gone)
		if trialErr != nil {
			return Outcome{}, nil, trialErr
		}
		defer func() {
			a.refusers = trial.Refusers()
			if closeErr := trial.Close(); err == nil {
				err = closeErr
			}
		}()
		w.Trial = a.onTrial(trial)
	}
	p, refusal := mixed.Choose(w, job)
	if refusal != nil {
		a.name(refusal)
		return Outcome{}, refusal, nil
	}
	return Outcome{Places: a.AssignJob(p, classes), InOrder: p.InOrder}, nil, nil
}

// A refusal names at the most so many gangs of each set that is too large, and no more than have
// room in so many bytes: there is other news.
const (
	mostNamed      = 3
	mostNamedBytes = 128
)

// name says which gangs a refusal is about.
func (a *Attempt) name(r *plan.Refusal) {
	for i := range r.TooLarge {
		t := &r.TooLarge[i]
		names, n := nameOf(a.Group.Gangs[t.Gangs[0]].Ref), 1
		for ; n < min(len(t.Gangs), mostNamed) && len(names) < mostNamedBytes; n++ {
			names += ", " + nameOf(a.Group.Gangs[t.Gangs[n]].Ref)
		}
		switch t.Who = "gang " + names; {
		case len(t.Gangs) > n:
			t.Who = fmt.Sprintf("gangs %s and %d more together", names, len(t.Gangs)-n)
		case n > 1:
			t.Who = fmt.Sprintf("gangs %s together", names)
		}
	}
}

// nameOf is how people name a gang, or one of its parts: where a part's name is several words they
// are kept apart by what no word has in it.
func nameOf(ref gang.Ref) string {
	part := ref.PartName()
	if part == "" {
		return ref.String()
	}
	return ref.String() + " (" + strings.Join(strings.FieldsFunc(part, unicode.IsControl), " ") + ")"
}

// Job says what the group asks for, and which members each class is, by rank.
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

// oneGang says whether it makes no difference to which gang a member belongs: all get a
// place or none does, and they gather together.
func (a *Attempt) oneGang() bool {
	return !a.Group.Choice.Any() && a.Group.Need() == len(a.Group.Pending) && len(a.Sets) == 0
}

// taker says how many members of a kind a node takes beside others.
func (a *Attempt) taker(ctx context.Context, gone [][]*v1.Pod) func(int, []offer.Slots, int) offer.Slots {
	return func(node int, load []offer.Slots, kind int) offer.Slots {
		if a.Nodes[node] == nil {
			return 0
		}
		var left []*v1.Pod
		if gone != nil {
			left = gone[node]
		}
		return a.Take(ctx, Question{Node: node, Kind: kind, Load: load, Gone: left})
	}
}

// Question is how many members of a kind a node takes beside a load, by kind, when some
// pods have left.
type Question struct {
	Node, Kind int
	Load       []offer.Slots
	Gone       []*v1.Pod
}

// key tells questions about one node apart.
func (q Question) key() string {
	var room [64]byte
	b := strconv.AppendInt(room[:0], int64(q.Kind), 10)
	for _, n := range q.Load {
		b = strconv.AppendInt(append(b, ','), int64(n), 10)
	}
	for _, p := range q.Gone {
		b = append(append(b, ' '), p.UID...)
	}
	return string(b)
}

// answers are what the Filters said of nodes to questions that came before. Most attempts ask none, so that there is no
// place for them until the first one.
type answers struct {
	once   sync.Once
	byNode []map[string]offer.Slots
}

// on are those about one of so many nodes.
func (a *answers) on(node, nodes int) map[string]offer.Slots {
	a.once.Do(func() { a.byNode = make([]map[string]offer.Slots, nodes) })
	if a.byNode[node] == nil {
		a.byNode[node] = map[string]offer.Slots{}
	}
	return a.byNode[node]
}

// Take asks the Filters, each question once. Questions about one node must come one
// after the other.
func (a *Attempt) Take(ctx context.Context, q Question) offer.Slots {
	if a.owners != nil && len(q.Gone) > 0 {
		return a.takeOwned(ctx, q)
	}
	return a.take(ctx, q)
}

// take is Take where all members may use what pods leave.
func (a *Attempt) take(ctx context.Context, q Question) offer.Slots {
	loaded := slices.ContainsFunc(q.Load, func(s offer.Slots) bool { return s > 0 })
	if !loaded && len(q.Gone) == 0 {
		return a.kinds[q.Kind].slots[q.Node]
	}
	answers := a.answers.on(q.Node, len(a.Nodes))
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

// Loads is how many members of each kind have places, by node index; nil where nobody has.
func (a *Attempt) Loads(places []gang.Place) [][]offer.Slots {
	loads := make([][]offer.Slots, len(a.Nodes))
	for _, at := range places {
		i, ok := a.Net.Tree.NodeIndex(at.Node)
		if !ok {
			continue
		}
		if loads[i] == nil {
			loads[i] = make([]offer.Slots, len(a.kinds))
		}
		loads[i][a.kindOf[at.Pod]]++
	}
	return loads
}

// Holds says whether a node takes a load when some pods have left: kind by kind.
func (a *Attempt) Holds(ctx context.Context, node int, load []offer.Slots, gone []*v1.Pod) bool {
	beside := make([]offer.Slots, len(load))
	for k, many := range load {
		if many > 0 && a.Take(ctx, Question{Node: node, Kind: k, Load: beside, Gone: gone}) < many {
			return false
		}
		beside[k] = many
	}
	return true
}

// CountWithout is how many members a node takes, whichever they are, when some pods have
// left.
func (a *Attempt) CountWithout(ctx context.Context, node int, gone []*v1.Pod) (least offer.Slots) {
	for k := range a.kinds {
		if slots := a.Take(ctx, Question{Node: node, Kind: k, Gone: gone}); k == 0 || slots < least {
			least = slots
		}
	}
	return least
}

// FreeWithout is how many members each node takes, whichever they are, when others
// have left.
func (a *Attempt) FreeWithout(ctx context.Context, gone [][]*v1.Pod) []offer.Slots {
	free := make([]offer.Slots, len(a.Nodes))
	a.OnEach(ctx, func(i int, _ fwk.NodeInfo) {
		free[i] = a.CountWithout(ctx, i, gone[i])
	})
	return free
}

// trial is the snapshot with everybody there who counts.
func (a *Attempt) trial(ctx context.Context, gone [][]*v1.Pod) (*fit.Trial, error) {
	pods := make([]*v1.Pod, len(a.kinds))
	for k := range pods {
		pods[k] = a.kinds[k].pod
	}
	names := make([]string, len(a.Nodes))
	for i, n := range a.Nodes {
		if n != nil { // who is in the snapshot, but is avoided, takes nobody
			names[i] = a.Net.Tree.NodeName(i)
		}
	}
	s, err := fit.NewTrial(ctx, a.profile, pods, names, a.pages...)
	if err != nil {
		return nil, err
	}
	for k := range pods {
		s.KeepOff(k, a.kinds[k].counter.Off())
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

// AssignJob gives members their places. Within a class, lower ranks go to the nodes
// that come first in the plan, or where the order is taken, first in the tree.
func (a *Attempt) AssignJob(p *mixed.Plan, classes [][]gang.Member) []gang.Place {
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
	places := make([]gang.Place, 0, len(p.Puts))
	for _, put := range p.Puts {
		m := onNode[put][0]
		onNode[put] = onNode[put][1:]
		places = append(places, gang.Place{Pod: m.Pod, Node: a.Net.Tree.NodeName(put.Node)})
	}
	return places
}
