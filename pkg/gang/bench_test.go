package gang_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// throng is a number of gangs of one size whose members have no rank. Sorting by name costs the most.
type throng struct {
	gangs   []string
	members []gang.Member   // gang by gang, in the order in which they speak
	came    []gang.Member   // the same, in the order in which they come and go
	plans   []gang.Planned  // one for each gang
	book    *gang.Book      // nil before the first part
	now     time.Time       // of the virtual clock
	took    []time.Duration // by part
}

// onNode is how many members the plans put on one node.
const onNode = 8

func newThrong(gangs, size int) *throng {
	c := &throng{now: time.Unix(0, 0)}
	for i := range gangs {
		name := fmt.Sprintf("ns/gang-%05d", i)
		plan := gang.Planned{Group: ref(name)}
		for j := range size {
			m := gang.Member{Gang: ref(name), Pod: fmt.Sprintf("%s-%05d", name, j), UID: fmt.Sprintf("uid-%05d-%05d", i, j), Rank: gang.NoRank}
			c.members = append(c.members, m)
			plan.Places = append(plan.Places, gang.Assignment{Pod: m.Pod, Node: fmt.Sprintf("node-%05d", (len(c.members)-1)/onNode)})
		}
		c.gangs, c.plans = append(c.gangs, name), append(c.plans, plan)
	}
	c.came = append(c.came, c.members...)
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(c.came), func(i, j int) { c.came[i], c.came[j] = c.came[j], c.came[i] })
	return c
}

func (c *throng) size() int { return len(c.members) / len(c.gangs) }

func (c *throng) apply(ev gang.Event) { c.book.Apply(ev, c.now) }

// part is a step in the life of gangs.
type part struct {
	name string
	do   func(*throng)
}

// come takes gangs from their first member to complete, end to their last event. back is for members that enter in
// turn, until a node does not accept one of them.
var (
	come = []part{{"declared", (*throng).declare}, {"seen", (*throng).see}}
	hold = slices.Concat(come, []part{{"admit", (*throng).admit}, {"planned", (*throng).plan}})
	end  = slices.Concat(hold,
		[]part{{"admit-planned", (*throng).admit}, {"held", (*throng).hold}, {"bound", (*throng).bind}, {"left", (*throng).leave}})
	back = slices.Concat(come,
		[]part{{"in-turn", (*throng).inTurn}, {"released", (*throng).release}, {"refused", (*throng).refuse}, {"left", (*throng).leave}})
)

// begin takes a new book through parts.
func (c *throng) begin(way []part) {
	c.book, c.took = gang.New(strings.Compare), append(c.took, make([]time.Duration, len(way)-len(c.took))...)
	for i, part := range way {
		start := time.Now()
		part.do(c)
		c.took[i] += time.Since(start)
	}
}

func (c *throng) declare() {
	for _, name := range c.gangs {
		c.apply(declared(name, c.size()))
	}
}

func (c *throng) see() {
	for _, m := range c.came {
		c.apply(gang.Seen{Member: m})
	}
}

func (c *throng) admit() {
	for _, m := range c.came {
		c.book.Admit(m.Pod)
	}
}

func (c *throng) plan() {
	for _, p := range c.plans {
		c.apply(p)
	}
}

func (c *throng) hold() {
	for _, m := range c.came {
		c.apply(gang.Assumed{Pod: m.Pod})
		c.apply(gang.Held{Pod: m.Pod})
	}
}

// bind binds members in their order, so that the representative changes with each one.
func (c *throng) bind() {
	for i, m := range c.members {
		m.Node = c.plans[i/c.size()].Places[i%c.size()].Node
		c.apply(gang.Seen{Member: m})
	}
}

func (c *throng) leave() {
	for _, m := range c.came {
		c.apply(gang.MemberDeleted{Pod: m.Pod, UID: m.UID})
	}
}

