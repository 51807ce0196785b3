package acceptance

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
	_ "github.com/muster-scheduler/muster/test/seed"
)

// TestHistories: a PodCliqueSet changes again and again, its scheduler too, and any write may fail, where the process may
// end as well. Once all is quiet there is what there would be had only the last of it ever been, and nothing is written
// any more.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		backends := []string{"koordinator", "muster", "volcano", "workload", "podgang"}
		r, c := &run{T: t}, newCluster(t)
		native := rapid.SampledFrom([]string{"v1alpha1", "v1beta1"}).Draw(rt, "native")
		c.native = native
		var last *unstructured.Unstructured
		for range rapid.IntRange(1, 6).Draw(rt, "changes") {
			last = anyCliqueSet(rt)
			left := rapid.IntRange(0, 4).Draw(rt, "writes that succeed")
			c.fail = func(string, string) error {
				if left--; left < 0 {
					return errors.New("the API server is away")
				}
				return nil
			}
			_ = r.try(backend.Adapter{Registry: c.registry(r, backends...)}, last, nil)
		}
		c.fail = nil
		a := backend.Adapter{Registry: c.registry(r, backends...)}
		r.sync(a, last, nil)
		fresh := newCluster(t)
		fresh.native = native
		r.sync(backend.Adapter{Registry: fresh.registry(r, backends...)}, last, nil)
		require.Equal(rt, fresh.all(r), c.all(r))
		c.writes = nil
		r.sync(a, last, nil)
		require.Empty(rt, c.writes)
		require.NoError(rt, a.Delete(t.Context(), "default", podgang.OwnerOf(last)))
		require.Empty(rt, c.all(r))
	})
}

// anyCliqueSet is a PodCliqueSet of one name.
func anyCliqueSet(t *rapid.T) *unstructured.Unstructured {
	cliques := map[string]int64{}
	for _, name := range []string{"a", "b", "c"} {
		if n := rapid.Int64Range(0, 3).Draw(t, name); n > 0 || name == "a" {
			cliques[name] = max(1, n)
		}
	}
	scheduler := rapid.SampledFrom([]string{"", "koord-scheduler", "muster-scheduler", "volcano", "kai-scheduler"}).Draw(t, "scheduler")
	pcs := cliqueSet("p", scheduler, cliques)
	in(pcs.Object, "spec").(object)["replicas"] = rapid.Int64Range(0, 3).Draw(t, "replicas")
	return pcs
}

// all is what was written, without what the API server adds.
func (c *cluster) all(r *run) map[string]object {
	out := map[string]object{}
	for _, kind := range written {
		for _, u := range c.objects(r, kind) {
			u.SetManagedFields(nil)
			u.SetResourceVersion("")
			out[kind.String()+" "+u.GetName()] = u.Object
		}
	}
	return out
}
