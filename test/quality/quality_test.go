package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

func TestGenerate(t *testing.T) {
	a, b := Generate(Kinds[0], 7, Unequal, time.Minute), Generate(Kinds[0], 7, Unequal, time.Minute)
	require.Equal(t, a, b)
	require.NotEqual(t, a.Gangs, Generate(Kinds[0], 8, Unequal, time.Minute).Gangs)
	require.Len(t, Unequal.Nodes(), 64)
	at := time.Duration(0)
	for _, g := range a.Gangs {
		require.GreaterOrEqual(t, g.At, at)
		at = g.At
		require.True(t, g.Size >= 1 && g.Size <= 16, g)
		require.True(t, !g.Must || g.Size <= 11, g)
	}
}

// TestLoad: over a long time gangs request the given part of the cluster. They have all priorities, and one in ten is a
// Must.
func TestLoad(t *testing.T) {
	const during = 4 * time.Hour
	trace := Generate(Kinds[0], 1, Unequal, during)
	asked, must, by := 0.0, 0.0, map[int]float64{}
	for _, g := range trace.Gangs {
		asked += float64(g.Size) * g.Lasts.Seconds()
		by[g.Priority]++
		if g.Must {
			must++
		}
	}
	all := float64(len(trace.Gangs))
	require.InDelta(t, 0.7, asked/(62*during.Seconds()), 0.03)
	require.InDelta(t, mustPart, must/all, 0.02)
	require.InDelta(t, lowPart, by[0]/all, 0.02)
	require.InDelta(t, highPart, by[2]/all, 0.02)
}

// two is a cluster of two spines: leafs of 3 and 2 nodes, and one of 2.
var two = Cluster{{{Nodes: 3}, {Nodes: 2}}, {{Nodes: 2}}}

func trace(gangs ...Gang) Trace { return Trace{Cluster: two, Gangs: gangs} }

func at(seconds int, kind EventKind, gang string, run int, podNode ...string) Event {
	e := Event{At: time.Duration(seconds) * time.Second, Kind: kind, Gang: gang, Run: run}
	if len(podNode) > 0 {
		e.Pod = podNode[0]
	}
	if len(podNode) > 1 {
		e.Node = podNode[1]
	}
	return e
}

// TestJudge: a gang of two across two spines of an empty cluster, where one leaf has room.
func TestJudge(t *testing.T) {
	got := Judge(trace(Gang{Name: "a", At: 7 * time.Second, Size: 2, Must: true}), []Event{
		at(0, Created, "a", 0),
		at(1, Bound, "a", 0, "a-0", "node-0"),
		at(3, Bound, "a", 0, "a-1", "node-5"),
		at(7, Finished, "a", 0),
	})
	require.Equal(t, Columns{
		Gangs: 1, Started: 1, Pods: 2, Finished: 1, Several: 1, ExcessLeafs: 1, ExcessSpines: 1, BrokenMust: []string{"a is in 2 leafs"},
		Above: []string{"a-0, 2 pods, at 3.0 s: 2 leafs and 2 spines, 1 and 1 would do"},
		Waits: map[string]Quantiles{"1-2": {3, 3}}, Makespan: 7, LargestFit: 15. / 7, PartialHeld: 2, Utilisation: 8. / 49,
	}, got)
}

// TestVictims: of two evicted low gangs one was needed. No gang of higher priority took the other's nodes.
func TestVictims(t *testing.T) {
	gangs := trace(Gang{Name: "low", Size: 2}, Gang{Name: "other", Size: 1}, Gang{Name: "high", Size: 2, Priority: 2})
	events := []Event{
		at(0, Bound, "low", 0, "low-0", "node-0"), at(0, Bound, "low", 0, "low-1", "node-1"), at(0, Bound, "other", 0, "other-0", "node-5"),
		at(5, Evicted, "low", 0, "low-0"), at(5, Evicted, "other", 0, "other-0"),
		at(6, Gone, "low", 0, "low-1"),
		at(6, Bound, "high", 0, "high-0", "node-0"), at(6, Bound, "high", 0, "high-1", "node-2"),
		at(7, Bound, "other", 1, "other-0", "node-5"),
	}
	got := Judge(gangs, events)
	require.Equal(t, 2, got.Evicted)
	require.Equal(t, 3, got.Victims, "low-1 is of no use without low-0")
	require.Equal(t, 1, got.Needless)
	require.Equal(t, []string{"other-0"}, got.InVain)
	require.InDelta(t, 5*2+5*1, got.Lost, 1e-9)
	require.Zero(t, got.Partial)
	require.InDelta(t, 1, got.PartialHeld, 1e-9, "low-1 held its node for a second after low was broken")
}

