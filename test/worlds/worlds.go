// Package worlds draws small random networks for tests, and counts what it drew:
// a property proves nothing about a kind of world that never came up. What it counted it
// also writes to the file that the environment variable WORLDS names:
//
//	WORLDS=/tmp/worlds go test ./pkg/... && cat /tmp/worlds
package worlds

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/seed"
)

// Network is what a tree is built of.
type Network struct {
	Layers []string
	Nodes  []topology.Node
}

// Draw draws a network of up to two spines of up to three blocks of up to three
// nodes, and no more nodes than most. Sometimes it has another number of layers,
// domains without names, or blocks of one name under both spines.
func Draw(t *rapid.T, most int) Network {
	n := Network{Layers: [][]string{
		{"SpineLayer", "BlockLayer"},
		{"SpineLayer", "BlockLayer"},
		{"SpineLayer", "BlockLayer"},
		{"BlockLayer"},
		{},
		{"HallLayer", "SpineLayer", "BlockLayer"},
	}[rapid.IntRange(0, 5).Draw(t, "layers")]}
	width := []int{2, 3, 3}
	namesakes := rapid.Bool().Draw(t, "namesakes")
	var grow func(path []string)
	grow = func(path []string) {
		for i := range 1 + Even(t, width[min(len(path), 2)], "children") {
			switch {
			case len(n.Nodes) == most:
				return
			case len(path) == len(n.Layers):
				n.Nodes = append(n.Nodes, topology.Node{Name: n.nodeName(path, i, namesakes), Path: path})
			default:
				grow(append(slices.Clone(path), n.drawName(t, path, i, namesakes)))
			}
		}
	}
	grow(nil)
	return n
}

// Wide draws a network of two spines of two or three blocks of one node, where preferences
// have something to choose from.
func Wide(t *rapid.T) Network {
	n := Network{Layers: []string{"SpineLayer", "BlockLayer"}}
	for spine := range 2 {
		for range rapid.IntRange(2, 3).Draw(t, "blocks") {
			name := fmt.Sprint("n", len(n.Nodes)+1)
			n.Nodes = append(n.Nodes, topology.Node{Name: name, Path: []string{domainName(0, spine), "block of " + name}})
		}
	}
	return n
}

// nodeName names the i-th node below a path; it may have the name of a block.
func (n Network) nodeName(path []string, i int, namesakes bool) string {
	name := domainName(len(path)-1, i)
	if taken := func(x topology.Node) bool { return x.Name == name }; namesakes && !slices.ContainsFunc(n.Nodes, taken) {
		return name
	}
	return fmt.Sprint("n", len(n.Nodes)+1)
}

func domainName(layer, i int) string { return string("abc"[i]) + strconv.Itoa(layer) }

// drawName names the i-th domain below a path.
func (n Network) drawName(t *rapid.T, path []string, i int, namesakes bool) string {
	if rapid.IntRange(0, 7).Draw(t, "unnamed") == 0 {
		return ""
	}
	name := domainName(len(path), i)
	if !namesakes {
		name = strings.Join(path, "") + name
	}
	return name
}

// Build builds the tree.
func (n Network) Build() *topology.Tree { return topology.Build(n.Layers, n.Nodes) }

// Shuffled returns the network with its nodes in another order.
func (n Network) Shuffled(t *rapid.T) Network {
	return Network{Layers: n.Layers, Nodes: rapid.Permutation(n.Nodes).Draw(t, "order")}
}

// Multiples draws multiples for the layers of a tree, mostly none, and sometimes some that
// no count reaches.
func Multiples(t *rapid.T, tree *topology.Tree) offer.Multiples {
	m := make(offer.Multiples, tree.Depth()+1)
	switch rapid.IntRange(0, 11).Draw(t, "multiples") {
	case 0, 1, 2, 3:
		for l := range m {
			m[l] = offer.Slots(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 4}).Draw(t, "multiple"))
		}
	case 4:
		for l := range m {
			m[l] = Multiple(t)
		}
	}
	return m
}

// Multiple draws a multiple of any size. The products of some are small numbers, or none,
// in the arithmetic of 64 bits.
func Multiple(t *rapid.T) offer.Slots {
	some := rapid.SampledFrom([]int64{1, 1, 1, 3, 7, 1 << 62, 7905747460161236407, math.MaxInt64})
	return offer.Slots(rapid.OneOf(some, some, some, rapid.Int64Range(1, math.MaxInt64)).Draw(t, "multiple"))
}

// BeyondCount says whether some multiple is larger than any count in these worlds.
func BeyondCount(m offer.Multiples) bool {
	return slices.ContainsFunc(m, func(n offer.Slots) bool { return n > 1000 })
}

// Tally counts worlds by kind.
type Tally map[string]int

// Count counts one world if it is of the kind.
func (y Tally) Count(kind string, is bool) {
	if is {
		y[kind]++
	}
}

// Check runs a property on a number of worlds (package seed says how many of them this run draws; -rapid.checks overrules it).
// It fails if fewer than one of two hundred worlds are of some kind. A run of fewer than a hundred worlds is too short to say that.
func Check(t *testing.T, worlds int, kinds []string, property func(t *rapid.T, y Tally)) {
	t.Helper()
	setFlag(t, "rapid.checks", strconv.Itoa(seed.Worlds(worlds)))
	setFlag(t, "rapid.nofailfile", "true") // the seed that is printed says it all
	y := Tally{}
	rapid.Check(t, func(t *rapid.T) {
		y["worlds"]++
		property(t, y)
	})
	var all []string
	for _, k := range slices.Sorted(maps.Keys(y)) {
		all = append(all, fmt.Sprintf("%d %s", y[k], k))
	}
	t.Logf("%s", strings.Join(all, ", "))
	Report(t, y["worlds"], all)
	for _, k := range kinds {
		if y[k] < least(y["worlds"], worlds) {
			t.Errorf("%d of %d worlds are %q: too few to prove anything", y[k], y["worlds"], k)
		}
	}
}

