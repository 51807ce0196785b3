package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// EventKind is the kind of an event of a pod, or of all pods of a run.
type EventKind int

const (
	Created  EventKind = iota // all pods of the run exist.
	Bound                     // a pod has a node.
	Evicted                   // the scheduler evicts a pod.
	Gone                      // a pod terminates for another reason.
	Finished                  // the run has come to its end; each of its pods gets an event Gone.
	Stopped                   // the play is over, and not all gangs have ended; of no gang.
)

func (k EventKind) String() string {
	return [...]string{"created", "bound", "evicted", "gone", "finished", "stopped"}[k]
}

// Event is one of them. A gang that lost a member is recreated, and is then another run.
type Event struct {
	At   time.Duration
	Kind EventKind
	Gang string
	Run  int
	Pod  string
	Node string
}

// Columns are what is compared. They are computed from the trace and from the API server's events, by code that knows
// nothing of the contenders' planning.
type Columns struct {
	Gangs    int `json:"gangs"`
	Started  int `json:"started"`
	Pods     int `json:"pods"` // that were bound
	Finished int `json:"finished"`
	// OneLeaf counts the starts in one leaf, of Several starts of more than one pod.
	OneLeaf int `json:"oneLeaf"`
	Several int `json:"several"`
	// Excess counts the domains that were touched above the least possible ones, of all starts.
	ExcessLeafs  int      `json:"excessLeafs"`
	ExcessSpines int      `json:"excessSpines"`
	BrokenMust   []string `json:"brokenMust,omitempty"`
	// Above lists the starts that touched more domains than needed. InVain lists the runs that were evicted without a use.
	Above  []string `json:"above,omitempty"`
	InVain []string `json:"inVain,omitempty"`
	// Waits are from all pods of a gang being there for the first time until all have nodes, by size: a gang that is evicted before that
	// waits on, and one that never starts waits until the play has ended.
	Waits map[string]Quantiles `json:"waits"`
	// Makespan is when the last gang ended, or the play, if some had not.
	Makespan float64 `json:"makespan"`
	// Evicted counts runs that lost a pod to an eviction. Victims counts all pods of such runs that had nodes then, for
	// each contender: without the evicted pod the others are of no use, and end, too. Needless counts evicted runs whose
	// nodes no gang of higher priority took.
	Evicted  int     `json:"evicted"`
	Victims  int     `json:"victims"`
	Needless int     `json:"needless"`
	Lost     float64 `json:"lostPodSeconds"`
	// LargestFit is how many nodes the freest leaf had, over the time in which gangs came. Later a slow contender has an
	// empty cluster.
	LargestFit float64 `json:"largestFit"`
	// Partial are runs that had nodes and never all of them; PartialHeld is pods × seconds that runs held which were not whole.
	Partial     int     `json:"partial"`
	PartialHeld float64 `json:"partialPodSeconds"`
	// Utilisation is the part of all usable nodes × the time in which gangs came on which gangs ran that were whole.
	Utilisation float64 `json:"utilisation"`
}

// Quantiles are seconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// run is what is known of a run.
type run struct {
	gang    *Gang
	name    string
	created time.Duration
	started time.Duration
	nodes   map[string]string // by pod.
	whole   bool              // all have a node now.
	was     bool              // and once had.
	held    bool              // one had a node.
	broken  bool              // it lost a member.
	over    bool              // it has come to its end, and holds nodes only until its pods have gone.
	needed  bool              // a gang of higher priority took a node of it.
}

type runKey struct {
	gang string
	run  int
}

// judge replays what was seen.
type judge struct {
	gangs    map[string]*Gang
	runs     map[runKey]*run
	nodes    map[string]Node
	occupant map[string]*run // by node
	left     map[string]*run // by node: the broken run that had it last
	first    map[string]*run // by gang
	begun    map[string]bool // gangs that have started
	coming   time.Duration   // until when gangs come
	now      time.Duration
	waits    map[string][]float64
	running  float64 // pods × seconds
	fit      float64 // nodes × seconds
	out      Columns
}

