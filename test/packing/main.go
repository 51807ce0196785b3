// Packing compares gangs that are planned alone with gangs that are planned with a view to those who wait beside them, on
// a cluster of 64 nodes in leafs of unequal size: gangs of whole nodes, each in one leaf, on a virtual clock. It asks the
// planner itself; there is no Kubernetes in it.
//
//	go run ./test/packing -seeds 100
//
// It prints the tables of docs/decisions/0030-planned-together.md.
package main

import (
	"flag"
	"fmt"
	"slices"
	"sync"
)

var traces = []trace{
	{"70 %, one at a time", 0.70, 1, 2},
	{"95 %, one at a time", 0.95, 1, 2},
	{"70 %, eight at a time", 0.70, 8, 2},
	{"95 %, eight at a time", 0.95, 8, 2},
	{"70 %, more large gangs", 0.70, 1, 1},
}

func main() {
	seeds := flag.Int("seeds", 100, "so many plays of each kind")
	flag.Parse()

	fmt.Printf("All at once, %d times each: gangs of 1 to 11 nodes, each as often.\n\n", 10**seeds)
	fmt.Print("| gangs that wait | nodes taken |")
	for _, by := range planners {
		fmt.Printf(" %s: members | gangs |", by.name)
	}
	fmt.Println("\n|--:|--:|" + dashes(2*len(planners)))
	for _, count := range []int{8, 12, 16, 24, 40} {
		for _, taken := range []float64{0, 0.3} {
			fmt.Printf("| %d | %.0f %% |", count, 100*taken)
			for _, by := range planners {
				gangs, members := 0, 0
				for seed := range 10 * *seeds {
					g, m := atOnce(by, uint64(seed), count, taken)
					gangs, members = gangs+g, members+m
				}
				fmt.Printf(" %.2f | %.2f |", float64(members)/float64(10**seeds), float64(gangs)/float64(10**seeds))
			}
			fmt.Println()
		}
	}

	fmt.Printf("\nAs they come, %d times %d gangs each: gangs of n nodes as often as 1/n², or 1/n where there are more large ones; durations exponential, of mean 1.\n\n", *seeds, gangs)
	fmt.Print("| trace | planned | used, % | makespan | largest gang that fits | free nodes | wait of all: mean |")
	for _, name := range classNames {
		fmt.Printf(" wait of %s: mean | p50 | p99 |", name)
	}
	fmt.Println("\n|---|---|" + dashes(5+3*classes))
	for _, t := range traces {
		for _, by := range planners {
			o := together(t, by, *seeds)
			fmt.Printf("| %s | %s | %.2f | %.2f | %.2f | %.2f |", t.name, by.name, 100*o.busy/o.open, o.makespan/float64(*seeds), o.fits/o.span, o.scattered/o.span)
			mean, _, _ := numbers(slices.Concat(o.waits[:]...))
			fmt.Printf(" %.3f |", mean)
			for _, waits := range o.waits {
				mean, p50, p99 := numbers(waits)
				fmt.Printf(" %.3f | %.2f | %.2f |", mean, p50, p99)
			}
			fmt.Println()
		}
	}
}

// together plays a trace with each seed, two at a time.
func together(t trace, by planner, seeds int) (all outcome) {
	outcomes := make([]outcome, seeds)
	var wg sync.WaitGroup
	for half := range 2 {
		wg.Go(func() {
			for seed := half; seed < seeds; seed += 2 {
				outcomes[seed].play(newCluster(by), t.draw(uint64(seed)))
			}
		})
	}
	wg.Wait()
	for _, o := range outcomes {
		all.busy, all.open, all.fits = all.busy+o.busy, all.open+o.open, all.fits+o.fits
		all.scattered, all.span, all.makespan = all.scattered+o.scattered, all.span+o.span, all.makespan+o.makespan
		for k := range all.waits {
			all.waits[k] = append(all.waits[k], o.waits[k]...)
		}
	}
	return all
}

func numbers(waits []float64) (mean, p50, p99 float64) {
	slices.Sort(waits)
	for _, w := range waits {
		mean += w
	}
	n := len(waits)
	return mean / float64(n), waits[n/2], waits[n*99/100]
}

func dashes(n int) (out string) {
	for range n {
		out += "--:|"
	}
	return out
}