// least is how many of so many worlds must be of a kind: one in 200. With -short fewer worlds are drawn than meant, and
// chance matters: three standard deviations fewer are enough.
func least(drawn, meant int) int {
	if drawn < 100 {
		return 0
	}
	n := float64(drawn) / 200
	if drawn < meant {
		n -= 3 * math.Sqrt(n)
	}
	return max(0, int(math.Ceil(n)))
}

// Report adds a line to the file that WORLDS names, if it names one: go test hides what
// tests that pass have to say.
func Report(t *testing.T, worlds int, all []string) {
	path := os.Getenv("WORLDS")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(s string) bool { return strings.HasSuffix(s, " worlds") })
	if _, err := fmt.Fprintf(f, "%d worlds in %s %s: %s\n", worlds, filepath.Base(dir), t.Name(), strings.Join(all, ", ")); err != nil {
		t.Fatal(err)
	}
}

// setFlag sets a flag for the time of a test, unless the command line has set it.
func setFlag(t *testing.T, name, value string) {
	f := flag.Lookup(name)
	if f.Value.String() != f.DefValue {
		return
	}
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
}

// Reach is a set of totals below 64: bit n says that n members can be placed.
type Reach uint64

// Has says whether n members can be placed.
func (r Reach) Has(n offer.Slots) bool { return n >= 0 && r>>n&1 == 1 }

// Most is the largest total.
func (r Reach) Most() (n offer.Slots) {
	for k := range offer.Slots(64) {
		if r.Has(k) {
			n = k
		}
	}
	return n
}

// Reaches lists what each domain can take, by ID: the slow obvious twin of offers.
// A node takes any count up to its slots that is a multiple of its layer's; another
// domain takes any sum of what its children take that is a multiple of its own.
func Reaches(t *topology.Tree, free []offer.Slots, m offer.Multiples) []Reach {
	out := make([]Reach, t.Len())
	for d := topology.ID(t.Len() - 1); d >= topology.Root; d-- {
		all := Reach(1)
		if t.IsNode(d) {
			lo, _ := t.Nodes(d)
			all = 1<<(free[lo]+1) - 1
		}
		for k := range t.Children(d) {
			var sums Reach
			for n := range offer.Slots(64) {
				if all.Has(n) {
					sums |= out[k] << n
				}
			}
			all = sums
		}
		for n := range offer.Slots(64) {
			if all.Has(n) && !legal(t, d, n, m) {
				all &^= 1 << n
			}
		}
		out[d] = all
	}
	return out
}

func legal(t *topology.Tree, d topology.ID, n offer.Slots, m offer.Multiples) bool {
	l := t.Layer(d)
	return l >= len(m) || m[l] <= 1 || n%m[l] == 0
}

// Legal says whether counts by node obey the multiples.
func Legal(t *topology.Tree, counts []offer.Slots, m offer.Multiples) bool {
	for d := topology.Root; int(d) < t.Len(); d++ {
		if !legal(t, d, Total(t, counts, d), m) {
			return false
		}
	}
	return true
}

// Total sums counts by node below a domain, node by node.
func Total(t *topology.Tree, counts []offer.Slots, d topology.ID) (n offer.Slots) {
	for i, c := range counts {
		if Holds(t, d, t.Node(i)) {
			n += c
		}
	}
	return n
}

// Holds says whether d is x or above x, walking up.
func Holds(t *topology.Tree, d, x topology.ID) bool {
	for x != d && x != topology.Root {
		x = t.Parent(x)
	}
	return x == d
}

// Even draws a number below n, all of them equally often. (IntRange draws small ones
// more often than others.)
func Even(t *rapid.T, n int, label string) (i int) {
	for _, bit := range rapid.SliceOfN(rapid.Bool(), 12, 12).Draw(t, label) {
		i *= 2
		if bit {
			i++
		}
	}
	return i * n >> 12
}

// Chance is true once in n times.
func Chance(t *rapid.T, n int, label string) bool { return Even(t, n, label) == n-1 }

// Fill draws the slots of nodes so that there are at most so many ways to choose a
// count for each node.
func Fill(t *rapid.T, free []offer.Slots, ways int) {
	first := rapid.IntRange(0, max(len(free)-1, 0)).Draw(t, "first")
	for i := range free {
		n := &free[(first+i)%len(free)]
		*n = offer.Slots(rapid.IntRange(0, min(ways-1, 6)).Draw(t, "slots"))
		ways /= int(*n + 1)
	}
}

// Upwards lists what a domain and the domains above it have.
func Upwards(t *topology.Tree, have []offer.Slots, d topology.ID) (out []offer.Slots) {
	for ; ; d = t.Parent(d) {
		out = append(out, Total(t, have, d))
		if d == topology.Root {
			return out
		}
	}
}

// Least leaves the elements that compare lowest.
func Least[W any](ways []W, compare func(a, b W) int) (out []W) {
	best := slices.MinFunc(ways, compare)
	for _, w := range ways {
		if compare(w, best) == 0 {
			out = append(out, w)
		}
	}
	return out
}

// Penalty draws what soft preferences charge by node: mostly nothing.
func Penalty(t *rapid.T, nodes int) []int64 {
	if !Chance(t, 3, "soft preferences") {
		return nil
	}
	out := make([]int64, nodes)
	for i := range out {
		out[i] = []int64{0, 0, 1, 2, 300}[Even(t, 5, "penalty")]
	}
	return out
}
