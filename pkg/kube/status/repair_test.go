package status_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

func TestRepairNamesItsStep(t *testing.T) {
	full := gang.Obstacle{By: gang.Plan, Summary: "Free capacity for 1 member in s1.", Words: "0/4 nodes", Evictable: true}
	stuck := []cache.StuckMember{{Pod: "a-3", Node: "n7", Owner: "StatefulSet"}}
	taint := "taint it: node.kubernetes.io/out-of-service=nodeshutdown:NoExecute."
	repair := func(missing, absent int, nodes ...string) gang.Repair {
		return gang.Repair{Missing: missing, Absent: absent, Nodes: nodes, Reserved: len(nodes), Until: time.Unix(600, 0)}
	}
	for name, test := range map[string]struct {
		repair gang.Repair
		change func(*cache.Report)
		want   string
	}{
		"complete": {gang.Repair{}, nil, ""},
		"ended":    {gang.Repair{Missing: 1, Absent: 1, Ended: true}, nil, ""},
		"held, before nodes are chosen": {
			repair(1, 1), nil,
			"HoldingCapacity: 1 of 4 members is missing; free capacity in s1 goes to replacements first until 1970-01-01T00:10:00Z",
		},
		"no constraint": {
			repair(1, 1), func(r *cache.Report) { r.RepairDomain = "" },
			"HoldingCapacity: 1 of 4 members is missing; free capacity in the cluster goes to replacements first " +
				"until 1970-01-01T00:10:00Z",
		},
		"held for two on one node": {
			repair(2, 2, "n1"), func(r *cache.Report) { r.Repair.Reserved = 2 },
			"HoldingCapacity: 2 of 4 members are missing; n1 is reserved for 2 of them until 1970-01-01T00:10:00Z",
		},
		"a replacement was not tried yet": {
			repair(1, 0), nil, "HoldingCapacity: 1 of 4 members is missing; 1 replacement is not planned yet",
		},
		"held on nodes": {
			repair(2, 2, "n1", "n2"), nil,
			"HoldingCapacity: 2 of 4 members are missing; n1, n2 are reserved for 2 of them until 1970-01-01T00:10:00Z",
		},
		"held for one of two": {
			repair(2, 2, "n1"), nil,
			"HoldingCapacity: 2 of 4 members are missing; n1 is reserved until 1970-01-01T00:10:00Z; s1 has no free capacity for 1 more",
		},
		"a pod that is stuck": {
			repair(1, 1, "n1"), func(r *cache.Report) { r.Stuck = stuck },
			"HoldingCapacity: 1 of 4 members is missing; n1 is reserved until 1970-01-01T00:10:00Z. Pod a-3 is terminating on n7, " +
				"which is not ready; its StatefulSet recreates it when it is gone. If n7 is shut down, " + taint,
		},
		"several pods that are stuck": {
			repair(1, 1, "n1"), func(r *cache.Report) {
				r.Stuck = append(stuck, cache.StuckMember{Pod: "a-4", Node: "n8", Owner: "StatefulSet"})
			},
			"HoldingCapacity: 1 of 4 members is missing; n1 is reserved until 1970-01-01T00:10:00Z. Pods are terminating on nodes that " +
				"are not ready: a-3 on n7, a-4 on n8; their StatefulSet recreates them when they are gone. If a node is shut down, " + taint,
		},
		"planned": {repair(1, 0), func(r *cache.Report) { r.Planned = 1 }, "Replacing: 1 of 4 members is missing; 1 replacement is planned in s1"},
		"planned, another is absent": {
			repair(2, 1, "n2"), func(r *cache.Report) { r.Planned = 1 },
			"Replacing: 2 of 4 members are missing; 1 replacement is planned in s1; n2 is reserved until 1970-01-01T00:10:00Z",
		},
		"evicts": {
			repair(2, 0), func(r *cache.Report) { r.Planned, r.Reserved = 2, true },
			"Evicting: 2 of 4 members are missing; 2 replacements have reserved nodes in s1 and start when the victims have terminated",
		},
		"nothing is free for a replacement": {
			repair(1, 0), func(r *cache.Report) { r.Refusal = full },
			"NoCapacity: 1 of 4 members is missing; no free capacity in s1: Free capacity for 1 member in s1",
		},
		"nothing is free before the replacement exists": {
			gang.Repair{Missing: 1, Absent: 1, Refusal: full},
			nil,
			"NoCapacity: 1 of 4 members is missing; no free capacity in s1: Free capacity for 1 member in s1",
		},
		"a quota": {
			repair(1, 0), func(r *cache.Report) { r.Refusal = gang.Obstacle{By: gang.Quota, Words: "quota q is used up"} },
			"NoCapacity: 1 of 4 members is missing; quota q is used up",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := cache.Report{State: gang.State{Min: 4, Bound: 3, Started: true, Repair: test.repair}, RepairDomain: "s1"}
			if test.change != nil {
				test.change(&r)
			}
			c, ok := status.Repairing(r)
			require.Equal(t, test.want != "", ok)
			if ok {
				require.Equal(t, metav1.ConditionTrue, c.Status)
				require.Equal(t, test.want, c.Reason+": "+c.Message)
			}
		})
	}
}

