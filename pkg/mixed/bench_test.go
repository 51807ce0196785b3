package mixed_test

import (
	"fmt"
	"testing"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// BenchmarkChoose places members that differ on 10,000 nodes in four layers, with
// eight slots a node and 20 nodes a block.
func BenchmarkChoose(b *testing.B) {
	var nodes []topology.Node
	for i := range 10_000 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("node-", i), Path: []string{
			fmt.Sprint("hall-", i/2000), fmt.Sprint("spine-", i/200), fmt.Sprint("block-", i/20),
		}})
	}
	w := mixed.World{World: plan.World{Tree: topology.Build([]string{"Hall", "Spine", "Block"}, nodes)}}
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
	workers := mixed.Class{Kind: 1}
	for rank := range 255 {
		workers.Ranks = append(workers.Ranks, rank+1)
	}
	eight := mixed.Job{All: plan.Gather{Must: 2, Prefer: plan.PreferGather(3)}, Sets: mixed.EachGang(8, plan.Gather{Must: 3})}
	for g := range 8 {
		c := mixed.Class{Gang: g}
		for n := range 32 {
			c.Ranks = append(c.Ranks, g*32+n)
		}
		eight.Classes = append(eight.Classes, c)
		eight.Gangs = append(eight.Gangs, mixed.Gang{Need: 32})
	}
	for _, c := range []struct {
		name string
		j    mixed.Job
	}{
		{"launcher and 255 workers", mixed.Job{
			Classes: []mixed.Class{{Ranks: []int{0}}, workers}, Gangs: []mixed.Gang{{Need: 256}}, All: plan.Gather{Prefer: plan.PreferGather(2, 3)},
		}},
		{"eight gangs of 32, each in a block", eight},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p, refusal := mixed.Choose(w, c.j); refusal != nil || len(p.Puts) != 256 {
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
		nodes = append(nodes,
			topology.Node{Name: fmt.Sprint("node-", i), Path: []string{fmt.Sprint("spine-", i/128), fmt.Sprint("block-", i/16)}})
	}
	w := mixed.World{World: plan.World{Tree: topology.Build([]string{"Spine", "Block"}, nodes)}}
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
		j := mixed.Job{Choice: &choice.Choice{}}
		for g := range 64 {
			c := mixed.Class{Gang: g, Kind: g % kinds}
			for i := range 8 {
				c.Ranks = append(c.Ranks, g*8+i)
			}
			j.Classes, j.Gangs = append(j.Classes, c), append(j.Gangs, mixed.Gang{Need: 8})
			j.Choice.Gangs = append(j.Choice.Gangs, choice.Gang{Above: []choice.Level{{Name: "root", Least: 2}}, Open: true, Need: 8, Members: 8})
		}
		b.Run(fmt.Sprint(kinds, " kinds"), func(b *testing.B) {
			for b.Loop() {
				if p, refusal := mixed.Choose(w, j); refusal != nil {
					b.Fatal(refusal)
				} else {
					b.ReportMetric(float64(len(p.Puts)), "members")
				}
			}
		})
	}
}
