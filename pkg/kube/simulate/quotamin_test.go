package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/test/worlds"
)

// TestQuotaLosesMinWithoutNeed has a gang within the min of its quota preempt in small clusters of elastic gangs with
// different members. It compares the victims with all sets of pods. A quota falls below its min only if every set
// causes that, and then as little as possible.
func TestQuotaLosesMinWithoutNeed(t *testing.T) {
	kinds := []string{"fits", "no eviction helps", "each keeps its min", "each keeps its min by a spare member", "below min"}
	worlds.Check(t, 600, kinds, func(t *rapid.T, tally worlds.Tally) {
		w := drawMinima(t)
		least, found := 1<<30, false
		for set := range uint(1) << len(w.pods) {
			if w.allowed(set, false) {
				least, found = min(least, w.shortfall(set)), true
			}
		}
		got, bound := w.evicted(t)
		if !found && !bound {
			tally["no eviction helps"]++
			require.Zero(t, got, "%s", w)
			return
		}
		require.True(t, bound, "no pod is evicted although some set would do in\n%s", w)
		require.True(t, w.allowed(got, true), "evicted %v in\n%s", w.names(got), w)
		require.LessOrEqual(t, w.shortfall(got), least, "evicted %v, which leaves a quota less than its min, in\n%s", w.names(got), w)
		switch {
		case got == 0:
			tally["fits"]++
		case w.shortfall(got) > 0:
			tally["below min"]++
		case w.dividesGang(got):
			tally["each keeps its min by a spare member"]++
		default:
			tally["each keeps its min"]++
		}
	})
}

// minima is a small cluster of running gangs of several quotas, and the CPUs of the pods of a gang that waits.
type minima struct {
	nodes []int
	mins  []int // by quota; the last one is the waiting gang's
	gangs []elasticGang
	pods  []minimaPod
	asks  []int
}

type elasticGang struct{ quota, least, size int }

type minimaPod struct{ gang, node, cpu, priority int }

func drawMinima(t *rapid.T) *minima {
	w := &minima{nodes: rapid.SliceOfN(rapid.IntRange(3, 8), 1, 2).Draw(t, "nodes")}
	total := 0
	free := slices.Clone(w.nodes)
	for _, cpus := range w.nodes {
		total += cpus
	}
	quotas := rapid.IntRange(1, 3).Draw(t, "quotas")
	for g := range rapid.IntRange(1, 4).Draw(t, "gangs") {
		of, priority := rapid.IntRange(0, quotas-1).Draw(t, "quota"), rapid.IntRange(0, 2).Draw(t, "priority")
		gang := elasticGang{quota: of}
		for range rapid.IntRange(1, 3).Draw(t, "members") {
			p := minimaPod{g, rapid.IntRange(0, len(w.nodes)-1).Draw(t, "node"), rapid.IntRange(1, 4).Draw(t, "cpu"), priority}
			if len(w.pods) == 9 || free[p.node] < p.cpu {
				continue
			}
			free[p.node] -= p.cpu
			w.pods = append(w.pods, p)
			gang.size++
		}
		if gang.size > 0 {
			gang.least = rapid.IntRange(1, gang.size).Draw(t, "least")
		}
		w.gangs = append(w.gangs, gang)
	}
	ask := rapid.IntRange(1, max(w.nodes[0], w.nodes[len(w.nodes)-1])).Draw(t, "ask")
	w.asks = []int{ask}
	if rapid.Bool().Draw(t, "two") {
		w.asks = append(w.asks, ask)
	}
	left := total
	for range quotas {
		low := rapid.IntRange(0, min(6, left)).Draw(t, "min")
		w.mins, left = append(w.mins, low), left-low
	}
	w.mins = append(w.mins, max(left, ask*len(w.asks)))
	return w
}

func (w *minima) has(set uint, pod int) bool { return set&(1<<pod) != 0 }

// used returns what each quota uses without a set of pods.
func (w *minima) used(without uint) []int {
	used := make([]int, len(w.mins))
	for i, p := range w.pods {
		if !w.has(without, i) {
			used[w.gangs[p.gang].quota] += p.cpu
		}
	}
	return used
}

// units returns the CPUs of evicted pods by quota: one amount for a gang that is evicted whole, and one for each
// evicted spare member. With gangs, the evicted spare members of a gang are one amount together. ok is false if a
// gang loses more than its spare members, but not all.
func (w *minima) units(set uint, gangs bool) (units map[int][]int, ok bool) {
	units = map[int][]int{}
	for g, gang := range w.gangs {
		lost, sum := 0, 0
		var each []int
		for i, p := range w.pods {
			if p.gang == g && w.has(set, i) {
				lost, sum, each = lost+1, sum+p.cpu, append(each, p.cpu)
			}
		}
		switch {
		case lost == 0:
		case lost <= gang.size-gang.least && gangs:
			units[gang.quota] = append(units[gang.quota], sum)
		case lost <= gang.size-gang.least:
			units[gang.quota] = append(units[gang.quota], each...)
		case lost == gang.size:
			units[gang.quota] = append(units[gang.quota], sum)
		default:
			return nil, false
		}
	}
	return units, true
}

