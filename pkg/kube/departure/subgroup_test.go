package departure_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// parts creates a gang of sub-groups with at least two members each. The gang needs least of these sub-groups.
func parts(c *testcluster.Cluster, least int64, members ...*v1.Pod) {
	for _, p := range members {
		p.Labels["app"] = "low"
	}
	c.VolcanoGang("low", map[string]any{"minMember": 2 * least, "subGroupPolicy": []any{map[string]any{
		"name": "part", "subGroupSize": int64(2), "minSubGroups": least,
		"labelSelector": map[string]any{"matchLabels": map[string]any{"app": "low"}}, "matchLabelKeys": []any{"part"},
	}}}, members...)
}

// prefixed puts a pod into a sub-group.
func prefixed(part string, p *v1.Pod) *v1.Pod {
	p.Labels = map[string]string{"part": part}
	return p
}

// A sub-group is evicted whole for a gang or a pod, while the gang runs on with another sub-group. Both of its
// members are marked before the first deletion.
func TestSubGroupIsEvictedWhole(t *testing.T) {
	for name, comes := range evictors {
		t.Run(name, func(t *testing.T) {
			c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8")
			parts(c, 1, prefixed("0", a("", 20, "8", "n0")), prefixed("0", a("", 20, "8", "n1")), prefixed("1", a("", 10, "8", "n2")),
				prefixed("1", a("", 10, "8", "n3")))
			c.Run()
			w := &wrote{}
			w.answering(c, func(string, int) error { return nil })
			big := comes(c)
			c.Wait("placed", placed(c, big))
			c.Wait("low-2 low-3", c.Evicted)
			deleted := slices.IndexFunc(w.list(), func(r string) bool { return strings.HasPrefix(r, "delete ") })
			require.Subset(t, w.list()[:max(deleted, 0)], []string{"status low-2", "status low-3"}, "%v", w.list())
			require.Equal(t, "low-0=n0 low-1=n1", c.Where("low-0", "low-1"))
		})
	}
}
