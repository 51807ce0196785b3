package evict

import "github.com/muster-scheduler/muster/pkg/plan"

// The searches with another bound on their branches.
var (
	ChooseAmongGangsWithin     = chooseAmongGangs
	ChooseJobAmongGangsWorking = chooseJobAmongGangs // with another bound on the work, too
	ChooseJobAmongGangsWithin  = func(w plan.JobWorld, j plan.Job, nodes []JobNode, gangs []Gang, most int) (*JobEviction, bool) {
		return chooseJobAmongGangs(w, j, nodes, gangs, most, mostJobWork)
	}
)

// MostBranches is the bound.
const MostBranches = mostBranches
