// Growth reads the output of `go test -bench` and says how costs grow with sizes.
//
// Sizes are keys of a benchmark's name, as in BenchmarkTree/nodes=1000/layers=8. Wherever
// one numeric key varies and the rest of the name is the same, the costs are taken to be a
// power of it: the exponent is the slope of the least-squares line through the medians,
// both axes logarithmic. 1 is linear, 0 does not grow.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	points, err := read(os.Stdin)
	if err == nil {
		err = write(os.Stdout, families(points))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

// point is a benchmark: the parts of its name, and what its runs cost by unit.
type point struct {
	parts []string // "Tree", "nodes=1000", "layers=8"
	costs map[string][]float64
}

// procs is what `go test` adds to names where there is more than one CPU.
var procs = regexp.MustCompile(`-\d+$`)

// read returns the benchmarks in the order in which they first come. Lines that are no
// results are skipped.
func read(r io.Reader) (points []*point, err error) {
	known := map[string]*point{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(procs.ReplaceAllString(words[0], ""), "Benchmark")
		p := known[name]
		if p == nil {
			p = &point{parts: strings.Split(name, "/"), costs: map[string][]float64{}}
			known[name] = p
			points = append(points, p)
		}
		for i := 2; i+1 < len(words); i += 2 {
			cost, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			p.costs[words[i+1]] = append(p.costs[words[i+1]], cost)
		}
	}
	return points, lines.Err()
}

// size returns a numeric key and its value. Zero is none: it has no logarithm.
func size(part string) (key string, value float64, ok bool) {
	key, text, _ := strings.Cut(part, "=")
	value, err := strconv.ParseFloat(text, 64)
	return key, value, err == nil && value > 0
}

// family is benchmarks that differ in one key.
type family struct {
	name  string
	fixed string
	key   string
	at    map[float64]*point
}

// families returns the families with two members or more, in the order in which they first come.
func families(points []*point) (out []*family) {
	known := map[string]*family{}
	for _, p := range points {
		for i, part := range p.parts {
			key, value, ok := size(part)
			if !ok {
				continue
			}
			rest := slices.Concat(p.parts[1:i], p.parts[i+1:])
			f := &family{name: p.parts[0], fixed: strings.Join(rest, " "), key: key, at: map[float64]*point{}}
			id := fmt.Sprintf("%s/%d/%s/%s", f.name, i, key, f.fixed)
			if known[id] == nil {
				known[id] = f
				out = append(out, f)
			}
			known[id].at[value] = p
		}
	}
	return slices.DeleteFunc(out, func(f *family) bool { return len(f.at) < 2 })
}

// exponent is how the cost in a unit grows with the key; NaN if that is not known.
func (f *family) exponent(unit string) float64 {
	var x, y []float64
	for _, value := range slices.Sorted(maps.Keys(f.at)) {
		if cost := median(f.at[value].costs[unit]); cost > 0 {
			x, y = append(x, math.Log(value)), append(y, math.Log(cost))
		}
	}
	return slope(x, y)
}

func median(costs []float64) float64 {
	if len(costs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(costs))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// slope of the least-squares line; NaN if there are no two places.
func slope(x, y []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
	mx, my := mean(x), mean(y)
	var xy, xx float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
	}
	return xy / xx
}

func mean(s []float64) (m float64) {
	for _, v := range s {
		m += v / float64(len(s))
	}
	return m
}

// write prints a table that is Markdown, too.
func write(w io.Writer, list []*family) error {
	slices.SortStableFunc(list, func(a, b *family) int { return cmp.Compare(a.name, b.name) })
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "| benchmark\t| fixed\t| varying\t| time\t| bytes\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|--:\t|--:\t|")
	for _, f := range list {
		values := slices.Sorted(maps.Keys(f.at))
		fmt.Fprintf(t, "| %s\t| %s\t| %s %.0f–%.0f\t| %s\t| %s\t|\n", f.name, cmp.Or(f.fixed, "-"),
			f.key, values[0], values[len(values)-1], show(f.exponent("ns/op")), show(f.exponent("B/op")))
	}
	return t.Flush()
}

func show(exponent float64) string {
	if math.IsNaN(exponent) {
		return "-"
	}
	if exponent = math.Round(exponent*100) / 100; exponent == 0 {
		exponent = 0 // not minus zero
	}
	return fmt.Sprintf("%.2f", exponent)
}
