package status_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// TestAGangIsToldOnce: an unchanged status is written once, with one event. Members of an incomplete gang are written
// when no further member was created for a while.
func TestAGangIsToldOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.gang("g", 3)
		w.pod("g", "g-0", "")
		w.pod("g", "g-1", "")
		w.pass(time.Second)
		require.Equal(t, "g/status", w.written(), "one write for three changes")
		require.Equal(t, "Waiting: 2 of 3 members exist; the gang can start after the creation of 1 more pod, or with minMember 2", w.condition("g"))
		require.Equal(t,
			[]string{"g Warning Waiting: 2 of 3 members exist; the gang can start after the creation of 1 more pod, or with minMember 2"}, w.said())
		require.Empty(t, w.scheduled("g-0"), "another one may come soon")

		w.pass(10 * settle)
		require.Equal(t, "g-0/status g-1/status", w.written())
		require.Equal(t, "WaitingForGang: 2 of 3 members exist; the gang can start after the creation of 1 more pod, or with minMember 2",
			w.scheduled("g-0"))
		for range 20 {
			w.teller.Report(g)
			w.pass(time.Second)
		}
		require.Empty(t, w.written())
		require.Empty(t, w.said())

		w.pod("g", "g-2", "")
		w.pass(time.Second)
		require.Equal(t, "g/status", w.written())
		require.Equal(t, "Ready: all members exist", w.condition("g"))
		require.Empty(t, w.said(), "the condition says it")
		w.pass(10 * settle)
		require.Equal(t, "WaitingForGang: waits for ns/g-0, with which Muster tries the whole gang", w.scheduled("g-1"))
	})
}

// TestEveryMemberIsToldOnce is case 58: each member of a gang without capacity has a condition within 15 seconds.
// While the capacity changes without being enough, no member is written again. For another reason each member is.
func TestEveryMemberIsToldOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.gang("g", 4)
		for i := range 4 {
			w.pod("g", fmt.Sprint("g-", i), "")
		}
		w.pass(time.Minute)
		w.written()
		refuse := func(by gang.ObstacleKind, words string) {
			w.cache.Handle(gang.PlanSearched{Pod: "ns/g-0"})
			w.cache.Handle(gang.Unschedulable{Group: g, Refusal: gang.Obstacle{By: by, Words: words}})
		}
		refuse(gang.Plan, "no room")
		w.pass(15 * time.Second)
		require.Equal(t, "g-1/status g-2/status g-3/status g/status", w.written(), "the scheduler tells g-0")
		const told = `Unschedulable: Gang ns/g is unschedulable: no room. ` +
			`Details: GangGroup "ns/g" gets rejected due to member Pod "ns/g-0" is unschedulable with reason "no room", alreadyWaitForBound: 0.`
		require.Equal(t, told, w.scheduled("g-3"))
		for i := range 100 {
			refuse(gang.Plan, fmt.Sprint("no room, ", i))
			w.pass(time.Second)
			require.NotContains(t, w.written(), "g-")
		}
		w.pod("g", "g-4", "")
		w.pass(15 * time.Second)
		require.Equal(t, "g-4/status", w.written())
		require.Equal(t, told, w.scheduled("g-4"), "what the others were told")
		refuse(gang.Conflict, "they want different things")
		w.pass(15 * time.Second)
		require.Equal(t, "g-1/status g-2/status g-3/status g-4/status g/status", w.written())

		w.cache.Handle(gang.Planned{Group: g, Places: []gang.Assignment{{Pod: "ns/g-0", Node: "n"}, {Pod: "ns/g-1", Node: "n"}}})
		w.pass(15 * time.Second)
		require.Equal(t, "g/status", w.written(), "a placed member gets no condition")
	})
}

// TestBindingsGoFirst: while bindings are under way a gang's status waits, for five seconds.
func TestBindingsGoFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		w.busy.Store(true)
		w.gang("g", 1)
		w.pass(4 * time.Second)
		require.Empty(t, w.written())
		w.pass(2 * time.Second)
		require.Equal(t, "g/status", w.written())
		w.gang("h", 1)
		w.pass(time.Second)
		w.busy.Store(false)
		w.pass(time.Second)
		require.Equal(t, "h/status", w.written())
	})
}