// Judge computes the columns. Events are in the order of their times.
func Judge(t Trace, events []Event) Columns {
	j := &judge{
		gangs: map[string]*Gang{}, runs: map[runKey]*run{}, nodes: map[string]Node{},
		occupant: map[string]*run{}, left: map[string]*run{}, waits: map[string][]float64{},
		first: map[string]*run{}, begun: map[string]bool{},
	}
	for i := range t.Gangs {
		j.gangs[t.Gangs[i].Name] = &t.Gangs[i]
		j.coming = max(j.coming, t.Gangs[i].At)
	}
	for _, n := range t.Cluster.Nodes() {
		if !n.Broken {
			j.nodes[n.Name] = n
		}
	}
	j.out.Gangs = len(t.Gangs)
	for _, e := range events {
		j.pass(e.At)
		if e.Kind != Stopped {
			j.see(e)
		}
	}
	return j.finish()
}

// pass lets time go by.
func (j *judge) pass(now time.Duration) {
	dt := (now - j.now).Seconds()
	running, partial := 0, 0
	for _, r := range j.runs {
		switch {
		case r.over:
		case r.whole:
			running += len(r.nodes)
		default:
			partial += len(r.nodes)
		}
	}
	j.out.PartialHeld += dt * float64(partial)
	free := j.free(nil, "")
	most := 0
	for _, n := range free {
		most = max(most, n)
	}
	// A contender that leaves one gang pending for long has an empty cluster in the end: how full it is counts while gangs
	// come.
	coming := (min(now, j.coming) - min(j.now, j.coming)).Seconds()
	j.running += coming * float64(running)
	j.fit += coming * float64(most)
	j.now = now
}

// free counts, by leaf, the nodes that no run or only the run but has. They are of one type, or of any if it is "".
func (j *judge) free(but *run, of string) map[Node]int {
	free := map[Node]int{}
	for name, n := range j.nodes {
		if o := j.occupant[name]; (o == nil || o == but) && (of == "" || of == n.Type) {
			free[Node{Leaf: n.Leaf, Spine: n.Spine}]++
		}
	}
	return free
}

func (j *judge) see(e Event) {
	key := runKey{e.Gang, e.Run}
	r := j.runs[key]
	if r == nil {
		r = &run{gang: j.gangs[e.Gang], name: fmt.Sprintf("%s-%d", e.Gang, e.Run), created: e.At, nodes: map[string]string{}}
		j.runs[key] = r
		if j.first[e.Gang] == nil {
			j.first[e.Gang] = r
		}
	}
	switch e.Kind {
	case Created:
		r.created = e.At
	case Bound:
		j.bound(r, e)
	case Evicted:
		j.lose(r, e.Pod, true)
	case Gone:
		j.lose(r, e.Pod, false)
	case Finished:
		j.out.Finished++
		j.out.Makespan = e.At.Seconds()
		r.over, r.whole = true, false // pods end one after the other, so a gang that starts meanwhile could not have had all nodes
	}
}

func (j *judge) bound(r *run, e Event) {
	if before := j.left[e.Node]; before != nil && r.gang.Priority > before.gang.Priority {
		before.needed = true
	}
	delete(j.left, e.Node)
	j.out.Pods++
	r.nodes[e.Pod], r.held = e.Node, true
	j.occupant[e.Node] = r
	if len(r.nodes) < r.gang.Size || r.was {
		return
	}
	r.whole, r.was, r.started = true, true, e.At
	j.out.Started++
	if !j.begun[r.gang.Name] {
		j.begun[r.gang.Name] = true
		j.waited(r.gang)
	}
	j.place(r)
}

// waited counts how long a gang has waited by now.
func (j *judge) waited(g *Gang) {
	of := class(g.Size)
	j.waits[of] = append(j.waits[of], (j.now - j.first[g.Name].created).Seconds())
}

