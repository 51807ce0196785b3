package ordinary

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
)

// TestTheExecutorIsFirst: an executor may come for the victims before the scheduling cycle has noted
// who leaves. Those of a gang that leaves whole are the departure's, whoever comes first: they must be
// spared when it has them stay.
func TestTheExecutorIsFirst(t *testing.T) {
	const number = 1 // of the first departure
	now := time.Unix(1000, 0)
	pod := func(name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	}
	member, other := pod("r-0"), pod("single")
	all := []*v1.Pod{member, other}
	for name, first := range map[string]bool{"the executor is first": true, "the cycle is first": false} {
		t.Run(name, func(t *testing.T) {
			victims, p := &departure.Victims{}, &partings{}
			cycle := func() { p.begin("big", all, now, victims) }
			executor := func() {
				p.comes("big", departure.Site{Node: "n0"}, now, func([]*v1.Pod) *departure.Bundles {
					e := &departure.Evictor{Options: departure.Options{Victims: victims, Clock: testingclock.NewFakeClock(now)}, Executor: &preemption.Executor{}}
					b := e.Single()
					b.Of[member.UID] = gang.Ref{Name: "r"}
					e.Depart(nil, b).TakeOver([]*v1.Pod{member}, departure.Ordinary)
					return b
				})
			}
			if first {
				executor()
				cycle()
			} else {
				cycle()
				executor()
			}
			require.True(t, victims.Leaves(member, now))
			require.True(t, victims.Leaves(other, now))
			require.Len(t, victims.Back([]*v1.Pod{member}, number, now), 1, "nobody else has asked it")
			require.False(t, victims.Leaves(member, now))
			require.Empty(t, victims.Back([]*v1.Pod{other}, number, now), "it is the executor's")
		})
	}
}
