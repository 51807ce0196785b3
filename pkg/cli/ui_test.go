package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/cli"
)

var renew = flag.Bool("ui.renew", false, "write what the page is given of the documents' cluster into pkg/page/testdata")

// edit changes the objects of fixtures, by name; a nil object is left out.
func edit(t *testing.T, to string, of []string, change func(name string, o map[string]any) map[string]any) {
	t.Helper()
	var out strings.Builder
	for _, file := range of {
		data, err := examples.FS.ReadFile(file)
		require.NoError(t, err)
		for _, doc := range strings.Split(string(data), "\n---\n") {
			var o map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(doc), &o))
			if len(o) == 0 {
				continue
			}
			if o = change(o["metadata"].(map[string]any)["name"].(string), o); o == nil {
				continue
			}
			text, err := yaml.Marshal(o)
			require.NoError(t, err)
			fmt.Fprintf(&out, "---\n%s", text)
		}
	}
	require.NoError(t, os.WriteFile(to, []byte(out.String()), 0o600))
}

// ui serves files as a process does, and returns what asks it, for an answer of this status or of 200.
// It ends with the test.
func ui(t *testing.T, args ...string) (ask func(path string, status ...int) json.RawMessage) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code := cli.Main(ctx, append([]string{"ui"}, args...), in, &errs)
		in.Close()
		ended <- code
	}()
	t.Cleanup(func() {
		stop()
		require.Zero(t, <-ended, "it ends well when it is told to: %s", &errs)
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err, errs.String())
	}
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/\n$`, url)
	return func(path string, status ...int) json.RawMessage {
		t.Helper()
		r, err := http.Get(strings.TrimSuffix(url, "/\n") + path)
		require.NoError(t, err)
		defer r.Body.Close()
		data, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, append(status, http.StatusOK)[0], r.StatusCode, "%s: %s", path, data)
		return data
	}
}

// TestUIDocuments: what the page is given of the documents' clusters, before, during and after the
// preemption. The tests of the page in a browser show these files.
func TestUIDocuments(t *testing.T) {
	place := map[string]string{
		"hp-training-pod-0": "node-5", "hp-training-pod-1": "node-6", "hp-training-pod-2": "node-7", "hp-training-pod-3": "node-8",
	}
	same := func(_ string, o map[string]any) map[string]any { return o }
	one := []string{"clusternetworktopology.yaml", "example-nodes.yaml", "example1-podgroup.yaml", "example1-pods.yaml"}
	two := []string{
		"clusternetworktopology.yaml", "example-nodes.yaml", "example2-priorityclasses.yaml", "example2-low-priority-pods.yaml",
		"example2-podgroup.yaml", "example2-pods.yaml",
	}
	for _, c := range []struct {
		name   string
		of     []string
		change func(name string, o map[string]any) map[string]any
		gang   string
	}{
		{"first", one, same, "default/topology-demo-job"},
		{"before", two, same, "default/high-priority-training"},
		{"during", two, func(name string, o map[string]any) map[string]any {
			meta := o["metadata"].(map[string]any)
			if name == "low-priority-pod-5" {
				meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = "2026-01-01T00:00:30Z", 30
			}
			if node := place[name]; node != "" {
				o["status"] = map[string]any{"nominatedNodeName": node}
			}
			meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
			return o
		}, "default/high-priority-training"},
		{"after", two, func(name string, o map[string]any) map[string]any {
			if name == "low-priority-pod-5" {
				return nil
			}
			if node := place[name]; node != "" {
				o["spec"].(map[string]any)["nodeName"] = node
			}
			return o
		}, "default/high-priority-training"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "cluster.yaml")
			edit(t, file, c.of, c.change)
			ask := ui(t, "-f", file)
			var state map[string]any
			require.NoError(t, json.Unmarshal(ask("/state"), &state))
			state["source"] = "the documents' cluster"
			document := map[string]any{
				"state": state, "explain": map[string]any{c.gang: ask("/explain?gang=" + c.gang)}, "fits": ask("/fits?domain=spine-1"),
			}
			data, err := json.MarshalIndent(document, "", " ")
			require.NoError(t, err)
			kept := filepath.Join("..", "page", "testdata", "documents", c.name+".json")
			if *renew {
				require.NoError(t, os.WriteFile(kept, append(data, '\n'), 0o644)) //nolint:gosec // it is for all to read
			}
			want, err := os.ReadFile(kept)
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(data), "run with -ui.renew, and read the diff")
		})
	}
}

// TestUIConcurrentRequests: a second request waits while the first one is answered, and does not disturb it:
// the simulation is finished when nothing moves, and the waiting request must not seem to move.
func TestUIConcurrentRequests(t *testing.T) {
	ask := ui(t, "-f", "../../docs/examples/example-nodes.yaml", "-f", "../../docs/examples/example1-podgroup.yaml", "-f",
		"../../docs/examples/example1-pods.yaml", "--timeout", "10s")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { ask("/explain?gang=default/topology-demo-job") })
	}
	all.Wait()
}

// TestUIFits: the scheduler decides what fits into a domain. It places a leader only where the later members
// fit, and a gang only where one domain of its topology constraint has the capacity.
func TestUIFits(t *testing.T) {
	const scenarios = "../../test/scenarios/simulate/"
	nodes := []string{"-f", "../../docs/examples/clusternetworktopology.yaml", "-f", "../../docs/examples/example-nodes.yaml"}
	leader, err := os.ReadFile(scenarios + "leader-waits/in.yaml")
	require.NoError(t, err)
	leaves := func(names ...string) (out string) { // but for these pods
		for _, doc := range strings.Split(string(leader), "\n---\n") {
			if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(doc, "{name: "+name+"}") }) {
				out += "---\n" + doc + "\n"
			}
		}
		return out
	}
	const block = `
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g, annotations: {gang.scheduling.koordinator.sh/network-topology-spec: '{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}'}}
spec: {minMember: 3}
---
apiVersion: batch/v1
kind: Job
metadata: {name: g}
spec: {completions: 3, parallelism: 3, template: {metadata: {labels: {pod-group.scheduling.sigs.k8s.io: g}}, spec: {schedulerName: muster-scheduler, restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 8}}}]}}}
`
	for _, c := range []struct{ name, objects, domain, fits string }{
		{"leader without room for all", leaves(), "spine-2", `{"needs": 5, "slots": 4, "fits": false}`},
		{"leader with little room", leaves(), "spine-1", `{"needs": 5, "slots": 1, "fits": false}`},
		{"leader on the node of a worker", leaves("busy-5", "busy-6", "busy-7", "busy-8"), "spine-1", `{"needs": 5, "slots": 5, "fits": true}`},
		{"leader in the cluster", leaves(), "", `{"needs": 5, "slots": 4, "fits": false}`},
		{"two blocks are not one", block, "spine-1", `{"needs": 3, "slots": 2, "fits": false}`},
		{"a block", block, "spine-2/block-4", `{"needs": 3, "slots": 3, "fits": true}`},
		{"the cluster", block, "", `{"needs": 3, "slots": 12, "fits": true}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "objects.yaml")
			require.NoError(t, os.WriteFile(file, []byte(c.objects), 0o600))
			ask := ui(t, append(nodes, "-f", file)...)
			var fits []map[string]any
			require.NoError(t, json.Unmarshal(ask("/fits?domain="+c.domain), &fits))
			require.Len(t, fits, 1)
			delete(fits[0], "gang")
			is, err := json.Marshal(fits[0])
			require.NoError(t, err)
			require.JSONEq(t, c.fits, string(is))
			ask("/fits?domain=nowhere", http.StatusNotFound)
		})
	}
}