// allowed reports whether a set of pods may be evicted for the waiting gang, and makes it fit. Each quota must use
// more than its min before each eviction of a pod or gang.
func (w *minima) allowed(set uint, gangs bool) bool {
	units, ok := w.units(set, gangs)
	if !ok || !w.fits(set) {
		return false
	}
	used := w.used(set)
	for q, of := range units {
		if used[q]+slices.Max(of) <= w.mins[q] { // the largest one is the last
			return false
		}
	}
	return true
}

// fits returns whether the waiting pods, which are alike, fit without a set of pods.
func (w *minima) fits(without uint) bool {
	free := slices.Clone(w.nodes)
	for i, p := range w.pods {
		if !w.has(without, i) {
			free[p.node] -= p.cpu
		}
	}
	slots := 0
	for _, n := range free {
		slots += n / w.asks[0]
	}
	return slots >= len(w.asks)
}

// shortfall returns by how much the worst quota falls below its min, relative to what it had.
func (w *minima) shortfall(set uint) (most int) {
	before, after := w.used(0), w.used(set)
	for q, least := range w.mins {
		most = max(most, min(before[q], least)-after[q])
	}
	return most
}

// dividesGang returns whether a gang runs on without some of its members.
func (w *minima) dividesGang(set uint) bool {
	return slices.ContainsFunc(w.pods, func(p minimaPod) bool {
		evicted, runs := false, false
		for i, o := range w.pods {
			evicted, runs = evicted || o.gang == p.gang && w.has(set, i), runs || o.gang == p.gang && !w.has(set, i)
		}
		return evicted && runs
	})
}

func (w *minima) names(set uint) (names []string) {
	for i := range w.pods {
		if w.has(set, i) {
			names = append(names, fmt.Sprint("p", i))
		}
	}
	return names
}

// evicted returns the pods that the scheduler evicts, and whether the waiting gang starts.
func (w *minima) evicted(t *rapid.T) (set uint, bound bool) {
	input := &Set{}
	require.NoError(t, input.Add("minima.yaml", []byte(w.String())))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := Run(ctx, Options{}, input)
	require.NoError(t, err, "%s", w)
	n := 0
	for _, p := range r.Pods {
		var i int
		switch _, err := fmt.Sscanf(p.Name, "p%d", &i); {
		case err == nil && p.State == Evicted:
			set |= 1 << i
		case err != nil && p.State == Bound:
			n++
		}
	}
	return set, n == len(w.asks)
}

// String is the cluster as YAML.
func (w *minima) String() string {
	var b strings.Builder
	for i, cpus := range w.nodes {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Node, metadata: {name: n%d}, status: {capacity: {cpu: %d, memory: 80Gi, pods: 110}}}\n", i,
			cpus)
	}
	for q, least := range w.mins {
		fmt.Fprintf(&b,
			"---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: q%d, namespace: default}, spec: {min: {cpu: "+
				"%d}, max: {cpu: 100}}}\n",
			q, least)
	}
	gang := func(name string, least int) {
		fmt.Fprintf(&b,
			"---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s, namespace: default}, spec: {minMember: %d}}\n",
			name, least)
	}
	pod := func(name, of string, quota, cpu, priority int, more string) {
		fmt.Fprintf(&b,
			"---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: default, labels: {pod-group.scheduling.sigs.k8s.io: %s, "+
				"quota.scheduling.koordinator.sh/name: q%d}},"+
				" spec: {schedulerName: muster-scheduler, priority: %d, containers: [{name: c, image: i, resources: {requests: {cpu: %d}}}]%s}\n", name,
			of, quota, priority, cpu, more)
	}
	for g, of := range w.gangs {
		if of.size > 0 {
			gang(fmt.Sprint("g", g), of.least)
		}
	}
	for i, p := range w.pods {
		pod(fmt.Sprint("p", i), fmt.Sprint("g", p.gang), w.gangs[p.gang].quota, p.cpu, p.priority,
			fmt.Sprintf(", nodeName: n%d}, status: {phase: Running, startTime: '2026-01-01T00:00:%02dZ'}", p.node, i))
	}
	gang("waits", len(w.asks))
	for i, cpu := range w.asks {
		pod(fmt.Sprint("waits-", i), "waits", len(w.mins)-1, cpu, 1, "}")
	}
	return b.String()
}
