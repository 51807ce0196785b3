package cache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// A kubelet takes time to end a leader, whose deletion is known before. Nodes are requested then, and only once.
func TestNodesAreRequestedForARecreatedGroupWhenItsLeaderTerminates(t *testing.T) {
	leader := func(p *v1.Pod) {
		leaderOf("a", "0", "2")(p)
		p.Labels["leaderworkerset.sigs.k8s.io/worker-index"] = "0"
		p.Spec.NodeName = "n0"
	}
	worker := func(p *v1.Pod) {
		leaderOf("a", "0", "2")(p)
		p.Labels["leaderworkerset.sigs.k8s.io/worker-index"] = "1"
		p.Spec.NodeName = "n1"
	}
	terminating := func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	disrupted := func(reason string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason}}
		}
	}
	failed := func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }
	for _, test := range []struct {
		name      string
		change    []func(*v1.Pod) // of the leader, when it terminates
		evicted   bool            // another member is being evicted
		recreated int             // members for which nodes are requested
	}{
		{"deleted", nil, false, 2},
		{"evicted by taint", []func(*v1.Pod){disrupted("DeletionByTaintManager")}, false, 2},
		{"evicted by a scheduler", []func(*v1.Pod){disrupted(v1.PodReasonPreemptionByScheduler)}, false, 0},
		{"deleted by its controller, since a worker is evicted", nil, true, 0},
		{"failed", []func(*v1.Pod){failed}, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _, _ := open(t)
			c.Configure(Limits{Wait: time.Minute, Policy: gang.OnceSatisfied, Repair: time.Minute})
			c.recordDiscovery("LeaderWorkerSet", true)
			set := ownedSet("a", 2)
			set.Groups = 1
			c.setOwner(set)
			c.setPod(member("a-0", leader))
			c.setPod(member("a-0-1", worker))
			if test.evicted {
				c.Handle(gang.Evicted{Pods: []gang.Victim{{Pod: "ns/a-0-1", UID: "a-0-1"}}})
			}
			last := member("a-0", append([]func(*v1.Pod){leader, terminating}, test.change...)...)
			c.setPod(last)
			requested := func() (n int) {
				for _, absent := range c.TakeAbsent(last.Spec.SchedulerName, func(string, types.UID) bool { return false }) {
					if absent.Recreated != nil {
						n += len(absent.Recreated.Group.Pending)
					}
				}
				return n
			}
			require.Equal(t, test.recreated, requested())
			c.dropPod(last)
			require.Zero(t, requested(), "the leader is gone")
		})
	}
}