// TestUIUnknown: a request for something that does not exist gets that answer, as a mistake of the request.
func TestUIUnknown(t *testing.T) {
	ask := ui(t, "-f", "testdata/simulate/cluster.yaml")
	require.Contains(t, string(ask("/explain?gang=default/none", http.StatusNotFound)), "gang default/none: there is no such thing")
}

// TestUIRefused: mistakes in the command line are told before anything is served.
func TestUIRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-f", "testdata/none.yaml"}, 2, "no such file"},
		{[]string{"-f", "testdata/simulate/cluster.yaml", "--port", "70000"}, 2, "--port 70000: supported values: 0 to 65535"},
		{[]string{"-f", "testdata/simulate/cluster.yaml", "--for", "podgroup/a", "--requests", "cpu=1"}, 2, "exclude one another"},
		{[]string{"-f", "testdata/simulate/cluster.yaml", "--requests", "cpu"}, 2, "--requests"},
		{[]string{"-f", "testdata/simulate/cluster.yaml", "--for", "podgroup/none"}, 1, "there is no gang default/none"},
		{[]string{"-f", "testdata/simulate/cluster.yaml", "--address", "192.0.2.1"}, 1, "192.0.2.1"},
	} {
		var out, errs bytes.Buffer
		code := cli.Main(t.Context(), append([]string{"ui"}, c.args...), &out, &errs)
		require.Equal(t, c.code, code, c.args)
		require.Contains(t, errs.String(), c.says)
		require.Empty(t, out.String())
	}
}