// TestDoIdle: work for idle times is done after a while without bindings, then as soon as there are no bindings.
// After five seconds it is done despite bindings.
func TestDoIdle(t *testing.T) {
	for name, c := range map[string]struct {
		busy, fails time.Duration // until when
		done        []string      // when, and whether it should let bindings pass
	}{
		"nothing is under way":       {0, 0, []string{"1s false"}},
		"bindings for a moment":      {900 * time.Millisecond, 0, []string{"1s false"}},
		"bindings for three seconds": {3100 * time.Millisecond, 0, []string{"4s false"}},
		"bindings for ever":          {time.Hour, 0, []string{"5s false"}},
		"it is not taken at once":    {0, 1010 * time.Millisecond, []string{"1s false", "1.02s false"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				start := time.Now()
				var done []string
				w.busy.Store(c.busy > 0)
				w.teller.DoIdle("k", time.Second, func(_ context.Context, yields func() bool) error {
					done = append(done, fmt.Sprint(time.Since(start), " ", yields()))
					if time.Since(start) < c.fails {
						return errors.New("down")
					}
					return nil
				})
				w.pass(c.busy)
				w.busy.Store(false)
				w.pass(time.Hour)
				require.Equal(t, c.done, done)
			})
		})
	}
}

// TestWhatIsDoneYields: what has begun when no bindings were under way lets those pass that begin meanwhile, until five
// seconds after it was asked for.
func TestWhatIsDoneYields(t *testing.T) {
	inWorld(t, func(w *world) {
		var yields func() bool
		w.teller.DoIdle("k", time.Second, func(_ context.Context, y func() bool) error { yields = y; return nil })
		w.pass(time.Second)
		require.False(t, yields())
		w.busy.Store(true)
		require.True(t, yields())
		w.pass(3999 * time.Millisecond)
		require.True(t, yields())
		w.pass(time.Millisecond)
		require.False(t, yields(), "it has waited long enough")
	})
}

// TestIdleIsDoneOnce: what is asked for again and again while bindings are under way is done once, as it was asked for
// last; another key has its own turn.
func TestIdleIsDoneOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		var mu sync.Mutex // the writer has two workers
		var done []string
		w.busy.Store(true)
		ask := func(key, what string) {
			w.teller.DoIdle(key, time.Second, func(context.Context, func() bool) error {
				mu.Lock()
				defer mu.Unlock()
				done = append(done, what)
				return nil
			})
		}
		ask("other", "other")
		for i := range 3 {
			ask("k", fmt.Sprint("k ", i))
			w.pass(1100 * time.Millisecond)
		}
		require.Empty(t, done)
		w.busy.Store(false)
		w.pass(time.Minute)
		require.ElementsMatch(t, []string{"other", "k 2"}, done)
		require.True(t, w.writer.Idle())
	})
}

// TestRefusalsAreFewEvents: a gang that is refused for another reason each second has its
// condition written, and an event a minute.
func TestRefusalsAreFewEvents(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.gang("g", 1)
		w.pod("g", "g-0", "")
		w.pass(time.Minute)
		w.said()
		for i := range 150 {
			w.cache.Handle(gang.Unschedulable{Group: g, Refusal: gang.Obstacle{By: gang.Plan, Words: fmt.Sprint("no room, ", i)}})
			w.pass(time.Second)
		}
		require.Equal(t,
			[]string{"g Warning Unschedulable: no room, 0", "g Warning Unschedulable: no room, 60", "g Warning Unschedulable: no room, 120"},
			w.said())
		require.Equal(t, "Unschedulable: no room, 149", w.condition("g"))
		w.pass(time.Minute)
		w.teller.Gang(g, status.Warning, reasons.ScheduleTimeout, "waited too long")
		require.Equal(t, []string{"g Warning ScheduleTimeout: waited too long"}, w.said())
	})
}

// TestEventsAreNotRepeated: what was said of a gang is not said again within a minute, whatever was said between.
func TestEventsAreNotRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.gang("g", 1)
		w.pass(time.Second)
		w.said()
		for range 10 {
			w.teller.Gang(g, status.Warning, reasons.ScheduleTimeout, "waited too long")
			w.teller.Gang(g, status.Warning, reasons.ReservationGivenUp, "the places are taken")
		}
		require.Equal(t, []string{"g Warning ScheduleTimeout: waited too long", "g Warning ReservationGivenUp: the places are taken"}, w.said())
		w.pass(time.Minute)
		w.teller.Gang(g, status.Warning, reasons.ScheduleTimeout, "waited too long")
		require.Equal(t, []string{"g Warning ScheduleTimeout: waited too long"}, w.said())
	})
}

