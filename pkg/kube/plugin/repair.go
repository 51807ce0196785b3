package plugin

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// repair moves an incomplete gang without a plan to another domain, if its repair policy and the time allow that. It returns sentences for
// users on what may repair the gang; "" if nothing does, or the gang is not incomplete.
func (p *Plugin) repair(ctx context.Context, a *place.Attempt, representative *v1.Pod) string {
	if !p.Preemptor.Incomplete(a.Group) {
		return ""
	}
	var sentences []string
	limits := p.evictionLimits()
	// With quotas no gang is evicted for a swap, whatever repairSwap is.
	if outside, domain := a.FreeOutside(); limits.Enabled && !limits.Swap && !p.quotas.Active() && len(outside) > 0 {
		sentences = append(sentences, status.SwapOff(domain, outside))
	}
	if r := p.Preemptor.FindRelocation(ctx, a, p.avoid(a.Group)); r != nil {
		sentences = append(sentences, p.moveTo(ctx, a, r, representative))
	}
	return strings.Join(sentences, " ")
}

// moveTo moves the attempt's gang as r says, if its repair policy and the time allow that. It returns a sentence for users.
func (p *Plugin) moveTo(ctx context.Context, a *place.Attempt, r *preempt.Relocation, representative *v1.Pod) string {
	now, timeout := p.options.Clock.Now(), p.args.Load().RepairTimeout
	since := a.Group.UnschedulableSince
	if since.IsZero() {
		since = now
	}
	switch remaining := since.Add(timeout).Sub(now); {
	case !p.evictionLimits().Enabled:
		return status.MoveDisabled(r.Domain, a.Group.Moves)
	case !a.Group.Moves:
		return status.WouldMove(r.Domain)
	case remaining > 0:
		p.Cache.Handle(gang.RetryDue{Group: a.Group.Key, At: now.Add(remaining)})
		return status.MovesLater(r.Domain, timeout)
	case !p.Preemptor.Move(ctx, r, representative):
		return status.MoveForbidden(r.Domain)
	}
	for _, ref := range a.Group.Whole() {
		p.teller.Gang(ref, status.Normal, reasons.Moving, status.Moving(r.Domain))
	}
	return status.Moving(r.Domain)
}
