package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const day = 24 * time.Hour

// size is a number of pods and of the GPUs of each, and how often jobs of this size come.
type size struct {
	nodes, gpus int
	parts       float64
}

// class is a part of the jobs, with their sizes and durations in seconds.
type class struct {
	parts float64
	sizes []size
	lasts func(*rand.Rand) float64
}

// mixes are the jobs of histories. The figures are from public traces (AcmeTrace). Gangs have at most half of a spine.
var mixes = map[string][]class{
	// Jobs of several nodes as in Seren, with durations as in Philly. The weight of single pods gives them 30 % of the node time: between
	// Seren (12 %) and Helios (41 %).
	"Whole nodes": {{sizes: []size{{1, 8, 18.5}, {2, 8, 3}, {4, 8, 2.5}, {8, 8, 1.6}, {16, 8, 0.9}}, lasts: philly}},
	// Jobs of more than 4 GPUs, in whole nodes.
	"Seren": {
		{91, []size{{1, 8, 1}}, drawn(
			quantile{0, 1}, quantile{0.1, 7}, quantile{0.25, 18}, quantile{0.5, 134}, quantile{0.75, 413}, quantile{0.9, 1352},
			quantile{0.95, 3269}, quantile{0.99, 27_528}, quantile{1, 604_800})},
		{8, []size{{2, 8, 3}, {4, 8, 2.5}, {8, 8, 1.6}, {16, 8, 0.9}}, drawn( // pretraining
			quantile{0, 1}, quantile{0.5, 297}, quantile{0.75, 1196}, quantile{0.9, 24_639}, quantile{0.95, 77_333},
			quantile{0.99, 313_273}, quantile{1, 604_800})},
	},
	"Philly": {{sizes: []size{{1, 8, 86}, {2, 8, 11}, {4, 8, 2.5}}, lasts: philly}},
	// Jobs of all sizes.
	"Philly GPUs": {{sizes: []size{{1, 1, 82}, {1, 2, 2.5}, {1, 4, 7.5}, {1, 8, 6.9}, {2, 8, 0.9}, {4, 8, 0.2}}, lasts: philly}},
}

// philly draws from the log-normal fit of Philly's durations (n = 83,154).
func philly(random *rand.Rand) float64 { return math.Exp(min(6.85+2.18*random.NormFloat64(), 20)) }

// limits are the run times that are declared: people declare a few round values (Tsafrir, JSSPP 2010). A job declares the least that is
// at least its duration times 1 to Options.Over.
var limits = []time.Duration{
	10 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 12 * time.Hour,
	day, 2 * day, 3 * day, 5 * day, 7 * day,
}

// FaultRate is the number of faults in 1,000 node-days, as in the trace of InfiniteHBD (SIGCOMM 2025): 400 nodes, 348 days, 584 faults.
const FaultRate = 4.2

// repeaters are parts of the nodes, worst first, and their parts of the faults: the worst 5 % have 24 %, the worst 10 % have 41 %.
var repeaters = []struct{ nodes, faults float64 }{{0.05, 0.24}, {0.05, 0.17}, {0.90, 0.59}}

// quantile is a point of a distribution.
type quantile struct {
	part  float64
	value float64
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

// Job is a gang, or a single pod if Nodes is 1. Times count from the begin of the history.
type Job struct {
	Name  string
	At    time.Duration
	Lasts time.Duration // work, while all pods run
	Nodes int           // pods
	GPUs  int           // of each pod
	Limit time.Duration // that is declared, if Declarer is less than Configuration.Declares
	// Declarer is evenly distributed from 0 to 1.
	Declarer float64
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
	Mix      string // of the jobs: a key of mixes
	Nodes    int
	Spine    int // nodes of a spine; the last spine may be smaller
	Days     float64
	Load     float64       // part of all nodes that the jobs request on the mean
	Shortest time.Duration // of the jobs; shorter ones are left out
	Longest  time.Duration // of the jobs; longer ones are cut
	Over     float64       // how many times its duration a job declares at the most; 1: the duration itself
	Faults   float64       // for 1,000 node-days
}

// During returns how long the history lasts.
func (o Options) During() time.Duration { return time.Duration(o.Days * float64(day)) }

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
	jobs := drawer{o, o.classes(), random}
	declare := rand.New(rand.NewPCG(seed, 2))
	for asked := 0.0; asked < o.Load*float64(o.Nodes); {
		c := jobs.class()
		lasts := jobs.lasts(c)
		if random.Float64() > float64(lasts)/float64(o.Longest) { // a job that is met at some moment is likely to be a long one
			continue
		}
		asked += t.add(0, time.Duration(random.Float64()*float64(lasts)), jobs.size(c), declare)
	}
	mean := jobs.load()
	for at := 0.0; ; {
		at += random.ExpFloat64() * mean / (o.Load * float64(o.Nodes))
		if at >= o.During().Seconds() {
			break
		}
		c := jobs.class()
		t.add(seconds(at), jobs.lasts(c), jobs.size(c), declare)
	}
	t.addFaults(rand.New(rand.NewPCG(seed, 1)))
	return t
}