// TestWhereAndHowNear: that a gang is bound is an event, with how many domains it touches, and how many it would at
// the least; once, although a later member knows nothing of that.
func TestWhereAndHowNear(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.gang("g", 1)
		w.teller.Placed(g,
			[]place.Spread{
				{Layer: "SpineLayer", Touched: 1, Least: 1},
				{Layer: "BlockLayer", Touched: 3, Least: 2, Names: []string{"a", "b", "c"}},
				{Layer: "NodeTopologyLayer", Touched: 4, Least: 4},
			})
		w.pod("g", "g-0", "n")
		w.pass(time.Minute)
		require.Equal(t,
			[]string{
				"g Normal Scheduled: the gang is bound (domains touched: 3 of BlockLayer: a, b, c, least possible 2; 4 of NodeTopologyLayer, least " +
					"possible 4)",
			},
			w.said())
		w.teller.Placed(g, nil)
		w.teller.Report(g)
		w.pass(time.Minute)
		require.Empty(t, w.said())
	})
}

// TestAGangWithoutAPodGroup: where there is no object, a member is told.
func TestAGangWithoutAPodGroup(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pod("g", "g-0", "")
		w.pass(time.Second)
		require.Equal(t, []string{"g-0 Warning Waiting: PodGroup ns/g does not exist"}, w.said())
		require.Nil(t, w.teller.PodGroup(gang.Ref{Source: "podgroup", Namespace: "ns", Name: "g"}))
		w.gang("g", 1)
		w.pass(time.Second)
		require.Equal(t, "PodGroup", w.teller.PodGroup(gang.Ref{Source: "podgroup", Namespace: "ns", Name: "g"}).Kind)
	})
}

// TestANativePodGroup: of Kubernetes' own PodGroup that condition is written which the API asks
// for, in the version that is served, and it stays; nothing else of the status is touched.
func TestANativePodGroup(t *testing.T) {
	inWorld(t, func(w *world) {
		others := map[string]any{
			"type": "DisruptionTarget", "status": "False", "reason": "None", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
		}
		w.create(native, "ns", map[string]any{
			"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "PodGroup", "metadata": map[string]any{"name": "g", "namespace": "ns"},
			"spec":   map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(1)}}},
			"status": map[string]any{"conditions": []any{others}, "resourceClaimStatuses": []any{map[string]any{"name": "c"}}},
		})
		w.pass(time.Second)
		require.Empty(t, w.written(), "a gang that waits for members was not tried")
		w.pod("", "g-0", "n", func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To("g")} })
		w.pass(10 * time.Second)
		require.Equal(t, "g/status", w.written())
		says := func() []any {
			u, err := w.custom.Resource(native).Namespace("ns").Get(t.Context(), "g", metav1.GetOptions{})
			require.NoError(t, err)
			require.Len(t, u.Object["status"], 2)
			all, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
			require.NoError(t, err)
			return all
		}
		require.Len(t, says(), 2)
		require.Equal(t, others, says()[0])
		is := says()[1].(map[string]any)
		require.Equal(t, []any{"PodGroupInitiallyScheduled", "True", "Scheduled"}, []any{is["type"], is["status"], is["reason"]})
		require.NoError(t, w.client.CoreV1().Pods("ns").Delete(t.Context(), "g-0", metav1.DeleteOptions{}))
		w.pass(10 * time.Second)
		require.Empty(t, w.written(), "it was whole once")
	})
}