// inTurn brings all but the last members of each gang to the barrier.
func (c *throng) inTurn() {
	for _, p := range c.plans {
		p.InOrder = true
		c.apply(p)
		for _, place := range p.Places[1:] {
			c.book.NodeAssignment(place.Pod)
		}
		for _, place := range p.Places[:len(p.Places)-1] {
			c.apply(gang.Assumed{Pod: place.Pod})
			c.apply(gang.Held{Pod: place.Pod})
		}
		c.apply(gang.Assumed{Pod: p.Places[len(p.Places)-1].Pod})
	}
}

func (c *throng) release() {
	for _, p := range c.plans {
		for _, place := range slices.Backward(p.Places) {
			c.apply(gang.Released{Pod: place.Pod, Why: "no"})
		}
	}
}

func (c *throng) refuse() {
	for _, name := range c.gangs {
		c.apply(noRoom(name))
	}
}

var crowds = []struct{ gangs, size int }{{1, 100}, {1, 1_000}, {1, 10_000}, {10_000, 8}}

// each runs a benchmark for every crowd.
func each(b *testing.B, do func(*testing.B, *throng)) {
	for _, n := range crowds {
		b.Run(fmt.Sprintf("gangs=%d/size=%d", n.gangs, n.size), func(b *testing.B) { do(b, newThrong(n.gangs, n.size)) })
	}
}

// BenchmarkEnd measures the cost of each part per member. That cost must not grow with the size of the gang.
func BenchmarkEnd(b *testing.B) { perMember(b, end) }

// BenchmarkBack is the same for gangs that do not bind.
func BenchmarkBack(b *testing.B) { perMember(b, back) }

func perMember(b *testing.B, way []part) {
	each(b, func(b *testing.B, c *throng) {
		n := 0
		for b.Loop() {
			c.begin(way)
			n += len(c.members)
		}
		var all time.Duration
		for i, part := range way {
			all += c.took[i]
			b.ReportMetric(float64(c.took[i])/float64(n), part.name+"-ns/member")
		}
		b.ReportMetric(float64(all)/float64(n), "all-ns/member")
	})
}

// BenchmarkView measures the reads of a planner and a reporter for a gang.
func BenchmarkView(b *testing.B) {
	for _, size := range []int{100, 1_000, 10_000} {
		c := newThrong(1, size)
		c.begin(hold)
		b.Run(fmt.Sprintf("what=group/size=%d", size), func(b *testing.B) {
			for b.Loop() {
				c.book.Group(c.members[0].Pod)
			}
		})
		b.Run(fmt.Sprintf("what=state/size=%d", size), func(b *testing.B) {
			for b.Loop() {
				c.book.State(ref(c.gangs[0]))
			}
		})
		b.Run(fmt.Sprintf("what=places/size=%d", size), func(b *testing.B) {
			for b.Loop() {
				c.book.PlacesOn("node-00000")
			}
		})
	}
}

// BenchmarkTick lets a second pass while gangs are unschedulable, without and with capacity holds.
func BenchmarkTick(b *testing.B) {
	for _, starve := range []time.Duration{0, time.Hour, time.Second} {
		b.Run(fmt.Sprint("starve=", starve), func(b *testing.B) {
			c := newThrong(10_000, 8)
			c.begin(come)
			c.book.Starve = starve
			c.refuse()
			for b.Loop() {
				c.now = c.now.Add(time.Second)
				c.apply(gang.Tick{})
			}
		})
	}
}

// BenchmarkMemory measures the memory of the book for each member of a gang with a plan.
func BenchmarkMemory(b *testing.B) {
	each(b, func(b *testing.B, c *throng) {
		var before, after runtime.MemStats
		for b.Loop() {
			c.book = nil
			runtime.GC()
			runtime.ReadMemStats(&before)
			c.begin(hold)
			runtime.GC()
			runtime.ReadMemStats(&after)
		}
		b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(len(c.members)), "kept-B/member")
	})
}
