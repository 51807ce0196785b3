package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// chooseJob plans for members that differ, or depend on one another.
func (a *attempt) chooseJob(ctx context.Context, dependent bool, gone [][]*v1.Pod) (found outcome, refusal *plan.Refusal, err error) {
	job, classes := a.job()
	w := plan.JobWorld{World: a.world, Take: a.taker(ctx, gone)}
	if gone != nil {
		w.Free = a.freeWithout(ctx, gone)
	}
	if dependent {
		stage, stageErr := a.stage(ctx, gone)
		if stageErr != nil {
			return outcome{}, nil, stageErr
		}
		defer func() {
			if closeErr := stage.Close(); err == nil {
				err = closeErr
			}
		}()
		w.Stage = stage
	}
	p, refusal := plan.ChooseJob(w, job)
	if refusal != nil {
		return outcome{}, refusal, nil
	}
	return outcome{places: a.assignJob(p, classes), inOrder: p.InOrder}, nil, nil
}

// job says what the group asks for, and which members each class is, by rank.
func (a *attempt) job() (plan.Job, [][]gang.Member) {
	job := plan.Job{All: a.all, Each: a.each}
	gangs := map[string]int{}
	if a.oneGang() {
		job.Gangs = []plan.Gang{{Need: offer.Slots(len(a.group.Pending)), Bound: a.world.Bound}}
	} else {
		for i, g := range a.group.Gangs {
			gangs[g.Name] = i
			job.Gangs = append(job.Gangs, plan.Gang{Need: offer.Slots(g.Need), Bound: a.bound(g.Name)})
		}
	}
	var members [][]gang.Member
	known := map[plan.Put]int{} // by gang and kind
	for rank, m := range a.group.Pending {
		key := plan.Put{Class: gangs[m.Gang], Node: a.kindOf[m.Pod]}
		c, ok := known[key]
		if !ok {
			c = len(members)
			known[key] = c
			members = append(members, nil)
			job.Classes = append(job.Classes, plan.Class{Gang: gangs[m.Gang], Kind: a.kindOf[m.Pod]})
		}
		members[c] = append(members[c], m)
		job.Classes[c].Ranks = append(job.Classes[c].Ranks, rank)
	}
	return job, members
}

// oneGang says whether it makes no difference to which gang a member belongs: all get a
// place or none does, and they gather together.
func (a *attempt) oneGang() bool {
	return a.group.Need() == len(a.group.Pending) && a.each.Must == 0 && len(a.each.Prefer) == 0 && maxMultiple(a.each) == 1
}

// taker says how many members of a kind a node takes beside others.
func (a *attempt) taker(ctx context.Context, gone [][]*v1.Pod) func(int, []offer.Slots, int) offer.Slots {
	return func(node int, load []offer.Slots, kind int) offer.Slots {
		if a.nodes[node] == nil {
			return 0
		}
		var left []*v1.Pod
		if gone != nil {
			left = gone[node]
		}
		return a.take(ctx, question{node: node, kind: kind, load: load, gone: left})
	}
}

// question is how many members of a kind a node takes beside a load, by kind, when some
// pods have left.
type question struct {
	node, kind int
	load       []offer.Slots
	gone       []*v1.Pod
}

// key tells questions about one node apart.
func (q question) key() string {
	var b strings.Builder
	fmt.Fprint(&b, q.kind, q.load)
	for _, p := range q.gone {
		b.WriteByte(' ')
		b.WriteString(string(p.UID))
	}
	return b.String()
}

// take asks the Filters, each question once. Questions about one node must come one
// after the other.
func (a *attempt) take(ctx context.Context, q question) offer.Slots {
	loaded := slices.ContainsFunc(q.load, func(s offer.Slots) bool { return s > 0 })
	if !loaded && len(q.gone) == 0 {
		return a.kinds[q.kind].slots[q.node]
	}
	answers := a.answers[q.node]
	if answers == nil {
		answers = map[string]offer.Slots{}
		a.answers[q.node] = answers
	}
	key := q.key()
	if slots, ok := answers[key]; ok {
		return slots
	}
	beside := slices.Clone(a.crowd[q.node])
	for k, many := range q.load {
		for range many {
			beside = append(beside, a.kinds[k].counter.Member())
		}
	}
	slots, _ := a.kinds[q.kind].counter.CountWithout(ctx, a.nodes[q.node], beside, q.gone)
	answers[key] = slots
	return slots
}