// TestAStatefulSetThatMakesOnePodAtATime: a gang that waits for pods which are made when it has
// started says so, and what to write.
func TestAStatefulSetThatMakesOnePodAtATime(t *testing.T) {
	const hint = "; StatefulSet train seems to create one pod after another, each when the one before it runs: members that start together " +
		"need podManagementPolicy: Parallel"
	of := func(kind string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "train", UID: "u", Controller: ptr.To(true)}}
		}
	}
	worker := func(p *v1.Pod) { p.Labels[scheduling.LabelLeaderWorkerSet] = "train" }
	for name, c := range map[string]struct {
		exist func(w *world)
		says  string
	}{
		"the first of three": {func(w *world) { w.pod("g", "train-0", "", of("StatefulSet")) }, "1 of 3 members exist" + hint},
		"the first runs": {func(w *world) {
			w.pod("g", "train-0", "n", of("StatefulSet"))
			w.pod("g", "train-1", "", of("StatefulSet"))
		}, "2 of 3 members exist" + hint},
		"the tenth comes last": {func(w *world) {
			w.pod("g", "train-9", "n", of("StatefulSet"))
			w.pod("g", "train-10", "", of("StatefulSet"))
		}, "2 of 3 members exist" + hint},
		"beside others": {func(w *world) { w.pod("g", "a", ""); w.pod("g", "train-0", "", of("StatefulSet")) }, "2 of 3 members exist" + hint},
		"two wait": {func(w *world) {
			w.pod("g", "train-0", "", of("StatefulSet"))
			w.pod("g", "train-1", "", of("StatefulSet"))
		}, "2 of 3 members exist; the gang can start when StatefulSet train has created 1 more pod, or with minMember 2"},
		"one is made again": {func(w *world) {
			w.pod("g", "train-0", "", of("StatefulSet"))
			w.pod("g", "train-1", "n", of("StatefulSet"))
		}, "2 of 3 members exist; the gang can start when StatefulSet train has created 1 more pod, or with minMember 2"},
		"of a Job": {
			func(w *world) { w.pod("g", "train-0", "", of("Job")) },
			"1 of 3 members exist; the gang can start when Job train has created 2 more pods, or with minMember 1",
		},
		"of a LeaderWorkerSet": {
			func(w *world) { w.pod("g", "train-0", "", of("StatefulSet"), worker) },
			"1 of 3 members exist; the gang can start when StatefulSet train has created 2 more pods, or with minMember 1",
		},
		"no owner's": {
			func(w *world) { w.pod("g", "train-0", "") },
			"1 of 3 members exist; the gang can start after the creation of 2 more pods, or with minMember 1",
		},
		"none, which is no reason": {func(*world) {}, "0 of 3 members exist"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.gang("g", 3)
				c.exist(w)
				w.pass(time.Second)
				require.Equal(t, "Waiting: "+c.says, w.condition("g"))
				require.Equal(t, []string{"g Warning Waiting: " + c.says}, w.said())
			})
		})
	}
	inWorld(t, func(w *world) {
		w.gang("g", 3)
		w.pod("g", "train-0", "", of("StatefulSet"))
		w.pass(time.Minute)
		require.Equal(t, "WaitingForGang: 1 of 3 members exist"+hint, w.scheduled("train-0"))
		w.pod("g", "train-1", "", of("StatefulSet"))
		w.pod("g", "train-2", "", of("StatefulSet"))
		w.pass(time.Second)
		require.Equal(t, "Ready: all members exist", w.condition("g"))
	})
	inWorld(t, func(w *world) {
		w.pod("g", "train-0", "", of("StatefulSet"))
		w.pass(time.Second)
		require.Equal(t, []string{"train-0 Warning Waiting: PodGroup ns/g does not exist"}, w.said(), "something else is missing first")
	})
}

// TestSiblings: the other members of a gang that has places read why they wait and where
// they will be; members of a gang without places cost nothing.
func TestSiblings(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.gang("g", 2)
		speaker := w.pod("g", "g-0", "")
		w.pod("g", "g-1", "")
		w.pass(time.Minute)
		w.written()
		w.teller.Siblings(speaker, status.Explained{Text: "no room"}, status.PreemptionNoVictims)
		w.pass(time.Second)
		require.Empty(t, w.written())

		w.cache.Handle(gang.Planned{
			Group: g, Places: []gang.Assignment{{Pod: "ns/g-0", Node: "n0"}, {Pod: "ns/g-1", Node: "n1"}}, Reserved: true,
			Until: time.Now().Add(time.Hour),
		})
		w.teller.Siblings(speaker, status.Explained{Text: "no room"}, status.PreemptionEvicts)
		w.pass(time.Second)
		require.Equal(t, "g-1/status g/status", w.written())
		require.Equal(t,
			`Unschedulable: Gang ns/g is unschedulable: no room. `+
				`Details: GangGroup "ns/g" gets rejected due to member Pod "ns/g-0" is unschedulable with reason "no room", alreadyWaitForBound: 0. `+
				`preemption: preemption already attempted by ns/g-0 with message preempt success, alreadyWaitingForBound: 0/2.`, w.scheduled("g-1"))
		p := w.cache.Pod("ns/g-1")
		require.Equal(t, "n1", p.Status.NominatedNodeName)

		w.teller.Pod("ns/g-1", status.Waiting{Node: new(string)})
		w.pass(time.Second)
		require.Empty(t, w.written(), "its place is unchanged")

		w.cache.Handle(gang.VictimStays{Group: g, Why: "the victims stay"})
		w.pass(time.Second)
		w.written()
		w.teller.Siblings(speaker, status.Explained{Text: "no room"}, status.PreemptionNoVictims)
		w.pass(time.Second)
		require.Equal(t,
			`Unschedulable: Gang ns/g is unschedulable: no room. `+
				`Details: GangGroup "ns/g" gets rejected due to member Pod "ns/g-0" is unschedulable with reason `+
				`"no room. preemption: no potential victims", alreadyWaitForBound: 0.`, w.scheduled("g-1"), "an eviction that is over is not mentioned")
		w.written()

		w.teller.Pod("ns/gone", status.Waiting{Message: "nobody"})
		w.pass(time.Second)
		require.Empty(t, w.written())
	})
}

