package simulate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/allot"
)

// sharing returns two nodes with a GPU each, and a gang of three whose members share a claim for one GPU.
func sharing(t *testing.T) *Set {
	var b strings.Builder
	b.WriteString("{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {}}\n")
	for _, n := range []string{"n0", "n1"} {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {allocatable: {cpu: 8, pods: 20}}}\n", n)
		fmt.Fprintf(&b,
			"---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %s}, spec: {driver: d, nodeName: %s, pool: {name: %s, "+
				"generation: 1, resourceSliceCount: 1}, devices: [{name: gpu}]}}\n",
			n, n, n)
	}
	b.WriteString("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: one, uid: one}, spec: {devices: {requests: " +
		"[{name: gpu, exactly: {deviceClassName: gpu, count: 1}}]}}}\n")
	b.WriteString("---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 3}}\n")
	for i := range 3 {
		b.WriteString(sharer(i))
	}
	return setOf(t, b.String())
}

func sharer(i int) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: g-%d, labels: {pod-group.scheduling.sigs.k8s.io: g}}, spec: "+
		"{schedulerName: muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}], resourceClaims: [{name: gpu, "+
		"resourceClaimName: one}]}}\n", i)
}

func setOf(t *testing.T, text string) *Set {
	set := &Set{}
	require.NoError(t, set.Add("in.yaml", []byte(text)))
	return set
}

// shared is a world in which members share a claim.
type shared struct {
	*World
	t   *testing.T
	ctx context.Context
}

func openShared(t *testing.T, o Options) *shared { return openWith(t, o, sharing(t)) }

