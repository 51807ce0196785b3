package departure_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// full is a spine of four full nodes and one of two, which is too small for three.
func full(t *testing.T) *testcluster.Cluster {
	c := testcluster.New(t, "s1/b1/n0=8 s1/b1/n1=8 s1/b2/n2=8 s1/b2/n3=8 s2/b3/n4=8 s2/b3/n5=8")
	for _, i := range []string{"0", "1", "2", "3"} {
		c.Pod(testcluster.A("low-"+i, 10, "8", "n"+i))
	}
	return c.Run()
}

// The victim, the representative and the PodGroup each get one event. The event names the preemptor or the victim,
// and the reserved domain.
func TestEvictionEventsNamePreemptorAndVictim(t *testing.T) {
	c := testcluster.New(t, "s1/b1/n0=8 s1/b1/n1=8")
	c.Pod(testcluster.A("low", 10, "8", "n0"))
	c.Run()
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	c.Wait("g-0=n0 g-1=n1", func() string { return c.Where("g-0", "g-1") })
	require.Equal(t, []string{"*v1.Pod/low Normal Preempted: Preempted by gang default/g on node n0, to free capacity in s1/b1 [*v1.Pod/g-0]"},
		c.WaitSaid(1, "Preempted"))
	told := c.WaitSaid(2, " Evicts ")
	slices.Sort(told)
	require.Equal(t, []string{
		"*v1.Pod/g-0 Normal Preempting: Evicts default/low on n0, to free capacity in s1/b1 [*v1.Pod/low]",
		"*v1alpha1.PodGroup/g Normal Preempting: Evicts default/low on n0, to free capacity in s1/b1 [*v1.Pod/low]",
	}, told)
}

// A webhook forbids the eviction of one of three victims after the other two were evicted. Another pod is evicted
// instead, and the spared pod gets a condition.
func TestForbiddenEvictionIsReplacedByAnother(t *testing.T) {
	c := full(t)
	c.Refusing(func(pod string) error {
		if pod == "low-1" {
			return apierrors.NewForbidden(v1.Resource("pods"), pod, errors.New("a webhook says no"))
		}
		return nil
	})
	c.Gang("g", 3, testcluster.Pending(3, 100, "8")...)
	c.Wait("g-0=n2 g-1=n3 g-2=n0", func() string { return c.Where("g-0", "g-1", "g-2") })
	require.Equal(t, "low-0 low-2 low-3", c.Evicted(), c.Describe())
	require.Len(t, strings.Fields(c.Evicted()), 3)
	c.Wait("False", func() string {
		_, cond := podutil.GetPodCondition(&c.Get("low-1").Status, v1.DisruptionTarget)
		if cond == nil {
			return "never asked"
		}
		return string(cond.Status)
	})
	c.WaitSaid(1, "PodGroup/g Warning EvictionFailed: cannot evict default/low-1 on n1: ")
}

// An eviction that fails with a server error is retried. No other pod is evicted, and none twice.
func TestFailedEvictionIsRetried(t *testing.T) {
	c := full(t)
	c.Stay()
	failures := 0
	c.Refusing(func(pod string) error {
		if pod == "low-1" && failures < 2 {
			failures++
			return apierrors.NewInternalError(errors.New("etcd is slow"))
		}
		return nil
	})
	c.Gang("g", 3, testcluster.Pending(3, 100, "8")...)
	c.Wait("low-0 low-1 low-2", c.Evicted)
	require.Equal(t, "g-0>n0 g-1>n1 g-2>n2", c.Where("g-0", "g-1", "g-2"))
	require.Len(t, c.WaitSaid(1, "PodGroup/g Warning EvictionFailed: cannot evict default/low-1 on n1: "), 1)
	c.WaitSaid(1, "it is tried again")
	c.Release()
	c.Wait("g-0=n0 g-1=n1 g-2=n2", func() string { return c.Where("g-0", "g-1", "g-2") })
	require.Len(t, strings.Fields(c.Evicted()), 3)
}

