package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestEnding: of a gang of two one member goes, or finishes, and the other is thought to follow, for a second. Not in a gang's own eyes,
// nor if a member goes that had no node, nor if as many are left as are needed, nor if it was before this process began.
func TestEnding(t *testing.T) {
	running := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	succeeded := func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", v1.PodSucceeded }
	p1 := map[types.UID]bool{"p1": true}
	for name, is := range map[string]struct {
		happens func(c *Cache)
		but     []gang.Ref
		gone    []string // as their informer has it
		want    map[types.UID]bool
	}{
		"deleted": {happens: func(c *Cache) { c.dropPod(member("p0", running)) }, want: p1},
		"finished": {happens: func(c *Cache) {
			c.setDone(member("p0", succeeded))
			c.dropPod(member("p0", running)) // as TestWhoFinishes
		}, want: p1},
		"not heard of yet":                {gone: []string{"p0"}, want: p1},
		"heard of":                        {happens: func(c *Cache) { c.dropPod(member("p0", running)) }, gone: []string{"p0"}, want: p1},
		"nor of the last":                 {happens: func(c *Cache) { c.dropPod(member("p0", running)) }, gone: []string{"p1"}},
		"both not heard of":               {gone: []string{"p0", "p1"}},
		"its own, not heard of":           {gone: []string{"p0"}, but: []gang.Ref{ref("a")}},
		"one waited, and is not heard of": {gone: []string{"p2"}},
		"one waited, and is not heard of, where one has been missing for long": {happens: func(c *Cache) {
			c.dropPod(member("p1", running))
			c.Clock.(*clocktesting.FakeClock).Step(EndsWithin)
		}, gone: []string{"p2"}},
		"one of two not heard of is spare": {happens: func(c *Cache) { c.setPod(member("p3", running)) }, gone: []string{"p3"}},
		"its own":                          {happens: func(c *Cache) { c.dropPod(member("p0", running)) }, but: []gang.Ref{ref("a")}},
		"one waited":                       {happens: func(c *Cache) { c.dropPod(member("p2")) }},
		"a spare one": {happens: func(c *Cache) {
			c.setPod(member("p3", running))
			c.dropPod(member("p0", running))
		}},
		"before": {happens: func(c *Cache) {
			c.open.Store(false)
			c.setDone(member("p0", succeeded))
			c.open.Store(true)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := open(t)
			c.setObject(ref("a"), podGroup("1"), source.More{})
			c.setPod(member("p0", running))
			c.setPod(member("p1", running))
			c.setPod(member("p2"))
			require.Empty(t, c.Ending(nil, nobody))
			if is.happens != nil {
				is.happens(c)
			}
			gone := func(pod string, uid types.UID) bool {
				require.Equal(t, "ns/"+string(uid), pod)
				return slices.Contains(is.gone, string(uid))
			}
			if is.want == nil {
				is.want = map[types.UID]bool{}
			}
			require.Equal(t, is.want, c.Ending(is.but, gone))
			c.Clock.(*clocktesting.FakeClock).Step(EndsWithin - 1)
			require.Equal(t, is.want, c.Ending(is.but, gone))
			c.Clock.(*clocktesting.FakeClock).Step(time.Nanosecond)
			require.Empty(t, c.Ending(nil, nobody))
		})
	}
}

func nobody(string, types.UID) bool { return false }

// TestWhoHasFinishedEndsOnce: a member that finished long ago is changed, and listed once more: nobody follows it for that.
func TestWhoHasFinishedEndsOnce(t *testing.T) {
	c, _, _ := open(t)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p1", func(p *v1.Pod) { p.Spec.NodeName = "n" }))
	done := func(name string, uid types.UID) *v1.Pod {
		return member(name, func(p *v1.Pod) { p.UID, p.Spec.NodeName, p.Status.Phase = uid, "n", v1.PodSucceeded })
	}
	c.setDone(done("p0", "first"))
	require.NotEmpty(t, c.Ending(nil, nobody))
	c.Clock.(*clocktesting.FakeClock).Step(time.Hour)
	c.setDone(done("p0", "first"))
	require.Empty(t, c.Ending(nil, nobody))
	c.setDone(done("p0", "second")) // made again meanwhile
	require.NotEmpty(t, c.Ending(nil, nobody))
}

// TestLabelsAreNoEnd: a member gets another gang's label. It has not gone, and none of those that it leaves follows.
func TestLabelsAreNoEnd(t *testing.T) {
	c, _, _ := open(t)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	running := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	c.setPod(member("p0", running))
	c.setPod(member("p1", running))
	c.setPod(member("p0", running, func(p *v1.Pod) { p.Labels = nil }))
	require.Empty(t, c.Ending(nil, nobody))
}