// openWith opens a world with a serialized intercept, since pods are bound concurrently.
func openWith(t *testing.T, o Options, set *Set) *shared {
	quietLogs(t)
	if between := o.intercept; between != nil {
		var turn sync.Mutex
		o.intercept = func(action clienttesting.Action, ask answer) (runtime.Object, error) {
			turn.Lock()
			defer turn.Unlock()
			return between(action, ask)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	w, err := Open(ctx, o, set)
	require.NoError(t, err)
	s := &shared{w, t, ctx}
	t.Cleanup(func() { s.Close(); cancel() })
	return s
}

func (s *shared) claim() *resourceapi.ResourceClaim {
	o, err := s.cluster.get(resourceClaims, key{"default", "one"})
	require.NoError(s.t, err)
	return o.(*resourceapi.ResourceClaim)
}

// where says on which nodes members are, and for how many pods the claim is reserved.
func (s *shared) where() (says string) {
	for _, p := range s.Pods() {
		says += p.Name + "=" + p.Spec.NodeName + " "
	}
	c := s.claim()
	return fmt.Sprint(says, "allocated ", c.Status.Allocation != nil, " for ", len(c.Status.ReservedFor))
}

// written goes on until the claim is allocated.
func (s *shared) written() {
	require.NoError(s.t, s.Settle(s.ctx, func() bool { return s.claim().Status.Allocation != nil }))
	require.Equal(s.t, "g-0= g-1= g-2= allocated true for 3", s.where(), "before any of them is bound")
	require.True(s.t, allot.AllocatedByMuster(s.claim()), "with the mark")
	require.Contains(s.t, s.claim().Finalizers, resourceapi.Finalizer)
}

func (s *shared) settled(want string) {
	s.t.Helper()
	require.NoError(s.t, s.Settle(s.ctx, nil))
	require.Equal(s.t, want, s.where())
}

func (s *shared) deletes(pod string) {
	require.NoError(s.t, s.cluster.delete(pods, key{"default", pod}, metav1.DeleteOptions{}))
}

// adds recreates a member.
func (s *shared) adds(i int) {
	come, err := s.cluster.apply(setOf(s.t, sharer(i)))
	require.NoError(s.t, err)
	require.NoError(s.t, s.addPods(s.ctx, come))
}

// restarts kills the scheduler, has something happen, and starts another one.
func (s *shared) restarts(meanwhile func()) {
	restart(s.t, s.ctx, s.World, meanwhile)
}

// restart kills the scheduler of a world, has something happen, and starts another one.
func restart(t *testing.T, ctx context.Context, s *World, meanwhile func()) {
	s.stop(s.cancel)
	meanwhile()
	cfg, err := readConfig(nil)
	require.NoError(t, err)
	life, cancel := context.WithCancel(ctx)
	s.cancel = cancel
	require.NoError(t, s.boot(life, cfg))
	require.NoError(t, s.waitReady(ctx))
}

const allTogether = "g-0=n0 g-1=n0 g-2=n0 allocated true for 3"

// TestSharedClaimIsTakenBack: a member is deleted when the claim was allocated for it and its siblings. The claim is
// taken back, and allocated again when the member is there again.
func TestSharedClaimIsTakenBack(t *testing.T) {
	s := openShared(t, Options{})
	s.written()
	s.deletes("g-2")
	s.settled("g-0= g-1= allocated false for 0")
	s.adds(2)
	s.settled(allTogether)
}

// TestSharedClaimIsFound: the scheduler is killed when it has allocated a claim for members. The next one uses it, or
// takes it back.
func TestSharedClaimIsFound(t *testing.T) {
	t.Run("the members are still there", func(t *testing.T) {
		s := openShared(t, Options{})
		s.written()
		s.restarts(func() {})
		s.settled(allTogether)
	})
	t.Run("one of them is not", func(t *testing.T) {
		s := openShared(t, Options{})
		s.written()
		s.restarts(func() { s.deletes("g-2") })
		s.settled("g-0= g-1= allocated false for 0")
		s.adds(2)
		s.settled(allTogether)
	})
	t.Run("some of them are bound", func(t *testing.T) {
		s := openShared(t, Options{})
		require.NoError(t, s.Settle(s.ctx, func() bool { return strings.Contains(s.where(), "=n0") }))
		s.restarts(func() {})
		s.settled(allTogether)
	})
	t.Run("another client has allocated it since", func(t *testing.T) {
		s := openShared(t, Options{})
		s.written()
		s.restarts(func() {
			s.deletes("g-2")
			s.edit(func(c *resourceapi.ResourceClaim) {
				c.Status.Allocation.Devices.Results[0].Pool, c.Status.ReservedFor = "n1", nil
			})
		})
		s.settled("g-0= g-1= allocated true for 0")
		require.NotEmpty(t, s.claim().Annotations[scheduling.AnnotationAllocatedAhead])
	})
	t.Run("it is reserved for a pod of another scheduler", func(t *testing.T) {
		s := openShared(t, Options{})
		s.written()
		s.restarts(func() {
			s.deletes("g-2")
			come, err := s.cluster.apply(setOf(t,
				strings.NewReplacer("g-2", "other", "muster-scheduler", "another", "labels: {pod-group.scheduling.sigs.k8s.io: g}",
					"labels: {}").Replace(sharer(2))))
			require.NoError(t, err)
			for _, o := range come {
				require.NoError(t, s.cluster.put(o))
			}
			o, err := s.cluster.get(pods, key{"default", "other"})
			require.NoError(t, err)
			s.edit(func(c *resourceapi.ResourceClaim) {
				c.Status.ReservedFor = append(c.Status.ReservedFor,
					resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "other", UID: o.(*v1.Pod).UID})
			})
		})
		s.settled("g-0= g-1= other= allocated true for 1")
	})
}

// edit changes the claim as another client.
func (s *shared) edit(change func(*resourceapi.ResourceClaim)) {
	_, err := s.cluster.change(resourceClaims, key{"default", "one"}, func(old runtime.Object) (runtime.Object, error) {
		c := old.DeepCopyObject().(*resourceapi.ResourceClaim)
		change(c)
		return c, nil
	})
	require.NoError(s.t, err)
}

// TestSharedClaimIsNotWritten: requests to write the claim fail, or their answers are lost. The gang starts later.
func TestSharedClaimIsNotWritten(t *testing.T) {
	gvr := resourceClaims.GroupResource()
	for name, how := range map[string]struct {
		subresource string
		does        bool
		err         error
		times       int
	}{
		"its mark is refused":          {"", false, apierrors.NewInternalError(context.DeadlineExceeded), 3},
		"its status is refused":        {"status", false, apierrors.NewInternalError(context.DeadlineExceeded), 3},
		"another client was faster":    {"status", false, apierrors.NewConflict(gvr, "one", context.DeadlineExceeded), 3},
		"the answer is lost":           {"status", true, apierrors.NewTimeoutError("lost", 1), 3},
		"the answer to a mark is lost": {"", true, apierrors.NewTimeoutError("lost", 1), 1},
		"writing it is forbidden":      {"status", false, apierrors.NewForbidden(gvr, "one", context.DeadlineExceeded), 3},
	} {
		t.Run(name, func(t *testing.T) {
			failed := 0
			s := openShared(t, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
				if action.GetVerb() != "update" || action.GetResource().Resource != "resourceclaims" || action.GetSubresource() != how.subresource ||
					failed >= how.times {
					return ask()
				}
				failed++
				if how.does {
					if _, err := ask(); err != nil {
						return nil, err
					}
				}
				return nil, how.err
			}})
			s.settled(allTogether)
			require.Equal(t, how.times, failed)
		})
	}
}