// The eviction of a spare member fails, and its gang loses another member meanwhile. The gang is then evicted whole,
// not in part.
func TestGangIsEvictedWholeWhenSpareMemberIsNeeded(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=16")
	var low []*v1.Pod
	for i := range 3 {
		low = append(low, testcluster.A(fmt.Sprint("low-", i), 10, "8", fmt.Sprint("n", i)))
	}
	c.Gang("low", 2, low...)
	c.Run()
	var well atomic.Bool
	c.Refusing(func(string) error {
		if !well.Load() {
			return apierrors.NewInternalError(errors.New("etcd is slow"))
		}
		return nil
	})
	c.Gang("g", 1, testcluster.Pending(1, 100, "16")...)
	c.WaitSaid(1, "PodGroup/g Warning EvictionFailed: cannot evict default/low-2 on n2: ")
	c.Remove("low-0")
	c.Wait("2 of 2", func() string {
		r, _ := c.Plugin.Cache.Placed(source.GangOf(low[0]))
		return fmt.Sprint(len(r)+1, " of 2")
	})
	well.Store(true)
	c.Wait("g-0=n2", func() string { return c.Where("g-0") })
	require.Equal(t, "low-1 low-2", c.Evicted(), c.Describe())
}

// Nominated nodes are written again after errors, also for a gang without victims of its own.
func TestNominationIsRetriedWithoutVictims(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8")
	low := testcluster.A("low", 10, "8", "n0")
	low.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	c.Pod(low)
	var mu sync.Mutex
	failures := 0
	c.Answering(func(r testcluster.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if r.Pod != "g-0" || failures == 2 { // the scheduler's own request, and the first of ours
			return nil
		}
		failures++
		return apierrors.NewTimeoutError("etcd is slow", 1)
	})
	c.Run()
	c.Gang("g", 1, testcluster.Pending(1, 100, "8")...)
	c.Wait("g-0>n0", func() string { return c.Where("g-0") })
	require.Empty(t, c.Evicted())
}

// The nominated nodes cannot be written, so no victim is evicted yet. Then a pod of higher priority takes a reserved
// node. The next plan does not count on the first plan's victims.
func TestLostReservationIsPlannedAgain(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	c.Pod(testcluster.A("low-0", 10, "8", "n0"))
	c.Pod(testcluster.A("low-1", 10, "8", "n1"))
	c.Run()
	var down sync.Map
	c.Answering(func(r testcluster.Request) error {
		if _, up := down.Load("no more"); !up && r.What == "status" && strings.HasPrefix(r.Pod, "g-") {
			return apierrors.NewServiceUnavailable("soon")
		}
		return nil
	})
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	c.WaitSaid(1, "cannot write the nominated nodes")
	c.Pod(testcluster.A("more", 1000, "8", ""))
	c.Wait("more=n2", func() string { return c.Where("more") })
	down.Store("no more", true)
	c.Wait("g-0=n0 g-1=n1", func() string { return c.Where("g-0", "g-1") })
	require.Equal(t, "low-0 low-1", c.Evicted())
	for _, told := range c.Said(" Evicts ") {
		require.Contains(t, told, "default/low-0 on n0", "one eviction for both")
		require.Contains(t, told, "default/low-1 on n1", "one eviction for both")
	}
}

// Gang g has a victim, but its nominated nodes cannot be written. A gang of higher priority counts on that victim and
// takes the node. It must evict all victims itself, in one eviction.
func TestPreemptorEvictsVictimsOfUnwrittenReservation(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8")
	c.Pod(testcluster.A("low-0", 10, "8", "n0"))
	c.Pod(testcluster.A("low-1", 20, "8", "n1"))
	c.Run()
	c.Answering(func(r testcluster.Request) error {
		if r.What == "status" && strings.HasPrefix(r.Pod, "g-") {
			return apierrors.NewServiceUnavailable("soon")
		}
		return nil
	})
	c.Gang("g", 1, testcluster.Pending(1, 100, "8")...)
	c.WaitSaid(1, "cannot write the nominated nodes")
	c.Gang("h", 2, testcluster.Pending(2, 200, "8")...)
	c.Wait("h-0=n0 h-1=n1", func() string { return c.Where("h-0", "h-1") })
	require.Equal(t, "low-0 low-1", c.Evicted())
	for _, told := range c.WaitSaid(2, " Evicts ") {
		require.Contains(t, told, "default/low-0 on n0", "one eviction for both")
		require.Contains(t, told, "default/low-1 on n1", "one eviction for both")
	}
}

