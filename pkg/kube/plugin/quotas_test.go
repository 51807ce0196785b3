package plugin_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// A gang that requests more than the max of a quota on its path never fits, and says which quota. Pod events of the
// quota do not retry it; a higher max and changes of the gang do. A gang that fits when other pods end is only
// unschedulable.
func TestNeverWithinQuota(t *testing.T) {
	inner, below := map[string]any{scheduling.LabelQuotaIsParent: "true"}, map[string]any{scheduling.LabelQuotaParent: "p"}
	for name, test := range map[string]struct {
		maxA, maxP string
		runs       int // of quota a, with 8 CPU each
		says       string
		then       func(c *testcluster.Cluster)
	}{
		"its own max": {
			"16", "96", 0,
			"NeverFits: Quota a: the gang requests 24 cpu; max is 16 cpu, and 0 cpu are used. The gang never starts: raise max by at least 8 cpu, or " +
				"request less.",
			func(c *testcluster.Cluster) { c.EditQuota("a", "24") },
		},
		"that of a parent": {
			"96", "16", 0,
			"NeverFits: Quota p: the gang requests 24 cpu; max is 16 cpu, and 0 cpu are used. The gang never starts: raise max by at least 8 cpu, or " +
				"request less.",
			func(c *testcluster.Cluster) { c.EditQuota("p", "24") },
		},
		"that of a parent, while others have too much of its own": {
			"32", "16", 2,
			"NeverFits: Quota p: the gang requests 24 cpu; max is 16 cpu, and 16 cpu are used. The gang never starts: raise max by at least 8 cpu, " +
				"or request less.",
			func(c *testcluster.Cluster) { c.EditQuota("a", "96"); c.EditQuota("p", "40") },
		},
		"until the gang is smaller": {
			"16", "96", 0,
			"NeverFits: Quota a: the gang requests 24 cpu; max is 16 cpu, and 0 cpu are used. The gang never starts: raise max by at least 8 cpu, or " +
				"request less.",
			func(c *testcluster.Cluster) {
				c.Remove("g-2")
				c.EditGang("g", func(spec map[string]any) { spec["minMember"] = int64(2) })
			},
		},
		"others only": {
			"32", "96", 2,
			"Unschedulable: Quota a: the gang requests 24 cpu; max is 32 cpu, and 16 cpu are used. Wait until pods of the quota release 8 cpu, or " +
				"raise max.",
			func(c *testcluster.Cluster) { c.Remove("runs-0") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, t12)
			c.Quota("p", test.maxP, inner)
			c.Quota("a", test.maxA, below)
			for i := range test.runs {
				pod := testcluster.A(fmt.Sprint("runs-", i), 1000, "8", fmt.Sprint("node-", i))
				metav1.SetMetaDataLabel(&pod.ObjectMeta, scheduling.LabelQuotaName, "a")
				c.Pod(pod)
			}
			c.Run()
			c.Wait(fmt.Sprintf("p/a: %d", 8*test.runs), func() string { return counted(c, "a") }) // before that more fits
			pods := testcluster.Pending(3, 1000, "8")
			for _, p := range pods {
				metav1.SetMetaDataLabel(&p.ObjectMeta, scheduling.LabelQuotaName, "a")
			}
			c.GangWith(nil, "g", 3, pods...)
			c.Wait(test.says, func() string {
				sentence, _, _ := strings.Cut(saysGang(t, c, "g"), " Insufficient quotas")
				return sentence
			})
			if !strings.HasPrefix(test.says, "NeverFits") { // it waits for other pods of its quota
				test.then(c)
				c.Wait("3", func() string { return fmt.Sprint(strings.Count(c.Where("g-0", "g-1", "g-2"), "=")) })
				return
			}
			cycles := func() int { return len(c.Said("FailedScheduling")) }
			c.Wait("true", func() string { return fmt.Sprint(cycles() > 0) }) // its pod hears of it after the gang
			before := cycles()
			for i := range 5 {
				pod := testcluster.A(fmt.Sprint("other-", i), 10, "8", "node-11")
				metav1.SetMetaDataLabel(&pod.ObjectMeta, scheduling.LabelQuotaName, "a")
				c.Pod(pod)
				c.Remove(pod.Name)
			}
			c.Never(func() bool { return cycles() > before })
			test.then(c)
			c.Wait("true", func() string { return fmt.Sprint(strings.Count(c.Where("g-0", "g-1"), "=") == 2) })
		})
	}
}

// counted is where a quota stands, and how much CPU its pods have.
func counted(c *testcluster.Cluster, name string) string {
	for _, q := range c.Plugin.Quotas() {
		if q.Name == name {
			used := q.Used["cpu"]
			if used == "" {
				used = "0"
			}
			return q.Parent + "/" + name + ": " + used
		}
	}
	return "not known"
}