// TestANominationIsClearedWhateverIsSaid: something else is said of a pod while the request to clear its
// nominated node waits to be sent again.
func TestANominationIsClearedWhateverIsSaid(t *testing.T) {
	inWorld(t, func(w *world) {
		w.gang("g", 1)
		w.pod("g", "g-0", "", func(p *v1.Pod) { p.Status.NominatedNodeName = "n1" })
		w.pass(time.Second)
		refused := 0
		w.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if refused++; refused < 3 { // the first request, and what client-go tries again by itself
				return true, nil, apierrors.NewTooManyRequests("later", 0)
			}
			return false, nil, nil
		})
		w.teller.Pod("ns/g-0", status.Waiting{Node: new(string)})
		synctest.Wait() // refused, and to be sent again
		require.Positive(t, refused)
		w.teller.Pod("ns/g-0", status.Waiting{Message: "no room"})
		w.pass(time.Minute)
		p, err := w.client.CoreV1().Pods("ns").Get(t.Context(), "g-0", metav1.GetOptions{})
		require.NoError(t, err)
		require.Empty(t, p.Status.NominatedNodeName)
		require.Equal(t, "Unschedulable: no room", w.scheduled("g-0"))
	})
}

// TestANominationIsWrittenAfterItWasCleared: a reservation nominates its members for the same nodes while the
// clearing of an earlier nomination is in progress. A later process must read these nodes, since victims terminate
// for them.
func TestANominationIsWrittenAfterItWasCleared(t *testing.T) {
	for name, underWay := range map[string]bool{"the request is under way": true, "it was carried out, but not seen": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.gang("g", 1)
				w.pod("g", "g-0", "", func(p *v1.Pod) { p.Status.NominatedNodeName = "n1" })
				w.pass(time.Second)
				pod, goes := w.cache.Pod("ns/g-0"), make(chan struct{})
				w.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { <-goes; return false, nil, nil })
				if underWay {
					w.teller.Pod("ns/g-0", status.Waiting{Node: new(string)})
					synctest.Wait()
				}
				w.written()
				w.cache.Handle(gang.Planned{
					Group: w.cache.GroupKey(pod), Places: []gang.Assignment{
						{Pod: "ns/g-0", Node: "n1"},
					}, Reserved: true, Until: time.Now().Add(time.Minute),
				})
				wrote := make(chan error, 1)
				go func() { wrote <- w.teller.Nominate(w.t.Context(), pod, "ns/g-0") }()
				synctest.Wait()
				close(goes)
				require.NoError(w.t, <-wrote)
				w.pass(time.Second)
				require.Contains(w.t, w.written(), "g-0/status")
				p, err := w.client.CoreV1().Pods("ns").Get(w.t.Context(), "g-0", metav1.GetOptions{})
				require.NoError(w.t, err)
				require.Equal(w.t, "n1", p.Status.NominatedNodeName)
			})
		})
	}
}

// TestAReplacedGangIsNews: a PodGroup that is made again is told all anew.
func TestAReplacedGangIsNews(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 2 {
			w.gang("g", 1)
			w.pass(time.Second)
			require.Equal(t, []string{"g Warning Waiting: 0 of 1 members exist"}, w.said())
			w.without("g")
			w.pass(time.Second)
			require.Empty(t, w.said())
		}
	})
}

// TestRefusedWordsStay: what is said of a group changes every ten seconds at the most, and
// at once when it was placed meanwhile.
func TestRefusedWordsStay(t *testing.T) {
	inWorld(t, func(w *world) {
		g := gang.Ref{Source: "podgroup", Namespace: "ns", Name: "g"}
		words, later := w.teller.Refused(g, status.Explained{Text: "3 of 8"})
		require.Equal(t, "3 of 8", words.Text)
		require.Zero(t, later)
		w.pass(time.Second)
		words, later = w.teller.Refused(g, status.Explained{Text: "4 of 8"})
		require.Equal(t, "3 of 8", words.Text)
		require.Equal(t, 9*time.Second, later)
		w.teller.Placed(g, nil)
		words, _ = w.teller.Refused(g, status.Explained{Text: "5 of 8"})
		require.Equal(t, "5 of 8", words.Text)
	})
}
