package quota_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// family is a few quotas in two levels, of which some have a min.
func family(t *rapid.T) *quota.Book {
	specs := []quota.Spec{{Name: "root", Inner: true}}
	for _, above := range []string{"p", "q"} {
		specs = append(specs,
			quota.Spec{Name: above, Parent: "root", Inner: true, Max: quota.List{"cpu": rapid.Int64Range(4, 20).Draw(t, above)}})
		for i := range 2 {
			s := quota.Spec{
				Name: fmt.Sprint(above, i), Parent: above, Max: quota.List{"cpu": rapid.Int64Range(1, 16).Draw(t, "max")}, Min: quota.List{},
			}
			if n := rapid.Int64Range(0, 6).Draw(t, "min"); n > 0 {
				s.Min["cpu"] = min(n, s.Max["cpu"])
			}
			specs = append(specs, s)
		}
	}
	tree, _ := quota.NewTree(specs)
	b := quota.NewBook(tree)
	b.Total("root", quota.List{"cpu": rapid.Int64Range(6, 24).Draw(t, "total")})
	return b
}

// A gang may be evicted once its last protected pod is gone, even if that pod waits.
func TestGangMayBeEvictedOnceProtectedPodIsGone(t *testing.T) {
	tree, _ := quota.NewTree([]quota.Spec{
		{Name: "root", Inner: true},
		{Name: "a", Parent: "root", Min: quota.List{"cpu": 4}},
		{Name: "b", Parent: "root", Max: quota.List{"cpu": 1}},
	})
	b := quota.NewBook(tree)
	b.Set(quota.Pod{Name: "runs", Gang: "g", Quota: "b", Asks: quota.List{"cpu": 1}, State: quota.Bound})
	b.Set(quota.Pod{Name: "waits", Gang: "g", Quota: "b", Asks: quota.List{"cpu": 4}, Fixed: true})
	a := quota.Request{Gang: "asks", Need: []quota.Want{{Quota: "a", Asks: quota.List{"cpu": 4}, Count: 1}}}
	require.False(t, b.Reclaim(a, quota.AnyPriority).AnySince(0))
	moment := b.Now()
	b.Remove("waits")
	b.Now()
	require.True(t, b.Reclaim(a, quota.AnyPriority).AnySince(moment))
}

var leaves = []string{"p0", "p1", "q0", "q1"}

// AnySince is true for an ask whose eligible gangs grew since that moment, and false if nothing changed.
func TestAnySince(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, moment := family(t), uint64(0)
		policy := rapid.SampledFrom([]quota.Policy{quota.AnyPriority, quota.LowerPriority, quota.Never}).Draw(t, "policy")
		var asks []quota.Request
		before := make([]map[string]bool, 3)
		for range before {
			a := quota.Request{Gang: "asks", Priority: rapid.Int32Range(0, 2).Draw(t, "asks")}
			for range rapid.IntRange(1, 2).Draw(t, "wants") {
				a.Need = append(a.Need, quota.Want{
					Quota: rapid.SampledFrom(leaves).Draw(t, "of"), Asks: quota.List{"cpu": rapid.Int64Range(1, 6).Draw(t, "cpu")}, Count: 1,
				})
			}
			asks = append(asks, a)
		}
		var gangs []string
		for i := range 6 {
			gangs = append(gangs, fmt.Sprint("g", i))
		}
		may := func(a quota.Request) map[string]bool {
			r, all := b.Reclaim(a, policy), map[string]bool{}
			for _, name := range gangs {
				if r.Right(name) != quota.None {
					all[name] = true
				}
			}
			if r.Any() != (len(all) > 0) {
				t.Fatalf("%v: may be evicted: %v", a, all)
			}
			return all
		}
		set := func(pod string) {
			n := slices.Index(gangs, pod[:2])
			b.Set(quota.Pod{
				Name: pod, Gang: pod[:2], Quota: leaves[n%len(leaves)], Asks: quota.List{"cpu": rapid.Int64Range(1, 5).Draw(t, "pod")},
				State: rapid.SampledFrom([]quota.State{quota.Waiting, quota.Reserved, quota.Bound}).Draw(t, "state"),
				Since: int64(n), Priority: rapid.Int32Range(0, 2).Draw(t, "priority"), Fixed: rapid.IntRange(0, 9).Draw(t, "fixed") == 0,
			})
		}
		pod := func() string {
			return fmt.Sprint(rapid.SampledFrom(gangs).Draw(t, "gang"), "-", rapid.IntRange(0, 1).Draw(t, "member"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"set":    func(*rapid.T) { set(pod()) },
			"remove": func(*rapid.T) { b.Remove(pod()) },
			"total":  func(t *rapid.T) { b.Total("root", quota.List{"cpu": rapid.Int64Range(6, 24).Draw(t, "total")}) },
			"look": func(t *rapid.T) {
				for again := range 2 {
					looked := moment
					moment = b.Now()
					for i, a := range asks {
						now, more := may(a), b.Reclaim(a, policy).AnySince(looked)
						for name := range now {
							if !before[i][name] && !more {
								t.Fatalf("%v: %s may be evicted now, and AnySince is false", a, name)
							}
						}
						if again > 0 && more {
							t.Fatalf("%v: nothing has changed", a)
						}
						before[i] = now
					}
				}
			},
		})
	})
}