// TestPartial: a gang that never has all of its nodes.
func TestPartial(t *testing.T) {
	got := Judge(trace(Gang{Name: "a", Size: 3}), []Event{at(0, Bound, "a", 0, "a-0", "node-0"), at(4, Gone, "a", 0, "a-0")})
	require.Equal(t, 1, got.Partial)
	require.Zero(t, got.Started)
	require.InDelta(t, 4, got.PartialHeld, 1e-9)
}

// TestWaits: a gang that is evicted before it is whole waits on. The wait of a gang that is evicted later has ended by
// then. A gang that never starts waits until the play ends. Leafs that are free after the last gang came do not count.
func TestWaits(t *testing.T) {
	gangs := trace(Gang{Name: "a", Size: 3}, Gang{Name: "b", Size: 1, At: 2 * time.Second}, Gang{Name: "c", Size: 9, At: 4 * time.Second})
	got := Judge(gangs, []Event{
		at(0, Created, "a", 0),
		at(1, Bound, "a", 0, "a-0", "node-0"),
		at(2, Created, "b", 0), at(2, Evicted, "a", 0, "a-0"), at(2, Bound, "b", 0, "b-0", "node-5"),
		at(3, Evicted, "b", 0, "b-0"), at(3, Created, "a", 1), at(3, Created, "b", 1),
		at(4, Created, "c", 0),
		at(5, Bound, "a", 1, "a-0", "node-0"), at(5, Bound, "a", 1, "a-1", "node-1"), at(5, Bound, "a", 1, "a-2", "node-2"),
		at(8, Finished, "a", 1),
		at(9, Bound, "b", 1, "b-0", "node-5"),
		at(10, Finished, "b", 1), at(11, Gone, "b", 1, "b-0"),
		at(20, Stopped, noGang, 0),
	})
	require.Equal(t, map[string]Quantiles{"3-8": {5, 5}, "1-2": {0, 0}, "9-": {16, 16}}, got.Waits)
	require.InDelta(t, 20, got.Makespan, 1e-9, "c has not ended")
	free := Judge(gangs, []Event{at(4, Created, "c", 0)}).LargestFit
	late := Judge(gangs, []Event{at(4, Created, "c", 0), at(40, Bound, "c", 0, "c-0", "node-0"), at(80, Finished, "c", 0)})
	require.InDelta(t, free, late.LargestFit, 1e-9)
	require.Zero(t, late.Utilisation, "no gang comes any more")
}

// TestJudgeAgain: events are read as they were written, and judged as before.
func TestJudgeAgain(t *testing.T) {
	o := options{again: t.TempDir(), contenders: []string{"muster"}, during: time.Second}
	gangs := trace(Gang{Name: "a", Size: 1})
	gangs.Kind, gangs.Seed = "full", 3
	events := []Event{
		at(0, Created, "a", 0), at(1, Bound, "a", 0, "a-0", "node-0"), at(2, Evicted, "a", 0, "a-0"),
		at(3, Bound, "a", 1, "a-0", "node-1"), at(4, Finished, "a", 1), at(5, Gone, "a", 1, "a-0"), at(6, Stopped, noGang, 0),
	}
	file := fileOf(o.again, gangs, "muster")
	require.NoError(t, write(file, seen{gangs.sum(), 17, events}))
	got, err := read(file)
	require.NoError(t, err)
	require.Equal(t, seen{gangs.sum(), 17, events}, got)
	results, err := judgeAgain(o, []Trace{gangs})
	require.NoError(t, err)
	require.Equal(t, []Result{{Contender: "muster", Trace: "full", Seed: 3, Columns: Judge(gangs, events), Requests: 17}}, results)
	_, err = judgeAgain(o, []Trace{{Kind: "full", Seed: 3}})
	require.ErrorContains(t, err, "was it played with another -for")
	_, err = judgeAgain(o, []Trace{{Kind: "full", Seed: 4}})
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, line := range []string{"", "x created a 0", "1 made a 0", "1 created a x", "1 created a", "1 bound a 0 a-0 n b", "# requests x"} {
		require.NoError(t, os.WriteFile(file, []byte(line+"\n"), 0o600))
		_, err = judgeAgain(o, []Trace{gangs})
		require.ErrorContains(t, err, file+":1: ", line)
	}
}