// oneCard is case 20: a card as a whole or as two halves, of which the whole is listed first; one member takes any of it, the
// other one a half.
func oneCard(t *testing.T) *Set {
	request := func(selector string) string {
		return "{name: gpu, exactly: {deviceClassName: gpu, count: 1" + selector + "}}"
	}
	text := `
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: any}, spec: {spec: {devices: {requests: [` + request("") + `]}}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: half}, spec: {spec: {devices: {requests: [` + request(", selectors: [{cel: {expression: \"device.attributes['d'].half\"}}]") + `]}}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: 8, pods: 20}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: card}
spec: {driver: d, nodeName: n0, pool: {name: n0, generation: 1, resourceSliceCount: 2}, sharedCounters: [{name: card, counters: {halves: {value: "2"}}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: parts}
spec:
  driver: d
  nodeName: n0
  pool: {name: n0, generation: 1, resourceSliceCount: 2}
  devices:
  - {name: a-whole, attributes: {half: {bool: false}}, consumesCounters: [{counterSet: card, counters: {halves: {value: "2"}}}]}
  - {name: half-0, attributes: {half: {bool: true}}, consumesCounters: [{counterSet: card, counters: {halves: {value: "1"}}}]}
  - {name: half-1, attributes: {half: {bool: true}}, consumesCounters: [{counterSet: card, counters: {halves: {value: "1"}}}]}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 2}}
`
	return setOf(t, text+partner("any")+partner("half"))
}

func partner(of string) string {
	return "---\n{apiVersion: v1, kind: Pod, metadata: {name: g-" + of +
		", labels: {pod-group.scheduling.sigs.k8s.io: g}}, spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i, " +
		"resources: {requests: {cpu: 1}}}], resourceClaims: [{name: gpu, resourceClaimTemplateName: " + of + "}]}}\n"
}

// TestAtOnceIsWritten: what members find only if all are asked for at once is written before they come. It is taken back if
// one of them does not, and found by the next scheduler.
func TestAtOnceIsWritten(t *testing.T) {
	for name, meanwhile := range map[string]func(w *World, ctx context.Context){
		"nothing else happens": func(*World, context.Context) {},
		"a member is deleted": func(w *World, ctx context.Context) {
			require.NoError(t, w.cluster.delete(pods, key{"default", "g-half"}, metav1.DeleteOptions{}))
		},
		"the scheduler is killed": func(w *World, ctx context.Context) { restart(t, ctx, w, func() {}) },
		"both": func(w *World, ctx context.Context) {
			restart(t, ctx, w, func() {
				require.NoError(t, w.cluster.delete(pods, key{"default", "g-half"}, metav1.DeleteOptions{}))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			quietLogs(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			w, err := Open(ctx, Options{}, oneCard(t))
			require.NoError(t, err)
			t.Cleanup(func() { w.Close(); cancel() })
			has := func(pod string) string {
				o, err := w.cluster.get(resourceClaims, key{"default", "g-" + pod + "-gpu"})
				if err != nil || o.(*resourceapi.ResourceClaim).Status.Allocation == nil {
					return ""
				}
				return o.(*resourceapi.ResourceClaim).Status.Allocation.Devices.Results[0].Device
			}
			require.NoError(t, w.Settle(ctx, func() bool { return has("any") != "" && has("half") != "" }))
			for _, p := range w.Pods() {
				require.Empty(t, p.Spec.NodeName, "before any of them is bound")
			}
			meanwhile(w, ctx)
			require.NoError(t, w.Settle(ctx, nil))
			if has("half") == "" {
				require.Empty(t, has("any"), "taken back")
				come, err := w.cluster.apply(setOf(t, partner("half")))
				require.NoError(t, err)
				require.NoError(t, w.addPods(ctx, come))
				require.NoError(t, w.Settle(ctx, nil))
			}
			require.Equal(t, "half-0 half-1", has("any")+" "+has("half"))
			for _, p := range w.Pods() {
				require.Equal(t, "n0", p.Spec.NodeName)
			}
		})
	}
}
