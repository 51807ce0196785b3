package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/quota"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestQuotaVictims has the scheduler free capacity and quota at once, for one gang in small full clusters. It
// compares the victims with every set of gangs: no pod is evicted if no set suffices, and otherwise the cheapest set.
// Victims of other quotas come before some of the own quota only if necessary. Quotas fall below their min only if no
// other set suffices.
func TestQuotaVictims(t *testing.T) {
	kinds := []string{"no eviction helps", "fits", "for room", "for quota", "for both", "own first", "below min"}
	worlds.Check(t, 150, kinds, func(t *rapid.T, tally worlds.Tally) {
		w := drawMarket(t)
		best, first := w.best(false), false
		kind := w.kind(best)
		if best == nil {
			if best, first = w.best(true), true; best != nil {
				kind = "own first"
			}
		}
		for lacks := int64(0); best == nil && lacks <= w.total(); lacks++ {
			w.below = quota.Share(lacks*1_000_000/w.total()) + 1
			for _, first = range []bool{false, true} {
				if best = w.best(first); best != nil {
					kind = "below min"
					break
				}
			}
		}
		tally[kind]++
		got := w.victims(t, best != nil)
		if best == nil {
			require.Empty(t, got, "no eviction helps in\n%s", w)
			return
		}
		require.True(t, w.enough(w.setOf(got), first), "evicting %v does not help in\n%s", got, w)
		require.Equal(t, *best, w.cost(w.setOf(got)), "evicted %v in\n%s", got, w)
	})
}

// quotaMarket is a small cluster of nodes with so many CPUs, and gangs of pods of one CPU that have quotas. All run but the last one.
type quotaMarket struct {
	spines [][]int // CPUs of each node
	quotas []quota.Spec
	gangs  []marketGang
	must   bool
	below  quota.Share // as for Reclaim.BelowMin; 0 is that each quota keeps its min
}

type marketGang struct {
	quota    string
	priority int
	on       []int // by member, the node
	size     int
}

// nodes are the CPUs of all nodes.
func (w *quotaMarket) nodes() []int { return slices.Concat(w.spines...) }

func (w *quotaMarket) total() (n int64) {
	for _, cpus := range w.nodes() {
		n += int64(cpus)
	}
	return n
}

const marketRoot = "koordinator-root-quota"

func drawMarket(t *rapid.T) *quotaMarket {
	w := &quotaMarket{must: rapid.IntRange(0, 3).Draw(t, "must") > 0}
	for range rapid.IntRange(1, 3).Draw(t, "spines") {
		w.spines = append(w.spines, rapid.SliceOfN(rapid.IntRange(1, 4), 1, 3).Draw(t, "nodes"))
	}
	w.drawQuotas(t)
	leaves := w.leaves()
	free := w.nodes()
	for range rapid.IntRange(1, 7).Draw(t, "gangs") {
		g := marketGang{quota: rapid.SampledFrom(leaves).Draw(t, "quota"), priority: rapid.SampledFrom([]int{1, 5}).Draw(t, "priority")}
		for range rapid.IntRange(1, 4).Draw(t, "size") {
			var open []int
			for i, n := range free {
				if n > 0 {
					open = append(open, i)
				}
			}
			if len(open) == 0 {
				break
			}
			at := rapid.SampledFrom(open).Draw(t, "node")
			free[at]--
			g.on = append(g.on, at)
		}
		if g.size = len(g.on); g.size > 0 {
			w.gangs = append(w.gangs, g)
		}
	}
	w.gangs = append(w.gangs,
		marketGang{quota: rapid.SampledFrom(leaves).Draw(t, "quota"), priority: 5, size: rapid.IntRange(1, 6).Draw(t, "size")})
	return w
}

// drawQuotas draws quotas of up to two levels below the root. The guarantees below a quota never exceed the quota's
// own guarantee.
func (w *quotaMarket) drawQuotas(t *rapid.T) {
	left := w.total()
	limits := func(s *quota.Spec, most int64) {
		low := rapid.Int64Range(0, most).Draw(t, "min")
		s.Min = quota.List{"cpu": low * 1000}
		s.Max = quota.List{"cpu": rapid.Int64Range(max(1, low), w.total()).Draw(t, "max") * 1000}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "quotas") {
		q := quota.Spec{Name: fmt.Sprintf("q%d", i), Parent: marketRoot, Created: int64(i)}
		limits(&q, left)
		low := q.Min["cpu"] / 1000
		left -= low
		q.Inner = rapid.IntRange(0, 3).Draw(t, "inner") == 0
		w.quotas = append(w.quotas, q)
		for j := 0; q.Inner && j < 2; j++ {
			below := quota.Spec{Name: fmt.Sprintf("q%d-%d", i, j), Parent: q.Name, Created: int64(10*i + j)}
			limits(&below, low)
			below.Max["cpu"] = min(below.Max["cpu"], q.Max["cpu"])
			low -= below.Min["cpu"] / 1000
			w.quotas = append(w.quotas, below)
		}
	}
}

