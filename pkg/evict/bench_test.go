package evict_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// BenchmarkEvict searches victims for 512 members on 5,000 nodes with 8 victims each: in one spine of 200 nodes, or
// anywhere.
func BenchmarkEvict(b *testing.B) {
	var nodes []topology.Node
	for i := range 5_000 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("node-", i), Path: []string{
			fmt.Sprint("hall-", i/1000), fmt.Sprint("spine-", i/200), fmt.Sprint("block-", i/20),
		}})
	}
	network := topology.Build([]string{"Hall", "Spine", "Block"}, nodes)
	flat := topology.Build(nil, nodes)
	layered := plan.Request{Want: 512, Min: 512, Prefer: plan.PreferGather(1, 2, 3)}
	gathered := plan.Request{Want: 512, Min: 512, Must: 2, Prefer: plan.PreferGather(3)}
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

// BenchmarkDomains searches victims for 512 members on 5,000 nodes. All members must gather in one of 1, 10 or 100
// domains. Each node has 8 victims of ten priorities. Two members fit in the place of one victim, so the gang fits
// into a hundredth of the cluster. In some cases victims belong to running gangs of 8 that can only be evicted whole.
//
// choose measures the search with its questions to nodes. consider measures the explanation of the answer.
func BenchmarkDomains(b *testing.B) {
	const size, each = 5_000, 8
	for _, c := range []struct {
		name    string
		domains int
		shape   string
		gangs   bool
	}{
		{"1 domain", 1, "pod", false},
		{"10 domains", 10, "pod", false},
		{"100 domains", 100, "pod", false},
		{"unlike victims/1 domain", 1, "", false},
		{"unlike victims/10 domains", 10, "", false},
		{"unlike victims/100 domains", 100, "", false},
		{"gangs/1 domain", 1, "pod", true},
		{"gangs/10 domains", 10, "pod", true},
		{"gangs/100 domains", 100, "pod", true},
	} {
		var leaves []topology.Node
		for i := range size {
			leaves = append(leaves, topology.Node{Name: fmt.Sprint("node-", i), Path: []string{
				fmt.Sprint("spine-", i*c.domains/size), fmt.Sprint("block-", i/10),
			}})
		}
		w := plan.World{Tree: topology.Build([]string{"Spine", "Block"}, leaves)}
		r := plan.Request{Want: 512, Min: 512, Must: 1, Prefer: plan.PreferGather(2)}
		nodes := make([]evict.RawNode, size)
		var gangs []evict.Gang
		for i := range nodes {
			for v := range each {
				n := (i*each + v) * 2654435761 % 1009
				victim := evict.Victim{Name: fmt.Sprint(v), Priority: int32(n % 10), Started: int64(n), Violates: n%17 == 0, Shape: c.shape}
				if c.gangs && v == 0 {
					if i%each == 0 {
						gangs = append(gangs, evict.Gang{Whole: true})
					}
					victim.Gang, victim.Priority = len(gangs), int32(len(gangs)%10)
					gangs[len(gangs)-1].Cost = gangs[len(gangs)-1].Cost.Add(evict.CostOf(victim))
				}
				nodes[i].Victims = append(nodes[i].Victims, victim)
			}
			nodes[i].Slots = func(gone []int) offer.Slots { return offer.Slots(2 * len(gone)) }
		}
		var found evict.Found
		b.Run(c.name+"/choose", func(b *testing.B) {
			b.ReportAllocs()
			defer processor(b)()
			for b.Loop() {
				if found = evict.Cheapest(evict.Problem{World: w, Request: r, Nodes: nodes, Gangs: gangs}); found.Plan == nil {
					b.Fatal("no eviction")
				}
			}
		})
		if found.Plan == nil {
			continue
		}
		b.Run(c.name+"/consider", func(b *testing.B) {
			b.ReportAllocs()
			defer processor(b)()
			for b.Loop() {
				if choice := evict.Consider(evict.Problem{World: w, Request: r, Nodes: nodes, Gangs: gangs}, found,
					evict.Comparing{}); len(choice.Considered) != c.domains {
					b.Fatal(choice)
				}
			}
		})
	}
}

// processor reports the CPU time of the process, which does not depend on other processes.
func processor(b *testing.B) func() {
	spent := func() time.Duration {
		var use syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
			b.Fatal(err)
		}
		return time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	before := spent()
	return func() {
		b.ReportMetric(float64((spent()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	}
}
