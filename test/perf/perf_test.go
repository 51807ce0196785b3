package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/manifests"
)

func TestParseShape(t *testing.T) {
	for text, want := range map[string]Shape{
		"32x32":   {Gangs: 32, Pods: 32, GPUs: 8},
		"256x8x1": {Gangs: 256, Pods: 8, GPUs: 1},
		"2x2048p": {Gangs: 2, Pods: 2048, GPUs: 8, Prefer: true},
		"64x8x1c": {Gangs: 64, Pods: 8, GPUs: 1, Claims: true},
		"2x8cp":   {Gangs: 2, Pods: 8, GPUs: 8, Claims: true, Prefer: true},
	} {
		s, err := parseShape(text)
		require.NoError(t, err)
		require.Equal(t, want, s)
	}
	for _, text := range []string{"", "3", "0x1", "1x2x9", "1x2x3x4", "axb", "1x2xp", "1x2pc"} {
		_, err := parseShape(text)
		require.ErrorContains(t, err, "want GANGSxPODS[xGPUS][c][p]", text)
	}
}

func TestFits(t *testing.T) {
	require.True(t, Shape{Gangs: 16, Pods: 128, GPUs: 8}.fits(16*nodesPerSpine))
	require.False(t, Shape{Gangs: 17, Pods: 128, GPUs: 8}.fits(16*nodesPerSpine))
	require.False(t, Shape{Gangs: 2, Pods: 65, GPUs: 8}.fits(nodesPerSpine), "two halves of a spine are too small")
	require.True(t, Shape{Gangs: 1, Pods: 256, GPUs: 8, Prefer: true}.fits(2*nodesPerSpine))
	require.False(t, Shape{Gangs: 1, Pods: 256, GPUs: 8}.fits(2*nodesPerSpine))
}

// TestCheck: a drain that breaks a promise must not pass for a fast one.
func TestCheck(t *testing.T) {
	b := &bench{spines: map[string]string{"node-0": "spine-0", "node-1": "spine-1"}}
	all := &seen{places: map[string]place{"a-0": {gang: "a", node: "node-0"}, "a-1": {gang: "a", node: "node-1"}}}
	s := Shape{Gangs: 1, Pods: 2, GPUs: 8}
	require.Equal(t, []string{"gang a is in 2 spines"}, b.check(contender{gathers: true}, s, all))
	require.Empty(t, b.check(contender{}, s, all))
	all.places["a-1"] = place{gang: "a", node: "node-0"}
	require.Equal(t, []string{"node-0 has 2 pods"}, b.check(contender{gathers: true}, s, all))
}

