package simulate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// TestMessagesAreShort: whatever users write, and however much of it.
func TestMessagesAreShort(t *testing.T) {
	long := strings.Repeat("x", 250<<10)
	many := make([]string, 8000)
	for i := range many {
		many[i] = fmt.Sprintf(`"default/gang-%d"`, i)
	}
	terms := make([]string, 1000)
	for i := range terms {
		terms[i] = fmt.Sprintf("{matchFields: [{key: metadata.name, operator: In, values: [%s-%d]}]}", strings.Repeat("x", 200), i)
	}
	gates := make([]string, 200)
	for i := range gates {
		gates[i] = fmt.Sprintf("{name: example.com/gate-%d}", i)
	}
	member := func(name, annotations string) string {
		return document(`{apiVersion: v1, kind: Pod, metadata: {name: %s, annotations: {%s}}, spec: {schedulerName: muster-scheduler,
  containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}`, name, annotations)
	}
	const keys = "gang.scheduling.koordinator.sh/"
	for name, objects := range map[string]string{
		"an annotation that cannot be read": member("p", keys+`name: g, `+keys+`min-available: "`+long+`"`),
		"a long name of a gang":             member("p", keys+`name: "`+long+`", `+keys+`min-available: "2"`),
		"a topology that is no JSON":        member("p", keys+`name: g, `+keys+`min-available: "1", `+keys+`network-topology-spec: "`+long+`"`),
		"an index that is no number":        member("p", keys+`name: g, `+keys+`min-available: "1", `+keys+`network-topology-index: "`+long+`"`),
		"a group of many gangs": member("p",
			keys+`name: gang-0, `+keys+`min-available: "1", `+keys+`groups: '[`+strings.Join(many, ",")+`]'`),
		"many scheduling gates": pod("p", ", schedulingGates: ["+strings.Join(gates, ", ")+"]"),
		"a long selector": pod("p",
			`, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [`+strings.Join(terms, ", ")+`]}}}`),
		"a long name of a scheduler":    pod("p", `, schedulerName: "`+long+`"`),
		"many claims that do not exist": pod("p", `, volumes: [{name: v, persistentVolumeClaim: {claimName: "`+long+`"}}]`),
	} {
		t.Run(name, func(t *testing.T) {
			_, r := run(t, Options{}, node("m1", 4)+objects)
			for _, p := range r.Pods {
				require.LessOrEqual(t, len(p.Message), status.Limit, "pod %s: %.300s", p.Name, p.Message)
			}
			for _, g := range r.Gangs {
				require.LessOrEqual(t, len(g.Message), status.Limit, "gang %.100s: %.300s", g.Name, g.Message)
			}
			for _, e := range r.Events {
				require.LessOrEqual(t, len(e.Message), status.Limit, "%s of %.100s: %.300s", e.Reason, e.Object, e.Message)
			}
		})
	}
}

// TestAnnotationsHaveALimit: 256 KiB in all, as an API server counts.
func TestAnnotationsHaveALimit(t *testing.T) {
	const limit = 256 << 10
	for _, kind := range []string{
		"{apiVersion: v1, kind: Pod, metadata: {name: o, annotations: {a: %s, b: %q}}}",
		"{apiVersion: v1, kind: Node, metadata: {name: o, annotations: {a: %s, b: %q}}}",
		"{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: o, annotations: {a: %s, b: %q}}, spec: {minMember: 1}}",
		"{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: ClusterNetworkTopology, metadata: {name: o, annotations: {a: %s, b: %q}}, " +
			"spec: {networkTopologySpec: []}}",
	} {
		half := strings.Repeat("x", limit/2-1) // and a byte of its key
		require.Len(t, load(t, fmt.Sprintf(kind, half, half)).objects, 1)
		err := (&Set{}).Add("in.yaml",
			[]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: first}\n---\n"+fmt.Sprintf(kind, half+"x", half)))
		require.Error(t, err)
		require.Regexp(t,
			`^in.yaml: document 2, line 5: [A-Za-z.0-9]+ "o" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes$`,
			err.Error())
	}
}

// TestVictimsStayUntilDeletedAgain: with VictimsStay a pod terminates until a later set deletes it again,
// whichever client deleted it first.
func TestVictimsStayUntilDeletedAgain(t *testing.T) {
	const gone = `{apiVersion: v1, kind: Pod, metadata: {name: %s, deletionTimestamp: "2026-01-01T00:00:00Z"}}`
	full := node("m1", 2) + classes + pod("a", ", nodeName: m1")
	for i, want := range [][]string{
		{"a Evicted m1", "h Pending m1"},
		{"a Evicted m1", "h Bound m1"},
	} {
		steps := []string{full, pod("h", ", priorityClassName: high"), document(gone, "a")}
		pods, r := run(t, Options{VictimsStay: true}, steps[:i+2]...)
		require.Equal(t, want, pods, "a victim, after %d steps", i+2)
		require.Equal(t, []string{"default/a"}, r.Evicted)
	}
	for i, want := range [][]string{
		{"a Bound m1", "b Pending"},
		{"a Bound m1", "b Pending"},
		{"b Bound m1"},
	} {
		steps := []string{full + pod("b", ""), document(gone, "a"), document(gone, "a")}
		pods, r := run(t, Options{VictimsStay: true}, steps[:i+1]...)
		require.Equal(t, want, pods, "deleted by a user, after %d steps", i+1)
		require.Empty(t, r.Evicted)
	}
	pods, _ := run(t, Options{VictimsStay: true}, full+pod("b",
		"")+document(`{apiVersion: v1, kind: Pod, metadata: {name: c, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {nodeName: m1}}`),
		document(gone, "c"))
	require.Equal(t, []string{"a Bound m1", "b Pending"}, pods, "it came terminating")
}
