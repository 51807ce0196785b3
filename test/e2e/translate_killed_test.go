package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// killsEnv says how many histories TestTranslateKilled plays; E2E_SEED which.
const killsEnv = "E2E_TRANSLATE_KILLS"

// TestTranslateKilled plays random histories of PodGangs on a real API server while the controller is killed in the
// middle of each and started again: what is there in the end is what a backend makes of the PodGangs, and nothing else.
// The last controller, which finds all as it should be, writes nothing.
func TestTranslateKilled(t *testing.T) {
	histories, err := strconv.Atoi(os.Getenv(killsEnv))
	if err != nil {
		t.Skip(killsEnv + "=200 plays so many")
	}
	seed, err := strconv.ParseUint(os.Getenv("E2E_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("E2E_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newTranslation(t, "-controllers")
	p, _ := w.start()
	for history := range histories {
		var steps []string
		most := 4 + random.IntN(12)
		kill := random.IntN(most)
		for i := range most {
			steps = append(steps, w.step(random))
			if i == kill { // it is anywhere behind
				p.Kill()
				steps = append(steps, "kill")
			}
		}
		p, _ = w.start()
		want := w.wanted()
		got := ""
		require.Eventually(t, func() bool { got = w.is(); return got == want }, time.Minute, 50*time.Millisecond,
			"history %d: %q\nwanted:\n%s\nis:\n%s", history, steps, want, w.is())
	}
	p.Stop()
	p, address := w.start()
	idle(t, address, 1)
	asked := requests(t, address)
	require.Zero(t, asked["PATCH"]+asked["PUT"]+asked["DELETE"], "%v", asked)
	p.Stop()
}

// step does something to one of a few PodGangs.
func (w *translation) step(random *rand.Rand) string {
	gangs := w.client.Resource(podGangs).Namespace(metav1.NamespaceDefault)
	name := fmt.Sprintf("g%d-0", random.IntN(12))
	there, err := gangs.Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		require.NoError(w.t, err)
	}
	groups := []any{}
	for _, role := range []string{"a", "b", "c", "d"}[:1+random.IntN(4)] {
		groups = append(groups, map[string]any{"name": name + "-" + role, "minReplicas": int64(1 + random.IntN(4)), "podReferences": []any{}})
	}
	switch {
	case err != nil:
		gang := largeGang(0)
		gang.SetName(name)
		gang.Object["spec"] = map[string]any{"podgroups": groups}
		_, err = gangs.Create(w.t.Context(), gang, metav1.CreateOptions{})
		require.NoError(w.t, err)
		return "create " + name
	case random.IntN(3) == 0:
		require.NoError(w.t, gangs.Delete(w.t.Context(), name, metav1.DeleteOptions{}))
		return "delete " + name
	default:
		there.Object["spec"] = map[string]any{"podgroups": groups}
		_, err = gangs.Update(w.t.Context(), there, metav1.UpdateOptions{})
		require.NoError(w.t, err)
		return "change " + name
	}
}

// wanted is what the backend makes of the PodGangs that there are.
func (w *translation) wanted() string {
	config, err := backend.ReadConfig([]byte(koordinatorAlone))
	require.NoError(w.t, err)
	translators, err := config.Translators()
	require.NoError(w.t, err)
	list, err := w.client.Resource(podGangs).Namespace(metav1.NamespaceDefault).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	var out []unstructured.Unstructured
	for i := range list.Items {
		info, err := podgang.FromPodGang(&list.Items[i])
		require.NoError(w.t, err)
		objects, _, err := translators[0].Objects(info, backend.Cluster{})
		require.NoError(w.t, err)
		for _, o := range objects {
			labels := o.GetLabels()
			labels[backend.LabelBackend] = translators[0].Name() // the writer adds it
			o.SetLabels(labels)
			out = append(out, *o.Unstructured)
		}
	}
	return w.text(out)
}

// is what there is.
func (w *translation) is() string {
	list, err := w.client.Resource(sigs.PodGroups).Namespace(metav1.NamespaceDefault).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	return w.text(list.Items)
}

// text is what two of them have in common if they are the same: with the owner's UID.
func (w *translation) text(objects []unstructured.Unstructured) string {
	var lines []string
	for i := range objects {
		o := &objects[i]
		line, err := json.Marshal([]any{o.GetName(), o.GetLabels(), o.GetAnnotations(), o.GetOwnerReferences(), o.Object["spec"]})
		require.NoError(w.t, err)
		lines = append(lines, string(line))
	}
	slices.Sort(lines)
	out := ""
	for _, line := range lines {
		out += line + "\n"
	}
	return out
}