// A gang that loses a member has the condition Repairing until it is complete or its time is over. Each reason has one event, and metrics.
func TestRepairIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cache.Configure(cache.Limits{Wait: time.Minute, Policy: gang.OnceSatisfied, Leave: time.Minute, Repair: 10 * time.Minute})
		repairing := func() string {
			o, err := w.custom.Resource(sigs.PodGroups).Namespace("ns").Get(w.t.Context(), "a", metav1.GetOptions{})
			require.NoError(t, err)
			all, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
			require.NoError(t, err)
			for _, c := range all {
				if c := c.(map[string]any); c["type"] == scheduling.ConditionRepairing {
					return c["reason"].(string)
				}
			}
			return ""
		}
		events := func() (out []string) {
			for _, e := range w.said() {
				if strings.Contains(e, "missing") {
					out = append(out, e)
				}
			}
			return out
		}
		ref := w.gang("a", 2)
		for _, name := range []string{"a-0", "a-1"} {
			w.pod("a", name, "n-"+name)
		}
		w.pass(time.Second)
		require.Empty(t, repairing())
		require.Empty(t, events())

		w.remove("a-1")
		w.pass(time.Second)
		require.Equal(t, "HoldingCapacity", repairing())
		require.Len(t, events(), 1)
		w.pass(time.Minute)
		require.Empty(t, events(), "once for each reason")

		w.pod("a", "a-2", "")
		w.pass(time.Second)
		w.cache.Handle(gang.Unschedulable{Group: ref, Refusal: gang.Obstacle{By: gang.Plan, Words: "full"}})
		w.pass(time.Second)
		require.Equal(t, "NoCapacity", repairing())
		w.cache.Handle(gang.Planned{Group: ref, Places: []gang.Assignment{{Pod: "ns/a-2", Node: "n"}}})
		w.pass(time.Second)
		require.Equal(t, "Replacing", repairing())
		require.Len(t, events(), 2)
		w.bind("a-2")
		w.pass(time.Second)
		require.Empty(t, repairing())
		require.Equal(t, []string{
			"repair_seconds_sum 64", "repair_seconds_count 1",
			`repairs_total{result="done",step="replace"} 1`, `repairs_total{result="failed",step="hold"} 1`,
		}, series(t, w.meter, "repair"))

		w.remove("a-2")
		w.pass(11 * time.Minute)
		require.Empty(t, repairing(), "the time is over")
		require.Contains(t, series(t, w.meter, "repair"), "repairs_overdue 1")
		require.Contains(t, series(t, w.meter, "repair"), `repairs_total{result="expired",step="hold"} 1`)
		w.pod("a", "a-3", "")
		w.pass(time.Second)
		require.Equal(t, "HoldingCapacity", repairing(), "a new member starts it again")
		w.remove("a-0")
		w.pass(time.Second)
		require.Empty(t, repairing(), "no member runs")
		require.Contains(t, series(t, w.meter, "repair"), `repairs_total{result="ended",step="hold"} 1`)
	})
}
