// Package pictures reads clusters that are drawn as text (pkg/picture), as input of plans and evictions. The language:
//
//	layers: SpineLayer BlockLayer NodeTopologyLayer
//	spine-0
//	  block-0  node-0 ..##  node-1 aab.
//	           node-2 (ab)(ab)..
//	  -        node-3 24.8#
//	a: priority=500 started=7 pdb
//	b: gang=old:4 pdb=web:1
//
// Indentation is the tree. The line of a lowest domain holds its nodes, each followed by its marks, and may continue on deeper lines. A
// domain without a name is drawn as "-". One mark is one slot, which is capacity for one member:
//
//	.     free
//	#     taken by something that stays
//	x     taken by the plan that is shown
//	=     taken by a bound member of the gang
//	@     taken by a pod that attracts the gang (same network-topology-selector)
//	a     any other letter: taken by a possible victim; the marks of one letter
//	      on one node are one pod, on several nodes they are equal pods
//	(ab)  a slot that several pods share; it is free without all of them
//	24.   a number repeats the mark behind it; runs of more than 16 are drawn so
//
// The first line may name the layers from the top down; without it they are the three above. Last come the letters that are not ordinary:
// an ordinary victim has priority 1000, started at time 0, belongs to no gang, and no disruption budget protects it. With gang=old:4 the
// letter's pods are members of the running gang old, which needs four. With pdb no pod may be evicted, with pdb=web:1 one pod under the
// budget web may be. With waits they do not run yet, and are only requeued.
//
// Invariant: a drawn cluster can be read again.
package pictures

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/picture"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// The marks that only pictures for tests have.
const (
	Bound = "="
	Other = "@"
)

// Cluster is a parsed picture.
type Cluster struct {
	picture.Cluster
	Pods map[string]PodKind // by letter; a letter without an entry is ordinary
}

// PodKind is the declaration of a letter's pods.
type PodKind struct {
	Priority int32
	Started  int64
	Budget   bool // a disruption budget forbids evicting them
	// Share is a budget that allows some evictions; without a name there is none.
	Share evict.Budget
	Gang  Gang // the gang that they belong to; without a name there is none
	Waits bool // they do not run yet: as victims they are requeued
}

// Gang is a running gang and how many members it needs.
type Gang struct {
	Name string
	Min  int
}

var ordinary = PodKind{Priority: 1000}

// Kind returns the declaration of a letter, or the ordinary one.
func (c *Cluster) Kind(letter string) PodKind {
	if k, ok := c.Pods[letter]; ok {
		return k
	}
	return ordinary
}

// World returns the input of a plan.
func (c *Cluster) World() plan.World {
	return plan.World{Tree: c.Tree, Free: c.Count(picture.Free), Bound: c.Count(Bound), Attract: c.Count(Other)}
}

// Victims returns the input of an eviction, by node index; most is the argument of evict.NewNode.
func (c *Cluster) Victims(most offer.Slots) []evict.Node {
	out := make([]evict.Node, len(c.Nodes))
	nodes, _ := c.Running()
	for i, n := range nodes {
		out[i] = evict.NewNode(n.Victims, most, n.Slots)
	}
	return out
}

// Running returns the input of an eviction that considers gangs, by node index.
func (c *Cluster) Running() (nodes []evict.RawNode, gangs []evict.Gang) {
	nodes = make([]evict.RawNode, len(c.Nodes))
	numbers, minMembers := map[string]int{}, []int(nil)
	for i, marks := range c.Nodes {
		pods := letters(marks)
		nodes[i].Victims = make([]evict.Victim, len(pods))
		for v, l := range pods {
			victim := c.victim(marks, l)
			if g := c.Kind(l).Gang; g.Name != "" {
				if numbers[g.Name] == 0 {
					gangs, minMembers = append(gangs, evict.Gang{Whole: true}), append(minMembers, g.Min)
					numbers[g.Name] = len(gangs)
				}
				victim.Gang = numbers[g.Name]
				gang := &gangs[victim.Gang-1]
				gang.Cost, gang.Budgets = gang.Cost.Add(evict.CostOf(victim)), append(gang.Budgets, victim.Budgets...)
			}
			nodes[i].Victims[v] = victim
		}
		nodes[i].Slots = func(evicted []int) (free offer.Slots) {
			for _, m := range without(marks, evicted) {
				if m == picture.Free {
					free++
				}
			}
			return free
		}
	}
	for i := range gangs {
		gangs[i].Spare = bundle.Spare(gangs[i].Cost.Pods, gangs[i].Cost.Requeued, minMembers[i])
	}
	return nodes, gangs
}

