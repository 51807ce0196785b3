package eligible

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Sizes are the largest requests of members, to measure victims by.
type Sizes quota.List

// SizesFor returns the sizes for some members.
func SizesFor(members []*v1.Pod) Sizes {
	largest := quota.List{}
	for _, pod := range members {
		for name, n := range convert.Requests(pod) {
			largest[name] = max(largest[name], n)
		}
	}
	return Sizes(largest)
}

// Of returns a pod's requests in thousandths of the largest member, for the resource with the largest part.
func (s Sizes) Of(requests quota.List) (size int64) {
	for name, n := range requests {
		if largest := s[name]; largest > 0 {
			size = max(size, int64(float64(n)/float64(largest)*1000))
		}
	}
	return size
}

// Standing orders the members of a running gang for eviction.
type Standing struct {
	Leads map[types.UID]int // 1 for members that other members depend on

	startTime int64 // Unix nanoseconds; of all members, so that start times do not decide where ranks do
	perMember bool  // each member counts as old as it is: the gang can spare members, and they have no ranks
}

// StartedOf returns when a member started as far as that decides, in Unix nanoseconds.
func (s Standing) StartedOf(pod *v1.Pod) int64 {
	if s.perMember {
		return convert.Started(pod)
	}
	return s.startTime
}

// StandingOf returns the standing of the members of a gang. A gang that can spare members counts as young as its youngest member, any other
// gang as old as its oldest.
func StandingOf(g Gang) Standing {
	s := Standing{Leads: map[types.UID]int{}, perMember: g.Spare > 0}
	owners := map[types.UID]bool{}
	for _, pod := range g.Pods {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			owners[owner.UID] = true
		}
	}
	for i, pod := range g.Pods {
		startTime := convert.Started(pod)
		if i == 0 || (startTime > s.startTime) == (g.Spare > 0) {
			s.startTime = startTime
		}
		s.perMember = s.perMember && Rank(pod) == 0
		if owners[pod.UID] || convert.StartsOthers(pod) {
			s.Leads[pod.UID] = 1
		}
	}
	return s
}

// Rank returns the rank of a pod in its gang; 0 if it has none.
func Rank(pod *v1.Pod) int {
	m, err := convert.Member(pod, gang.Ref{})
	if err != nil || m.Rank == gang.NoRank {
		return 0
	}
	return m.Rank
}
