// Package preempt finds the pods to evict so that a gang, or a pod without one, fits. It knows the candidates, their gangs and budgets, and
// what the quotas allow. Package evict selects the best victims, package departure evicts them, and package status has the words for users.
//
//	preempt.go        a Preemptor evicts for the gangs of one profile
//	evict.go          which members to evict for
//	candidates.go     which pods may be evicted, with their gangs and disruption budgets
//	search.go         the question to package evict: the problem, the placement check and the quota check
//	quotas.go         the quota check of candidates
//	ending.go         gangs that wait a moment for ending pods
//	sharedvictims.go  pods that other gangs are to evict, and that this gang needs evicted, too
//	searchmemory.go   nodes where a search found no victims, and need not be searched again
//	swap.go           a smaller gang of equal priority that makes way for the replacement of a lost member
//	forcefit.go       gangs of equal priority that make way for a gang that waited for long
//	move.go           another domain for a gang that cannot be repaired
//	explain.go        why a domain was chosen
//	questions.go      queries of other packages
//
// The steps of one eviction: Evict, overChoices (members that quotas allow), overGangSets (gangs that a group can start without),
// overMemberSets (optional members), searchChanged, shortGraceFirst, cheapest, evict.Cheapest. Invariant: a victim set passes the quota
// check as a whole before any pod is evicted.
package preempt

import (
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	policylisters "k8s.io/client-go/listers/policy/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

type (
	// Options is departure's.
	Options = departure.Options
	// Limits is departure's.
	Limits = departure.Limits
)

// Preemptor finds victims for the gangs of one profile, and has them evicted.
type Preemptor struct {
	*departure.Evictor
	// Compares returns as its second result on how many of the given number of nodes victims are compared for a pod without a gang. It is
	// nil if the profile's DefaultPreemption is off: then no pod is evicted for pods without a gang. It is set before the first cycle.
	Compares func(nodes int32) (int32, int32)
	budgets  policylisters.PodDisruptionBudgetLister
	podStore toolscache.Store // pods by namespace/name
	memory   searchMemory
	endWaits endWaits
	swapped  memo.Map[gang.Ref, types.UID] // the replacement for which the latest swap was made, by group
	retries  memo.Map[gang.Ref, *v1.Pod]   // scheduled retries: the representative to activate, by group
	searched atomic.Int64                  // how many nodes have been searched for victims so far
	among    int64                         // mostAmongNodes; tests set less
}

// New returns the Preemptor of a profile.
func New(o Options) *Preemptor {
	return &Preemptor{
		Evictor:  departure.New(o),
		among:    mostAmongNodes,
		budgets:  o.Profile.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister(),
		podStore: o.Profile.SharedInformerFactory().Core().V1().Pods().Informer().GetStore(),
	}
}

// Verdict is the result of the search for victims.
type Verdict = status.Preemption

// The verdicts, in the words of package status.
const (
	Evicts    = status.PreemptionEvicts
	Off       = status.PreemptionOff
	Never     = status.PreemptionNever
	NoVictims = status.PreemptionNoVictims
	NoHelp    = status.PreemptionNoHelp

	Surplus  = status.PreemptionSurplus
	LeftOut  = status.PreemptionLeftOut
	Untried  = status.PreemptionUntried
	Repelled = status.PreemptionRepelled
	Ending   = status.PreemptionEnding
)

// mostAmongNodes bounds the nodes that one Evict searches after two attempts; changeChecksFactor times as many are checked for changes.
const mostAmongNodes, changeChecksFactor = 16_000, 10
