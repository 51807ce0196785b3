package device_test

import (
	"strings"
	"testing"

	"github.com/muster-scheduler/muster/pkg/device"
)

const d8 = `numa0
  p0  gpu0 .  gpu1 .  rdma0 .
  p1  gpu2 #  gpu3 .  rdma1 .
numa1
  p2  gpu4 .  gpu5 .  rdma2 #
  p3  gpu6 .  gpu7 .  rdma3 .
`

func bench(b *testing.B, words map[string]string, text string) (*device.State, func(string) *device.Request) {
	s, err := parse(words, text)
	if err != nil {
		b.Fatal(err)
	}
	return s.state, func(text string) *device.Request {
		a, err := ask(strings.Fields(text))
		if err != nil {
			b.Fatal(err)
		}
		r, bad := a.Request()
		if bad != nil {
			b.Fatal(bad.Text())
		}
		return r
	}
}

// BenchmarkSlots counts members on a node with 8 GPUs, of which a GPU and a NIC are in use.
func BenchmarkSlots(b *testing.B) {
	for _, c := range []struct{ name, ask string }{
		{"whole", "gpu=100"},
		{"four", "gpu=400"},
		{"four of a NUMA node", "gpu=400 gpu.scope=NUMANode"},
		{"parts", "gpu=30"},
		{"memory", "gpu-memory=20Gi"},
		{"near NICs", "gpu=200 rdma=1 joint=gpu+rdma"},
		{"same switch", "gpu=100 rdma=1 joint=gpu+rdma same"},
		{"same switches", "gpu=200 rdma=100 joint=gpu+rdma same"},
		{"all NICs", "gpu=100 rdma=1 rdma.strategy=ApplyForAll"},
		{"partitions", "gpu=200 partition=BestEffort"},
		{"none", "gpu=800"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, request := bench(b, map[string]string{"model": "H100"}, d8)
			r := request(c.ask)
			var solver device.Solver
			b.ReportAllocs()
			for b.Loop() {
				solver.Slots(s, r, 4096)
			}
		})
	}
}

// BenchmarkChoose chooses devices for as many as fit.
func BenchmarkChoose(b *testing.B) {
	for _, c := range []struct {
		name  string
		asks  string
		times int
	}{
		{"one whole", "gpu=100", 1},
		{"seven whole", "gpu=100", 7},
		{"two pairs with NICs", "gpu=200 rdma=100 joint=gpu+rdma same", 2},
		{"unlike", "gpu=40;gpu=40;gpu=60;gpu=60;gpu=200", 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, request := bench(b, nil, d8)
			var members []*device.Request
			for _, text := range strings.Split(c.asks, ";") {
				r := request(text)
				for range c.times {
					members = append(members, r)
				}
			}
			var solver device.Solver
			b.ReportAllocs()
			for b.Loop() {
				if _, ok, _ := solver.Choose(s, members); !ok {
					b.Fatal("refused")
				}
			}
		})
	}
}

// BenchmarkKey names a state.
func BenchmarkKey(b *testing.B) {
	s, _ := bench(b, nil, d8)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Key()
	}
}

// BenchmarkWhy returns why no member fits.
func BenchmarkWhy(b *testing.B) {
	s, request := bench(b, nil, d8)
	members := []*device.Request{request("gpu=800")}
	var solver device.Solver
	b.ReportAllocs()
	for b.Loop() {
		if solver.Why(s, members) == nil {
			b.Fatal("fits")
		}
	}
}
