package plan_test

import (
	"fmt"
	"testing"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// BenchmarkChoose places 1,024 members on 10,000 nodes in four layers, with 0 to 8
// slots a node: 800 on average below each of 50 spines, so that no spine is enough.
func BenchmarkChoose(b *testing.B) {
	var nodes []topology.Node
	for i := range 10_000 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("node-", i), Path: []string{
			fmt.Sprint("hall-", i/2000), fmt.Sprint("spine-", i/200), fmt.Sprint("block-", i/20),
		}})
	}
	w := plan.World{Tree: topology.Build([]string{"Hall", "Spine", "Block"}, nodes)}
	for i := range nodes {
		w.Free = append(w.Free, offer.Slots(i*2654435761%1009%9))
	}
	for _, c := range []struct {
		name string
		r    plan.Request
	}{
		{"nothing preferred", plan.Request{}},
		{"one layer", plan.Request{Prefer: []int{2}}},
		{"all layers", plan.Request{Prefer: []int{1, 2, 3}}},
		{"nodes, too", plan.Request{Prefer: []int{1, 2, 3, 4}}},
		{"must and multiples", plan.Request{Must: 1, Prefer: []int{2, 3}, Multiple: offer.Multiples{0, 0, 8, 0, 2}}},
	} {
		c.r.Want, c.r.Min = 1024, 1024
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p, refusal := plan.Choose(w, c.r); refusal != nil || p.Count() != 1024 {
					b.Fatal(refusal)
				}
			}
		})
	}
}
