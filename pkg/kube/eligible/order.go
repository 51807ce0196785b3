package eligible

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Sizes has the largest request of any member by resource. The size of a victim is relative to these.
type Sizes quota.List

// SizesFor returns the largest request of these members for each resource.
func SizesFor(members []*v1.Pod) Sizes {
	largest := quota.List{}
	for _, pod := range members {
		for name, n := range convert.Requests(pod) {
			largest[name] = max(largest[name], n)
		}
	}
	return Sizes(largest)
}

// Of returns the size of a pod with these requests: in thousandths of the largest member's request, for the resource in which it is
// largest.
func (s Sizes) Of(requests quota.List) (size int64) {
	for name, n := range requests {
		if largest := s[name]; largest > 0 {
			size = max(size, int64(float64(n)/float64(largest)*1000))
		}
	}
	return size
}

// Standing decides the order in which members of a running gang are evicted.
type Standing struct {
	Leads map[types.UID]int // 1 for members on which other members depend

	startTime int64 // Unix nanoseconds; one for all members unless perMember, so that ranks decide and start times do not
	perMember bool  // each member has its own start time: the gang can spare members, and they have no ranks
}

// StartedOf returns the start time by which a member is ordered, in Unix nanoseconds: its own, or one for all members.
func (s Standing) StartedOf(pod *v1.Pod) int64 {
	if s.perMember {
		return convert.Started(pod)
	}
	return s.startTime
}

// StandingOf returns the standing of a gang's members. The common start time is that of the youngest member if the gang can spare members,
// and else that of the oldest.
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