// freeWithout is how many members each node takes, whichever they are, when others
// have left.
func (a *attempt) freeWithout(ctx context.Context, gone [][]*v1.Pod) []offer.Slots {
	free := make([]offer.Slots, len(a.nodes))
	a.onEach(ctx, func(i int, _ fwk.NodeInfo) {
		free[i] = a.countWithout(ctx, i, gone[i])
	})
	return free
}

// stage is the snapshot with everybody there who counts.
func (a *attempt) stage(ctx context.Context, gone [][]*v1.Pod) (*fit.Stage, error) {
	pods := make([]*v1.Pod, len(a.kinds))
	for k := range pods {
		pods[k] = a.kinds[k].pod
	}
	names := make([]string, len(a.nodes))
	for i := range names {
		names[i] = a.net.Tree.NodeName(i)
	}
	s, err := fit.NewStage(ctx, a.profile, pods, names)
	if err != nil {
		return nil, err
	}
	for i, n := range a.nodes {
		if n == nil {
			continue
		}
		for _, p := range a.crowd[i] {
			s.Add(names[i], p)
		}
		if gone != nil {
			for _, p := range gone[i] {
				s.Remove(p)
			}
		}
	}
	return s, nil
}

// assignJob gives members their places. Within a class, lower ranks go to the nodes
// that come first in the plan, or where the order is taken, first in the tree.
func (a *attempt) assignJob(p *plan.JobPlan, classes [][]gang.Member) []gang.Place {
	byRank := slices.Clone(p.Puts)
	if p.InOrder {
		slices.SortStableFunc(byRank, func(x, y plan.Put) int { return cmp.Compare(x.Node, y.Node) })
	}
	next := make([]int, len(classes))
	onNode := map[plan.Put][]gang.Member{}
	for _, put := range byRank {
		onNode[put] = append(onNode[put], classes[put.Class][next[put.Class]])
		next[put.Class]++
	}
	places := make([]gang.Place, 0, len(p.Puts))
	for _, put := range p.Puts {
		m := onNode[put][0]
		onNode[put] = onNode[put][1:]
		places = append(places, gang.Place{Pod: m.Pod, Node: a.net.Tree.NodeName(put.Node)})
	}
	return places
}

// placesFitTogether is placesFit for members that depend on one another. They are tried
// in the order of the plan; a process that only found the places tries them by rank.
func (a *attempt) placesFitTogether(ctx context.Context, gone [][]*v1.Pod) (turn []string, why string) {
	s, err := a.stage(ctx, gone)
	if err != nil {
		return nil, err.Error()
	}
	defer func() {
		if err := s.Close(); err != nil && why == "" {
			why = err.Error()
		}
	}()
	left := slices.Clone(a.group.Turn)
	if left == nil {
		for _, m := range a.group.Pending {
			left = append(left, m.Pod)
		}
	}
	left = slices.DeleteFunc(left, func(pod string) bool {
		_, pending := a.kindOf[pod]
		return !pending || a.group.Places[pod] == ""
	})
	fits := func(pod string) bool {
		i, ok := a.net.Tree.NodeIndex(a.group.Places[pod])
		if !ok || a.nodes[i] == nil || !s.Fits(a.kindOf[pod], i) {
			return false
		}
		s.Put(a.kindOf[pod], i)
		return true
	}
	for len(left) > 0 {
		i := slices.IndexFunc(left, fits)
		if i < 0 {
			return nil, left[0] + " does not fit " + a.group.Places[left[0]]
		}
		turn = append(turn, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return turn, ""
}
