package cache

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// paths are the paths of a tree's nodes, in order.
func paths(t *topology.Tree) (all []string) {
	for i := range t.NumNodes() {
		all = append(all, t.Path(t.Node(i)))
	}
	return all
}

// fresh is the tree that is built of what a cache knows of nodes.
func (c *Cache) fresh() *topology.Tree {
	var nodes []topology.Node
	for _, n := range c.nodes {
		nodes = append(nodes, convert.Node(n.Name, n.Labels, c.network.Layers))
	}
	return topology.Build(convert.LayerNames(c.network.Layers), nodes)
}

// After any changes of nodes and layers the tree equals a tree that is built from scratch. So does the tree of a
// plan on other nodes.
func TestTheTreeKeepsUp(t *testing.T) {
	kinds := []string{"come", "moved", "gone", "back before it was missed", "other layers", "no topology", "forgotten which"}
	worlds.Check(t, 500, kinds, func(t *rapid.T, y worlds.Tally) {
		c := New(Options{
			Aware: true, Leading: func() bool { return true }, Do: func([]gang.Effect) {}, Note: func(Note) {},
			Clock: clocktesting.NewFakeClock(time.Unix(1000, 0)),
		})
		draw := func(name string) *v1.Node {
			n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
			for _, key := range []string{"spine", "block", "other"} {
				if v := worlds.Even(t, 4, key); v > 0 {
					n.Labels[key] = fmt.Sprint(key[:1], v)
				}
			}
			return n
		}
		name := func() string { return fmt.Sprint("n", worlds.Even(t, 9, "node")) }
		asked := map[string]bool{} // nodes of the last tree
		t.Repeat(map[string]func(*rapid.T){
			"set": func(*rapid.T) {
				n := draw(name())
				y.Count("come", c.nodes[n.Name] == nil && !asked[n.Name])
				y.Count("moved", c.nodes[n.Name] != nil)
				y.Count("back before it was missed", c.nodes[n.Name] == nil && asked[n.Name])
				c.setNode(n)
			},
			"drop": func(*rapid.T) {
				if n := name(); c.nodes[n] != nil {
					c.dropNode(n)
					y.Count("gone", true)
				}
			},
			"layers": func(*rapid.T) {
				switch worlds.Even(t, 4, "layers") {
				case 0:
					c.setTopology(nil)
					y.Count("no topology", true)
				case 1:
					c.setTopology(topologyOf(spineLayer, nodeLayer))
				case 2:
					c.setTopology(topologyOf(blockOf("other"), nodeLayer))
					y.Count("other layers", true)
				case 3:
					c.setTopology(topologyOf(spineLayer)) // no NodeTopologyLayer: the last good one stays
				}
			},
			"many": func(*rapid.T) {
				if worlds.Chance(t, 8, "many") {
					for i := range maxMoved + 20 {
						n := draw(fmt.Sprint("m", i%500))
						n.Name = fmt.Sprint("m", i)
						c.setNode(n)
						c.dropNode(n.Name)
					}
					y.Count("forgotten which", c.allMoved)
				}
			},
			"ask": func(*rapid.T) {
				now := c.Topology()
				if want := c.fresh(); !slices.Equal(paths(now.Tree), paths(want)) || now.Tree.Len() != want.Len() {
					t.Fatalf("the tree has %v, not %v", paths(now.Tree), paths(want))
				}
				if c.Topology() != now {
					t.Fatal("nothing has changed, and there is another tree")
				}
				clear(asked)
				for n := range c.nodes {
					asked[n] = true
				}
			},
			"plan": func(*rapid.T) {
				var nodes []*v1.Node
				var leaves []topology.Node
				for i := range 9 {
					if n := draw(fmt.Sprint("n", i)); worlds.Chance(t, 2, "in the snapshot") && !c.deletedNodes[n.Name] {
						nodes, leaves = append(nodes, n), append(leaves, convert.Node(n.Name, n.Labels, c.network.Layers))
					}
				}
				now, of := c.Topology(), c.TopologyOf(nodes)
				if now == of {
					for _, n := range nodes {
						if !now.Contains(n) {
							t.Fatalf("node %s is not where the tree has it", n.Name)
						}
					}
					return
				}
				if want := topology.Build(convert.LayerNames(c.network.Layers), leaves); !slices.Equal(paths(of.Tree), paths(want)) {
					t.Fatalf("the plan's tree has %v, not %v", paths(of.Tree), paths(want))
				}
			},
		})
	})
}

// While a tree is built, events and other readers proceed. A reader of the network gets all that was known at its
// call.
func TestReadersDoNotWaitForTreeBuild(t *testing.T) {
	c, nodes, _ := large(t, 64)
	c.Do = func([]gang.Effect) {}
	c.building.Lock() // as during a build
	c.setNode(relabelled(nodes[0], "spine", "s99"))
	c.dropNode(nodes[1].Name)
	c.setPod(member("p0"))
	c.Admit(member("p0"))
	c.AnyPlaces()
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			tree := c.Topology().Tree
			i, _ := tree.NodeIndex(nodes[0].Name)
			if path := tree.Path(tree.Node(i)); path != "s99/"+nodes[0].Name {
				t.Errorf("the node is in %s", path)
			}
		})
	}
	c.building.Unlock()
	done.Wait()
	require.Equal(t, paths(c.fresh()), paths(c.Topology().Tree))
}

// Events and plans run at once. No plan sees a tree that lacks an earlier event.
func TestNodesComeWhileGangsArePlanned(t *testing.T) {
	c, nodes, _ := large(t, 200)
	c.Do = func([]gang.Effect) {}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := w; i < len(nodes); i += 4 {
				n := relabelled(nodes[i], "spine", fmt.Sprint("t", i%7))
				c.setNode(n)
				if net := c.Topology(); !net.Contains(n) {
					t.Errorf("node %s has moved, and the next tree does not know", n.Name)
				}
				if i%3 == 0 {
					c.dropNode(n.Name)
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, paths(c.fresh()), paths(c.Topology().Tree))
}