func (w *quotaMarket) leaves() (all []string) {
	for _, q := range w.quotas {
		if !q.Inner {
			all = append(all, q.Name)
		}
	}
	return all
}

// String is the cluster as YAML.
func (w *quotaMarket) String() string {
	var b strings.Builder
	b.WriteString(`{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: ClusterNetworkTopology, metadata: {name: default}, spec: {networkTopologySpec: [
  {topologyLayer: SpineLayer, labelKey: [spine]}, {topologyLayer: NodeTopologyLayer, parentTopologyLayer: SpineLayer}]}}
`)
	for _, p := range []int{1, 5} {
		fmt.Fprintf(&b, "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: p%d}, value: %d}\n", p, p)
	}
	i := 0
	for s, nodes := range w.spines {
		for _, cpus := range nodes {
			fmt.Fprintf(&b,
				"---\n{apiVersion: v1, kind: Node, metadata: {name: n%d, labels: {spine: s%d}}, status: {capacity: {cpu: %d, memory: 80Gi, pods: "+
					"110}}}\n",
				i, s, cpus)
			i++
		}
	}
	for i, q := range w.quotas {
		parent := ""
		if q.Parent != marketRoot {
			parent = fmt.Sprintf("quota.scheduling.koordinator.sh/parent: %s, ", q.Parent)
		}
		fmt.Fprintf(&b,
			"---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: %s, namespace: default, creationTimestamp: "+
				"'2026-01-01T00:00:%02dZ',"+
				" labels: {%squota.scheduling.koordinator.sh/is-parent: '%t'}}, spec: {min: {cpu: %d}, max: {cpu: %d}}}\n",
			q.Name, i, parent, q.Inner, q.Min["cpu"]/1000, q.Max["cpu"]/1000)
	}
	for g := range w.gangs {
		w.write(&b, g)
	}
	return b.String()
}

func (w *quotaMarket) write(b *strings.Builder, i int) {
	g := w.gangs[i]
	topology := ""
	if w.must && g.on == nil {
		topology = `, annotations: {gang.scheduling.koordinator.sh/network-topology-spec: ` +
			`'{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}'}`
	}
	fmt.Fprintf(b,
		"---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g%d, namespace: default, creationTimestamp: "+
			"'%s'%s}, spec: {minMember: %d}}\n",
		i, began(i).Format(time.RFC3339), topology, g.size)
	for m := range g.size {
		node, status := "", ""
		if g.on != nil {
			node = fmt.Sprintf("nodeName: n%d, ", g.on[m])
			status = fmt.Sprintf(", status: {phase: Running, startTime: '%s'}", began(i).Format(time.RFC3339))
		}
		fmt.Fprintf(b,
			"---\n{apiVersion: v1, kind: Pod, metadata: {name: g%d-%d, namespace: default, creationTimestamp: '%s', labels: "+
				"{pod-group.scheduling.sigs.k8s.io: g%d, quota.scheduling.koordinator.sh/name: %s}},"+
				" spec: {%sschedulerName: muster-scheduler, priorityClassName: p%d, containers: [{name: c, image: i, resources: {requests: {cpu: "+
				"1}}}]}%s}\n",
			i, m, began(i).Format(time.RFC3339), i, g.quota, node, g.priority, status)
	}
}

// began is when a gang began.
func began(i int) time.Time { return time.Date(2026, 1, 1, 0, 1, i, 0, time.UTC) }

// victims returns the gangs with evicted members.
func (w *quotaMarket) victims(t *rapid.T, starts bool) (gangs []int) {
	set := &Set{}
	require.NoError(t, set.Add("market.yaml", []byte(w.String())))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := Run(ctx, Options{}, set)
	require.NoError(t, err, "%s", w)
	gone := map[int]int{}
	bound := 0
	for _, p := range r.Pods {
		var g, m int
		_, err := fmt.Sscanf(p.Name, "g%d-%d", &g, &m)
		require.NoError(t, err)
		switch {
		case p.State == Evicted:
			gone[g]++
		case g == len(w.gangs)-1 && p.State == Bound:
			bound++
		}
	}
	for g, n := range gone {
		require.Equal(t, w.gangs[g].size, n, "gang g%d was evicted in part in\n%s", g, w)
		gangs = append(gangs, g)
	}
	last := w.gangs[len(w.gangs)-1]
	if starts {
		require.Equal(t, last.size, bound, "evicted %v in\n%s", gangs, w)
	} else {
		require.Zero(t, bound, "in\n%s", w)
	}
	slices.Sort(gangs)
	return gangs
}

