package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const day = 24 * time.Hour

// size is a number of nodes, and how often jobs of this size come.
type size struct {
	nodes int
	parts float64
}

// sizes are as in Seren's jobs of several nodes (AcmeTrace), up to half of a spine of 32. The weight of single pods gives them 30 % of the
// node time: between Seren (12 %) and Helios (41 %).
var sizes = []size{{1, 18.5}, {2, 3}, {4, 2.5}, {8, 1.6}, {16, 0.9}}

// Durations are the log-normal fit of Philly's (n = 83,154), in seconds. Jobs that would be shorter than trace.shortest are left out: they
// are most of all jobs, and have little of the node time.
const (
	durationMu    = 6.85
	durationSigma = 2.18
	longest       = 7 * day
)

// Faults are as in the trace of InfiniteHBD (SIGCOMM 2025): 400 nodes, 348 days, 584 faults. faultRate is for 1,000 node-days.
const faultRate = 4.2

// repeaters are parts of the nodes, worst first, and their parts of the faults: the worst 5 % have 24 %, the worst 10 % have 41 %.
var repeaters = []struct{ nodes, faults float64 }{{0.05, 0.24}, {0.05, 0.17}, {0.90, 0.59}}

// quantile is a point of a distribution.
type quantile struct {
	part float64
	days float64
}

// repairs are the days until a node is back. The trace has no least value: ten minutes is a guess.
var repairs = []quantile{{0, 0.007}, {0.10, 0.009}, {0.25, 0.09}, {0.50, 0.85}, {0.75, 3.2}, {0.90, 13.7}, {0.95, 31}, {0.99, 81}, {1, 81}}

// The trace does not say how a fault reaches the pod. Half of the faults here end the pod at once, and the node is cordoned. The other half
// make the node not ready: its pods are deleted after the toleration that Kubernetes gives every pod.
const (
	deadPart   = 0.5
	toleration = 300 * time.Second
)

// The controller recreates a deleted pod after 1 to 10 s. For half of the nodes that are not ready it takes 1 to 10 min: a StatefulSet or a
// LeaderWorkerSet waits until the pod is gone, for which the node must be deleted or get the taint out-of-service.
const (
	latePart   = 0.5
	leastDelay = time.Second
	mostDelay  = 10 * time.Second
)

// Job is a gang, or a single pod if Nodes is 1. Each pod takes a whole node. Times count from the begin of the history.
type Job struct {
	Name  string
	At    time.Duration
	Lasts time.Duration // work, while all pods run
	Nodes int
}

// Fault makes a node unusable.
type Fault struct {
	At    time.Duration
	Node  int
	Down  time.Duration
	Dead  bool          // the node is not ready
	Delay time.Duration // of the controller
}

// Options say how large a history is.
type Options struct {
	Nodes    int
	Spine    int // nodes of a spine; the last spine may be smaller
	Days     float64
	Load     float64       // part of all nodes that the jobs request on the mean
	Shortest time.Duration // of the jobs
	Faults   float64       // for 1,000 node-days
}

// during returns how long the history lasts.
func (o Options) during() time.Duration { return time.Duration(o.Days * float64(day)) }

// Trace is what happens to each configuration: the same jobs and faults at the same times.
type Trace struct {
	Options
	Seed   uint64
	Jobs   []Job   // by At
	Breaks []Fault // by At
}

// NewTrace returns a trace. Equal arguments make equal traces. At the begin the cluster has its load: jobs that have run for a while.
func NewTrace(o Options, seed uint64) Trace {
	t := Trace{Options: o, Seed: seed}
	random := rand.New(rand.NewPCG(seed, 0))
	for asked := 0.0; asked < o.Load*float64(o.Nodes); {
		lasts := o.lasts(random)
		if random.Float64() > float64(lasts)/float64(longest) { // a job that is met at some moment is likely to be a long one
			continue
		}
		asked += float64(t.add(0, time.Duration(random.Float64()*float64(lasts)), o.drawSize(random)))
	}
	mean := o.load(random)
	for at := 0.0; ; {
		at += random.ExpFloat64() * mean / (o.Load * float64(o.Nodes))
		if at >= o.during().Seconds() {
			break
		}
		t.add(seconds(at), o.lasts(random), o.drawSize(random))
	}
	t.addFaults(rand.New(rand.NewPCG(seed, 1)))
	return t
}

