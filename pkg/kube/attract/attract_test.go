package attract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// network reads nodes as "spine/block/node=attracting pods".
func network(t *testing.T, nodes string) (*topology.Tree, []offer.Slots) {
	t.Helper()
	var list []topology.Node
	counts := map[string]offer.Slots{}
	for word := range strings.FieldsSeq(nodes) {
		path, n, _ := strings.Cut(word, "=")
		names := strings.Split(path, "/")
		node := topology.Node{Name: names[len(names)-1], Path: names[:len(names)-1]}
		list = append(list, node)
		if n != "" {
			count, err := strconv.Atoi(n)
			require.NoError(t, err)
			counts[node.Name] = offer.Slots(count)
		}
	}
	tree := topology.Build([]string{"Spine", "Block"}, list)
	count := make([]offer.Slots, tree.NumNodes())
	for name, n := range counts {
		i, _ := tree.NodeIndex(name)
		count[i] = n
	}
	return tree, count
}

// TestNearest: what each node scores. Nodes that are not feasible are in brackets.
func TestNearest(t *testing.T) {
	for _, c := range []struct{ name, nodes, scores string }{
		{"no pod attracts", "s1/b1/n1 s1/b2/n2 s2/b3/n3", ""},
		{"one node", "s1/b1/n1=3", ""},
		{"no node", "", ""},
		{"all alike", "s1/b1/n1=1 s1/b2/n2=1 s2/b3/n3=1 s2/b4/n4=1", ""},
		{"node, block, spine, elsewhere", "s1/b1/n1=1 s1/b1/n2 s1/b2/n3 s2/b3/n4", "n1=100 n2=67 n3=34 n4=1"},
		{"one on the node beats many in the block", "s1/b1/n1=1 s1/b1/n2 s2/b2/n3=9 s2/b2/n4", "n1=67 n2=1 n3=100 n4=34"},
		{"many in the block beat few", "s1/b1/[n1]=2 s1/b1/n2 s1/b2/[n3]=1 s1/b2/n4", "n2=100 n4=0"},
		{"the block before the spine", "s1/b1/[n1]=1 s1/b1/n2 s2/b2/[n3]=2 s2/b3/n4", "n2=100 n4=0"},
		{"equal blocks: the spine", "s1/b1/[n1]=1 s1/b1/n2 s2/b2/[n3]=1 s2/b2/n4 s2/b3/[n5]=1", "n2=0 n4=100"},
		{"equals have equal scores", "s1/b1/[n1]=1 s1/b1/n2 s1/b1/n3 s2/b2/n4", "n2=100 n3=100 n4=0"},
		{"a node without names is near no pod", "//n1=1 //n2 s1/b1/n3", "n1=100 n2=0 n3=0"},
		{"a block without a spine", "/b1/n1=1 /b1/n2 /b2/n3", "n1=100 n2=50 n3=0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree, count := network(t, strings.NewReplacer("[", "", "]", "").Replace(c.nodes))
			var leaves []topology.ID
			for i := range tree.NumNodes() {
				if !strings.Contains(c.nodes, "["+tree.NodeName(i)+"]") {
					leaves = append(leaves, tree.Node(i))
				}
			}
			var got []string
			for name, score := range Nearest(tree, count, leaves) {
				got = append(got, fmt.Sprintf("%s=%d", name, score))
			}
			slices.SortFunc(got, topology.CompareNames)
			require.Equal(t, c.scores, strings.Join(got, " "))
		})
	}
}

// TestNearestOfMany: with more kinds of nodes than scores the nearest are told apart.
func TestNearestOfMany(t *testing.T) {
	for _, kinds := range []int{2, 3, 34, 35, 101, 102, 400} {
		var nodes strings.Builder
		for i := range kinds {
			fmt.Fprintf(&nodes, "s/b/n%d=%d ", i, i)
		}
		tree, count := network(t, nodes.String())
		var leaves []topology.ID
		for i := range tree.NumNodes() {
			leaves = append(leaves, tree.Node(i))
		}
		s := Nearest(tree, count, leaves)
		require.EqualValues(t, fwk.MaxScore, s[fmt.Sprint("n", kinds-1)])
		for i := 1; i < kinds; i++ {
			a, b := s[fmt.Sprint("n", i-1)], s[fmt.Sprint("n", i)]
			require.GreaterOrEqual(t, a, fwk.MinScore)
			if kinds-i <= int(fwk.MaxScore) {
				require.Less(t, a, b, "%d kinds, n%d", kinds, i)
			} else {
				require.Zero(t, a)
			}
		}
	}
}

func selecting(change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", Labels: map[string]string{},
		Annotations: map[string]string{scheduling.AnnotationTopologySelector: "ring"},
	}}
	for _, f := range change {
		f(p)
	}
	return p
}

// TestAttracting: which pods of a node count.
func TestAttracting(t *testing.T) {
	now := metav1.Now()
	node := framework.NewNodeInfo(
		selecting(),
		selecting(func(p *v1.Pod) { p.Namespace = "another" }),
		selecting(func(p *v1.Pod) { p.Labels[scheduling.LabelPodGroup] = "g" }),
		selecting(func(p *v1.Pod) { p.DeletionTimestamp = &now }),
		selecting(func(p *v1.Pod) { p.Annotations[scheduling.AnnotationTopologySelector] = "other" }),
		selecting(func(p *v1.Pod) { p.Annotations = nil }),
	)
	require.EqualValues(t, 3, Pods(node, "ring"))
}
