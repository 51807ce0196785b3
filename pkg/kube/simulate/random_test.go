package simulate

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"
)

// TestRandomClusters: in any cluster and order of pods, gangs start whole or wait whole, and MustGather holds. Nodes
// are not overfull, only pods of lower priority are evicted, and a repetition gives the same result.
func TestRandomClusters(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		require.NoError(t, checks.Value.Set("20"))
		t.Cleanup(func() { require.NoError(t, checks.Value.Set(checks.DefValue)) }) // other tests want more
	}
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		options := Options{VictimsStay: rapid.Bool().Draw(t, "victims stay")}
		r := c.run(t, options)
		c.check(t, r)
		first, err := json.Marshal(r)
		require.NoError(t, err)
		again, err := json.Marshal(c.run(t, options))
		require.NoError(t, err)
		require.Equal(t, string(first), string(again), "another result for\n%s", c)
	})
}

// random is a small cluster in which every node has so many CPUs and every pod needs so
// many.
type random struct {
	nodes map[string]int    // CPUs
	spine map[string]string // by node
	gangs []randomGang
	pods  map[string]randomPod // by name
	texts []string             // one document set for each step
}

type randomGang struct {
	name       string
	min        int
	must       bool
	cpu, level int
	members    []string
}

type randomPod struct {
	cpu, priority int
	node          string
}

func (c *random) String() string { return strings.Join(c.texts, "\n======== then\n") }

func drawCluster(t *rapid.T) *random {
	c := &random{nodes: map[string]int{}, spine: map[string]string{}, pods: map[string]randomPod{}}
	var text strings.Builder
	for _, p := range []int{1, 5, 9} {
		fmt.Fprintf(&text, "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: p%d}, value: %d}\n", p, p)
	}
	text.WriteString(`---
{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: ClusterNetworkTopology, metadata: {name: default}, spec: {networkTopologySpec: [
  {topologyLayer: SpineLayer, labelKey: [spine]}, {topologyLayer: BlockLayer, parentTopologyLayer: SpineLayer, labelKey: [block]},
  {topologyLayer: NodeTopologyLayer, parentTopologyLayer: BlockLayer}]}}
`)
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		name := fmt.Sprintf("m%d", i)
		c.nodes[name] = rapid.IntRange(1, 4).Draw(t, "cpu")
		c.spine[name] = fmt.Sprintf("s%d", rapid.IntRange(0, 2).Draw(t, "spine"))
		fmt.Fprintf(&text,
			"---\n{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {spine: %s, block: b%d}}, status: {capacity: {cpu: %d, memory: 8Gi}}}\n",
			name, c.spine[name], rapid.IntRange(0, 1).Draw(t, "block"), c.nodes[name])
		for j, free := 0, c.nodes[name]; free > 0 && rapid.Bool().Draw(t, "runs"); j++ {
			p := randomPod{cpu: rapid.IntRange(1, free).Draw(t, "used"), priority: rapid.SampledFrom([]int{1, 5}).Draw(t, "priority"), node: name}
			free -= p.cpu
			c.pod(&text, fmt.Sprintf("run-%d-%d", i, j), "", p)
		}
	}
	c.texts = append(c.texts, text.String())
	for g := range rapid.IntRange(1, 4).Draw(t, "gangs") {
		text.Reset()
		c.gang(t, &text, fmt.Sprintf("g%d", g))
		for i := range rapid.IntRange(0, 2).Draw(t, "plain") {
			p := randomPod{cpu: rapid.IntRange(1, 2).Draw(t, "cpu"), priority: rapid.SampledFrom([]int{1, 5, 9}).Draw(t, "priority")}
			c.pod(&text, fmt.Sprintf("plain-%d-%d", g, i), "", p)
		}
		if rapid.Bool().Draw(t, "later") {
			c.texts = append(c.texts, text.String())
		} else {
			c.texts[len(c.texts)-1] += text.String()
		}
	}
	return c
}

func (c *random) pod(text *strings.Builder, name, gang string, p randomPod) {
	c.pods[name] = p
	label, node := "", ""
	if gang != "" {
		label = ", labels: {pod-group.scheduling.sigs.k8s.io: " + gang + "}"
	}
	if p.node != "" {
		node = ", nodeName: " + p.node
	}
	fmt.Fprintf(text,
		"---\n{apiVersion: v1, kind: Pod, metadata: {name: %s%s}, spec: {schedulerName: muster-scheduler, priorityClassName: p%d%s, "+
			"containers: [{name: c, image: i, resources: {requests: {cpu: %d}}}]}}\n", name, label, p.priority, node, p.cpu)
}

func (c *random) gang(t *rapid.T, text *strings.Builder, name string) {
	g := randomGang{
		name: name, must: rapid.Bool().Draw(t, "must"), cpu: rapid.IntRange(1, 2).Draw(t, "cpu"),
		level: rapid.SampledFrom([]int{1, 5, 9}).Draw(t, "priority"),
	}
	n := rapid.IntRange(1, 5).Draw(t, "members")
	g.min = rapid.IntRange(1, n).Draw(t, "min")
	strategy := "PreferGather"
	if g.must {
		strategy = "MustGather"
	}
	fmt.Fprintf(text, "---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s, annotations: {"+
		`gang.scheduling.koordinator.sh/network-topology-spec: '{"gatherStrategy":[{"layer":"SpineLayer","strategy":"%s"}]}'}}, `+
		`spec: {minMember: %d}}`+"\n",
		name, strategy, g.min)
	for i := range n {
		member := fmt.Sprintf("%s-%d", name, i)
		g.members = append(g.members, member)
		c.pod(text, member, name, randomPod{cpu: g.cpu, priority: g.level})
	}
	c.gangs = append(c.gangs, g)
}

func (c *random) run(t *rapid.T, o Options) *Result {
	sets := make([]*Set, len(c.texts))
	for i, text := range c.texts {
		sets[i] = &Set{}
		require.NoError(t, sets[i].Add("random.yaml", []byte(text)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := Run(ctx, o, sets[0], sets[1:]...)
	require.NoError(t, err, "%s", c)
	return r
}

func (c *random) check(t *rapid.T, r *Result) {
	used := map[string]int{}
	node := map[string]string{}
	highest := 0
	lost := map[string]bool{} // to a pod without a gang: DefaultPreemption knows no gangs
	for _, p := range r.Pods {
		of := c.pods[p.Name]
		lost[p.Name] = p.State == Evicted
		if p.State == Bound {
			used[p.Node] += of.cpu
			node[p.Name] = p.Node
		}
		if of.node == "" {
			highest = max(highest, of.priority)
		}
	}
	for name, n := range used {
		require.LessOrEqual(t, n, c.nodes[name], "node %s is overfull in\n%s", name, c)
	}
	for _, p := range r.Pods {
		if p.State == Evicted {
			require.Less(t, c.pods[p.Name].priority, highest, "evicted %s in\n%s", p.Name, c)
		}
	}
	for _, g := range c.gangs {
		bound, spines := 0, map[string]bool{}
		for _, m := range g.members {
			if lost[m] {
				bound = g.min
			}
			if n := node[m]; n != "" {
				bound++
				spines[c.spine[n]] = true
			}
		}
		require.False(t, 0 < bound && bound < g.min, "gang %s is bound in part, %d of %d, in\n%s", g.name, bound, g.min, c)
		require.False(t, g.must && len(spines) > 1, "gang %s is not gathered in\n%s", g.name, c)
	}
}
