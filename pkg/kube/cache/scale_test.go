package cache

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// large is a cache with so many nodes, and two running members on each.
func large(t testing.TB, nodes int) (c *Cache, all []*v1.Node, effects *[]gang.Effect) {
	c, effects, _ = open(t)
	c.setTopology(topologyOf(spineLayer, nodeLayer))
	for i := range nodes {
		n := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%05d", i), Labels: map[string]string{"spine": fmt.Sprint("s", i/64), "other": "x"}},
		}
		all = append(all, n)
		c.setNode(n)
		for j := range 2 {
			c.setPod(member(fmt.Sprintf("p%05d-%d", i, j), func(p *v1.Pod) {
				p.Labels[scheduling.LabelPodGroup], p.Spec.NodeName = fmt.Sprint("g", i/4), n.Name
			}))
		}
	}
	return c, all, effects
}

func relabelled(n *v1.Node, key, value string) *v1.Node {
	out := n.DeepCopy()
	out.Labels[key] = value
	return out
}

// Case 55: the tree stays the same, and no effect is sent.
func TestALabelThatIsNoLayers(t *testing.T) {
	c, nodes, effects := large(t, 100)
	tree := c.Topology()
	*effects = nil
	for _, n := range nodes {
		c.setNode(relabelled(n, "other", "y"))
	}
	require.Same(t, tree, c.Topology())
	require.Empty(t, *effects)

	c.setNode(relabelled(nodes[9], "spine", "s77"))
	require.NotSame(t, tree, c.Topology())
	require.Contains(t, *effects, gang.Effect{Verb: gang.Report, Gang: ref("g2")}, "its domain may have another name")
	require.Len(t, *effects, 2, "only its own, and the topology's")

	// A label that becomes a layer's counts as it is now, not as it was last looked at.
	c.setTopology(topologyOf(blockOf("other"), nodeLayer))
	i, _ := c.Topology().Tree.NodeIndex(nodes[3].Name)
	require.Equal(t, "y/"+nodes[3].Name, c.Topology().Tree.Path(c.Topology().Tree.Node(i)))
}

// TestEmptyCacheKeepsNothing of gangs that are gone.
func TestEmptyCacheKeepsNothing(t *testing.T) {
	c, _, _ := open(t)
	running := func(p *v1.Pod) { p.Spec.NodeName = "n0" }
	for i := range 1000 {
		name := fmt.Sprint("g", i)
		of := func(p *v1.Pod) { p.Labels[scheduling.LabelPodGroup] = name }
		pods := []*v1.Pod{member("p0", of), member("p1", of, running), member("p2", of, func(p *v1.Pod) { p.Status.NominatedNodeName = "n1" })}
		pg := podGroup(name, scheduling.AnnotationMode, "strict")
		pg.Name = name
		c.setObject(ref(name), pg, source.More{})
		for _, p := range pods {
			c.setPod(p)
		}
		done := member("p1", of, running, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
		if i%2 == 0 {
			c.setFinished(done)
		}
		if i%3 == 0 {
			c.setObject(ref(name), nil, source.More{})
		}
		for _, p := range pods {
			c.dropPod(p)
		}
		if i%2 == 0 {
			c.dropFinished(done)
		}
		if i%3 > 0 {
			c.setObject(ref(name), nil, source.More{})
		}
	}
	require.Empty(t, c.gangs)
	require.Empty(t, c.pods)
	require.Empty(t, c.templates)
	require.Empty(t, c.onNode)
	require.Empty(t, c.nominated)
	require.Empty(t, c.book.Gangs())
}

// BenchmarkLock moves a node and reads the tree, while another goroutine takes the lock all the time. It reports
// how long that one waits: median, 99th percentile and maximum.
func BenchmarkLock(b *testing.B) {
	for _, size := range []int{5000, 15_000, 60_000} {
		b.Run(fmt.Sprint("nodes=", size), func(b *testing.B) {
			c, nodes, _ := large(b, size)
			c.Do = func([]gang.Effect) {}
			c.Topology()
			var waits []time.Duration
			var asks sync.WaitGroup
			var stop atomic.Bool
			asks.Go(func() {
				for !stop.Load() {
					begun := time.Now()
					c.AnyPlaces()
					waits = append(waits, time.Since(begun))
					runtime.Gosched()
				}
			})
			for i := 0; b.Loop(); i++ {
				c.setNode(relabelled(nodes[i%len(nodes)], "spine", fmt.Sprint("s", i)))
				c.Topology()
			}
			stop.Store(true)
			asks.Wait()
			slices.Sort(waits)
			for name, at := range map[string]int{
				"wait-p50-µs": len(waits) / 2, "wait-p99-µs": len(waits) * 99 / 100, "wait-max-µs": len(waits) - 1,
			} {
				b.ReportMetric(float64(waits[at].Microseconds()), name)
			}
		})
	}
}

// BenchmarkLabels is a label that changes on a node of 15,000, with a tree asked for after it.
func BenchmarkLabels(b *testing.B) {
	for _, key := range []string{"other", "spine"} {
		b.Run("label="+key, func(b *testing.B) {
			c, nodes, _ := large(b, 15_000)
			c.Topology()
			i := 0
			for b.Loop() {
				c.setNode(relabelled(nodes[i%len(nodes)], key, fmt.Sprint("s", i)))
				c.Topology()
				i++
			}
		})
	}
}
