package evict_test

import (
	"fmt"
	"testing"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// hopeless is a cluster of spines of 128 nodes, and a gang that does not fit with any eviction. Each node has 8
// victims, and one member fits in the place of each.
type hopeless struct {
	name    string
	size    int
	shape   string // of the victims
	gangs   bool   // the victims are of gangs of 8 that may not be evicted
	members int    // in one spine; 1024 would fit
	unlike  int    // of how many kinds the members are
	threes  bool   // in multiples of three in a spine
	search  bool   // there is capacity for each kind
}

func hopelessCases(size int) []hopeless {
	return []hopeless{
		{name: "too many", size: size, shape: "pod", members: 1025, unlike: 1},
		{name: "too many, unlike victims", size: size, members: 1025, unlike: 1},
		{name: "gangs that may not be evicted", size: size, shape: "pod", gangs: true, members: 600, unlike: 1},
		{name: "too many unlike members", size: size, shape: "pod", members: 1100, unlike: 2},
		{name: "one unlike member too many", size: size, shape: "pod", members: 1025, unlike: 2, search: true},
		{name: "heterogeneous members and gangs that may not be evicted", size: size, shape: "pod", gangs: true, members: 600, unlike: 2},
		{name: "no sum of threes", size: size, shape: "pod", members: 16, unlike: 16, threes: true},
	}
}

// prepare returns a search for an eviction. asked counts its questions to nodes.
func (h hopeless) prepare(asked *int) (ask func() (found bool)) {
	var leaves []topology.Node
	for i := range h.size {
		leaves = append(leaves, topology.Node{Name: fmt.Sprint("node-", i), Path: []string{fmt.Sprint("spine-", i/128)}})
	}
	tree := topology.Build([]string{"Spine"}, leaves)
	raw := make([]evict.RawNode, h.size)
	nodes := make([]func(gone []int, load []offer.Slots, kind int) offer.Slots, h.size)
	var gangs []evict.Gang
	for i := range h.size {
		if h.gangs {
			gangs = append(gangs, evict.Gang{})
		}
		for v := range 8 {
			raw[i].Victims = append(raw[i].Victims,
				evict.Victim{Name: fmt.Sprint(v), Priority: int32((i + v) % 10), Shape: h.shape, Gang: len(gangs)})
		}
		raw[i].Slots = func(gone []int) offer.Slots { *asked++; return offer.Slots(len(gone)) }
		nodes[i] = func(gone []int, load []offer.Slots, _ int) offer.Slots {
			*asked++
			left := offer.Slots(len(gone))
			for _, n := range load {
				left -= n
			}
			return max(left, 0)
		}
	}
	multiple := offer.Multiples{0, 1, 0}
	if h.threes {
		multiple[1] = 3
	}
	n := offer.Slots(h.members)
	w := plan.World{Tree: tree, Free: make([]offer.Slots, h.size), Capacity: make([]offer.Slots, h.size)}
	if h.unlike == 1 {
		r := plan.Request{Want: n, Min: n, Must: 1, Multiple: multiple}
		return func() bool {
			e := evict.Cheapest(evict.Problem{World: w, Request: r, Nodes: raw, Gangs: gangs})
			return e.Plan != nil || !e.Conclusive
		}
	}
	j := mixed.Job{Gangs: []mixed.Gang{{Need: n}}, All: plan.Gather{Must: 1, Multiple: multiple}}
	for kind := range h.unlike {
		j.Classes = append(j.Classes, mixed.Class{Kind: kind})
	}
	for rank := range h.members { // the last kind has all remaining members
		c := &j.Classes[min(rank, h.unlike-1)]
		c.Ranks = append(c.Ranks, rank)
	}
	return func() bool {
		problem := evict.Problem{World: w, Nodes: raw, Gangs: gangs, Request: plan.Request{Want: n, Min: n, Must: 1, Multiple: multiple}}
		problem.Placement = hopelessMembers{j, w, nodes}
		e := evict.Cheapest(problem)
		return e.Placed != nil || !e.Conclusive
	}
}

// hopelessMembers plans members of several kinds.
type hopelessMembers struct {
	job   mixed.Job
	world plan.World
	takes []func(gone []int, load []offer.Slots, kind int) offer.Slots // by node index
}

func (m hopelessMembers) Fits(gone []evict.Pick) (evict.Placed, bool) {
	by := map[int][]int{}
	for _, p := range gone {
		by[p.Node] = append(by[p.Node], p.Victim)
	}
	w := mixed.World{
		World: m.world, Take: func(node int, load []offer.Slots, kind int) offer.Slots { return m.takes[node](by[node], load, kind) },
	}
	w.Free = make([]offer.Slots, len(m.takes))
	for i := range w.Free {
		w.Free[i] = offer.Slots(len(by[i]))
	}
	w.Capacity = w.Free
	p, refusal := mixed.Choose(w, m.job)
	if refusal != nil {
		return nil, !refusal.Incomplete
	}
	return hopelessPlaced{m, p}, true
}

// hopelessPlaced is a plan that is searched again for each smaller set of victims.
type hopelessPlaced struct {
	hopelessMembers
	plan *mixed.Plan
}

func (p hopelessPlaced) Uses(int) bool        { return true }
func (p hopelessPlaced) Places() []plan.Place { return nil }
func (p hopelessPlaced) All() bool            { return true }

func (p hopelessPlaced) Holds(gone []evict.Pick, _ []int) bool {
	again, _ := p.Fits(gone)
	return again != nil
}

// A gang that no eviction helps is reported without a search. Each node answers once with all its victims gone, and
// heterogeneous members are planned once.
func TestImpossibleEvictionIsFoundWithoutSearch(t *testing.T) {
	for _, h := range hopelessCases(256) {
		asked := 0
		if h.prepare(&asked)() {
			t.Errorf("%s: there is an eviction, or it is not known", h.name)
		}
		most := (h.unlike + 1) * h.size // with all victims gone, and once more with all evictable victims gone
		if h.unlike > 1 {
			most = 24 * h.size // the placement check plans once, with all gone that may be evicted
		}
		if asked > most && !h.search {
			t.Errorf("%s: %d questions to %d nodes", h.name, asked, h.size)
		}
		h.members, h.threes, h.gangs = 64, false, false
		if h.unlike < 3 && !h.prepare(&asked)() {
			t.Errorf("%s: there is no eviction for 64 members either", h.name)
		}
	}
}

// BenchmarkImpossibleEviction measures a cluster event for a waiting gang that no eviction helps.
func BenchmarkImpossibleEviction(b *testing.B) {
	for _, h := range hopelessCases(2048) {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			asked := 0
			ask := h.prepare(&asked)
			defer processor(b)()
			for b.Loop() {
				if ask() {
					b.Fatal("there is an eviction")
				}
			}
			b.ReportMetric(float64(asked)/float64(b.N*h.size), "questions/node")
		})
	}
}
