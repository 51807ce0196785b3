package place

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/plan"
)

// chooseAnew is Choose where somebody who has gone kept members off other nodes than its own: what nodes take is counted anew
// on the snapshot without those.
func (a *Attempt) chooseAnew(ctx context.Context, gone [][]*v1.Pod) (found Outcome, refusal *plan.Refusal, err error) {
	trial, err := a.trialWithout(ctx, gone)
	if err != nil {
		return Outcome{}, nil, err
	}
	defer func() {
		if closeErr := trial.Close(); err == nil {
			err = closeErr
		}
	}()
	b := *a
	b.own, b.kinds, b.kindOf, b.limited, b.crowd = false, nil, nil, limited{}, nil
	for i, n := range a.Nodes {
		if n != nil && len(gone[i]) > 0 {
			b.Replace(i, trial.Node(n.Node().Name))
		}
	}
	if _, err = b.count(ctx); err != nil {
		return Outcome{}, nil, err
	}
	return b.Choose(ctx, nil)
}
