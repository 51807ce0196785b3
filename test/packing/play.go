package main

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// job is a gang, in units of the mean duration.
type job struct {
	size          int
	comes, lasts  float64
	starts, ends  float64
	nodes         []int
	started, gone bool
}

// queue tries those who wait in their order, and returns who waits on. Whoever some leaf takes starts.
func queue(c *cluster, waiting []*job, now float64) (left []*job) {
	refused := largest + 1 // so many found no leaf, and nobody has left since
	for i, j := range waiting {
		if j.size < refused {
			nodes, ok := c.start(j.size, beside(left, waiting[i+1:]))
			if ok {
				j.nodes, j.started, j.starts, j.ends = nodes, true, now, now+j.lasts
				continue
			}
			refused = j.size
		}
		left = append(left, j)
	}
	return left
}

func beside(before, behind []*job) (out []offer.Slots) {
	for _, of := range [][]*job{before, behind} {
		for _, j := range of {
			out = append(out, offer.Slots(j.size))
		}
	}
	return out
}

// trace is how gangs come.
type trace struct {
	name  string
	load  float64 // of all nodes
	batch float64 // so many gangs come at a time, in the mean
	slope float64 // gangs of n nodes are as frequent as n to the minus so much
}

const gangs = 1000

func (t trace) draw(seed uint64) (out []*job) {
	r := rand.New(rand.NewPCG(seed, 30))
	weights, sum, mean := make([]float64, largest+1), 0.0, 0.0
	for n := 1; n <= largest; n++ {
		weights[n] = math.Pow(float64(n), -t.slope)
		sum += weights[n]
		mean += weights[n] * float64(n)
	}
	every := mean / sum / t.load / float64(len(newCluster(planner{}).free))
	now := 0.0
	for range gangs {
		if r.Float64() < 1/t.batch {
			now += r.ExpFloat64() * every * t.batch
		}
		size, at := 1, r.Float64()*sum
		for ; size < largest && at >= weights[size]; size++ {
			at -= weights[size]
		}
		out = append(out, &job{size: size, comes: now, lasts: r.ExpFloat64()})
	}
	return out
}

// outcome is what came of all gangs of some plays.
type outcome struct {
	waits     [classes][]float64
	busy      float64 // nodes × time, as long as gangs came
	open      float64 // nodes × time that there were
	fits      float64 // the most nodes free in a leaf × time
	scattered float64 // nodes free × time
	span      float64
	makespan  float64
}

const classes = 4

var classNames = [classes]string{"1–2", "3–5", "6–8", "9–11"}

func class(size int) int { return min(size/3, classes-1) }

// play has gangs come, wait, run and end.
func (o *outcome) play(c *cluster, all []*job) {
	var waiting, running []*job
	last := all[len(all)-1].comes
	now, next := 0.0, 0
	for next < len(all) || len(running) > 0 {
		then := math.Inf(1)
		if next < len(all) {
			then = all[next].comes
		}
		for _, j := range running {
			then = min(then, j.ends)
		}
		if dt := min(then, last) - now; dt > 0 {
			free, most := c.holes()
			o.busy += dt * float64(len(c.free)-free)
			o.open += dt * float64(len(c.free))
			o.fits += dt * float64(most)
			o.scattered += dt * float64(free)
			o.span += dt
		}
		now = then
		running = slices.DeleteFunc(running, func(j *job) bool {
			if j.gone = j.ends <= now; j.gone {
				c.end(j.nodes)
			}
			return j.gone
		})
		for ; next < len(all) && all[next].comes <= now; next++ {
			waiting = append(waiting, all[next])
		}
		tried := waiting
		waiting = queue(c, waiting, now)
		for _, j := range tried {
			if j.started {
				running = append(running, j)
			}
		}
	}
	for _, j := range all {
		k := class(j.size)
		o.waits[k] = append(o.waits[k], j.starts-j.comes)
	}
	o.makespan += now
}

// atOnce has so many gangs wait at once for a cluster some of which is taken, and says how many start, and their members. Each
// size is as frequent as another.
func atOnce(by planner, seed uint64, count int, taken float64) (started, members int) {
	r := rand.New(rand.NewPCG(seed, 31))
	c := newCluster(by)
	for n := range c.free {
		if r.Float64() < taken {
			c.free[n] = 0
		}
	}
	var all []*job
	for range count {
		all = append(all, &job{size: 1 + r.IntN(largest)})
	}
	queue(c, all, 0)
	for _, j := range all {
		if j.started {
			started, members = started+1, members+j.size
		}
	}
	return started, members
}