// add appends a job and returns its number of nodes.
func (t *Trace) add(at, lasts time.Duration, nodes int) int {
	t.Jobs = append(t.Jobs, Job{Name: fmt.Sprintf("job-%d", len(t.Jobs)), At: at, Lasts: lasts, Nodes: nodes})
	return nodes
}

// load returns the mean of nodes × seconds of a job, of many draws.
func (o Options) load(random *rand.Rand) float64 {
	total := 0.0
	const draws = 100_000
	for range draws {
		total += float64(o.drawSize(random)) * o.lasts(random).Seconds()
	}
	return total / draws
}

// addFaults appends the faults. A node that is down has no second fault. Faults from before the begin matter if the node is still down.
func (t *Trace) addFaults(random *rand.Rand) {
	order := random.Perm(t.Nodes) // the worst nodes first
	longestRepair := repairs[len(repairs)-1].days
	down := slices.Repeat([]time.Duration{-days(longestRepair)}, t.Nodes)
	for at := -longestRepair; ; {
		at += random.ExpFloat64() / (t.Faults / 1000 * float64(t.Nodes))
		if at >= t.Days {
			return
		}
		f := Fault{
			At: days(at), Node: order[drawRank(random, t.Nodes)], Down: days(drawDays(random)), Dead: random.Float64() < deadPart,
			Delay: leastDelay + time.Duration(random.Float64()*float64(mostDelay-leastDelay)),
		}
		if late := random.Float64() < latePart; late && f.Dead {
			f.Delay *= 60
		}
		if f.At < down[f.Node] {
			continue
		}
		down[f.Node] = f.At + f.Down
		if f.At < 0 {
			f.At, f.Down = 0, down[f.Node]
		}
		if f.Down > 0 {
			t.Breaks = append(t.Breaks, f)
		}
	}
}

// lasts draws a duration.
func (o Options) lasts(random *rand.Rand) time.Duration {
	for {
		d := seconds(math.Exp(min(durationMu+durationSigma*random.NormFloat64(), 20)))
		if d >= o.Shortest {
			return min(d, longest)
		}
	}
}

// drawSize draws the number of nodes of a job: at most half of a spine.
func (o Options) drawSize(random *rand.Rand) int {
	possible, all := 0, 0.0
	for _, s := range sizes {
		if s.nodes <= max(o.Spine/2, 1) {
			possible, all = possible+1, all+s.parts
		}
	}
	at := random.Float64() * all
	for _, s := range sizes[:possible] {
		if at -= s.parts; at < 0 {
			return s.nodes
		}
	}
	return sizes[possible-1].nodes
}

// drawRank draws a node by its rank, the worst is 0.
func drawRank(random *rand.Rand, nodes int) int {
	at, first := random.Float64(), 0.0
	for _, r := range repeaters {
		if at < r.faults {
			return min(int((first+at/r.faults*r.nodes)*float64(nodes)), nodes-1)
		}
		at, first = at-r.faults, first+r.nodes
	}
	return nodes - 1
}

// drawDays draws a time to repair. Between the quantiles its logarithm grows evenly.
func drawDays(random *rand.Rand) float64 {
	at := random.Float64()
	for i := 1; ; i++ {
		if low, high := repairs[i-1], repairs[i]; at <= high.part {
			along := (at - low.part) / (high.part - low.part)
			return math.Exp(math.Log(low.days) + along*(math.Log(high.days)-math.Log(low.days)))
		}
	}
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

func days(d float64) time.Duration { return seconds(d * day.Seconds()) }