// An eviction completes whatever the API server answers to the first request of a kind about a pod, or to all such
// requests (5.11, case 42). Three of four nodes of a spine are needed; low-0, low-1 and low-2 are the cheapest
// victims.
func TestEvictionCompletesDespiteAPIErrors(t *testing.T) {
	pods := v1.Resource("pods")
	status := func(code int32, reason metav1.StatusReason) error {
		return &apierrors.StatusError{
			ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "the API server says so"},
		}
	}
	const again, instead = "low-0 low-1 low-2", "low-0 low-2 low-3"
	for name, test := range map[string]struct {
		answer  error
		what    string
		pod     string
		always  bool
		evicted string
		warned  bool
	}{
		"a deletion times out":           {apierrors.NewTimeoutError("etcd is slow", 1), "delete", "low-1", false, again, true},
		"a deletion meets 504":           {status(504, metav1.StatusReasonTimeout), "delete", "low-1", false, again, true},
		"a deletion meets 500":           {apierrors.NewInternalError(errors.New("etcd is slow")), "delete", "low-1", false, again, true},
		"a deletion meets 503":           {apierrors.NewServiceUnavailable("soon"), "delete", "low-1", false, again, true},
		"a deletion meets a conflict":    {apierrors.NewConflict(pods, "low-1", errors.New("changed")), "delete", "low-1", false, again, true},
		"a deletion is one too many":     {apierrors.NewTooManyRequests("later", 1), "delete", "low-1", false, again, true},
		"a deletion needs another token": {apierrors.NewUnauthorized("expired"), "delete", "low-1", false, again, true},
		"there is no API server":         {errors.New("connection refused"), "delete", "low-1", false, again, true},
		"a deletion is forbidden": {
			apierrors.NewForbidden(pods, "low-1", errors.New("a webhook says no")), "delete", "low-1", true, instead, true,
		},
		"a deletion is invalid":          {status(422, metav1.StatusReasonInvalid), "delete", "low-1", true, instead, true},
		"a victim's condition meets 504": {status(504, metav1.StatusReasonTimeout), "status", "low-1", false, again, true},
		// the client itself writes again
		"a victim's condition, conflict": {apierrors.NewConflict(pods, "low-1", errors.New("changed")), "status", "low-1", false, again, false},
		// the first writer of the pod's status gets it
		"a nomination meets 504":          {status(504, metav1.StatusReasonTimeout), "status", "g-1", false, again, false},
		"a nomination meets a conflict":   {apierrors.NewConflict(pods, "g-1", errors.New("changed")), "status", "g-1", false, again, false},
		"a nomination is always refused":  {apierrors.NewForbidden(pods, "g-1", errors.New("no")), "status", "g-1", true, again, false},
		"a victim is gone at the API":     {apierrors.NewNotFound(pods, "low-1"), "delete", "low-1", false, "low-0 low-2", false},
		"a victim's status has gone, too": {apierrors.NewNotFound(pods, "low-1"), "status", "low-1", false, "low-0 low-2", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := full(t)
			c.Stay()
			var mu sync.Mutex
			asked, failed, written, early := map[string]int{}, false, false, false
			c.Answering(func(r testcluster.Request) error {
				mu.Lock()
				defer mu.Unlock()
				if r.What == "delete" {
					asked[r.Pod]++
					early = early || test.pod == "g-1" && !written && !test.always
				}
				if r.What != test.what || r.Pod != test.pod {
					return nil
				}
				if failed && !test.always {
					written = true
					return nil
				}
				failed = true
				return test.answer
			})
			c.Gang("g", 3, testcluster.Pending(3, 100, "8")...)
			c.Wait(test.evicted, c.Evicted)
			if test.evicted == again {
				require.Equal(t, "g-0>n0 g-2>n2", c.Where("g-0", "g-2"))
			}
			if test.warned { // events are written when there is time for them
				c.WaitSaid(1, "Warning EvictionFailed: ")
			}
			c.Release()
			if test.pod == "low-1" && apierrors.IsNotFound(test.answer) {
				c.Remove("low-1")
			}
			nodes := map[string]string{again: "g-0=n0 g-1=n1 g-2=n2", instead: "g-0=n2 g-1=n3 g-2=n0"}[test.evicted]
			c.Wait(cmp.Or(nodes, "g-0=n0 g-1=n1 g-2=n2"), func() string { return c.Where("g-0", "g-1", "g-2") })
			require.Equal(t, test.evicted, c.Evicted(), "no other pod is evicted")
			if test.what == "delete" {
				require.Equal(t, test.warned, len(c.Said("Warning EvictionFailed: ")) > 0, c.Describe())
			}
			mu.Lock()
			defer mu.Unlock()
			require.True(t, failed)
			require.False(t, early, "victims are evicted only after the nominated nodes are written")
			for pod, n := range asked {
				require.LessOrEqual(t, n, 2, pod)
			}
		})
	}
}

