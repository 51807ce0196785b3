package preempt

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Who lists the candidates for an attempt, a line for each node that has any ("n0: who of
// gang 1, who counts towards budgets, and (who leaves anyway)"), and one for each gang.
func (p *Preemptor) Who(ctx context.Context, a *place.Attempt) (lines []string) {
	name := func(key string) string { _, n := convert.SplitKey(key); return n }
	c := p.candidates(ctx, a, p.Limits().MaxGrace)
	for i, here := range c.here {
		var words []string
		for _, v := range here.victims {
			word := name(v.Name)
			if v.Gang > 0 {
				word += fmt.Sprintf("[%d]", v.Gang)
			}
			if v.Waits {
				word += " waits"
			}
			for _, b := range v.Budgets {
				word += fmt.Sprintf("+%s=%d", name(b.Name), b.Allowed)
			}
			words = append(words, word)
		}
		for _, pod := range here.leaving {
			words = append(words, "("+pod.Name+")")
		}
		if len(words) > 0 {
			lines = append(lines, a.Net.Tree.NodeName(i)+": "+strings.Join(words, " "))
		}
	}
	for i, g := range c.gangs {
		line := fmt.Sprintf("[%d]: spare %d", i+1, g.Spare)
		if g.Whole {
			line += fmt.Sprintf(", whole %d pods", g.Cost.Pods)
			if g.Cost.Back > 0 {
				line += fmt.Sprintf(" and %d back", g.Cost.Back)
			}
			line += fmt.Sprintf(" up to %d", g.Cost.Highest)
		}
		for other, h := range c.gangs {
			if other != i && h.Group == g.Group {
				line += fmt.Sprintf(", with [%d]", other+1)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// Gently is gently.
func (p *Preemptor) Gently(evict PreemptPod) PreemptPod { return p.gently(evict) }

// Asked is what Evict would ask to leave, and where the members would be.
func (p *Preemptor) Asked(ctx context.Context, a *place.Attempt) (gone, places []string, verdict Verdict) {
	_, found, verdict := p.find(ctx, a)
	if found == nil {
		return nil, nil, verdict
	}
	for _, pod := range found.gone {
		gone = append(gone, pod.Name)
	}
	for _, at := range found.Places {
		_, n := convert.SplitKey(at.Pod)
		places = append(places, n+"="+at.Node)
	}
	return gone, places, verdict
}

// Kept is how many reservations and groups are remembered.
func (v *Victims) Kept() (asked, stuck int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.asked), len(v.stuck)
}

// Held is for how many pods groups leave whole.
func (p *Preemptor) Held() int {
	p.held.mu.Lock()
	defer p.held.mu.Unlock()
	return len(p.held.by)
}

// Late has the victims of a group's reservation have had their time.
func (v *Victims) Late(group gang.Ref, pod *v1.Pod) {
	v.took(group, v.set(group, []*v1.Pod{pod}), pod)
	v.Overdue(group)
}

// Searched is on how many nodes victims were looked for so far.
func (p *Preemptor) Searched() int64 { return p.searched.Load() }

// AskedAmong says what comes of several attempts, if victims are looked for on so many nodes at most.
func (p *Preemptor) AskedAmong(ctx context.Context, nodes int64, some ...*place.Attempt) Verdict {
	defer func(was int64) { p.among = was }(p.among)
	p.among = nodes
	_, _, verdict := p.findAmong(ctx, some)
	return verdict
}

// ForgetVain forgets where nobody was found.
func (p *Preemptor) ForgetVain() {
	clear(p.vain.known)
}

// LeaveFor has victims asked to leave for a pod as long as that needs them.
func (p *Preemptor) LeaveFor(ctx context.Context, pod *v1.Pod, victims []*v1.Pod, evict PreemptPod, needs func() bool) {
	d := &departure{
		Preemptor: p, number: p.Victims.next(), evict: evict, groups: p.wholes(victims), needs: needs,
		by:     preemptor{pod: pod, members: map[string]*v1.Pod{convert.PodKey(pod): pod}},
		to:     func(*v1.Pod) preemption.Candidate { return site{} },
		room:   map[string]bool{},
		stands: func() bool { return true },
		took:   func(*v1.Pod) {},
	}
	d.leave(ctx, victims, func() {})
}

// Names is what events call a group of so many gangs that evict together.
func Names(gangs int) string {
	p := preemptor{}
	for i := range gangs {
		p.gangs = append(p.gangs, gang.Ref{Namespace: "ns", Name: fmt.Sprint("g", i)})
	}
	return p.names()
}

// GoesBy has it look there which pods are gone.
func (p *Preemptor) GoesBy(there toolscache.Store) { p.there = there }

// Gone is gone.
func (p *Preemptor) Gone(pod *v1.Pod) bool { return p.gone(convert.PodKey(pod), pod.UID) }
