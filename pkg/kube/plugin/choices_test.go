package plugin_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// ofQuota is a pod of a quota; "" is none.
func ofQuota(quota string, p *v1.Pod) *v1.Pod {
	if quota != "" {
		metav1.SetMetaDataLabel(&p.ObjectMeta, scheduling.LabelQuotaName, quota)
	}
	return p
}

// inBlock is a pod that must go to a block.
func inBlock(block string, p *v1.Pod) *v1.Pod {
	p.Spec.NodeSelector = map[string]string{"block": block}
	return p
}

// cycles is how often gangs were refused.
func cycles(c *testcluster.Cluster) int { return len(c.Said("FailedScheduling")) }

// begin starts a cluster, and waits until the quota is known, if there is one.
func begin(c *testcluster.Cluster, quota, used string) {
	c.Run()
	if quota != "" {
		c.Wait("koordinator-root-quota/"+quota+": "+used, func() string { return counted(c, quota) })
	}
}

// A gang that its quota rejects is retried when a victim appears for any choice of its members. That holds even if
// the members of lowest rank never pass.
func TestVictimsOfAnyChoiceRetryGang(t *testing.T) {
	for name, cpu := range map[string][]string{"like members": {"4", "4", "4"}, "others than the lowest ranks": {"6", "6", "2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, t12)
			c.Quota("a", "8", nil)
			c.Pod(ofQuota("a", testcluster.A("equal", 1000, "4", "node-0")))
			begin(c, "a", "4")
			var pods []*v1.Pod
			for _, n := range cpu {
				pods = append(pods, ofQuota("a", testcluster.A("", 1000, n, "")))
			}
			c.Gang("g", 2, pods...)
			c.Wait("true", func() string { return fmt.Sprint(cycles(c) > 0) })
			c.Pod(ofQuota("a", testcluster.A("low", 10, "4", "node-1")))
			c.Wait("koordinator-root-quota/a: 8", func() string { return counted(c, "a") })
			c.Remove("equal")
			c.Wait("low", c.Evicted)
		})
	}
}

// A gang whose choices lack different things is retried when any of these appears.
func TestObstacleOfAnyChoiceRetriesGang(t *testing.T) {
	for _, quota := range []string{"", "a"} {
		t.Run("quota "+quota, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, "s/b0/n0=8 s/b1/n1=16 s/b2/n2=32")
			if quota != "" {
				c.Quota(quota, "8", nil)
			}
			c.Pod(testcluster.A("runs", 1000, "8", "n0"))
			begin(c, quota, "0")
			near := inBlock("b1", testcluster.A("", 1000, "8", ""))
			near.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cache"}},
			}}}}
			c.Gang("g", 1, ofQuota(quota, inBlock("b0", testcluster.A("", 1000, "8", ""))), ofQuota(quota, near))
			c.Wait("true", func() string { return fmt.Sprint(cycles(c) > 0) })
			cache := testcluster.A("cache", 1000, "1", "n1")
			cache.Labels = map[string]string{"app": "cache"}
			c.Pod(cache)
			c.Wait("g-1=n1", func() string { return c.Where("g-1") })
		})
	}
}

// A gang with several tried choices does not wait for a gang that equals one of them: it would miss what helps the
// other choices.
func TestGangWithChoicesFollowsNoGang(t *testing.T) {
	for _, quota := range []string{"", "a"} {
		t.Run("quota "+quota, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, "s/b0/n0=8 s/b1/n1=8 s/b2/n2=32")
			if quota != "" {
				c.Quota(quota, "8", nil)
			}
			c.Pod(testcluster.A("x0", 1000, "8", "n0"))
			c.Pod(testcluster.A("x1", 1000, "8", "n1"))
			begin(c, quota, "0")
			refused := func(of string) {
				c.Wait("true", func() string {
					return fmt.Sprint(len(c.Said("FailedScheduling: ")) > 0 && strings.Contains(saysGang(t, c, of), "Needs 1"))
				})
			}
			c.Gang("first", 1, ofQuota(quota, inBlock("b0", testcluster.A("", 1000, "8", ""))))
			refused("first")
			c.Gang("g", 1, ofQuota(quota, inBlock("b0", testcluster.A("", 1000, "8", ""))),
				ofQuota(quota, inBlock("b1", testcluster.A("", 1000, "8", ""))))
			refused("g")
			c.Remove("x1")
			c.Wait("g-1=n1", func() string { return c.Where("g-1") })
		})
	}
}

// TestNeverFitsOnlyIfNoChoiceFits: a gang never fits if no node can take any choice of its members. Changes of pods
// do not retry it.
func TestNeverFitsOnlyIfNoChoiceFits(t *testing.T) {
	for _, quota := range []string{"", "a"} {
		t.Run("quota "+quota, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, "s/b0/n0=8 s/b1/n1=8 s/b2/n2=8 s/b2/n3=8")
			if quota != "" {
				c.Quota(quota, "12", nil)
			}
			begin(c, quota, "0")
			c.Gang("g", 1, ofQuota(quota, testcluster.A("", 1000, "9", "")), ofQuota(quota, testcluster.A("", 1000, "10", "")))
			c.Wait("NeverFits", func() string {
				reason, _, _ := strings.Cut(saysGang(t, c, "g"), ":")
				return reason
			})
			// The second member and the first count of the quota are reasons to try the gang again. A pod waits one second before it is tried again.
			before := c.WaitQuiet(func() int { return cycles(c) })
			for i := range 5 {
				pod := testcluster.A(fmt.Sprint("other-", i), 10, "8", "n0")
				c.Pod(pod)
				c.Remove(pod.Name)
			}
			c.Never(func() bool { return cycles(c) > before })
		})
	}
}
