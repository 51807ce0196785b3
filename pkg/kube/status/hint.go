package status

import (
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// Hint is what follows the words about missing members where it can be seen who might make
// them; "" if it cannot. It only seems so: StatefulSets are not watched.
func Hint(r cache.Report) string {
	if r.OneByOne == "" {
		return ""
	}
	return "; StatefulSet " + r.OneByOne + " seems to create one pod after another, each when the one before it runs: members that start together need podManagementPolicy: Parallel"
}

// State is a gang's state with the hint among the words.
func State(r cache.Report) gang.State {
	s := r.State
	s.Refusal.Words += Hint(r)
	return s
}
