package quota_test

import (
	"fmt"
	"testing"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// company is 1,000 quotas in five levels below the top, and 10,000 gangs of four members: two in three run, the remaining ones wait.
func company() (b *quota.Book, asks []quota.Request) {
	specs := []quota.Spec{{Name: "root", Inner: true}}
	level := []string{"root"}
	for depth, width := range []int{4, 3, 4, 4, 4} {
		var next []string
		for _, above := range level {
			for i := range width {
				name := fmt.Sprintf("%s.%d", above, i)
				n := int64(12_000_000 / (i + 1) / (len(level) * width))
				specs = append(specs, quota.Spec{
					Name: name, Parent: above, Inner: depth < 4,
					Min: quota.List{"cpu": n / 2, "memory": n, "gpu": n / 100}, Max: quota.List{"cpu": 2 * n, "memory": 4 * n, "gpu": n / 20},
				})
				next = append(next, name)
			}
		}
		level = next
	}
	tree, _ := quota.NewTree(specs)
	b = quota.NewBook(tree)
	b.Total("root", quota.List{"cpu": 12_000_000, "memory": 24_000_000, "gpu": 240_000})
	each := quota.List{"cpu": 300, "memory": 600, "gpu": 8}
	for i := range 10_000 {
		gang, leaf := fmt.Sprint("gang-", i), level[i%len(level)]
		state := quota.Bound
		if i%3 == 0 {
			state = quota.Waiting
			asks = append(asks, quota.Request{Gang: gang, Need: []quota.Want{{Quota: leaf, Asks: each, Count: 4}}})
		}
		for m := range 4 {
			b.Set(quota.Pod{
				Name: fmt.Sprint(gang, "-", m), Gang: gang, Quota: leaf, Asks: each, State: state, Since: int64(i), Priority: int32(i % 3),
			})
		}
	}
	return b, asks
}

// BenchmarkAdmit asks whether a waiting gang is admitted.
func BenchmarkAdmit(b *testing.B) {
	book, asks := company()
	i, admitted := 0, 0
	for b.Loop() {
		if _, refusal := book.Admit(asks[i%len(asks)]); refusal == nil {
			admitted++
		}
		i++
	}
	b.ReportMetric(float64(admitted)/float64(i), "admitted/op")
	b.ReportMetric(float64(len(book.Tree().Names())), "quotas")
}

// BenchmarkChangeAndAdmit adds and removes a pod before each question, so that fair shares change.
func BenchmarkChangeAndAdmit(b *testing.B) {
	book, asks := company()
	i := 0
	for b.Loop() {
		a := asks[i%len(asks)]
		pod := quota.Pod{Name: "comes", Gang: "comes", Quota: a.Need[0].Quota, Asks: a.Need[0].Asks, State: quota.Bound, Since: int64(20_000 + i)}
		book.Set(pod)
		book.Admit(a)
		i++
	}
}

// BenchmarkEntitle recomputes all fair shares.
func BenchmarkEntitle(b *testing.B) {
	book, asks := company()
	totals := []quota.List{{"cpu": 12_000_000, "memory": 24_000_000, "gpu": 240_000}, {"cpu": 2_000_000, "memory": 4_000_000, "gpu": 40_000}}
	i := 0
	for b.Loop() {
		book.Total("root", totals[i%2])
		book.Balance(asks[0].Need[0].Quota)
		i++
	}
}

// BenchmarkReclaim asks of every running gang whether it may be evicted for one.
func BenchmarkReclaim(b *testing.B) {
	book, asks := company()
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprint("gang-", i))
	}
	i := 0
	for b.Loop() {
		r := book.Reclaim(asks[i%len(asks)], quota.AnyPriority)
		for _, g := range names {
			r.Right(g)
		}
		i++
	}
}

// BenchmarkWithout removes forty pods, and asks for the right to one gang.
func BenchmarkWithout(b *testing.B) {
	book, asks := company()
	var leave []string
	for i := range 10 {
		for m := range 4 {
			leave = append(leave, fmt.Sprintf("gang-%d-%d", 3*i+1, m))
		}
	}
	i := 0
	for b.Loop() {
		book.Without(leave...).Reclaim(asks[i%len(asks)], quota.AnyPriority).Enough(nil)
		i++
	}
}

// BenchmarkAny asks for each waiting gang whether any gang may be evicted for it, as after each termination.
func BenchmarkAny(b *testing.B) {
	book, asks := company()
	i, evictable := 0, 0
	for b.Loop() {
		if book.Reclaim(asks[i%len(asks)], quota.LowerPriority).Any() {
			evictable++
		}
		i++
	}
	b.ReportMetric(float64(evictable)/float64(i), "any/op")
}
