package simulate

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/test/worlds"
)

// troubled is a world with claims in which objects change while a scheduler is at work, and requests fail.
type troubled struct {
	killing
	mu      sync.Mutex
	pause   int  // requests until the next change; negative is never
	paused  bool // the time has come
	fails   int  // requests until one fails; negative is never
	carried bool // which is carried out all the same
	tally   worlds.Tally
}

// between counts requests that write.
func (w *troubled) between(action clienttesting.Action, ask answer) (runtime.Object, error) {
	if !slices.Contains([]string{"create", "update", "patch", "delete"}, action.GetVerb()) || action.GetResource().Resource == "events" {
		return ask()
	}
	w.mu.Lock()
	w.paused = w.paused || w.pause == 0
	fails := w.fails == 0
	w.pause--
	w.fails--
	carried := w.carried
	w.mu.Unlock()
	if fails && !carried {
		return nil, apierrors.NewTimeoutError("lost", 1)
	}
	o, err := w.doom.between(action, ask)
	if fails && err == nil {
		return nil, apierrors.NewTimeoutError("lost", 1)
	}
	return o, err
}

func (w *troubled) stops() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused || w.is()
}

// next draws when there is trouble next.
func (w *troubled) next() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused, w.pause = false, rapid.IntRange(0, 12).Draw(w.t, "until")
	w.fails, w.carried = rapid.IntRange(-6, 6).Draw(w.t, "fails"), rapid.Bool().Draw(w.t, "carried out")
}

func (w *troubled) calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused, w.pause, w.fails = false, -1, -1
}

// meddles does one thing.
func (w *troubled) meddles() {
	switch what := rapid.SampledFrom([]string{
		"pod", "pods", "claim", "group", "cordon", "free", "gang", "again", "nothing",
	}).Draw(w.t, "what"); what {
	case "pod":
		if name := w.pod(); name != "" {
			w.removes(pods, name)
		}
	case "pods":
		for _, p := range w.Pods() {
			w.removes(pods, p.Name)
		}
	case "claim":
		if all := w.claims(); len(all) > 0 {
			c := all[rapid.IntRange(0, len(all)-1).Draw(w.t, "claim")]
			w.wild[c.Name] = true
			w.removes(resourceClaims, c.Name)
			w.tally.Count("a claim goes", true)
			if c.OwnerReferences == nil && rapid.Bool().Draw(w.t, "made again") {
				w.comes(strings.Replace(claimFor(c.Name), "uid: "+c.Name, fmt.Sprint("uid: ", c.Name, "-", w.made), 1))
				w.made++
			}
		}
	case "group":
		w.removes(sigs.PodGroups, fmt.Sprint("g", rapid.IntRange(0, w.made).Draw(w.t, "group")))
	case "cordon", "free":
		name := rapid.SampledFrom([]string{"n0", "n1", "n2"}).Draw(w.t, "node")
		_, err := w.cluster.change(nodes, key{"", name}, func(old runtime.Object) (runtime.Object, error) {
			if old == nil {
				return nil, nil
			}
			n := old.DeepCopyObject().(*v1.Node)
			n.Spec.Unschedulable = what == "cordon"
			return n, nil
		})
		require.NoError(w.t, err)
	case "gang":
		w.comes(w.gang())
	case "again":
		w.again()
	}
}

// TestClaimHistories: gangs with claims are made, bound and deleted. Pods, claims and PodGroups are deleted,
// nodes are cordoned, requests fail and schedulers are killed. No device is allocated twice, and no
// allocation is leaked.
func TestClaimHistories(t *testing.T) { playClaims(t) }

// TestClaimSeedsThatBroke: a pod ran without its devices, which were being released while its plan was made;
// and a pod ran with a claim that was not reserved for it again.
func TestClaimSeedsThatBroke(t *testing.T) {
	seed := flag.Lookup("rapid.seed")
	was := seed.Value.String()
	t.Cleanup(func() { require.NoError(t, seed.Value.Set(was)) })
	for _, broke := range []string{"14299513916892794734", "15382008215727229926"} {
		require.NoError(t, seed.Value.Set(broke))
		t.Run(broke, playClaims)
	}
}

func playClaims(t *testing.T) {
	quietLogs(t)
	kinds := []string{"killed", "a user interferes", "a claim goes", "some run", "some wait"}
	worlds.Check(t, 60, kinds, func(rt *rapid.T, tally worlds.Tally) {
		w := &troubled{killing: killing{doom: &doom{left: -1}, t: rt, texts: map[string]string{}, wild: map[string]bool{}}, tally: tally}
		text := w.begins()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.ctx = ctx
		w.next()
		var err error
		w.World, err = Open(ctx, Options{intercept: w.between}, setOf(t, text))
		require.NoError(rt, err)
		defer w.Close()
		for range rapid.IntRange(1, 6).Draw(rt, "troubles") {
			require.NoError(rt, w.Settle(ctx, w.stops))
			if w.is() {
				tally.Count("killed", true)
				w.kills++
				restart(t, ctx, w.World, func() { w.meddles(); w.set(-1, false) })
			} else {
				tally.Count("a user interferes", true)
				w.meddles()
				if rapid.IntRange(0, 3).Draw(rt, "killed next") == 0 {
					w.set(rapid.IntRange(0, 10).Draw(rt, "requests"), rapid.Bool().Draw(rt, "done"))
				}
			}
			w.next()
		}
		w.calm()
		if rapid.Bool().Draw(rt, "ends with a restart") || w.is() {
			restart(t, ctx, w.World, func() { w.set(-1, false) })
		}
		w.set(-1, false)
		require.NoError(rt, w.Settle(ctx, nil))
		w.audit()
		for _, p := range w.Pods() {
			tally.Count("some run", p.Spec.NodeName != "")
			tally.Count("some wait", p.Spec.NodeName == "")
		}
	})
}

// removes deletes an object if it exists, as after the removal of its finalizers.
func (k *killing) removes(of schema.GroupVersionResource, name string) {
	err := k.cluster.delete(of, key{"default", name}, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(k.t, err)
	}
}