// A gang that was whole and lost a member evicts for one replacement, and not for a further member.
func TestReplacementEvictsForMissingMemberOnly(t *testing.T) {
	c := testcluster.New(t, "s1/b1/n0=8 s1/b1/n1=8 s1/b1/n2=8")
	c.Gang("g", 2, a("", 100, "8", "n0"), a("", 100, "8", "n1"))
	c.Run()
	c.Wait("whole", func() string {
		if len(c.Said("the gang is bound")) > 0 {
			return "whole"
		}
		return ""
	})
	c.Remove("g-1")
	c.Pod(a("x", 10, "8", "n1"))
	c.Pod(a("y", 20, "8", "n2"))
	for _, name := range []string{"g-2", "g-3"} {
		p := a(name, 100, "8", "")
		metav1.SetMetaDataLabel(&p.ObjectMeta, scheduling.LabelPodGroup, "g")
		c.Pod(p)
	}
	c.Wait("x", c.Evicted)
	c.Wait("one", func() string {
		if w := c.Where("g-2", "g-3"); strings.Count(w, "=n1") == 1 {
			return "one"
		}
		return c.Where("g-2", "g-3")
	})
	c.Never(func() bool { return c.Evicted() != "x" })
}

// A victim that waits at Permit is requeued and not deleted.
func TestVictimAtPermitIsRequeued(t *testing.T) {
	c := testcluster.New(t, "s1/b1/n0=8")
	c.Run()
	c.Pod(testcluster.Held(testcluster.A("low", 10, "8", ""), "inside"))
	c.WaitHeld("low")
	c.Gang("g", 1, testcluster.Pending(1, 100, "8")...)
	c.Wait("g-0=n0 low>", func() string { return c.Where("g-0", "low") })
	require.Empty(t, c.Evicted())
	c.WaitSaid(1, "(in kube-scheduler memory)")
}

// Members that wait at Permit are requeued, and none is deleted.
func TestGangAtPermitIsRequeued(t *testing.T) {
	c := testcluster.New(t, "s1/b1/n0=8 s1/b1/n1=8")
	c.Run()
	c.Gang("low", 2, testcluster.Held(testcluster.A("", 10, "8", ""), "inside"), testcluster.Held(testcluster.A("", 10, "8", ""), "inside"))
	c.WaitHeld("low-0", "low-1")
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	c.Wait("g-0=n0 g-1=n1", func() string { return c.Where("g-0", "g-1") })
	require.Empty(t, c.Evicted())
	for _, name := range []string{"low-0", "low-1"} {
		require.Nil(t, c.Profile().GetWaitingPod(types.UID(name)))
		require.Empty(t, c.Get(name).Spec.NodeName)
	}
	c.WaitSaid(1, "(in kube-scheduler memory)")
}

