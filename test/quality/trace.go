package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Cluster is leafs in spines. A pod takes a whole node.
type Cluster [][]Leaf

// Leaf is so many nodes. The first ones of them are broken: they exist, and are unschedulable.
type Leaf struct {
	Nodes  int    `json:"nodes"`
	Broken int    `json:"broken,omitempty"`
	Type   string `json:"type,omitempty"` // of their GPUs
}

// Types of GPUs: most nodes have the first one.
const (
	oldType = "old"
	newType = "new"
)

// Unequal is a cluster as real ones are after some years: leafs of all sizes, one with broken nodes, two with newer GPUs.
var Unequal = Cluster{
	{{11, 0, oldType}, {8, 0, oldType}, {6, 2, oldType}, {6, 0, newType}, {5, 0, oldType}, {3, 0, oldType}, {2, 0, oldType}},
	{{6, 0, oldType}, {5, 0, newType}, {3, 0, oldType}, {3, 0, oldType}, {2, 0, oldType}, {2, 0, oldType}, {1, 0, oldType}, {1, 0, oldType}},
}

// Node is where a pod may go.
type Node struct {
	Name   string `json:"name"`
	Leaf   string `json:"leaf"`
	Spine  string `json:"spine"`
	Type   string `json:"type,omitempty"`
	Broken bool   `json:"broken,omitempty"`
}

// Nodes are numbered through the whole cluster, and so are leafs.
func (c Cluster) Nodes() (all []Node) {
	leafs := 0
	for s, spine := range c {
		for _, l := range spine {
			for i := range l.Nodes {
				all = append(all, Node{
					fmt.Sprintf("node-%d", len(all)), fmt.Sprintf("leaf-%d", leafs), fmt.Sprintf("spine-%d", s), l.Type, i < l.Broken,
				})
			}
			leafs++
		}
	}
	return all
}

// usable counts the nodes that are not broken, of a type, or of any if it is "": all, and in the largest leaf.
func (c Cluster) usable(of string) (all, largest int) {
	for _, spine := range c {
		for _, l := range spine {
			if n := l.Nodes - l.Broken; of == "" || of == l.Type {
				all, largest = all+n, max(largest, n)
			}
		}
	}
	return all, largest
}

// Gang is pods that run together for a while. Times are of the trace, which begins at 0.
type Gang struct {
	Name     string        `json:"name"`
	At       time.Duration `json:"at"`
	Lasts    time.Duration `json:"lasts"`
	Size     int           `json:"size"`
	Priority int           `json:"priority"` // of Priorities
	Must     bool          `json:"must"`     // one leaf or not at all; else one leaf is preferred, and then one spine
	Type     string        `json:"type,omitempty"`
}

// Priorities are the trace's priorities, low first.
var Priorities = []string{"low", "middle", "high"}

// Kind is how gangs come.
type Kind struct {
	Name string
	// Load is what the gangs outside of bursts request, as a part of the usable nodes.
	Load float64
	// Every so long gangs of high priority come at once that together request this part of the usable nodes. No other gang
	// has high priority then.
	Every time.Duration
	Burst float64
}

// Kinds are the kinds of traces that are compared.
var Kinds = []Kind{
	{Name: "steady", Load: 0.7},
	{Name: "full", Load: 0.95},
	{Name: "bursts", Load: 0.7, Every: 10 * time.Second, Burst: 0.3},
}

// Rush is no comparison: in a few seconds more gangs come than fit, of all priorities. Faults of gangs that wait, evict
// and are evicted appear soon.
var Rush = Kind{Name: "rush", Load: 2, Every: 4 * time.Second, Burst: 0.4}

// Trace is what each contender gets: the same gangs at the same times.
type Trace struct {
	Kind    string  `json:"kind"`
	Seed    uint64  `json:"seed"`
	Cluster Cluster `json:"cluster"`
	Gangs   []Gang  `json:"gangs"`
}

// weighted is a size and how often it comes, of all.
type weighted struct {
	size  int
	parts float64
}

// sizes have the form that is reported of clusters for machine learning: powers of two above all. Small jobs are most of
// all jobs, and the few large ones take most of the time of the GPUs (Hu et al., Characterization and Prediction of Deep
// Learning Workloads in Large-Scale GPU Datacenters, SC 2021; Kokolis et al., Revisiting Reliability in Large-Scale
// Machine Learning Research Clusters, HPCA 2025). The weights are ours. Jobs of less than a node are left out, since the
// network does not matter to them. Other sizes than powers of two are there because they fill leafs.
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
	newPart  = 0.1 // must have the newer GPUs
	// Of all gangs; the rest is of middle priority.
	lowPart, highPart = 0.3, 0.1
)

// generator makes the gangs of one trace.
type generator struct {
	*rand.Rand
	kind     Kind
	possible []weighted
	trace    Trace
}

// Generate makes a trace of gangs that come for so long: Poisson arrivals, and bursts. Equal arguments make equal traces.
func Generate(kind Kind, seed uint64, c Cluster, during time.Duration) Trace {
	all, _ := c.usable("")
	g := generator{
		Rand: rand.New(rand.NewPCG(seed, 0)), kind: kind, trace: Trace{Kind: kind.Name, Seed: seed, Cluster: c},
		possible: slices.DeleteFunc(slices.Clone(sizes), func(w weighted) bool { return w.size > len(c.Nodes())/4 }),
	}
	every := perSecond(all, g.possible, kind.Load)
	for at := g.ExpFloat64() / every; at <= during.Seconds(); at += g.ExpFloat64() / every {
		g.add(seconds(at), g.priority())
	}
	for at := kind.Every; kind.Every > 0 && at <= during; at += kind.Every {
		for asked := 0; float64(asked) < kind.Burst*float64(all); {
			asked += g.add(at, len(Priorities)-1)
		}
	}
	slices.SortStableFunc(g.trace.Gangs, func(a, b Gang) int { return cmp.Compare(a.At, b.At) })
	for i := range g.trace.Gangs {
		g.trace.Gangs[i].Name = fmt.Sprintf("%s-%d-%d", kind.Name, seed, i) // groups that are deleted may keep their names for long
	}
	return g.trace
}

// add has a gang come, and returns its size.
func (g *generator) add(at time.Duration, priority int) int {
	is := Gang{At: at, Lasts: lasts(g.Rand), Size: draw(g.Rand, g.possible), Priority: priority, Must: g.Float64() < mustPart}
	if wants := g.Float64() < newPart; wants {
		is.Type = newType
	}
	all, largest := g.trace.Cluster.usable(is.Type)
	if is.Size > all { // there are not so many of the newer ones
		is.Type = ""
		_, largest = g.trace.Cluster.usable("")
	}
	is.Must = is.Must && is.Size <= largest
	g.trace.Gangs = append(g.trace.Gangs, is)
	return is.Size
}

// perSecond is how many gangs must come for that load of so many nodes.
func perSecond(nodes int, possible []weighted, load float64) float64 {
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
	return load * float64(nodes) / (mean / all * total / draws)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

func lasts(r *rand.Rand) time.Duration {
	d := seconds(medianLasts.Seconds() * math.Exp(sigma*r.NormFloat64()))
	return min(max(d, leastLasts), mostLasts)
}

func (g *generator) priority() int {
	switch p := g.Float64(); {
	case p < lowPart:
		return 0
	case p < lowPart+highPart && g.kind.Every == 0:
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
