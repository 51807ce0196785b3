package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Cluster is nodes in leafs in spines: how many nodes each leaf has. A pod takes a whole node.
type Cluster [][]int

// Unequal is a cluster as real ones are after some years: leafs of all sizes.
var Unequal = Cluster{{11, 8, 6, 6, 5, 3, 2}, {6, 5, 3, 3, 2, 2, 1, 1}}

// Node is where a pod may go.
type Node struct {
	Name  string `json:"name"`
	Leaf  string `json:"leaf"`
	Spine string `json:"spine"`
}

// Nodes are numbered through the whole cluster, and so are leafs.
func (c Cluster) Nodes() (all []Node) {
	leafs := 0
	for s, spine := range c {
		for _, n := range spine {
			for range n {
				all = append(all, Node{fmt.Sprintf("node-%d", len(all)), fmt.Sprintf("leaf-%d", leafs), fmt.Sprintf("spine-%d", s)})
			}
			leafs++
		}
	}
	return all
}

// largest is the size of the largest leaf.
func (c Cluster) largest() (most int) {
	for _, spine := range c {
		most = max(most, slices.Max(spine))
	}
	return most
}

// Gang is pods that run together for a while. Times are of the trace, which begins at 0.
type Gang struct {
	Name     string        `json:"name"`
	At       time.Duration `json:"at"`
	Lasts    time.Duration `json:"lasts"`
	Size     int           `json:"size"`
	Priority int           `json:"priority"` // of Priorities
	Must     bool          `json:"must"`     // one leaf or not at all; else one leaf is preferred, and then one spine
}

// Priorities are those of the trace, low first.
var Priorities = []string{"low", "middle", "high"}

// Trace is what each contender gets: the same gangs at the same times.
type Trace struct {
	Seed    uint64  `json:"seed"`
	Load    float64 `json:"load"`
	Cluster Cluster `json:"cluster"`
	Gangs   []Gang  `json:"gangs"`
}

// weighted is a size and how often it comes, of all.
type weighted struct {
	size  int
	parts float64
}

// sizes have the form that is reported of clusters for machine learning: powers of two above all; small jobs are most of
// all jobs, and the few large ones take most of the time of the GPUs (Hu et al., Characterization and Prediction of Deep Learning
// Workloads in Large-Scale GPU Datacenters, SC 2021; Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning
// Research Clusters, HPCA 2025). The weights are ours: jobs of less than a node are left out, since the network does not matter to
// them, and what is not a power of two is there because leafs are filled with it.
var sizes = []weighted{{1, 30}, {2, 22}, {3, 5}, {4, 17}, {5, 3}, {6, 4}, {8, 11}, {11, 1}, {12, 1}, {16, 5}, {32, 1}}

// Durations are log-normal: the mean is twice the median, a few last very long, as reported there. They are seconds where a
// cluster has hours.
const (
	medianLasts = 4 * time.Second
	sigma       = 1.177 // sqrt(2 ln 2)
	leastLasts  = time.Second
	mostLasts   = 20 * time.Second
)

const (
	mustPart = 0.1
	// Of all gangs; the rest is of middle priority.
	lowPart, highPart = 0.3, 0.1
)

// Generate makes a trace of gangs that come for so long and ask for so much of the cluster: Poisson arrivals. Equal
// arguments make equal traces.
func Generate(seed uint64, c Cluster, load float64, during time.Duration) Trace {
	r := rand.New(rand.NewPCG(seed, 0))
	possible := slices.DeleteFunc(slices.Clone(sizes), func(w weighted) bool { return w.size > len(c.Nodes())/4 })
	every := perSecond(c, possible, load)
	t := Trace{Seed: seed, Load: load, Cluster: c}
	for at := 0.0; ; {
		at += r.ExpFloat64() / every
		if at > during.Seconds() {
			return t
		}
		g := Gang{
			Name: fmt.Sprintf("g%d", len(t.Gangs)), At: seconds(at), Lasts: lasts(r), Size: draw(r, possible),
			Priority: priority(r), Must: r.Float64() < mustPart,
		}
		g.Must = g.Must && g.Size <= c.largest()
		t.Gangs = append(t.Gangs, g)
	}
}

// perSecond is how many gangs must come for that load.
func perSecond(c Cluster, possible []weighted, load float64) float64 {
	all, mean := 0.0, 0.0
	for _, w := range possible {
		all += w.parts
		mean += w.parts * float64(w.size)
	}
	r := rand.New(rand.NewPCG(1, 1)) // of the mean only: bounds have changed that of the distribution
	total := 0.0
	const draws = 10000
	for range draws {
		total += lasts(r).Seconds()
	}
	return load * float64(len(c.Nodes())) / (mean / all * total / draws)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

func lasts(r *rand.Rand) time.Duration {
	d := seconds(medianLasts.Seconds() * math.Exp(sigma*r.NormFloat64()))
	return min(max(d, leastLasts), mostLasts)
}

func priority(r *rand.Rand) int {
	switch p := r.Float64(); {
	case p < lowPart:
		return 0
	case p < lowPart+highPart:
		return 2
	}
	return 1
}

func draw(r *rand.Rand, possible []weighted) int {
	all := 0.0
	for _, w := range possible {
		all += w.parts
	}
	at := r.Float64() * all
	for _, w := range possible {
		if at -= w.parts; at < 0 {
			return w.size
		}
	}
	return possible[len(possible)-1].size
}