// TestVirtual: on the virtual clock each gang starts and ends, no rule is broken, and no start is above the least. No
// gang is evicted in vain, and a second play has the same result. A gang that the policy tries later waits longer.
func TestVirtual(t *testing.T) {
	for _, kind := range Kinds {
		trace := Generate(kind, 3, Unequal, 20*time.Second)
		var waits []float64
		for _, p := range policies {
			got := playVirtual(p, trace)
			require.Equal(t, got, playVirtual(p, trace), p.name)
			require.Equal(t, len(trace.Gangs), got.Finished, p.name)
			require.NoError(t, Result{Columns: got}.faults(), p.name)
			require.Zero(t, got.ExcessLeafs+got.ExcessSpines, p.name)
			require.Zero(t, got.PartialHeld, p.name)
			waits = append(waits, got.Waits["3-8"].P50)
		}
		require.Greater(t, waits[3], waits[0])
	}
}

// TestDifference: a mean, how far it is from another one, pair by pair, and the standard error of that.
func TestDifference(t *testing.T) {
	of := func(seconds ...float64) (all []Result) {
		for _, s := range seconds {
			all = append(all, Result{Columns: Columns{Makespan: s}})
		}
		return all
	}
	c := column{of: func(r Result) float64 { return r.Makespan }}
	require.Equal(t, "2.00", difference(c, of(1, 3), of(1, 3)))
	require.Equal(t, "4.00 (+2.00 ± 0.71)", difference(c, of(2, 6), of(1, 3)), "1 and 3 more: a deviation of 1, of two")
	var out bytes.Buffer
	printVirtual(&out, []Trace{Generate(Kinds[0], 1, Unequal, 5*time.Second)})
	require.Contains(t, out.String(), "**steady**\n\n| | muster | lowest priority first |")
	require.NotContains(t, out.String(), written)
}

func TestLeast(t *testing.T) {
	free := map[Node]int{{Spine: "s", Leaf: "a"}: 3, {Spine: "s", Leaf: "b"}: 2, {Spine: "t", Leaf: "c"}: 4}
	for size, want := range map[int][2]int{1: {1, 1}, 4: {1, 1}, 5: {1, 2}, 6: {2, 2}, 9: {2, 3}} {
		spines, leafs := least(free, size)
		require.Equal(t, want, [2]int{spines, leafs}, size)
	}
}

// TestFaults: what may never be is named, and only that.
func TestFaults(t *testing.T) {
	require.NoError(t, Result{Columns: Columns{Gangs: 2, Finished: 2, Victims: 1, ExcessLeafs: 3}}.faults())
	err := Result{
		Columns: Columns{Gangs: 2, Finished: 1, Partial: 1, BrokenMust: []string{"a is in 2 leafs"}, Needless: 1, InVain: []string{"b-0"}},
	}.faults()
	require.EqualError(t, err,
		"1 gangs were partial\n1 of 2 gangs have ended\na Must was broken: a is in 2 leafs\n1 victims were needless: b-0")
}

func TestWritesIn(t *testing.T) {
	all, err := writesIn(strings.NewReader(`# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="127.0.0.1:1",method="GET"} 7
rest_client_requests_total{code="201",host="127.0.0.1:1",method="POST"} 40
rest_client_requests_total{code="200",host="127.0.0.1:1",method="PATCH"} 2
`))
	require.NoError(t, err)
	require.InDelta(t, 42, all, 0)
}

