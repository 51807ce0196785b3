package preempt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// TestTheExecutorIsFirst: an executor may come for the victims before the scheduling cycle has noted
// who leaves. Those of a gang that leaves whole are the departure's, whoever comes first: they must be
// spared when it has them stay.
func TestTheExecutorIsFirst(t *testing.T) {
	const departure = 7
	now := time.Unix(1000, 0)
	pod := func(name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	}
	member, other := pod("r-0"), pod("single")
	all := []*v1.Pod{member, other}
	for name, first := range map[string]bool{"the executor is first": true, "the cycle is first": false} {
		t.Run(name, func(t *testing.T) {
			victims, p := &Victims{}, &partings{}
			cycle := func() { p.begin("big", all, now, victims) }
			executor := func() {
				p.comes("big", site{node: "n0"}, now, func([]*v1.Pod) *wholes {
					w := newWholes()
					w.of[member.UID] = gang.Ref{Name: "r"}
					victims.takeOver([]*v1.Pod{member}, now.Add(unseenFor), departure, ordinary)
					return w
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
			require.Len(t, victims.back([]*v1.Pod{member}, departure, now), 1, "nobody else has asked it")
			require.False(t, victims.Leaves(member, now))
			require.Empty(t, victims.back([]*v1.Pod{other}, departure, now), "it is the executor's")
		})
	}
}
