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

// These interfaces are for plugins that a user adds (Profile.Added), beyond the interfaces of kube-scheduler. An added plugin that
// implements one of them is used if it is in a profile; see docs/contributing/extend.md. A third interface is place.Preferrer.

// Checker checks a whole group once a cycle, before the quota check and the search.
type Checker interface {
	fwk.Plugin
	// Check returns an unschedulable status if the group must not start now. Then no pod is evicted for the group. It is retried on the
	// events that the plugin registered (EventsToRegister).
	Check(context.Context, Question) *fwk.Status
}

// Question is the input of a check.
type Question struct {
	// Group is the gangs that would start, and their members.
	Group *cache.Group
	// Has returns whether a member of any gang has a node or a node assignment.
	Has func(*v1.Pod) bool
}

// Keeper is a plugin with a ledger, which restricts how many members a node takes.
type Keeper interface {
	fwk.Plugin
	Ledger() fit.Ledger
}

// loadExtensions adds the extensions of the added plugins, in the order of their names. It is called after all plugins exist.
func (p *Plugin) loadExtensions() {
	var ledgers []fit.Ledger
	var prefer []place.Preferrer
	byName := func(a, b fwk.Plugin) int { return cmp.Compare(a.Name(), b.Name()) }
	for _, added := range slices.SortedFunc(slices.Values(p.addedPlugins()), byName) {
		if extension, ok := added.(Checker); ok {
			p.checks = append(p.checks, extension)
		}
		if extension, ok := added.(Keeper); ok {
			ledgers = append(ledgers, extension.Ledger())
		}
		if extension, ok := added.(place.Preferrer); ok {
			prefer = append(prefer, extension)
		}
	}
	p.planner.Extend(ledgers, prefer)
}

// runChecks runs the checks of added plugins. It returns the outcome of the cycle if a check rejects the group or fails, else nil.
func (p *Plugin) runChecks(ctx context.Context, a *place.Attempt) *unschedulable {
	for _, check := range p.checks {
		s := check.Check(ctx, Question{a.Group, p.Cache.HasNode})
		switch {
		case s.IsSuccess():
		case s.IsRejected():
			veto := gang.Obstacle{By: gang.Veto, Plugins: []string{check.Name()}}
			return &unschedulable{message: status.Explained{Text: s.Message()}, attempt: a, cause: veto}
		default:
			return &unschedulable{message: planMessage(nil, s.AsError()), attempt: a, cause: causeOf(nil)}
		}
	}
	return nil
}

// checkEvents returns the checks that register events and are not in rejecting, and adds their names to rejecting. The scheduler itself
// does not call EventsToRegister of these.
func (p *Plugin) checkEvents(rejecting sets.Set[string]) (all []fwk.EnqueueExtensions) {
	for _, check := range p.checks {
		if e, ok := check.(fwk.EnqueueExtensions); ok && !rejecting.Has(check.Name()) {
			rejecting.Insert(check.Name())
			all = append(all, e)
		}
	}
	return all
}
