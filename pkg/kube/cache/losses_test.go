package cache

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// One member of a gang of two is deleted or finishes, and the other is expected to follow for a second. Exceptions:
// the excepted gang itself, a member without a node, a gang that keeps minMember, and losses before the process
// started. Lost members are returned too.
func TestEnding(t *testing.T) {
	running := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	succeeded := func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", v1.PodSucceeded }
	p0, both := []types.UID{"p0"}, []types.UID{"p0", "p1"}
	for name, is := range map[string]struct {
		happens func(c *Cache)
		but     []gang.Ref
		gone    []string // as their informer has it
		want    []types.UID
	}{
		"deleted": {happens: func(c *Cache) { c.dropPod(member("p0", running)) }, want: both},
		"finished": {happens: func(c *Cache) {
			c.setFinished(member("p0", succeeded))
			c.dropPod(member("p0", running)) // as TestFinishedMembers
		}, want: both},
		"not heard of yet":                {gone: []string{"p0"}, want: both},
		"heard of":                        {happens: func(c *Cache) { c.dropPod(member("p0", running)) }, gone: []string{"p0"}, want: both},
		"nor of the last":                 {happens: func(c *Cache) { c.dropPod(member("p0", running)) }, gone: []string{"p1"}, want: both},
		"both not heard of":               {gone: []string{"p0", "p1"}, want: both},
		"its own, not heard of":           {gone: []string{"p0"}, but: []gang.Ref{ref("a")}, want: p0},
		"one waited, and is not heard of": {gone: []string{"p2"}},
		"one waited, and is not heard of, where one has been missing for long": {happens: func(c *Cache) {
			c.dropPod(member("p1", running))
			c.Clock.(*clocktesting.FakeClock).Step(EndsWithin)
		}, gone: []string{"p2"}},
		"one of two not heard of is spare": {
			happens: func(c *Cache) { c.setPod(member("p3", running)) }, gone: []string{"p3"}, want: []types.UID{"p3"},
		},
		"its own":    {happens: func(c *Cache) { c.dropPod(member("p0", running)) }, but: []gang.Ref{ref("a")}, want: p0},
		"one waited": {happens: func(c *Cache) { c.dropPod(member("p2")) }},
		"a spare one": {happens: func(c *Cache) {
			c.setPod(member("p3", running))
			c.dropPod(member("p0", running))
		}, want: p0},
		"before": {happens: func(c *Cache) {
			c.open.Store(false)
			c.setFinished(member("p0", succeeded))
			c.open.Store(true)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := open(t)
			c.setObject(ref("a"), podGroup("1"), source.More{})
			c.setPod(member("p0", running))
			c.setPod(member("p1", running))
			c.setPod(member("p2"))
			require.Empty(t, c.ExpectedToEnd(nil, nobody))
			if is.happens != nil {
				is.happens(c)
			}
			gone := func(pod string, uid types.UID) bool {
				require.Equal(t, "ns/"+string(uid), pod)
				return slices.Contains(is.gone, string(uid))
			}
			want := map[types.UID]string{}
			for _, uid := range is.want {
				want[uid] = "n"
			}
			require.Equal(t, want, c.ExpectedToEnd(is.but, gone))
			c.Clock.(*clocktesting.FakeClock).Step(EndsWithin - 1)
			require.Equal(t, want, c.ExpectedToEnd(is.but, gone))
			c.Clock.(*clocktesting.FakeClock).Step(time.Nanosecond)
			require.Empty(t, c.ExpectedToEnd(nil, nobody))
		})
	}
}

func nobody(string, types.UID) bool { return false }

// A gang that is evicted as a whole continues while it keeps its minimum, whether its loss was seen or not.
func TestGangEvictedAsAWholeEndsBelowMinimum(t *testing.T) {
	c, _, _ := open(t)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	running := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	for _, name := range []string{"p0", "p1", "p2"} {
		c.setPod(member(name, running))
	}
	c.gangs[ref("a")].Declared.EvictWhole = true
	want := map[types.UID]string{"p0": "n"}
	require.Equal(t, want, c.ExpectedToEnd(nil, func(pod string, _ types.UID) bool { return pod == "ns/p0" }))
	c.dropPod(member("p0", running))
	require.Equal(t, want, c.ExpectedToEnd(nil, nobody))
	c.dropPod(member("p1", running))
	require.Equal(t, map[types.UID]string{"p0": "n", "p1": "n", "p2": "n"}, c.ExpectedToEnd(nil, nobody))
}

// BenchmarkEnding: what a look for ends costs of 65,000 members that run, of which none has gone.
func BenchmarkEnding(b *testing.B) {
	c, _, _ := open(b)
	there := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	for g := range 1000 {
		for i := range 65 {
			pod := member(fmt.Sprintf("g%d-%d", g, i), func(p *v1.Pod) {
				p.Spec.NodeName, p.Labels[scheduling.LabelPodGroup] = "n", fmt.Sprint("g", g)
			})
			c.setPod(pod)
			require.NoError(b, there.Add(pod))
		}
	}
	for b.Loop() {
		ending := c.ExpectedToEnd(nil, func(pod string, uid types.UID) bool {
			is, _, _ := there.GetByKey(pod)
			return is.(*v1.Pod).UID != uid
		})
		require.Empty(b, ending)
	}
}

// An update or a repeated report of a member that finished long ago is no loss.
func TestRepeatedReportOfFinishedMemberIsNoLoss(t *testing.T) {
	c, _, _ := open(t)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p1", func(p *v1.Pod) { p.Spec.NodeName = "n" }))
	done := func(name string, uid types.UID) *v1.Pod {
		return member(name, func(p *v1.Pod) { p.UID, p.Spec.NodeName, p.Status.Phase = uid, "n", v1.PodSucceeded })
	}
	c.setFinished(done("p0", "first"))
	require.NotEmpty(t, c.ExpectedToEnd(nil, nobody))
	c.Clock.(*clocktesting.FakeClock).Step(time.Hour)
	c.setFinished(done("p0", "first"))
	require.Empty(t, c.ExpectedToEnd(nil, nobody))
	c.setFinished(done("p0", "second")) // made again meanwhile
	require.NotEmpty(t, c.ExpectedToEnd(nil, nobody))
}

// A member that gets another gang's label is no loss for the gang that it leaves.
func TestLabelChangeIsNoLoss(t *testing.T) {
	c, _, _ := open(t)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	running := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	c.setPod(member("p0", running))
	c.setPod(member("p1", running))
	c.setPod(member("p0", running, func(p *v1.Pod) { p.Labels = nil }))
	require.Empty(t, c.ExpectedToEnd(nil, nobody))
}
