// Package preempt finds the pods that must be evicted so that a gang, or a pod without one, has room. Package departure evicts them.
//
//	preempt.go     a Preemptor evicts for the gangs of one profile
//	evict.go       which members to evict for
//	candidates.go  which pods may be evicted, with their gangs and disruption budgets
//	search.go      the question to package evict: the problem, the placement check and the quota check
//	quotas.go      what quotas say about the candidates
//	ending.go      gangs that wait a moment, since other pods are about to end
//	others.go      pods that other evictions are to evict, and that are asked for this gang, too
//	vain.go        on which nodes no victims were found, and need not be looked for again
//	explain.go     why a domain was chosen
//	questions.go   what other packages ask
//
// The way of one eviction: Evict, overChoices (members that quotas allow), overGangSets (gangs that a group can do without),
// overMemberSets (members that may be left out), unlessKnownVain, shortGraceFirst, cheapest, evict.Cheapest.
//
// Package evict decides which victims are best. Package status has the words for users.
package preempt

import (
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// Options and Limits are departure's.
type (
	Options = departure.Options
	Limits  = departure.Limits
)

// Preemptor finds victims for the gangs of one profile, and has them evicted.
type Preemptor struct {
	*departure.Evictor
	// Compares returns, second, on how many of some nodes the victims for a pod without a gang are compared; nil is that no pods are evicted for such pods,
	// since the profile's DefaultPreemption does not evict. To be set before the first cycle.
	Compares func(nodes int32) (int32, int32)
	budgets  policylisters.PodDisruptionBudgetLister
	there    toolscache.Store // pods by namespace/name
	vain     vain
	patient  patient
	again    memo.Map[gang.Ref, *v1.Pod] // the pods to try once more in a moment, one for each gang
	searched atomic.Int64                // nodes on which victims were looked for
	among    int64                       // mostAmongNodes
}

// New returns the Preemptor of a profile.
func New(o Options) *Preemptor {
	return &Preemptor{
		Evictor: departure.New(o),
		among:   mostAmongNodes,
		budgets: o.Profile.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister(),
		there:   o.Profile.SharedInformerFactory().Core().V1().Pods().Informer().GetStore(),
	}
}

// Verdict is what came of the search for victims.
type Verdict = status.Preemption

// The verdicts, as status words them.
const (
	Evicts = status.PreemptionEvicts
	Off    = status.PreemptionOff
	Never  = status.PreemptionNever
	Nobody = status.PreemptionNobody
	NoHelp = status.PreemptionNoHelp

	Surplus = status.PreemptionSurplus
	LeftOut = status.PreemptionLeftOut
	Untried = status.PreemptionUntried
	Ending  = status.PreemptionEnding
)

// mostAmongNodes bounds the nodes on which victims are looked for, in all, for several attempts; mostLooks times as many are looked at to see whether anything
// has changed there.
const mostAmongNodes, mostLooks = 16_000, 10
