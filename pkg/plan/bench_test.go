package plan_test

import (
	"fmt"
	"testing"

	"github.com/muster-scheduler/muster/pkg/choice"
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

// BenchmarkChooseJob places members that differ on 10,000 nodes in four layers, with
// eight slots a node and 20 nodes a block.
func BenchmarkChooseJob(b *testing.B) {
	var nodes []topology.Node
	for i := range 10_000 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("node-", i), Path: []string{
			fmt.Sprint("hall-", i/2000), fmt.Sprint("spine-", i/200), fmt.Sprint("block-", i/20),
		}})
	}
	w := plan.JobWorld{World: plan.World{Tree: topology.Build([]string{"Hall", "Spine", "Block"}, nodes)}}
	for range nodes {
		w.Free = append(w.Free, 8)
	}
	w.Take = func(_ int, load []offer.Slots, _ int) offer.Slots {
		left := offer.Slots(8)
		for _, n := range load {
			left -= n
		}
		return left
	}
	workers := plan.Class{Kind: 1}
	for rank := range 255 {
		workers.Ranks = append(workers.Ranks, rank+1)
	}
	eight := plan.Job{All: plan.Gather{Must: 2, Prefer: plan.PreferGather(3)}, Sets: plan.EachGang(8, plan.Gather{Must: 3})}
	for g := range 8 {
		c := plan.Class{Gang: g}
		for n := range 32 {
			c.Ranks = append(c.Ranks, g*32+n)
		}
		eight.Classes = append(eight.Classes, c)
		eight.Gangs = append(eight.Gangs, plan.Gang{Need: 32})
	}
	for _, c := range []struct {
		name string
		j    plan.Job
	}{
		{"launcher and 255 workers", plan.Job{
			Classes: []plan.Class{{Ranks: []int{0}}, workers}, Gangs: []plan.Gang{{Need: 256}}, All: plan.Gather{Prefer: plan.PreferGather(2, 3)},
		}},
		{"eight gangs of 32, each in a block", eight},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p, refusal := plan.ChooseJob(w, c.j); refusal != nil || len(p.Puts) != 256 {
					b.Fatal(refusal)
				}
			}
		})
	}
}

// BenchmarkChooseSome places as many of 64 gangs of 8 as find room on 1,024 nodes with up to one
// places: alike, and of four kinds.
func BenchmarkChooseSome(b *testing.B) {
	var nodes []topology.Node
	for i := range 1024 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("node-", i), Path: []string{fmt.Sprint("spine-", i/128), fmt.Sprint("block-", i/16)}})
	}
	w := plan.JobWorld{World: plan.World{Tree: topology.Build([]string{"Spine", "Block"}, nodes)}}
	for i := range nodes {
		w.Free = append(w.Free, offer.Slots(i*2654435761%1009%3%2))
	}
	w.Take = func(node int, load []offer.Slots, _ int) offer.Slots {
		left := w.Free[node]
		for _, n := range load {
			left -= n
		}
		return max(0, left)
	}
	for _, kinds := range []int{1, 4} {
		j := plan.Job{Choice: &choice.Choice{}}
		for g := range 64 {
			c := plan.Class{Gang: g, Kind: g % kinds}
			for i := range 8 {
				c.Ranks = append(c.Ranks, g*8+i)
			}
			j.Classes, j.Gangs = append(j.Classes, c), append(j.Gangs, plan.Gang{Need: 8})
			j.Choice.Gangs = append(j.Choice.Gangs, choice.Gang{Above: []choice.Level{{Name: "root", Least: 2}}, Open: true, Need: 8, Members: 8})
		}
		b.Run(fmt.Sprint(kinds, " kinds"), func(b *testing.B) {
			for b.Loop() {
				if p, refusal := plan.ChooseJob(w, j); refusal != nil {
					b.Fatal(refusal)
				} else {
					b.ReportMetric(float64(len(p.Puts)), "members")
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
