package extend_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/test/extend"
)

func TestMain(m *testing.M) {
	extend.Register()
	os.Exit(m.Run())
}

// run simulates with some of the plugins in the profile. It returns how many members of each gang are in which block,
// and the messages of gangs that wait.
func run(t *testing.T, plugins string, texts ...string) string {
	t.Helper()
	config := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: muster-scheduler, plugins: {multiPoint: {enabled: [%s]}}}]
`, plugins)
	sets := make([]*simulate.Set, len(texts))
	for i, text := range texts {
		sets[i] = &simulate.Set{}
		require.NoError(t, sets[i].Add("case", []byte(text)))
	}
	r, err := simulate.Run(t.Context(), simulate.Options{Config: []byte(config), Plugins: extend.Plugins()}, sets[0], sets[1:]...)
	require.NoError(t, err)
	var lines []string
	for _, g := range r.Gangs {
		if g.Bound == 0 {
			lines = append(lines, g.Name+": "+g.Message)
			continue
		}
		in := map[string]int{}
		for _, p := range r.Pods {
			if strings.HasPrefix(p.Name, g.Name+"-") && p.State == simulate.Bound {
				in[strings.Split(p.Node, "-")[0]]++
			}
		}
		lines = append(lines, fmt.Sprintf("%s: %v", g.Name, in))
	}
	return strings.Join(lines, "\n")
}

// cluster is blocks b0, b1, … of so many nodes for one pod each, in one spine.
func cluster(t *testing.T, blocks, nodes int) string {
	t.Helper()
	layers, err := examples.FS.ReadFile("clusternetworktopology.yaml")
	require.NoError(t, err)
	out := string(layers)
	for b := range blocks {
		for n := range nodes {
			out += document("{apiVersion: v1, kind: Node, metadata: {name: b%d-%d, labels: {network.topology.nvidia.com/spine: s, network.topology.nvidia.com/block: b%d}}, status: {allocatable: {cpu: 8, pods: 9}}}",
				b, n, b)
		}
	}
	return out
}

func document(format string, args ...any) string { return "\n---\n" + fmt.Sprintf(format, args...) }

// gang is so many pods that a PodGroup makes a gang.
func gang(name string, size int, labels string) string {
	out := document("{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s}, spec: {minMember: %d}}", name, size)
	return out + pods(name, size, fmt.Sprintf("pod-group.scheduling.sigs.k8s.io: %s%s", name, labels), "")
}

func pods(name string, size int, labels, more string) (out string) {
	for i := range size {
		out += document("{apiVersion: v1, kind: Pod, metadata: {name: %s-%d, labels: {%s}}, spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 8}}}]}%s}", name, i, labels, more)
	}
	return out
}

// TestSource: pods with the label are a gang once there is a Crew, and gather as that says.
func TestSource(t *testing.T) {
	crew := func(size int) string {
		return document(`{apiVersion: example.com/v1, kind: Crew, metadata: {name: c, annotations: {gang.scheduling.koordinator.sh/network-topology-spec: '{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}'}}, spec: {size: %d}}`, size)
	}
	three := pods("c", 3, "example.com/crew: c", "")
	require.Equal(t, "c: map[b0:3]", run(t, "", cluster(t, 2, 3)+crew(3)+three))
	require.Contains(t, run(t, "", cluster(t, 2, 2)+crew(3)+three),
		"c: Needs 3 in one BlockLayer domain; the largest, s/b0, has capacity for 2")
	require.Contains(t, run(t, "", cluster(t, 2, 3)+crew(4)+three), "c: ", "it waits for its fourth")
}

// TestCheck: the second gang of a namespace waits until the first one has ended; without the check it does not.
func TestCheck(t *testing.T) {
	two := cluster(t, 2, 2) + gang("a", 2, "") + gang("b", 2, "")
	require.Equal(t, "a: map[b0:2]\nb: map[b1:2]", run(t, "", two))
	require.Equal(t, "a: map[b0:2]\nb: gang default/a of the namespace runs", run(t, "{name: Turns}", two))
	ended := pods("a", 2, "pod-group.scheduling.sigs.k8s.io: a", ", status: {phase: Succeeded}")
	require.Contains(t, run(t, "{name: Turns}", two, strings.ReplaceAll(ended, "containers:", "nodeName: b0-0, containers:")), "b: map[")
}

// TestLedger: a gang that needs more seats than there are starts no member. Without the ledger's plugin seats are not
// counted.
func TestLedger(t *testing.T) {
	seated := ", example.com/seat: taken"
	world := cluster(t, 2, 3) + gang("a", 3, seated) + gang("b", 2, seated)
	require.Equal(t, "a: map[b0:3]\nb: map[b1:2]", run(t, "", world))
	said := run(t, "{name: Seats}", world)
	require.Contains(t, said, "a: map[b0:3]\nb: ")
	require.Contains(t, said, "seats")
}

// TestPreference: a gang that is larger than a block takes no more than two places of each, if there are enough; without the preference it
// fills them.
func TestPreference(t *testing.T) {
	world := cluster(t, 3, 4) + gang("a", 6, "")
	require.Equal(t, "a: map[b0:4 b1:2]", run(t, "", world))
	require.Equal(t, "a: map[b0:2 b1:2 b2:2]", run(t, "{name: Thin}", world))
	require.Equal(t, "a: map[b0:4]", run(t, "{name: Thin}", cluster(t, 3, 4)+gang("a", 4, "")), "what fits a block stays in one")
}
