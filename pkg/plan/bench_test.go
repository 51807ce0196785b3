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
		{"one layer", plan.Request{Prefer: plan.PreferGather(2)}},
		{"all layers", plan.Request{Prefer: plan.PreferGather(1, 2, 3)}},
		{"nodes, too", plan.Request{Prefer: plan.PreferGather(1, 2, 3, 4)}},
		{"nodes only", plan.Request{Prefer: plan.PreferGather(4)}},
		{"must and multiples", plan.Request{Must: 1, Prefer: plan.PreferGather(2, 3), Multiple: offer.Multiples{0, 0, 8, 0, 2}}},
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

// BenchmarkChooseFew places 4 members in one of 64 spines of 128 nodes, or anywhere on as
// many nodes without layers: what most gangs ask for.
func BenchmarkChooseFew(b *testing.B) {
	const size = 8192
	var nodes []topology.Node
	for i := range size {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("node-", i), Path: []string{fmt.Sprint("spine-", i/128)}})
	}
	r := plan.Request{Want: 4, Min: 4}
	for _, c := range []struct {
		name   string
		layers []string
		must   int
		slots  func(node int) offer.Slots
	}{
		{"one slot a node", []string{"Spine"}, 1, func(int) offer.Slots { return 1 }},
		{"eight slots a node", []string{"Spine"}, 1, func(int) offer.Slots { return 8 }},
		{"0, 1 or 8 slots a node", []string{"Spine"}, 1, func(i int) offer.Slots { return []offer.Slots{0, 1, 8}[i*2654435761%1009%3] }},
		{"one slot a node, without layers", nil, 0, func(int) offer.Slots { return 1 }},
	} {
		w := plan.World{Tree: topology.Build(c.layers, nodes), Bound: make([]offer.Slots, size), Attract: make([]offer.Slots, size)}
		for i := range size {
			w.Free = append(w.Free, c.slots(i))
		}
		r.Must = c.must
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p, refusal := plan.Choose(w, r); refusal != nil || p.Count() != 4 {
					b.Fatal(refusal)
				}
			}
		})
	}
}

// BenchmarkChooseSoft is BenchmarkChoose's world with soft preferences: one node in 50 has a taint, or each node has a score of its own.
func BenchmarkChooseSoft(b *testing.B) {
	var nodes []topology.Node
	for i := range 10_000 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("node-", i), Path: []string{
			fmt.Sprint("hall-", i/2000), fmt.Sprint("spine-", i/200), fmt.Sprint("block-", i/20),
		}})
	}
	w := plan.World{Tree: topology.Build([]string{"Hall", "Spine", "Block"}, nodes)}
	taints, scores := make([]int64, len(nodes)), make([]int64, len(nodes))
	for i := range nodes {
		w.Free = append(w.Free, offer.Slots(i*2654435761%1009%9))
		if i%50 == 7 {
			taints[i] = 300
		}
		scores[i] = int64(i * 40503 % 701)
	}
	for _, c := range []struct {
		name string
		r    plan.Request
	}{
		{"nothing preferred", plan.Request{}},
		{"all layers", plan.Request{Prefer: plan.PreferGather(1, 2, 3)}},
		{"nodes, too", plan.Request{Prefer: plan.PreferGather(1, 2, 3, 4)}},
		{"must and multiples", plan.Request{Must: 1, Prefer: plan.PreferGather(2, 3), Multiple: offer.Multiples{0, 0, 8, 0, 2}}},
	} {
		c.r.Want, c.r.Min = 1024, 1024
		for i, penalty := range [][]int64{nil, taints, scores} {
			w.Penalty = penalty
			b.Run(c.name+"/"+[]string{"none", "taints", "scores"}[i], func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if p, refusal := plan.Choose(w, c.r); refusal != nil || p.Count() != 1024 {
						b.Fatal(refusal)
					}
				}
			})
		}
	}
}
