package preempt

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Leavers are, by node index, the pods that may be evicted for an attempt and those that leave
// anyway, however long they take. nobody says that there is no such pod. It is what a search for victims begins
// with; which of them it would choose is not said.
func (p *Preemptor) Leavers(ctx context.Context, a *place.Attempt) (gone [][]*v1.Pod, nobody bool) {
	c := p.candidates(ctx, a, eligible.ForEver, allBelow)
	return c.gone(c.everybody()), !c.any
}

// May says whether victims are looked for at all for an attempt, and if not, why: Evicts means that
// they are.
func (p *Preemptor) May(a *place.Attempt) Verdict { return p.may(a) }