// results are of two contenders and two seeds.
func results() []Result {
	of := func(name string, seed uint64, c Columns) Result {
		c.Gangs, c.Finished, c.Started = 2, 2, 2
		return Result{Contender: name, Trace: "steady", Seed: seed, Columns: c}
	}
	return []Result{
		of("stock", 1, Columns{OneLeaf: 1, Several: 4, Victims: 1}), of("muster", 1, Columns{OneLeaf: 3, Several: 4, Victims: 2}),
		of("stock", 2, Columns{OneLeaf: 1, Several: 2, Victims: 1}), of("muster", 2, Columns{OneLeaf: 1, Several: 2, Victims: 1}),
	}
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	report(&out, results())
	require.Contains(t, out.String(), "**steady**: 4 gangs with seeds 1 2\n")
	require.Regexp(t, `several pods +\| +38 \(25–50\) +\| +\*\*62 \(50–75\)\*\* \|\n`, out.String())
	require.Regexp(t, `gangs that ended +\| +\*\*2.0\*\* +\| +\*\*2.0\*\* \|\n`, out.String())
	require.Contains(t, out.String(), "in 20 of 21 columns; not in: victims, pods for 100 starts.\n")
}

func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+tablesBegin+"old\n"+tablesEnd+"after\n"), 0o600))
	for range 2 {
		require.NoError(t, replace(path, results()))
	}
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `(?s)^before\n<!-- tables: begin -->\n\*\*steady\*\*.*\n<!-- tables: end -->\nafter\n$`, string(page))
	require.NotContains(t, string(page), "old\n")
	require.NoError(t, os.WriteFile(path, []byte("before\n"), 0o600))
	require.ErrorContains(t, replace(path, results()), "want a line")
}

func TestDraw(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chart.svg")
	require.NoError(t, drawTo(path, tables(results())))
	picture, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(picture, new(struct{})))
	for _, name := range charted {
		require.Contains(t, string(picture), name)
	}
}

// TestFaultsOfEachTrace: forbidden results are reported for each trace.
func TestFaultsOfEachTrace(t *testing.T) {
	all := results()
	require.NoError(t, faults(all, "muster"))
	all[3].Partial = 1
	require.EqualError(t, faults(all, "muster"), "steady, seed 2: 1 gangs were partial")
	require.NoError(t, faults(all, "stock"))
}

// Bursts come at their times, request their part, and have high priority, which no other gang has.
func TestBursts(t *testing.T) {
	kind := Kind{Name: "b", Load: 0.5, Every: 10 * time.Second, Burst: 0.3}
	asked := map[time.Duration]int{}
	for _, g := range Generate(kind, 3, Unequal, 25*time.Second).Gangs {
		if g.Priority == 2 {
			asked[g.At] += g.Size
		}
	}
	require.Len(t, asked, 2)
	for _, at := range []time.Duration{10 * time.Second, 20 * time.Second} {
		require.GreaterOrEqual(t, asked[at], 19)
		require.Less(t, asked[at], 19+16)
	}
}