// price is what a set of gangs costs: pods, then the highest priority, then the sum of them.
type price struct{ pods, highest, sum int }

func (p price) compare(o price) int {
	return cmp.Or(cmp.Compare(p.pods, o.pods), cmp.Compare(p.highest, o.highest), cmp.Compare(p.sum, o.sum))
}

func (w *quotaMarket) setOf(gangs []int) (set uint) {
	for _, g := range gangs {
		set |= 1 << g
	}
	return set
}

func (w *quotaMarket) cost(set uint) (p price) {
	for g := range w.gangs {
		if set&(1<<g) != 0 {
			p.pods, p.highest, p.sum = p.pods+w.gangs[g].size, max(p.highest, w.gangs[g].priority), p.sum+w.gangs[g].size*w.gangs[g].priority
		}
	}
	return p
}

// best returns the cost of the cheapest set of gangs whose eviction lets the last gang start; nil if there is
// none.
func (w *quotaMarket) best(first bool) (best *price) {
	for set := range uint(1) << (len(w.gangs) - 1) {
		if c := w.cost(set); (best == nil || c.compare(*best) < 0) && w.enough(set, first) {
			best = &c
		}
	}
	return best
}

// kind says what is short, if an eviction can help.
func (w *quotaMarket) kind(best *price) string {
	room, allowed := w.room(0), w.admitted(0, false)
	switch {
	case best == nil:
		return "no eviction helps"
	case room && allowed:
		return "fits"
	case room:
		return "for quota"
	case allowed:
		return "for room"
	}
	return "for both"
}

func (w *quotaMarket) enough(set uint, first bool) bool { return w.room(set) && w.admitted(set, first) }

// room reports whether the last gang fits without the set.
func (w *quotaMarket) room(set uint) bool {
	free := w.nodes()
	for g := range w.gangs {
		if set&(1<<g) == 0 {
			for _, at := range w.gangs[g].on {
				free[at]--
			}
		}
	}
	most, all, at := 0, 0, 0
	for _, nodes := range w.spines {
		here := 0
		for range nodes {
			here += free[at]
			at++
		}
		most, all = max(most, here), all+here
	}
	if !w.must {
		most = all
	}
	return most >= w.gangs[len(w.gangs)-1].size
}

// admitted reports whether the set may be evicted, and whether quotas then admit the last gang; with first,
// victims of the own quota come first.
func (w *quotaMarket) admitted(set uint, first bool) bool {
	tree, problems := quota.NewTree(append([]quota.Spec{{Name: marketRoot, Inner: true}}, w.quotas...))
	for _, p := range problems {
		if p.Stops {
			panic(p.Message)
		}
	}
	b := quota.NewBook(tree)
	b.Runtime, b.ScaleMin = true, true
	b.Total(marketRoot, quota.List{"cpu": w.total() * 1000})
	cpu := quota.List{"cpu": 1000}
	last := len(w.gangs) - 1
	victims := map[string][]string{}
	for i, g := range w.gangs {
		for m := range g.size {
			p := quota.Pod{Name: fmt.Sprintf("g%d-%d", i, m), Gang: fmt.Sprint("g", i), Quota: g.quota, Asks: cpu, Priority: int32(g.priority)}
			if i != last {
				p.State, p.Since = quota.Bound, began(i).UnixNano()
			}
			if set&(1<<i) != 0 {
				victims[p.Gang] = append(victims[p.Gang], p.Name)
			}
			b.Set(p)
		}
	}
	g := w.gangs[last]
	ask := quota.Request{
		Gang: fmt.Sprint("g", last), Priority: int32(g.priority), Need: []quota.Want{{Quota: g.quota, Asks: cpu, Count: g.size}},
	}
	if set == 0 {
		_, refusal := b.Admit(ask)
		return refusal == nil
	}
	r := b.Reclaim(ask, quota.AnyPriority)
	if first {
		var own []string
		for v, pods := range victims {
			if r.Right(v) == quota.SameQuota {
				own = append(own, pods...)
			}
		}
		maps.DeleteFunc(victims, func(v string, _ []string) bool { return r.Right(v) == quota.SameQuota })
		if r = b.Without(own...).Reclaim(ask, quota.AnyPriority); len(own) == 0 || len(victims) == 0 {
			return false
		}
	}
	if w.below > 0 {
		r.BelowMin(w.below)
	}
	for v := range victims {
		var i int
		fmt.Sscanf(v, "g%d", &i)
		if r.Right(v) == quota.SameQuota && w.gangs[i].priority >= g.priority {
			return false
		}
	}
	return r.MayEvict(victims) && r.Check(victims) == quota.Admitted
}