// add appends a job and returns its number of nodes.
func (t *Trace) add(at, lasts time.Duration, s size, declare *rand.Rand) float64 {
	limit := time.Duration((1 + declare.Float64()*(t.Over-1)) * float64(lasts))
	if t.Over > 1 {
		i, _ := slices.BinarySearch(limits, limit)
		limit = limits[min(i, len(limits)-1)]
	}
	t.Jobs = append(t.Jobs, Job{
		Name: fmt.Sprintf("job-%d", len(t.Jobs)), At: at, Lasts: lasts, Nodes: s.nodes, GPUs: s.gpus,
		Limit: limit, Declarer: declare.Float64(),
	})
	return s.share()
}

// share returns the number of nodes, of which a job may need a part.
func (s size) share() float64 { return float64(s.nodes*s.gpus) / WholeNode }

// addFaults appends the faults. A node that is down has no second fault. Faults from before the begin matter if the node is still down.
func (t *Trace) addFaults(random *rand.Rand) {
	order := random.Perm(t.Nodes) // the worst nodes first
	longestRepair := repairs[len(repairs)-1].value
	down := slices.Repeat([]time.Duration{-days(longestRepair)}, t.Nodes)
	for at := -longestRepair; ; {
		at += random.ExpFloat64() / (t.Faults / 1000 * float64(t.Nodes))
		if at >= t.Days {
			return
		}
		f := Fault{
			At: days(at), Node: order[drawRank(random, t.Nodes)], Down: days(drawn(repairs...)(random)), Dead: random.Float64() < deadPart,
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

// classes returns the classes of the mix, with their parts among the jobs that are not left out.
func (o Options) classes() []class {
	random := rand.New(rand.NewPCG(0, 0))
	all := slices.Clone(mixes[o.Mix])
	for i, c := range all {
		stay := 0.0
		const draws = 100_000
		for range draws {
			if seconds(c.lasts(random)) >= o.Shortest {
				stay++
			}
		}
		all[i].parts *= stay / draws
	}
	return all
}

// drawer draws jobs.
type drawer struct {
	Options
	classes []class
	random  *rand.Rand
}

// class draws a class.
func (d drawer) class() class {
	return drawPart(d.classes, d.random, func(c class) float64 { return c.parts })
}

// lasts draws a duration.
func (d drawer) lasts(c class) time.Duration {
	for {
		if t := seconds(c.lasts(d.random)); t >= d.Shortest {
			return min(t, d.Longest)
		}
	}
}

// size draws a size: at most half of a spine.
func (d drawer) size(c class) size {
	possible := len(c.sizes)
	for possible > 1 && c.sizes[possible-1].nodes > max(d.Spine/2, 1) {
		possible--
	}
	return drawPart(c.sizes[:possible], d.random, func(s size) float64 { return s.parts })
}

// load returns the mean of nodes × seconds of a job, of many draws.
func (d drawer) load() float64 {
	total := 0.0
	const draws = 100_000
	for range draws {
		c := d.class()
		total += d.size(c).share() * d.lasts(c).Seconds()
	}
	return total / draws
}

// drawPart draws one of several that come as often as their parts say. It takes no random number for a single one.
func drawPart[T any](all []T, random *rand.Rand, parts func(T) float64) T {
	if len(all) == 1 {
		return all[0]
	}
	sum := 0.0
	for _, one := range all {
		sum += parts(one)
	}
	at := random.Float64() * sum
	for _, one := range all {
		if at -= parts(one); at < 0 {
			return one
		}
	}
	return all[len(all)-1]
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

// drawn returns a draw from a distribution. Between the quantiles the logarithm grows evenly.
func drawn(quantiles ...quantile) func(*rand.Rand) float64 {
	return func(random *rand.Rand) float64 {
		at := random.Float64()
		for i := 1; ; i++ {
			if low, high := quantiles[i-1], quantiles[i]; at <= high.part {
				along := (at - low.part) / (high.part - low.part)
				return math.Exp(math.Log(low.value) + along*(math.Log(high.value)-math.Log(low.value)))
			}
		}
	}
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

func days(d float64) time.Duration { return seconds(d * day.Seconds()) }
