package device_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/device"
)

// fragmented is a node with eight GPUs and four NICs, with a part of each in use.
func fragmented(r *rand.Rand) string {
	var b strings.Builder
	for at := range 4 {
		if at%2 == 0 {
			fmt.Fprintf(&b, "numa%d\n", at/2)
		}
		fmt.Fprintf(&b, "  p%d", at)
		for _, name := range []string{fmt.Sprint("gpu", 2*at), fmt.Sprint("gpu", 2*at+1), fmt.Sprint("rdma", at)} {
			mark := "."
			if part := r.Intn(8); part > 0 {
				mark = fmt.Sprint("a", 10*part)
			}
			fmt.Fprintf(&b, "  %s %s", name, mark)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// hard are members that need a search to count how many fit: parts of several GPUs, and of the NICs of the same switches.
func hard(t testing.TB) (all []*device.Request) {
	for _, text := range []string{
		"gpu.shared=2 gpu-core=40 gpu-memory-ratio=40 rdma=10 joint=gpu+rdma same",
		"gpu.shared=3 gpu-core=90 gpu-memory-ratio=90 rdma=20 joint=gpu+rdma same",
		"gpu.shared=4 gpu-core=80 gpu-memory-ratio=80 rdma=10 joint=gpu+rdma same",
	} {
		a, err := ask(strings.Fields(text))
		require.NoError(t, err)
		r, bad := a.Request()
		require.Nil(t, bad)
		all = append(all, r)
	}
	return all
}

// TestCrowdOfMany: where a count tries few of all ways, as many members as it promises can still come, one after the other or
// all at once; and it promises nearly as many as a larger budget.
func TestCrowdOfMany(t *testing.T) {
	kinds := hard(t)
	r := rand.New(rand.NewSource(5))
	var solver device.Solver
	promised, most := 0, 0
	for range 100 {
		w, err := parse(nil, fragmented(r))
		require.NoError(t, err)
		var members []*device.Request
		c := solver.NewCrowd(w.state, nil)
		for range r.Intn(5) {
			if q := kinds[r.Intn(len(kinds))]; c.Add(&solver, q) {
				members = append(members, q)
			}
		}
		q := kinds[r.Intn(len(kinds))]
		n := c.Count(&solver, q, 32)
		for i := range n {
			require.True(t, c.Add(&solver, q), "%d of %d come", i, n)
			members = append(members, q)
		}
		_, ok, _ := solver.Choose(w.state, members)
		require.True(t, ok, "%d members are promised room and get none", len(members))
		more := n
		for c.Add(&solver, q) {
			more++
		}
		promised, most = promised+n, most+more
	}
	require.Greater(t, 100*promised, 90*most, "%d are promised room of %d", promised, most)
}

// TestSlotsOfMany: a count that gives up at so many at once asks for one more as long as one is found.
func TestSlotsOfMany(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	var solver device.Solver
	gaveUp := 0
	for range 40 {
		w, err := parse(nil, fragmented(r))
		require.NoError(t, err)
		for _, q := range hard(t) {
			n := solver.Slots(w.state, q, 32)
			_, ok, _ := solver.Choose(w.state, times(q, n.Slots))
			require.True(t, ok, "%d are promised", n.Slots)
			if !n.Exact {
				gaveUp++
				hasty := device.Solver{Work: 1}
				require.GreaterOrEqual(t, n.Slots, hasty.Slots(w.state, q, 32).Slots)
			}
		}
	}
	require.Positive(t, gaveUp)
}

func times(q *device.Request, n int) []*device.Request {
	out := make([]*device.Request, n)
	for i := range out {
		out[i] = q
	}
	return out
}

// BenchmarkCrowd counts members of one kind on a partly used node beside each number of another kind, as a plan for
// heterogeneous members does.
func BenchmarkCrowd(b *testing.B) {
	kinds := hard(b)
	r := rand.New(rand.NewSource(1))
	w, err := parse(nil, fragmented(r))
	require.NoError(b, err)
	var solver device.Solver
	b.ReportAllocs()
	for b.Loop() {
		for beside := range 4 {
			c := solver.NewCrowd(w.state, nil)
			for range beside {
				c.Add(&solver, kinds[1])
			}
			c.Count(&solver, kinds[0], 32)
		}
	}
}
