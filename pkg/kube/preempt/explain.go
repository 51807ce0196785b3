package preempt

import (
	"context"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// ExplanationRecorder is an event recorder that also receives the explanation of an eviction.
type ExplanationRecorder interface {
	Evicts(of gang.Ref, why status.Explanation)
}

// maxComparing bounds the time for which the scheduler compares other domains to explain a choice. No pod is scheduled meanwhile.
const maxComparing = 300 * time.Millisecond

// timeToCompare returns a function that is true until maxComparing has passed. In a simulation the clock stands still: always true.
func (p *Preemptor) timeToCompare() (more func() bool) {
	began := p.Clock.Now()
	return func() bool { return p.Clock.Since(began) < maxComparing }
}

// explain reports in the log and in an event of each gang of the group why the solution's domain was chosen for evictions.
func (p *Preemptor) explain(ctx context.Context, a *place.Attempt, e *solution) {
	why := explanation(a.Net.Tree, e.why())
	text := why.String()
	klog.FromContext(ctx).V(2).Info("Evicting for a gang", "group", a.Group.Key.String(), "why", text)
	for _, ref := range a.Group.Whole() {
		p.Teller.Gang(ref, status.Normal, reasons.Preempting, text)
	}
	p.record(a.Group.Whole(), why)
}

// record passes the explanation of an eviction for gangs to the event recorder, if it is an ExplanationRecorder.
func (p *Preemptor) record(gangs []gang.Ref, why status.Explanation) {
	if witness, ok := p.Profile.EventRecorder().(ExplanationRecorder); ok {
		for _, ref := range gangs {
			witness.Evicts(ref, why)
		}
	}
}

// explanation translates the comparison of domains by package evict for users.
func explanation(tree *topology.Tree, choice evict.Choice) status.Explanation {
	out := status.Explanation{Won: domainName(tree, choice.Considered[0].Domain), Rule: choice.Rule}
	for _, c := range choice.Considered {
		d := status.ConsideredDomain{
			Domain: domainName(tree, c.Domain), Possible: c.Outcome == evict.Possible, Untried: c.Outcome == evict.Untried,
		}
		if d.Possible {
			d.EvictionCost = &status.EvictionCost{
				Violations: c.Cost.Violations, Pods: c.Cost.Pods, SentBack: c.Cost.Requeued, HighestPriority: c.Cost.Highest, Sum: c.Cost.Sum,
			}
		}
		out.Considered = append(out.Considered, d)
	}
	return out
}

// domainName returns a domain's path. A domain without a name is identified by its first node.
func domainName(tree *topology.Tree, d topology.ID) string {
	if tree.Named(d) {
		return tree.Path(d)
	}
	lo, _ := tree.Nodes(d)
	return strings.TrimPrefix(tree.Path(d)+"/(unnamed, with "+tree.NodeName(lo)+")", "/")
}