// Two gangs of equal priority search for victims before any victim is seen terminating. They choose different victims
// and different nodes.
func TestGangsPreemptTogether(t *testing.T) {
	for name, test := range map[string]struct {
		nodes   string
		low     string // priority 10, "name=node"
		size    int
		cpus    string
		evicted string
		room    int // the number of gangs that fit
	}{
		"room for both":            {"s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8", "a=n0 b=n1 c=n2 d=n3", 2, "8", "a b c d", 2},
		"room for both on a node":  {"s/b/n0=8", "a=n0 b=n0", 1, "4", "a b", 2},
		"room for one":             {"s/b/n0=8 s/b/n1=8", "a=n0 b=n1", 2, "8", "a b", 1},
		"room for one and a half":  {"s/b/n0=8 s/b/n1=8 s/b/n2=8", "a=n0 b=n1 c=n2", 2, "8", "a b", 1},
		"in two spines, one each":  {"s/b/n0=8 s/b/n1=8 t/c/n2=8 t/c/n3=8", "a=n0 b=n1 c=n2 d=n3", 2, "8", "a b c d", 2},
		"the second needs no more": {"s/b/n0=8", "a=n0", 1, "4", "a", 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := testcluster.New(t, test.nodes)
			pods := strings.Fields(test.low)
			for _, word := range pods {
				name, node, _ := strings.Cut(word, "=")
				cpus := test.cpus
				if len(pods) == 1 {
					cpus = "8"
				}
				c.Pod(testcluster.A(name, 10, cpus, node))
			}
			c.Stay()
			c.Run()
			goOn := c.HoldEvictions(c.GangEviction())
			c.Gang("g", test.size, testcluster.Pending(test.size, 100, test.cpus)...)
			c.Gang("h", test.size, testcluster.Pending(test.size, 100, test.cpus)...)
			members := []string{"g-0", "h-0"}
			if test.size == 2 {
				members = []string{"g-0", "g-1", "h-0", "h-1"}
			}
			nominated := func() (n int) {
				for _, name := range members {
					if c.Get(name).Status.NominatedNodeName != "" {
						n++
					}
				}
				return n
			}
			require.True(t, c.Within(testcluster.WaitFor, func() bool { return nominated() == test.room*test.size }), c.Describe())
			if test.room == 1 {
				c.Never(func() bool { return nominated() != test.size })
			}
			goOn()
			c.Wait(test.evicted, c.Evicted)
			c.Release()
			require.True(t, c.Within(testcluster.WaitFor, func() bool {
				bound := 0
				for _, name := range members {
					if c.Get(name).Spec.NodeName != "" {
						bound++
					}
				}
				return bound == test.room*test.size
			}), c.Describe())
			require.Equal(t, test.evicted, c.Evicted(), c.Describe())
		})
	}
}

// An event names at most three gangs of a large gang group.
func TestLargeGangGroupIsAbbreviatedInEvents(t *testing.T) {
	for n, want := range map[int]string{
		1:  "ns/g0",
		4:  "ns/g0, ns/g1, ns/g2, ns/g3",
		5:  "ns/g0, ns/g1, ns/g2 and 2 more",
		64: "ns/g0, ns/g1, ns/g2 and 61 more",
	} {
		require.Equal(t, want, departure.Names(n))
	}
}

// A gang that was whole has lost two of three members, and a replacement waits at Permit. A preemptor needs only the
// replacement's node. The replacement is requeued, and the running member is not evicted.
func TestReplacementAtPermitIsRequeuedAndGangStays(t *testing.T) {
	for name, comes := range evictors {
		t.Run(name, func(t *testing.T) {
			c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
			c.Gang("r", 3, a("", 10, "8", "n0"), a("", 10, "8", "n1"), a("", 10, "8", "n2"))
			c.Run()
			c.Wait("whole", func() string {
				if running, _ := c.Plugin.Cache.Running(source.GangOf(c.Get("r-0"))); len(running) == 3 {
					return "whole"
				}
				return ""
			})
			c.Remove("r-1")
			c.Remove("r-2")
			c.Pod(a("other", 200, "8", "n2"))
			again := testcluster.Held(a("r-again", 10, "8", ""), "inside")
			again.Labels[scheduling.LabelPodGroup] = "r"
			c.Pod(again)
			c.WaitHeld("r-again")
			big := comes(c)
			c.Wait("placed", placed(c, big))
			require.Equal(t, "n1", c.Get(big).Spec.NodeName)
			c.Never(func() bool { return c.Evicted() != "" })
			require.Equal(t, "r-0=n0 r-again>", c.Where("r-0", "r-again"))
		})
	}
}
