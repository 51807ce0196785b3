package simulate

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/test/worlds"
)

// refused collects the rejections of planned members by their own Filters. The framework reports that
// Coscheduling rejects all nodes except the planned one, and why the planned one was rejected.
type refused struct {
	mu    sync.Mutex
	words []string
}

const offThePlan = "didn't satisfy plugin(s) [Coscheduling"

func (r *refused) between(action clienttesting.Action, ask answer) (runtime.Object, error) {
	if patch, ok := action.(clienttesting.PatchAction); ok && strings.Contains(string(patch.GetPatch()), offThePlan) {
		r.mu.Lock()
		r.words = append(r.words, patch.GetName()+": "+string(patch.GetPatch()))
		r.mu.Unlock()
	}
	return ask()
}

// TestClaimPlans: no member is planned on a node that its own Filter rejects, while no object changes. Gangs start on
// nodes with cards, end, and are evicted for other gangs. Their members share claims, or have one each for any part
// of a card or for a half.
func TestClaimPlans(t *testing.T) {
	quietLogs(t)
	kinds := []string{"some run", "some wait", "some run and others wait", "a gang goes"}
	worlds.Check(t, 60, kinds, func(rt *rapid.T, tally worlds.Tally) {
		w := &killing{t: rt, texts: map[string]string{}, wild: map[string]bool{}}
		text := w.begins()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.ctx = ctx
		var r refused
		var err error
		w.World, err = Open(ctx, Options{intercept: r.between}, setOf(t, text))
		require.NoError(rt, err)
		defer w.Close()
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			require.NoError(rt, w.Settle(ctx, nil))
			require.Empty(rt, r.words, text)
			runs, waits := 0, 0
			for _, p := range w.Pods() {
				if p.Spec.NodeName != "" {
					runs++
				} else {
					waits++
				}
			}
			tally.Count("some run", runs > 0)
			tally.Count("some wait", waits > 0)
			tally.Count("some run and others wait", runs > 0 && waits > 0)
			if rapid.Bool().Draw(rt, "a gang goes") && runs > 0 {
				w.gangGoes(tally)
			}
			w.comes(w.gang())
		}
		require.NoError(rt, w.Settle(ctx, nil))
		require.Empty(rt, r.words, text)
	})
}

// gangGoes deletes the pods of one gang that runs.
func (k *killing) gangGoes(tally worlds.Tally) {
	var run []string
	for _, p := range k.Pods() {
		if gang, _, _ := strings.Cut(p.Name, "-"); p.Spec.NodeName != "" && !slices.Contains(run, gang) {
			run = append(run, gang)
		}
	}
	goes := rapid.SampledFrom(run).Draw(k.t, "goes")
	for _, p := range k.Pods() {
		if gang, _, _ := strings.Cut(p.Name, "-"); gang == goes {
			k.removes(pods, p.Name)
		}
	}
	tally.Count("a gang goes", true)
}
