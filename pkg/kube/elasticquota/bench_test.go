package elasticquota

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// crowd is 500 quotas, 50 below each of ten, with running pods in one gang each, and waiting gangs with different requests.
func crowd(b *testing.B, run, wait int) (w *world, look func()) {
	w = newWorld(b, nil)
	jobs := map[string]func(context.Context) error{}
	w.runs(jobs)
	w.Gained = func(map[string]*v1.Pod) {}
	var quotas []string
	for top := range 10 {
		quotas = append(quotas, fmt.Sprintf("top-%d max=100000 is-parent=true", top))
		for i := range 50 {
			n := 50*top + i
			quotas = append(quotas, fmt.Sprintf(`q-%d max=10000 min=4 parent=top-%d namespaces=["ns-%d"]`, n, top, n))
		}
	}
	w.node("n1", fmt.Sprint(run), v1.ConditionTrue)
	w.declare("first max=1")
	w.declare(quotas...)
	for i := range run {
		w.pod(fmt.Sprintf("ns-%d/runs-%d", i*i%500, i), "", "n1", "1")
	}
	for i := range wait {
		g := w.group(fmt.Sprintf("ns-%d/waits-%d", i%500, i), "", 1+i%500/50)
		for _, p := range g.Pods {
			priority := int32(i)
			p.Spec.Priority = &priority
		}
		w.Admit(g)
	}
	return w, func() {
		if do := jobs["quotas: eligible victims"]; do != nil {
			delete(jobs, "quotas: eligible victims")
			if err := do(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkGained binds and deletes ten pods, as in a second, and checks which gangs gained victims.
func BenchmarkGained(b *testing.B) {
	for _, size := range []struct{ run, wait int }{{1000, 200}, {4000, 500}, {10000, 2000}} {
		b.Run(strings.ReplaceAll(fmt.Sprintf("%d run, %d wait", size.run, size.wait), " ", "-"), func(b *testing.B) {
			w, look := crowd(b, size.run, size.wait)
			look()
			i := 0
			for b.Loop() {
				for range 10 {
					i++
					p := w.pod(fmt.Sprintf("ns-%d/comes-%d", i%500, i), "", "n1", "1")
					if i%2 == 0 {
						w.dropPod(p)
					}
				}
				look()
			}
		})
	}
}

// BenchmarkCheck checks 3,000 victims, gang by gang, under the Manager's lock. Half of them are of the own quota, and are evicted first.
func BenchmarkCheck(b *testing.B) {
	w := newWorld(b, nil)
	w.node("n1", "4000", v1.ConditionTrue)
	w.declare("q min=3000 max=3000", "o max=4000")
	var gone []*v1.Pod
	for i := range 3000 {
		p := w.pod(fmt.Sprintf("default/p-%d", i), []string{"q", "o"}[i%2], "n1", "1").DeepCopy()
		p.Spec.Priority = ptr.To(int32(-1))
		w.setPod(p)
		gone = append(gone, p)
	}
	c := w.SearchVictims(w.unlike(1, "3000"), unlimited)
	require.Equal(b, quota.Admitted, c.Check(gone))
	i := 0
	for b.Loop() {
		i++
		at := i % len(gone)
		c.Check(append(slices.Clone(gone[:at]), gone[at+1:]...))
		clear(c.verdicts)
	}
}
