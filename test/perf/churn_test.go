package main

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-churn", "20s"})
	require.NoError(t, err)
	require.Equal(t, []int{1024}, o.nodes)
	require.Equal(t, []Shape{{Gangs: 200, Pods: 8, GPUs: 8}}, o.shapes)
	require.Equal(t, []string{"stock", "stock-gang-topology", "muster"}, o.contenders)
	o, err = parse(nil)
	require.NoError(t, err)
	require.Equal(t, []int{2048, 8192}, o.nodes)
	require.Contains(t, o.contenders, "floor")
	_, err = parse([]string{"-every", "100ms"})
	require.ErrorContains(t, err, "-every 100ms: want -churn")
	_, err = parse([]string{"-churn", "20s", "-shapes", "8x8x1"})
	require.ErrorContains(t, err, "whole-node pods")
	_, err = parse([]string{"-churn", "20s", "-contenders", "floor"})
	require.ErrorContains(t, err, "want some of stock,stock-gang,stock-gang-topology,koordinator,muster")
}

// TestVictimsAreOneNodeTooFew: all nodes that a gang may free, and all free ones, are one too few for it.
func TestVictimsAreOneNodeTooFew(t *testing.T) {
	all, spine := nodes(2*nodesPerSpine), map[string]string{}
	for _, n := range all {
		spine[n.Name] = n.Labels[localcluster.SpineLabel]
	}
	o := newOccupancy(all, spine, contender{gathers: true}, Shape{Gangs: 3, Pods: leastInVain, GPUs: 8})
	less := map[string]int{}
	for n := range o.less() {
		less[spine[n]]++
	}
	require.Equal(t, map[string]int{"spine-0": mostFree, "spine-1": mostFree}, less)
	require.Equal(t, leastInVain-1, mostFree+o.most())
	_, err := parse([]string{"-churn", "20s", "-vain", "-shapes", "8x7"})
	require.ErrorContains(t, err, "gangs of at least 8 pods")
	_, err = parse([]string{"-vain"})
	require.ErrorContains(t, err, "want -churn")
}

// TestOccupancy: whatever changes, a gang never finds room, not for a moment.
func TestOccupancy(t *testing.T) {
	all, spine := nodes(2*nodesPerSpine), map[string]string{}
	for _, n := range all {
		spine[n.Name] = n.Labels[localcluster.SpineLabel]
	}
	o := newOccupancy(all, spine, contender{gathers: true}, Shape{Gangs: 3, Pods: 8, GPUs: 8})
	pods := map[string]int{} // by node
	for _, n := range o.taken() {
		pods[n]++
	}
	free := func() []int {
		count := map[string]int{"spine-0": nodesPerSpine, "spine-1": nodesPerSpine}
		for n := range pods {
			count[spine[n]]--
		}
		return []int{count["spine-0"], count["spine-1"]}
	}
	change := func(to, from string) {
		pods[to]++
		require.LessOrEqual(t, slices.Max(free()), mostFree+1)
		require.Contains(t, pods, from)
		if pods[from]--; pods[from] == 0 {
			delete(pods, from)
		}
		for n, k := range pods {
			require.Equal(t, 1, k, n)
		}
	}
	require.Equal(t, []int{mostFree, mostFree + 1}, free())
	for range 3 * nodesPerSpine {
		change(o.replace())
		require.Equal(t, []int{mostFree, mostFree + 1}, free())
	}
	for range 3 * nodesPerSpine {
		change(o.move())
		require.Equal(t, []int{mostFree + 1, mostFree}, free())
		change(o.replace())
		change(o.move())
		require.Equal(t, []int{mostFree, mostFree + 1}, free())
	}
	room := o.room(3, 8)
	require.Len(t, room, 8-o.spines[1].free)
	for _, n := range room {
		require.Equal(t, "spine-1", spine[n])
		require.Equal(t, 1, pods[n], "somebody is to leave there")
	}
	for range 5 {
		to, from := o.replaceBeside(3)()
		require.Equal(t, to, from)
		require.Equal(t, "spine-0", spine[to])
	}
	one := newOccupancy(all, spine, contender{}, Shape{Gangs: 3, Pods: 8, GPUs: 8})
	require.Len(t, one.taken(), len(all), "pods that are bound one by one would take any node")
}

const someMetrics = `# TYPE scheduler_plugin_evaluation_total counter
scheduler_plugin_evaluation_total{extension_point="Filter",plugin="NodeName",profile="p"} 70
scheduler_plugin_evaluation_total{extension_point="Filter",plugin="NodeResourcesFit",profile="p"} 40
scheduler_plugin_evaluation_total{extension_point="Score",plugin="ImageLocality",profile="p"} 900
# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{profile="p",result="scheduled"} 3
scheduler_schedule_attempts_total{profile="p",result="unschedulable"} 4
# TYPE muster_plan_duration_seconds histogram
muster_plan_duration_seconds_bucket{result="refused",le="+Inf"} 2
muster_plan_duration_seconds_sum{result="refused"} 0.5
muster_plan_duration_seconds_count{result="refused"} 2
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="h",method="GET"} 50
rest_client_requests_total{code="201",host="h",method="POST"} 6
`

