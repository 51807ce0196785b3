package plugin

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// What plugins of somebody's own (Profile.Added) may be beside what kube-scheduler knows of plugins: they are asked for
// it if they are in a profile, by name. See docs/extend.md. Who prefers something is a place.Preferrer.

// Checker is asked about a whole group before places are looked for it, once a cycle and before its quotas are.
type Checker interface {
	fwk.Plugin
	// Check says why the group must not start now, by a status that says it is unschedulable. Nobody is evicted for it then, and it is
	// tried again when something happens that the plugin has registered for (EventsToRegister).
	Check(context.Context, Question) *fwk.Status
}

// Question is what a check is asked.
type Question struct {
	// Group is who would start: its gangs, and their members.
	Group *cache.Group
	// Has says whether a member of any gang has a place: a node, or one in a plan.
	Has func(*v1.Pod) bool
}

// Keeper keeps a ledger.
type Keeper interface {
	fwk.Plugin
	Ledger() fit.Ledger
}

// extend takes up what plugins of somebody's own may be, by name. It is called once, when the profile is complete.
func (p *Plugin) extend() {
	var ledgers []fit.Ledger
	var prefer []place.Preferrer
	for _, own := range slices.SortedFunc(slices.Values(p.added()), func(a, b fwk.Plugin) int { return cmp.Compare(a.Name(), b.Name()) }) {
		if is, ok := own.(Checker); ok {
			p.checks = append(p.checks, is)
		}
		if is, ok := own.(Keeper); ok {
			ledgers = append(ledgers, is.Ledger())
		}
		if is, ok := own.(place.Preferrer); ok {
			prefer = append(prefer, is)
		}
	}
	p.planner.Extend(ledgers, prefer)
}

// checked is what has come of the cycle if a check refuses the group; nil if none does.
func (p *Plugin) checked(ctx context.Context, a *place.Attempt) *refused {
	for _, check := range p.checks {
		s := check.Check(ctx, Question{a.Group, p.Cache.HasNode})
		switch {
		case s.IsSuccess():
		case s.IsRejected():
			return &refused{said: status.Said{Text: s.Message()}, attempt: a, by: gang.Refusal{By: gang.Veto, Plugins: []string{check.Name()}}}
		default:
			return &refused{said: said(nil, s.AsError()), attempt: a, by: because(nil)}
		}
	}
	return nil
}

// checksEvents are the checks that say what they wait for and of which the scheduler does not know that they refuse anybody; their names
// are added to those of who may.
func (p *Plugin) checksEvents(may sets.Set[string]) (all []fwk.EnqueueExtensions) {
	for _, check := range p.checks {
		if e, ok := check.(fwk.EnqueueExtensions); ok && !may.Has(check.Name()) {
			may.Insert(check.Name())
			all = append(all, e)
		}
	}
	return all
}