// No gang uses broken nodes, and a gang that requests newer GPUs fits among them.
func TestNodesOfTraces(t *testing.T) {
	all, largest := Unequal.usable("")
	require.Equal(t, []int{62, 11}, []int{all, largest})
	newer, _ := Unequal.usable(newType)
	require.Equal(t, 11, newer)
	for _, g := range Generate(Kinds[0], 5, Unequal, time.Hour).Gangs {
		require.True(t, g.Type == "" || g.Size <= newer && (!g.Must || g.Size <= 6), g)
	}
	c := Cluster{{{Nodes: 3, Broken: 2, Type: "a"}, {Nodes: 2, Type: "b"}}}
	j := Judge(Trace{Cluster: c, Gangs: []Gang{{Name: "g", At: 2 * time.Second, Size: 2, Type: "b"}}}, []Event{
		at(0, Created, "g", 0), at(0, Bound, "g", 0, "g-0", "node-3"), at(0, Bound, "g", 0, "g-1", "node-4"), at(2, Finished, "g", 0),
	})
	require.Zero(t, j.ExcessLeafs)
	require.InDelta(t, 2./3, j.Utilisation, 1e-9)
	require.InDelta(t, 1, j.LargestFit, 1e-9)
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-contenders", "stock,muster", "-for", "20s"})
	require.NoError(t, err)
	require.Equal(t, []string{"stock", "muster"}, o.contenders)
	_, err = parse([]string{"-contenders", "nobody"})
	require.ErrorContains(t, err, "there is no such one")
	require.Equal(t, Kinds, o.kinds)
	require.Equal(t, []uint64{1, 2, 3}, o.seeds)
	for flag, why := range map[string]string{
		"-for=0": "want more than 0", "-traces=x": "want some of steady,full,bursts", "-seeds=1,b": "want numbers",
		"-virtual=-1": "0 or more",
	} {
		_, err = parse([]string{flag})
		require.ErrorContains(t, err, why)
	}
	for _, flags := range [][]string{{"-virtual=3", "-check=muster"}, {"-virtual=3", "-again=x"}, {"-again=x", "-events=y"}} {
		_, err = parse(flags)
		require.ErrorContains(t, err, "do not go with it")
	}
}

// TestAgendaKeepsOrder: entries for the same time run in the order in which they were added.
func TestAgendaKeepsOrder(t *testing.T) {
	var all agenda
	did := []int{}
	for i, when := range []int{3, 1, 3, 2, 1} {
		all.add(time.Duration(when), func() { did = append(did, i) })
	}
	for len(all) > 0 {
		all.pop()()
	}
	require.Equal(t, []int{1, 4, 3, 0, 2}, did)
}

// TestContendersGetTheSameGang: each contender gets a gang's size, its MustGather rule, and the priority if its API has one.
func TestContendersGetTheSameGang(t *testing.T) {
	native := nativeGroup(&Gang{Size: 3, Priority: 2, Must: true}, "g").(*schedulingv1beta1.PodGroup).Spec
	require.Equal(t, int32(3), native.SchedulingPolicy.Gang.MinCount)
	require.Equal(t, "high", native.PriorityClassName, "kube-scheduler refuses pods of another priority than their group's")
	require.Equal(t, localcluster.BlockLabel, native.SchedulingConstraints.Topology[0].Key)
	require.Nil(t, nativeGroup(&Gang{Size: 3}, "g").(*schedulingv1beta1.PodGroup).Spec.SchedulingConstraints)

	said := func(g Gang) string { return fmt.Sprint(sigsGroup(&g, "g").(*unstructured.Unstructured).Object) }
	require.Contains(t, said(Gang{Size: 3, Must: true}), `[{"layer":"BlockLayer","strategy":"MustGather"}]`)
	require.Contains(t, said(Gang{Size: 3}),
		`[{"layer":"BlockLayer","strategy":"PreferGather"},{"layer":"SpineLayer","strategy":"PreferGather"}]`)
	require.Contains(t, said(Gang{Size: 3}), "minMember:3")
}

// TestEndedRunHoldsNodes: an ended run holds its nodes until its pods are gone. This time counts neither as use nor as partial.
func TestEndedRunHoldsNodes(t *testing.T) {
	got := Judge(trace(Gang{Name: "a", Size: 1}, Gang{Name: "b", At: 5 * time.Second, Size: 2}), []Event{
		at(0, Bound, "a", 0, "a-0", "node-0"),
		at(2, Finished, "a", 0),
		at(3, Bound, "b", 0, "b-0", "node-1"), at(3, Bound, "b", 0, "b-1", "node-3"),
		at(4, Gone, "a", 0, "a-0"),
		at(5, Finished, "b", 0), at(5, Gone, "b", 0, "b-0"), at(5, Gone, "b", 0, "b-1"),
	})
	require.InDelta(t, (2*1+2*2)/(5*7.), got.Utilisation, 1e-9)
	require.Zero(t, got.PartialHeld)
	require.Zero(t, got.Partial)
	require.Equal(t, []string{"b-0, 2 pods, at 3.0 s: 2 leafs and 1 spines, 1 and 1 would do"}, got.Above, "node-1 and node-2 were free")
}
