package evict_test

import (
	"fmt"
	"testing"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// BenchmarkEvict makes room for 512 members on 5,000 nodes that are full of 8 victims
// each: in one spine of 200 nodes, or anywhere.
func BenchmarkEvict(b *testing.B) {
	var nodes []topology.Node
	for i := range 5_000 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("node-", i), Path: []string{
			fmt.Sprint("hall-", i/1000), fmt.Sprint("spine-", i/200), fmt.Sprint("block-", i/20),
		}})
	}
	network := topology.Build([]string{"Hall", "Spine", "Block"}, nodes)
	flat := topology.Build(nil, nodes)
	layered := plan.Request{Want: 512, Min: 512, Prefer: []int{1, 2, 3}}
	gathered := plan.Request{Want: 512, Min: 512, Must: 2, Prefer: []int{3}}
	for _, c := range []struct {
		name       string
		tree       *topology.Tree
		r          plan.Request
		priorities int
		shape      string
	}{
		{"alike", network, layered, 1, "pod"},
		{"alike in a spine", network, gathered, 1, "pod"},
		{"ten priorities", network, layered, 10, "pod"},
		{"ten priorities in a spine", network, gathered, 10, "pod"},
		{"ten priorities without layers", flat, plan.Request{Want: 512, Min: 512}, 10, "pod"},
		{"unlike", network, layered, 10, ""},
	} {
		asked := 0
		victims := func(i int) (out []evict.Victim) {
			for v := range 8 {
				n := (i*8 + v) * 2654435761 % 1009
				out = append(out, evict.Victim{
					Name: fmt.Sprint(v), Priority: int32(n % c.priorities), Started: int64(n), Violates: n%17 == 0, Shape: c.shape,
				})
			}
			return out
		}
		prepare := func() []evict.Node {
			out := make([]evict.Node, len(nodes))
			for i := range out {
				out[i] = evict.NewNode(victims(i), 512, func(gone []int) offer.Slots {
					asked++
					return offer.Slots(len(gone))
				})
			}
			return out
		}
		b.Run(c.name+"/nodes", func(b *testing.B) {
			b.ReportAllocs()
			asked = 0
			for b.Loop() {
				prepare()
			}
			b.ReportMetric(float64(asked)/float64(b.N)/5000, "questions/node")
		})
		ready := prepare()
		b.Run(c.name+"/choose", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if e := evict.Choose(plan.World{Tree: c.tree}, c.r, ready); e == nil || e.Plan.Count() != 512 {
					b.Fatal("no eviction")
				}
			}
		})
	}
}
