package ask

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// remedy returns what would help an unschedulable gang, and which plugins and events make the scheduler retry it.
func (v *View) remedy(ctx context.Context, ref gang.Ref, l attemptResult, r gang.Obstacle) *Remedy {
	c := &Remedy{Plugins: l.refusal.Plugins}
	pending := v.cache().Pending(ref)
	if len(pending) > 0 {
		c.Events = v.events(ctx, pending[0].Spec.SchedulerName, c.Plugins)
	}
	switch {
	case l.refusal.Plan.Split:
		c.Message = "delete the running members outside one domain, or all members, so that they are recreated; more nodes do not help"
		if over := l.shortage.SplitOver; len(over) > 1 {
			c.Message = "delete the running members outside of " + over[0].DomainPath +
				", or all members, so that they are recreated; more nodes do not help"
		}
	case l.shortage.Pin != nil:
		c.Message = pinRemedy(l.shortage)
	case l.shortage.Never != nil:
		c.Message = l.neverRemedy()
	case l.refusal.Everywhere && namesMissing(l.shortage.Lacks):
		c.Message = "create what is missing, or correct the name; more nodes do not help"
	case l.refusal.Everywhere:
		c.Message = "what " + strings.Join(c.Plugins, ", ") + " asks for; more nodes do not help"
	default:
		c.Message = "pods that terminate, or nodes that are added"
		if l.refusal.Plan.Dependent {
			c.Message = "pods that start where its members must be near them, pods that terminate, or nodes that are added"
		}
		if len(l.shortage.Separations) > 0 {
			c.Message = l.shortage.Separations[0].Helps() + ", or members that may be together"
		}
		switch {
		case l.verdict != preempt.Evicts:
			c.Message += ". " + strings.TrimSuffix(l.verdict.Plain(), ".")
		case l.noVictims:
			c.Message += "; no running pod may be evicted for the gang"
		case untried(r):
			c.Message += "; no eviction found that frees enough capacity (search limit reached)"
		case repelled(r):
			c.Message += ". " + strings.TrimSuffix(status.PreemptionRepelled.Plain(), ".")
		default:
			c.Message += "; no eviction frees enough capacity"
		}
	}
	return c
}

// namesMissing reports whether an object that members name does not exist, according to what nodes lack for them.
func namesMissing(lacks map[string]int) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(lacks)), func(reason string) bool {
		return strings.HasSuffix(reason, "not found") || strings.HasSuffix(reason, "does not exist")
	})
}

// pinRemedy returns what helps members that do not fit into the domain where their gang runs (s.Pin), as text.
func pinRemedy(s place.Shortage) string {
	var all []string
	switch pin := s.Pin; {
	case pin.TooSmall && pin.IsNode:
	case pin.TooSmall:
		all = append(all, "nodes that are added to "+pin.DomainPath)
	case pin.IsNode:
		all = append(all, "free capacity in "+pin.DomainPath+": pods that terminate")
	default:
		all = append(all, "free capacity in "+pin.DomainPath+": pods that terminate or nodes that are added")
	}
	if !s.Surplus {
		all = append(all, "recreate all members of the gang, if another domain takes all of them")
	}
	if len(all) == 0 {
		return "nothing; the gang has started without the waiting members"
	}
	return strings.Join(all, "; or ")
}

// untried reports whether the scheduler stopped before it had examined all evictions.
func untried(r gang.Obstacle) bool {
	return strings.Contains(r.Words, status.PreemptionUntried.Says(0, 0))
}

// repelled reports whether the scheduler examined no eviction of pods that keep members off other nodes, for these nodes.
func repelled(r gang.Obstacle) bool {
	return strings.Contains(r.Words, status.PreemptionRepelled.Says(0, 0))
}

// neverRemedy returns what helps a gang that does not fit into the empty cluster, as text.
func (l *attemptResult) neverRemedy() string {
	all := []string{"more or larger nodes" + map[bool]string{true: " in one domain"}[l.shortage.Never.Layer != topology.RootLayer]}
	if l.shortage.Unlabelled != "" && len(l.shortage.Never.Domains) == 0 {
		all = []string{"labels on the nodes", "another labelKey"}
	}
	if len(l.shortage.Separations) > 0 {
		all = []string{l.shortage.Separations[0].Helps() + " (larger nodes do not help), or members that may be together"}
	}
	if len(l.shortage.Lacks) > 0 {
		all = append(all, l.nodeRemedy())
	}
	if r := l.shortage.Never; r.Layer != topology.RootLayer && len(r.Domains) > 0 && r.Domains[0].Slots > 0 {
		fewer := "1 member"
		if n := r.Domains[0].Slots; n > 1 {
			fewer = fmt.Sprintf("at most %d members", n)
		}
		all = append(all, "a layer above "+r.Layer, fewer)
	}
	if len(l.shortage.UnreachableMultiples(l.shortage.Never)) > 0 {
		all = []string{"another number of members"}
	}
	return strings.Join(append(all, "or other constraints"), ", ") + "; evicting pods does not help"
}

// nodeRemedy returns what makes nodes accept the members, as text.
func (l *attemptResult) nodeRemedy() string {
	for _, reason := range slices.Sorted(maps.Keys(l.shortage.Causes)) {
		cause := l.shortage.Causes[reason]
		switch {
		case strings.Contains(reason, "taint"):
			return "a toleration of the taint " + cause + " in the pods"
		case strings.Contains(reason, "selector"):
			return "another nodeSelector, or nodes with the label " + cause
		default:
			return "nodes with " + cause
		}
	}
	return "nodes that accept the members"
}

// events returns the events that make the plugins retry a pod, each once.
func (v *View) events(ctx context.Context, profile string, plugins []string) (all []string) {
	p := v.Profile(profile)
	if p == nil {
		return nil
	}
	for _, extension := range p.EnqueueExtensions() {
		if !slices.Contains(plugins, extension.Name()) {
			continue
		}
		events, err := extension.EventsToRegister(ctx)
		if err != nil {
			continue
		}
		for _, e := range events {
			all = append(all, e.Event.Label())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