// TestCheckClaims: nor one that gives a device twice, or none, or one of another node.
func TestCheckClaims(t *testing.T) {
	all := &seen{places: map[string]place{"a-0": {node: "node-0"}, "a-1": {node: "node-0"}, "a-2": {node: "node-1"}}}
	s := Shape{Gangs: 1, Pods: 3, GPUs: 1, Claims: true}
	has := func(pod, pool string, devices ...string) resourceapi.ResourceClaim {
		c := *claimOf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}}, s)
		c.Status.Allocation = &resourceapi.AllocationResult{}
		for _, d := range devices {
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
				resourceapi.DeviceRequestAllocationResult{Pool: pool, Device: d})
		}
		return c
	}
	require.Empty(t, wrongDevices(s,
		[]resourceapi.ResourceClaim{has("a-0", "node-0", "gpu-0"), has("a-1", "node-0", "gpu-1"), has("a-2", "node-1", "gpu-0")}, all))
	require.Equal(t, []string{"a-1 has 2 devices", "a-2 has node-0/gpu-2 and is on node-1", "node-0/gpu-0 is of a-0 and a-1"},
		wrongDevices(s, []resourceapi.ResourceClaim{has("a-0", "node-0", "gpu-0"), has("a-1", "node-0", "gpu-0", "gpu-1"), has("a-2", "node-0", "gpu-2")}, all))
	require.Equal(t, []string{"a-0 has 0 devices"},
		wrongDevices(s, []resourceapi.ResourceClaim{*claimOf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-0"}}, s)}, all))
}

// TestFloorClaims: the floor gives each pod devices of its node, and no device twice.
func TestFloorClaims(t *testing.T) {
	for _, s := range []Shape{
		{Gangs: 4, Pods: 8, GPUs: 1, Claims: true},
		{Gangs: 3, Pods: 4, GPUs: 2, Claims: true},
		{Gangs: 2, Pods: 2, GPUs: 8, Claims: true},
	} {
		all := &seen{places: map[string]place{}}
		var given []resourceapi.ResourceClaim
		for i, p := range s.pods("d", s.gangs("d")) {
			c := claimOf(p, s)
			c.Status = claimStatus(c, s, nodeOf(i, s), deviceOf(i, s))
			require.Equal(t, p.Name, c.Status.ReservedFor[0].Name)
			given = append(given, *c)
			all.places[p.Name] = place{node: nodeOf(i, s)}
		}
		require.Empty(t, wrongDevices(s, given, all), s)
	}
}

func TestTimes(t *testing.T) {
	began := time.Now()
	after := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	all := &seen{places: map[string]place{
		"a-0": {gang: "a", came: after(0), bound: after(2)},
		"a-1": {gang: "a", came: after(1), bound: after(3)},
		"b-0": {gang: "b", came: after(2), bound: after(10)},
		"b-1": {gang: "b", came: after(1), bound: after(4)},
	}}
	var r Result
	r.times(began, all, false)
	require.InDelta(t, 10, r.Seconds, 0.001)
	require.InDelta(t, 0.4, r.PodsPerS, 0.001)
	require.InDelta(t, 10, r.P99, 0.001)
	r.times(began, all, true)
	require.InDelta(t, 8, r.P99, 0.001, "from its last pod on")
}

func TestReport(t *testing.T) {
	shape := Shape{Gangs: 2, Pods: 2, GPUs: 8}
	runs := 42.0
	r := Report{Results: []*Result{
		{Contender: "floor", Shape: shape, Nodes: 128, PodsPerS: 1000},
		{Contender: "stock", Shape: shape, Nodes: 128, PodsPerS: 200, PeakMB: 100},
		{
			Contender: "muster", Shape: shape, Nodes: 128, PodsPerS: 700, PeakMB: 150, FilterRuns: &runs,
			Failures: []string{"gang a is in 2 spines"},
		},
	}}
	var out bytes.Buffer
	require.NoError(t, r.print(&out))
	require.Regexp(t, `muster +700 +3\.50 +0\.70 .* 42 +– .* 150 +1\.50 +WRONG: gang a is in 2 spines \(1 in all\)`, out.String())
	path := filepath.Join(t.TempDir(), "bench.svg")
	require.NoError(t, r.writeSVG(path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), `width="350" height="12" fill="#2f6fba"`)
}

func TestReadUsage(t *testing.T) {
	var u usage
	require.ErrorContains(t, u.read(-1), "has ended")
	require.InDelta(t, 12.5, megabytes("Name:\tx\nVmHWM:\t   12800 kB\n", "VmHWM:"), 0.001)
}

func TestMedians(t *testing.T) {
	big, small := Shape{Gangs: 8, Pods: 128}, Shape{Gangs: 128, Pods: 4}
	drain := func(who string, s Shape, running bool, podsPerS float64, failures ...string) *Result {
		return &Result{Contender: who, Shape: s, Running: running, PodsPerS: podsPerS, Failures: failures}
	}
	got := medians([]*Result{
		drain("b", big, false, 30), drain("a", big, false, 3), drain("b", big, true, 7),
		drain("b", big, false, 10, "partial"), drain("a", big, false, 1), drain("b", small, false, 9),
		drain("b", big, false, 20, "outside"), drain("a", big, false, 2),
	})
	require.Equal(t, []*Result{
		drain("b", big, false, 20, "partial", "outside"), drain("a", big, false, 2), drain("b", big, true, 7), drain("b", small, false, 9),
	}, got)
}

// TestQuotas: Muster with quotas takes part where a flag says how many, and comes after Muster without.
func TestQuotas(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	require.NotContains(t, o.contenders, quotasName)
	o, err = parse([]string{"-contenders", "muster", "-quotas", "40"})
	require.NoError(t, err)
	require.Equal(t, []string{"muster", quotasName}, o.contenders)
	require.Equal(t, 40, o.quotas)
	_, err = parse([]string{"-contenders", quotasName})
	require.ErrorContains(t, err, "want some of")
}

// TestOtherBuildTakesPart: another build of Muster takes part only if a flag names it.
func TestOtherBuildTakesPart(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	require.NotContains(t, o.contenders, beforeName)
	o, err = parse([]string{"-contenders", "floor,muster", "-before", "old"})
	require.NoError(t, err)
	require.Equal(t, []string{"floor", "muster", beforeName}, o.contenders)
	_, err = parse([]string{"-contenders", beforeName})
	require.ErrorContains(t, err, "want some of")
}

// TestForeign: each contender runs its own program with its own CRDs and configuration.
func TestForeign(t *testing.T) {
	theirs := fstest.MapFS{"crd.yaml": {}}
	b := &bench{stock: "kube", muster: "ours", before: "old", foreign: map[string]built{koordinator.name: {"theirs", theirs}}}
	paths := map[string]string{}
	for _, c := range contenders {
		if c.program == "" {
			continue
		}
		paths[c.name] = b.path(c)
		if c.foreign == nil {
			require.Equal(t, fs.FS(manifests.CRDs), b.crds(c), c.name)
			require.Contains(t, c.config("/k"), "schedulerName: "+c.profile)
		}
	}
	require.Equal(t, map[string]string{
		"stock": "kube", "stock-pinned": "kube", "stock-gang": "kube", "stock-gang-topology": "kube",
		koordinator.name: "theirs", beforeName: "old", "muster": "ours", quotasName: "ours",
	}, paths)
	require.Equal(t, theirs, b.crds(koordinator))
	require.Contains(t, koordinator.config("/k"), "awareNetworkTopology: true")
	o, err := parse(nil)
	require.NoError(t, err)
	require.Contains(t, o.contenders, koordinator.name)
}
