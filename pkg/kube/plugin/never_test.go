package plugin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// saysGang is what a PodGroup says of itself: the reason, and the sentence.
func saysGang(t *testing.T, c *testcluster.Cluster, name string) string {
	t.Helper()
	u, err := c.Custom.Resource(sigs.PodGroups).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	var pg sigs.PodGroup
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pg))
	is := meta.FindStatusCondition(pg.Status.Conditions, status.Scheduled)
	if is == nil {
		return ""
	}
	sentence, _, _ := strings.Cut(is.Message, " Details: ")
	return is.Reason + ": " + sentence
}

// TestNeverFits is case 57: a gang that fits in no domain even without any pods says so, with the largest capacity.
// Changes of pods do not retry it. Changes of nodes and of the gang do.
func TestNeverFits(t *testing.T) {
	for name, test := range map[string]struct {
		members int
		cpus    string
		says    string
		then    func(c *testcluster.Cluster)
		start   int  // so many members then
		apart   bool // each on a node of its own
	}{
		"a member is larger than any node": {
			3, "9",
			"NeverFits: Needs 3 in one SpineLayer domain; no node has capacity for one member, even when empty (12 nodes lack cpu). Change " +
				"what the pods require, or add nodes that meet it.",
			func(c *testcluster.Cluster) { // three nodes become larger
				for _, name := range []string{"node-9", "node-10", "node-11"} {
					c.EditNode(name, func(n *v1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("16") })
				}
			},
			3, false,
		},
		"so is one that must be apart from the others": {
			3, "9",
			"NeverFits: Needs 3 in one SpineLayer domain; no node has capacity for one member, even when empty (12 nodes lack cpu). Change " +
				"what the pods require, or add nodes that meet it.",
			func(c *testcluster.Cluster) {
				for _, name := range []string{"node-9", "node-10", "node-11"} {
					c.EditNode(name, func(n *v1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("32") })
				}
			},
			3, true,
		},
		"no spine is large enough": {
			6, "8",
			"NeverFits: Needs 6 in one SpineLayer domain; the largest, s0, has capacity for 5 members, even when empty. Add nodes, use fewer " +
				"members, or relax the constraint.",
			func(c *testcluster.Cluster) { c.Node("s0/b1/node-12=8") },
			6, false,
		},
		"until the gang is smaller": {
			6, "8",
			"NeverFits: Needs 6 in one SpineLayer domain; the largest, s0, has capacity for 5 members, even when empty. Add nodes, use fewer " +
				"members, or relax the constraint.",
			func(c *testcluster.Cluster) {
				c.EditGang("g", func(spec map[string]any) { spec["minMember"] = int64(5) })
			},
			5, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, t12).Run()
			var names []string
			for i := range test.members {
				names = append(names, fmt.Sprint("g-", i))
			}
			pods := testcluster.Pending(test.members, 1000, test.cpus)
			for _, p := range pods {
				if test.apart {
					metav1.SetMetaDataLabel(&p.ObjectMeta, "apart", "yes")
					terms := []v1.PodAffinityTerm{{
						TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"apart": "yes"}},
					}}
					p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
				}
			}
			c.Gang("g", test.members, pods...)
			c.Wait(test.says, func() string { return saysGang(t, c, "g") })
			cycles := func() int { return len(c.Said("FailedScheduling")) } // each is told
			before := cycles()
			for i := range 20 {
				pod := testcluster.A(fmt.Sprint("other-", i), 10, "8", fmt.Sprint("node-", i%12))
				c.Pod(pod)
				c.Edit(pod.Name, func(p *v1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, "seen", "yes") })
				c.Remove(pod.Name)
			}
			c.Never(func() bool { return cycles() > before })
			require.Positive(t, before)
			require.Equal(t, test.says, saysGang(t, c, "g"))
			test.then(c)
			c.Wait(fmt.Sprint(test.start), func() string { return fmt.Sprint(strings.Count(c.Where(names...), "=")) })
		})
	}
}

// Case 60: a recreated member waits because the old one's node is gone. The message names the members that bind it
// to a full domain. With a free node there it starts.
func TestRecreatedMemberIsBoundToItsDomain(t *testing.T) {
	t.Parallel()
	c := testcluster.New(t, strings.Replace(t12, " s2/b4/node-9=8", "", 1))
	c.GangWith(map[string]string{
		scheduling.AnnotationTopologySpec: `{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}`,
	}, "a", 3,
		testcluster.A("", 1000, "8", ""), testcluster.A("", 1000, "8", "node-10"), testcluster.A("", 1000, "8", "node-11"))
	c.Run()
	const says = "a-1 and a-2 run in s2/b4, which has no room; the gang moves only as a whole: the members that wait must run in the same " +
		"domain. Even without other pods the domain is too small. Add nodes there, or delete all pods of the gang if another domain takes " +
		"all of them."
	c.Wait("Unschedulable: "+says, func() string { return saysGang(t, c, "a") })
	c.Wait("", func() string {
		for _, p := range c.Get("a-0").Status.Conditions {
			if p.Type == v1.PodScheduled && strings.Contains(p.Message, says) {
				return ""
			}
		}
		return "a-0 does not say it"
	})
	c.Node("s2/b4/node-9=8")
	c.Wait("a-0=node-9 a-1=node-10 a-2=node-11", func() string { return c.Where("a-0", "a-1", "a-2") })
}