func (c *Cluster) victim(marks picture.Marks, letter string) evict.Victim {
	k := c.Kind(letter)
	v := evict.Victim{
		Name: letter, Priority: k.Priority, Started: k.Started, Violates: k.Budget, Pending: k.Waits, Shape: shape(marks, letter),
	}
	if k.Share.Name != "" {
		v.Budgets = []evict.Budget{k.Share}
	}
	return v
}

// Letter names a victim of Victims.
func (c *Cluster) Letter(p evict.Pick) string { return letters(c.Nodes[p.Node])[p.Victim] }

// letters lists the pods of a node, in alphabetical order.
func letters(m picture.Marks) []string {
	found := map[string]bool{}
	for _, slot := range m {
		if isVictim(slot) {
			for _, l := range strings.Split(slot, "") {
				found[l] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// shape is the size of a pod that shares no slot, "" otherwise.
func shape(m picture.Marks, letter string) string {
	size := 0
	for _, slot := range m {
		if slot == letter {
			size++
		} else if isVictim(slot) && strings.Contains(slot, letter) {
			return ""
		}
	}
	return fmt.Sprint(size)
}

// without returns the marks without the evicted letters, which are given by their index in letters.
func without(m picture.Marks, evicted []int) picture.Marks {
	out := slices.Clone(m)
	pods := letters(m)
	for i, slot := range out {
		if !isVictim(slot) {
			continue
		}
		for _, g := range evicted {
			slot = strings.ReplaceAll(slot, pods[g], "")
		}
		if slot == "" {
			slot = picture.Free
		}
		out[i] = slot
	}
	return out
}

func isVictim(mark string) bool {
	return isLetter(mark[0]) && mark != picture.Placed
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// Place returns the cluster with a plan's members drawn into free slots.
func (c *Cluster) Place(p *plan.Plan) *Cluster {
	out := c.clone()
	for _, at := range p.Places {
		for range at.Count {
			i := slices.Index(out.Nodes[at.Node], picture.Free)
			if i < 0 {
				panic(fmt.Sprintf("no room on %s for %d members", c.Tree.NodeName(at.Node), at.Count))
			}
			out.Nodes[at.Node][i] = picture.Placed
		}
	}
	return out
}

// Evict returns the cluster without the victims.
func (c *Cluster) Evict(victims []evict.Pick) *Cluster {
	out := c.clone()
	evicted := map[int][]int{}
	for _, v := range victims {
		evicted[v.Node] = append(evicted[v.Node], v.Victim)
	}
	for node, indices := range evicted {
		out.Nodes[node] = without(c.Nodes[node], indices)
	}
	return out
}

// Mark returns the cluster with one mark replaced by another, such as picture.Placed by Bound.
func (c *Cluster) Mark(from, to string) *Cluster {
	out := c.clone()
	for _, marks := range out.Nodes {
		for i, m := range marks {
			if m == from {
				marks[i] = to
			}
		}
	}
	return out
}

func (c *Cluster) clone() *Cluster {
	out := &Cluster{Cluster: picture.Cluster{Tree: c.Tree, Nodes: make([]picture.Marks, len(c.Nodes))}, Pods: c.Pods}
	for i, m := range c.Nodes {
		out.Nodes[i] = slices.Clone(m)
	}
	return out
}

// String draws the cluster; Parse reads it.
func (c *Cluster) String() string {
	var out strings.Builder
	out.WriteString(picture.Draw(c.Tree, c.Nodes))
	used := map[string]bool{}
	for _, marks := range c.Nodes {
		for _, l := range letters(marks) {
			used[l] = true
		}
	}
	for _, l := range slices.Sorted(maps.Keys(used)) {
		if k := c.Kind(l); k != ordinary {
			fmt.Fprintf(&out, "%s:%s\n", l, k)
		}
	}
	return out.String()
}

func (k PodKind) String() string {
	s := ""
	if k.Priority != ordinary.Priority {
		s += fmt.Sprintf(" priority=%d", k.Priority)
	}
	if k.Started != ordinary.Started {
		s += fmt.Sprintf(" started=%d", k.Started)
	}
	if k.Budget {
		s += " pdb"
	}
	if k.Waits {
		s += " waits"
	}
	if b := k.Share; b.Name != "" {
		s += fmt.Sprintf(" pdb=%s:%d", b.Name, b.Allowed)
	}
	if g := k.Gang; g.Name != "" {
		s += fmt.Sprintf(" gang=%s:%d", g.Name, g.Min)
	}
	return s
}
