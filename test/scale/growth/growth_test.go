package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGrowth: time is linear in nodes and square in layers, bytes do not grow with nodes
// and are not known by layers. The middle of three runs counts; other keys, zeros and lone
// benchmarks make no family.
func TestGrowth(t *testing.T) {
	points, err := read(strings.NewReader(`
goos: linux
pkg: example.com/scale
BenchmarkTree/nodes=100/layers=9-2      1    10 ns/op   7.5 kept-B/node   64 B/op   1 allocs/op
BenchmarkTree/nodes=1000/layers=9-2     1   100 ns/op   7.5 kept-B/node   64 B/op   1 allocs/op
BenchmarkTree/nodes=1000/layers=9-2     1    10 ns/op   7.5 kept-B/node   64 B/op   1 allocs/op
BenchmarkTree/nodes=1000/layers=9-2     1  9999 ns/op   7.5 kept-B/node   99 B/op   1 allocs/op
BenchmarkTree/nodes=10/layers=2-2       1     4 ns/op
BenchmarkTree/nodes=10/layers=4-2       1    16 ns/op
BenchmarkTree/nodes=10/layers=8-2       1    64 ns/op
BenchmarkPlan/request=must/members=1-2  1     8 ns/op
BenchmarkPlan/request=must/members=0-2  1     8 ns/op
BenchmarkPlan/request=all/members=1-2   1     8 ns/op
PASS
ok  	example.com/scale	1.5s
`))
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, write(&out, families(points)))
	require.Equal(t, strings.TrimPrefix(`
| benchmark | fixed    | varying        | time | bytes |
|---        |---       |---             |--:   |--:    |
| Tree      | layers=9 | nodes 100–1000 | 1.00 | 0.00  |
| Tree      | nodes=10 | layers 2–8     | 2.00 | -     |
`, "\n"), out.String())
}

func TestOdd(t *testing.T) {
	_, err := read(strings.NewReader("BenchmarkTree/nodes=1 1 x ns/op\n"))
	require.ErrorContains(t, err, "Tree/nodes=1")
	// One CPU: names end as they are written.
	points, err := read(strings.NewReader("BenchmarkTree/nodes=1 5 6 ns/op\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"Tree", "nodes=1"}, points[0].parts)
}

func TestSlope(t *testing.T) {
	require.InDelta(t, 2, slope([]float64{1, 2, 3}, []float64{2, 4, 6}), 1e-9)
	require.InDelta(t, 0.9, slope([]float64{0, 1, 2}, []float64{0, 1.2, 1.8}), 1e-9)
	require.True(t, math.IsNaN(slope([]float64{1}, []float64{1})))
	require.True(t, math.IsNaN(slope([]float64{1, 1}, []float64{1, 2})))
}
