package place

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Preferrer says by what plans for a group are chosen where there is a choice, beside what the group itself says. The tree's layers are the
// network's, by index; a preference for layer 0 or less, or for one that there is not, is left out.
type Preferrer interface {
	Prefer(group *cache.Group, tree *topology.Tree) []plan.Preference
}

// Extend has the planner ask more ledgers, and whom else to please. It is to be called before the first attempt.
func (p *Planner) Extend(ledgers []fit.Ledger, prefer []Preferrer) {
	p.ledgers, p.prefer = append(p.ledgers, ledgers...), append(p.prefer, prefer...)
}

// preferred adds to what the group prefers what others do for it.
func (a *Attempt) preferred() {
	for _, who := range a.planner.prefer {
		for _, p := range who.Prefer(a.Group, a.Net.Tree) {
			if p.Layer > 0 && p.Layer <= a.Net.Tree.Depth() && !slices.Contains(a.All.Prefer, p) {
				a.All.Prefer = append(a.All.Prefer, p)
			}
		}
	}
}