// place looks where a run has started.
func (j *judge) place(r *run) {
	leafs, spines := map[string]bool{}, map[string]bool{}
	for _, n := range r.nodes {
		leafs[j.nodes[n].Leaf], spines[j.nodes[n].Spine] = true, true
	}
	if r.gang.Size > 1 {
		j.out.Several++
		if len(leafs) == 1 {
			j.out.OneLeaf++
		}
	}
	if r.gang.Must && len(leafs) > 1 {
		j.out.BrokenMust = append(j.out.BrokenMust, fmt.Sprintf("%s is in %d leafs", r.gang.Name, len(leafs)))
	}
	leastSpines, leastLeafs := least(j.free(r, r.gang.Type), r.gang.Size)
	j.out.ExcessSpines += len(spines) - leastSpines
	if len(spines) == leastSpines {
		j.out.ExcessLeafs += max(0, len(leafs)-leastLeafs)
	} else {
		j.out.ExcessLeafs += max(0, len(leafs)-1)
	}
	if len(spines) > leastSpines || len(leafs) > leastLeafs {
		j.out.Above = append(j.out.Above, fmt.Sprintf("%s, %d pods, at %.1f s: %d leafs and %d spines, %d and %d would do",
			r.name, r.gang.Size, j.now.Seconds(), len(leafs), len(spines), leastLeafs, leastSpines))
	}
}

// least is how few spines and, within as few spines, how few leafs so many pods can be in. Several spines are only a bound:
// the leafs are the largest of the whole cluster.
func least(free map[Node]int, size int) (spines, leafs int) {
	bySpine := map[string][]int{}
	var all []int
	for n, count := range free {
		bySpine[n.Spine] = append(bySpine[n.Spine], count)
		all = append(all, count)
	}
	var sums []int
	for _, of := range bySpine {
		sums = append(sums, sum(of))
	}
	if spines = fewest(sums, size); spines > 1 {
		return spines, fewest(all, size)
	}
	leafs = len(all)
	for _, of := range bySpine {
		if sum(of) >= size {
			leafs = min(leafs, fewest(of, size))
		}
	}
	return spines, leafs
}

// fewest is how many of the numbers make so much, the largest first.
func fewest(numbers []int, size int) int {
	largestFirst := slices.SortedFunc(slices.Values(numbers), func(a, b int) int { return cmp.Compare(b, a) })
	for i, n := range largestFirst {
		if size -= n; size <= 0 {
			return i + 1
		}
	}
	return len(numbers)
}

func sum(numbers []int) (all int) {
	for _, n := range numbers {
		all += n
	}
	return all
}

// lose takes a pod from a run. What a whole run has done until now is lost with its first victim.
func (j *judge) lose(r *run, pod string, evicted bool) {
	if evicted && !r.broken {
		r.broken = true
		j.out.Evicted++
		j.out.Victims += len(r.nodes)
		if r.whole {
			j.out.Lost += (j.now - r.started).Seconds() * float64(len(r.nodes))
		}
		for _, n := range r.nodes {
			j.left[n] = r
		}
	}
	r.whole = false
	if node, ok := r.nodes[pod]; ok {
		delete(r.nodes, pod)
		if j.occupant[node] == r {
			delete(j.occupant, node)
		}
	}
}

func (j *judge) finish() Columns {
	for _, r := range j.runs {
		if r.held && !r.was {
			j.out.Partial++
		}
		if r.broken && !r.needed {
			j.out.Needless++
			j.out.InVain = append(j.out.InVain, r.name)
		}
	}
	for name, r := range j.first {
		if !j.begun[name] {
			j.waited(r.gang)
		}
	}
	if j.out.Finished < j.out.Gangs {
		j.out.Makespan = j.now.Seconds()
	}
	slices.Sort(j.out.InVain)
	slices.Sort(j.out.BrokenMust)
	j.out.Waits = map[string]Quantiles{}
	for class, all := range j.waits {
		slices.Sort(all)
		j.out.Waits[class] = Quantiles{quantile(all, 0.5), quantile(all, 0.99)}
	}
	if t := min(j.now, j.coming).Seconds(); t > 0 {
		j.out.LargestFit = j.fit / t
		j.out.Utilisation = j.running / (t * float64(len(j.nodes)))
	}
	return j.out
}

// class is a size in words.
func class(size int) string {
	switch {
	case size <= 2:
		return "1-2"
	case size <= 8:
		return "3-8"
	}
	return "9-"
}

// quantile returns the smallest value that so large a part of the sorted values does not exceed.
func quantile(sorted []float64, part float64) float64 {
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}
