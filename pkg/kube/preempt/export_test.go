package preempt

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// ListCandidates returns a line for each node that has candidates, and a line for each gang. In "n0: x[1] y+b=2 (z)"
// x is of gang 1, y counts towards budget b, and z terminates anyway.
func (p *Preemptor) ListCandidates(ctx context.Context, a *place.Attempt) (lines []string) {
	name := func(key string) string { _, n := convert.SplitKey(key); return n }
	c := p.candidates(ctx, a, p.Limits().MaxGrace, victimLimits{}, nil)
	for i, here := range c.byNode {
		var words []string
		for _, v := range here.victims {
			word := name(v.Name)
			if v.Gang > 0 {
				word += fmt.Sprintf("[%d]", v.Gang)
			}
			if v.Pending {
				word += " waits"
			}
			for _, b := range v.Budgets {
				word += fmt.Sprintf("+%s=%d", name(b.Name), b.Allowed)
			}
			words = append(words, word)
		}
		for _, pod := range here.terminating {
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
			if g.Cost.Requeued > 0 {
				line += fmt.Sprintf(" and %d back", g.Cost.Requeued)
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

// Asked returns the victims that Evict would evict, and the nodes of the members.
func (p *Preemptor) Asked(ctx context.Context, a *place.Attempt) (gone, places []string, verdict Verdict) {
	_, found, verdict := p.overGangSets(ctx, a, p.searchChanged)
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

// Searched returns the number of nodes on which victims were searched so far.
func (p *Preemptor) Searched() int64 { return p.searched.Load() }

// AskedAmong returns the verdict for several attempts, with victims searched on at most that many nodes.
func (p *Preemptor) AskedAmong(ctx context.Context, nodes int64, some ...*place.Attempt) Verdict {
	defer func(was int64) { p.among = was }(p.among)
	p.among = nodes
	_, _, verdict := p.overChoices(ctx, some, p.searchChanged)
	return verdict
}

// ForgetFailedSearches forgets the searches that found no victims.
func (p *Preemptor) ForgetFailedSearches() {
	clear(p.memory.byRequest)
}

// GoesBy sets the store that shows which pods are gone.
func (p *Preemptor) GoesBy(there toolscache.Store) { p.podStore = there }

// Gone reports whether a pod is gone.
func (p *Preemptor) Gone(pod *v1.Pod) bool { return p.IsGone(convert.PodKey(pod), pod.UID) }
