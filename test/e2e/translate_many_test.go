package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// manyEnv says how many PodGangs TestTranslateMany makes. It measures; what it finds is for people.
const manyEnv = "E2E_TRANSLATE"

var podGangs = schema.GroupVersionResource{Group: "scheduler.grove.io", Version: "v1alpha1", Resource: "podgangs"}

// TestTranslateMany creates many PodGangs of four podgroups at once. It reports how long it takes until all of their
// PodGroups exist, what the controller has requested meanwhile, and how much memory it takes. Then it is started again,
// and may write nothing.
func TestTranslateMany(t *testing.T) {
	many, err := strconv.Atoi(os.Getenv(manyEnv))
	if err != nil {
		t.Skip(manyEnv + "=2000 makes so many")
	}
	w := newTranslation(t)
	client := w.client
	p, address := w.start()
	idle(t, address, 0)

	began := time.Now()
	made := make(chan error)
	const makers = 16
	for m := range makers {
		go func() {
			for i := m; i < many; i += makers {
				if _, err := client.Resource(podGangs).Namespace("default").Create(t.Context(), largeGang(i), metav1.CreateOptions{}); err != nil {
					made <- err
					return
				}
			}
			made <- nil
		}()
	}
	for range makers {
		require.NoError(t, <-made)
	}
	created := time.Since(began)
	idle(t, address, float64(many))
	all := time.Since(began)
	list, err := client.Resource(sigs.PodGroups).Namespace("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 4*many)
	asked := requests(t, address)
	t.Logf("%d PodGangs: made in %.1f s, all %d PodGroups there after %.1f s; requests: %v; writes per PodGang: %.2f; memory: %s",
		many, created.Seconds(), 4*many, all.Seconds(), asked, (asked["POST"]+asked["PATCH"]+asked["PUT"]+asked["DELETE"])/float64(many), memory(t, p))
	p.Kill()

	began = time.Now()
	p, address = w.start()
	idle(t, address, float64(many))
	asked = requests(t, address)
	t.Logf("started again: all looked at after %.1f s; requests: %v; memory: %s", time.Since(began).Seconds(), asked, memory(t, p))
	require.Zero(t, asked["PATCH"]+asked["PUT"]+asked["DELETE"])
	p.Stop()
}

// translation is an API server with PodGangs and PodGroups, where the controller can be started.
type translation struct {
	t                *testing.T
	c                *cluster
	client           dynamic.Interface
	binary, backends string
}

func newTranslation(t *testing.T, args ...string) *translation {
	h := &harness{kubectl: kubectlBinary(t), home: t.TempDir()}
	c, err := newCluster(t, args)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.local.Stop()) })
	require.NoError(t, c.applyCRDs(t.Context(), true))
	crds, err := os.Open("testdata/many-crds.yaml")
	require.NoError(t, err)
	defer crds.Close()
	require.NoError(t, c.local.Apply(t.Context(), crds))
	config := rest.CopyConfig(c.local.Config())
	config.QPS = -1
	w := &translation{t: t, c: c, backends: filepath.Join(h.home, "backends.yaml")}
	w.client, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	w.binary, err = h.controllerBinary(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(w.backends, []byte(koordinatorAlone), 0o600))
	return w
}

const koordinatorAlone = "default: koordinator\nbackends: [{name: koordinator}]\n"

// start starts the controller, and says where its metrics are.
func (w *translation) start() (*localcluster.Process, string) {
	port, err := localcluster.FreePort()
	require.NoError(w.t, err)
	p, err := w.c.local.Launch(context.Background(), w.binary, "--kubeconfig="+w.c.kubeconfig, "--leader-elect=false",
		"--health-probe-bind-address=0",
		"--metrics-secure=false", "--metrics-bind-address="+at(port),
		"--enable-source=podgang", "--backend-config="+w.backends, "--discovery-interval=1s")
	require.NoError(w.t, err)
	return p, at(port)
}

func largeGang(i int) *unstructured.Unstructured {
	name := fmt.Sprintf("g%d-0", i)
	var groups []any
	for _, role := range []string{"prefill-leader", "prefill-worker", "decode-leader", "decode-worker"} {
		refs := []any{}
		for n := range 4 {
			refs = append(refs, map[string]any{"namespace": "default", "name": fmt.Sprintf("%s-%s-%d", name, role, n)})
		}
		groups = append(groups, map[string]any{"name": name + "-" + role, "minReplicas": int64(4), "podReferences": refs})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"grove.io/scheduler-name": "koord-scheduler"}},
		"spec":     map[string]any{"podgroups": groups},
	}}
}

// idle waits until the controller has read so many objects, and its queue is empty.
func idle(t *testing.T, address string, least float64) {
	t.Helper()
	last := ""
	defer func() { t.Logf("done, waiting, at work: %s", last) }()
	require.Eventually(t, func() bool {
		m, err := scrape(t.Context(), address)
		last = fmt.Sprint(m[`controller_runtime_reconcile_total{controller="podgang"`], m[`workqueue_depth{controller="podgang",name="podgang"`],
			m[`controller_runtime_active_workers{controller="podgang"`], err)
		return err == nil && m[`controller_runtime_reconcile_total{controller="podgang"`] >= least &&
			m[`workqueue_depth{controller="podgang",name="podgang"`] == 0 && m[`controller_runtime_active_workers{controller="podgang"`] == 0
	}, 3*time.Minute, 250*time.Millisecond)
}

// requests are the requests of the controller, by method. Its POSTs ask what it may do.
func requests(t *testing.T, address string) map[string]float64 {
	t.Helper()
	m, err := scrape(t.Context(), address)
	require.NoError(t, err)
	out := map[string]float64{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if series, ok := strings.CutPrefix(key, "rest_client_requests_total{"); ok && strings.HasSuffix(key, "}") {
			_, method, _ := strings.Cut(series, `method="`)
			method, _, _ = strings.Cut(method, `"`)
			out[method] += m[key]
		}
	}
	return out
}

// memory is the most that a process has had, and what it has.
func memory(t *testing.T, p *localcluster.Process) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Group()))
	require.NoError(t, err)
	var out []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "VmRSS") {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, ", ")
}