func TestCounts(t *testing.T) {
	f, err := parseMetrics([]byte(someMetrics))
	require.NoError(t, err)
	c := countsOf(f)
	require.Equal(t, counts{filterRuns: 70, cycles: 7, plans: 2, requests: 6}, c)
	require.Nil(t, c.since(counts{}, planningRuns), "unknown is not nothing")
	require.InDelta(t, 5, *c.since(counts{cycles: 2}, cycles), 0)
	require.InDelta(t, 7, *c.since(nil, cycles), 0)
	require.False(t, c.busySince(maps.Clone(c)))
	require.True(t, c.busySince(counts{cycles: 7, plans: 2}))
}

// TestLedger: the bench's own writes are called what the API server calls them.
func TestLedger(t *testing.T) {
	f, err := parseMetrics([]byte(`# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 12
apiserver_request_total{code="409",resource="pods",subresource="",verb="POST"} 1
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 7
apiserver_request_total{code="200",resource="podgroups",subresource="",verb="DELETECOLLECTION"} 1
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 99
apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 5
`))
	require.NoError(t, err)
	l := newLedger()
	for _, r := range []string{
		"POST /api/v1/namespaces/default/pods",
		"POST /api/v1/namespaces/default/pods",
		"POST /api/v1/namespaces/default/pods/a/binding",
		"DELETE /apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups",
		"GET /api/v1/namespaces/default/pods",
		"POST /healthz",
	} {
		method, path, _ := strings.Cut(r, " ")
		l.enter(&http.Request{Method: method, URL: &url.URL{Path: path}})
	}
	u := usage{writes: l.without(writesOf(f["apiserver_request_total"]))}
	require.Equal(t, map[string]float64{"POST pods": 11, "POST pods/binding": 6, "DELETECOLLECTION podgroups": 0}, u.writes)
	require.Equal(t, map[string]float64{"POST pods/binding": 2},
		u.writesSince(usage{writes: map[string]float64{"POST pods": 11, "POST pods/binding": 4}}))
}

func TestMessages(t *testing.T) {
	m := &messages{prefix: "d1-"}
	m.see(&unstructured.Unstructured{Object: map[string]any{
		"kind": "Pod", "metadata": map[string]any{"name": "d1-0-0"},
		"status": map[string]any{"conditions": []any{map[string]any{"message": "größer"}, map[string]any{"type": "Ready"}}},
	}})
	event := func(about string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"kind": "Event", "metadata": map[string]any{"name": about + ".18"},
			"involvedObject": map[string]any{"name": about}, "message": "much longer",
		}}
	}
	m.see(event("occupant-1-0"))
	require.Equal(t, Message{Bytes: 8, Of: "Pod d1-0-0", Text: "größer"}, m.longest)
	m.see(event("d1-0"))
	require.Equal(t, 11, m.longest.Bytes)
}

func TestEnding(t *testing.T) {
	s := Shape{Gangs: 2, Pods: 2, GPUs: 8}
	e := newEnding(nil, contender{whole: true}, s)
	for _, pod := range []string{"a-0", "b-0", "a-1"} {
		e.bound(pod, place{gang: pod[:1]})
	}
	require.Equal(t, []string{"a-0", "a-1"}, <-e.whole)
	require.Empty(t, e.whole)
	require.EqualValues(t, 3, e.count.Load())
	e = newEnding(nil, contender{}, s)
	e.bound("b-0", place{gang: "b"})
	require.Equal(t, []string{"b-0"}, <-e.whole)
}

func TestChurnTable(t *testing.T) {
	tried := 8.0
	c := &Churn{
		Contender: "muster", Shape: Shape{Gangs: 2, Pods: 8, GPUs: 8}, Nodes: 128, Failures: []string{"a message of 2000 bytes: Pod a"},
		Longest: Message{Bytes: 2000, Of: "Pod a"}, Phases: []*Phase{
			{Name: "refused", Seconds: 1, Writes: map[string]float64{"PATCH pods/status": 2, "POST events": 4}},
			{Name: "moved", Seconds: 2, Changes: 2, Cycles: &tried, Writes: map[string]float64{"PATCH pods/status": 1}},
			{Name: "room", Seconds: 4, PodsPerS: 4, Writes: map[string]float64{"POST pods/binding": 16}},
		},
	}
	var out bytes.Buffer
	r := Report{Churns: []*Churn{c}}
	require.NoError(t, r.print(&out))
	require.Regexp(t, `muster +refused +1\.0 +0 +0\.00 +– +– +– +– +6 +3\.00 +POST events 4, PATCH pods/status 2\n`, out.String())
	require.Regexp(t, `muster +moved +2\.0 +2 +0\.00 +– +– +8\.00 +4\.00 +2\.00 +1 +0\.50 +0\.25 `, out.String())
	require.Regexp(t, `muster +room +4\.0 +0 +4 +0\.00 +– `, out.String())
	require.Contains(t, out.String(), "muster: longest message 2000 bytes (Pod a)")
	require.ErrorContains(t, r.failures(), "muster, 2 × 8, 128 nodes: a message of 2000 bytes")
}
