package departure_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// evictors create a preemptor for which a gang is evicted whole. Each preemptor needs a node of 8 CPUs.
var evictors = map[string]func(c *testcluster.Cluster) (name string){
	"a gang": func(c *testcluster.Cluster) string {
		c.Gang("big", 1, testcluster.Pending(1, 100, "8")...)
		return "big-0"
	},
	"a pod": func(c *testcluster.Cluster) string {
		c.Pod(a("big-0", 100, "8", ""))
		return "big-0"
	},
}

// filled is a cluster of four nodes that a gang fills, which needs all of its members.
func filled(t *testing.T) *testcluster.Cluster {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8")
	c.Gang("r", 4, a("", 10, "8", "n0"), a("", 10, "8", "n1"), a("", 10, "8", "n2"), a("", 10, "8", "n3"))
	c.Run()
	// A test that calls the preemptor directly does not wait for the cache.
	c.Wait("known", func() string {
		running, least := c.Plugin.Cache.Running(source.GangOf(c.Get("r-0")))
		if c.Plugin.Cache.Open() && len(running) == 4 && least == 4 {
			return "known"
		}
		return fmt.Sprint(len(running), " of ", least)
	})
	return c
}

// wrote are the requests about victims, in order.
type wrote struct {
	mu  sync.Mutex
	all []string
}

// answering notes the requests, and has some answered so.
func (w *wrote) answering(c *testcluster.Cluster, answer func(request string, times int) error) {
	c.Answering(func(r testcluster.Request) error {
		if !strings.HasPrefix(r.Pod, "r-") && !strings.HasPrefix(r.Pod, "low-") {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		request := r.What + " " + r.Pod
		times := 1
		for _, before := range w.all {
			if before == request {
				times++
			}
		}
		w.all = append(w.all, request)
		return answer(request, times)
	})
}

func (w *wrote) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.all...)
}

// placed says whether a pod has a node.
func placed(c *testcluster.Cluster, name string) func() string {
	return func() string {
		if c.Get(name).Spec.NodeName != "" {
			return "placed"
		}
		return c.Where(name)
	}
}

// spared reports whether the conditions of marked pods say that they stay.
func spared(c *testcluster.Cluster, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		pod := c.Get(name)
		if pod == nil {
			return true
		}
		_, cond := podutil.GetPodCondition(&pod.Status, v1.DisruptionTarget)
		return cond == nil || cond.Status != v1.ConditionFalse
	})
}

// Every member is marked before the first eviction request. The member on the needed node is evicted last. No request
// is sent twice.
func TestGangIsMarkedBeforeFirstEviction(t *testing.T) {
	for name, comes := range evictors {
		t.Run(name, func(t *testing.T) {
			c := filled(t)
			c.Stay()
			w := &wrote{}
			w.answering(c, func(string, int) error { return nil })
			big := comes(c)
			c.Wait("r-0 r-1 r-2 r-3", c.Evicted)
			all := w.list()
			require.Len(t, all, 8)
			step := map[string]int{}
			for i, request := range all {
				step[request] = i
			}
			at := strings.TrimPrefix(c.Where(big), "big-0>n")
			require.Equal(t, 7, step["delete r-"+at], "%v", all)
			for _, i := range []string{"0", "1", "2", "3"} {
				require.Less(t, step["status r-"+i], 4, "%v", all)
			}
			c.Release()
			c.Wait("placed", placed(c, big))
		})
	}
}

// A gang is evicted whole although the API server rejects a request about a member once or always.
func TestGangIsEvictedWholeDespiteAPIErrors(t *testing.T) {
	forbidden := apierrors.NewForbidden(v1.Resource("pods"), "r-1", errors.New("a webhook says no"))
	down := apierrors.NewServiceUnavailable("soon")
	const all = "r-0 r-1 r-2 r-3"
	for what, test := range map[string]struct {
		request string
		times   int // so often
		answer  error
		evicted string
	}{
		"a deletion fails once":                    {"delete r-1", 1, down, all},
		"a deletion on the needed node fails once": {"delete r-0", 1, down, all},
		"a mark fails for long":                    {"status r-2", 5, down, all}, // the client itself writes again
		"a deletion is always forbidden":           {"delete r-1", 1000, forbidden, "r-0 r-2 r-3"},
		"marks are always forbidden: all stay":     {"status r-1", 1000, forbidden, ""},
	} {
		for name, comes := range evictors {
			t.Run(what+", for "+name, func(t *testing.T) {
				c := filled(t)
				w := &wrote{}
				w.answering(c, func(request string, times int) error {
					if request == test.request && times <= test.times {
						return test.answer
					}
					return nil
				})
				big := comes(c)
				if test.evicted == "" {
					c.Wait("asked", func() string {
						if len(w.list()) > 0 {
							return "asked"
						}
						return ""
					})
					c.Never(func() bool { return c.Evicted() != "" })
					require.Less(t, len(w.list()), 20, "too many requests for the same pods: %v", w.list())
					w.answering(c, func(string, int) error { return nil })
					return
				}
				whole := false // the API server rejected the first request: the gang stays
				c.Wait("placed", func() string {
					if whole = test.answer == forbidden && c.Evicted() == "" && spared(c, "r-0", "r-1", "r-2", "r-3"); whole {
						return "placed"
					}
					return placed(c, big)()
				})
				evicted := test.evicted
				if whole {
					evicted = ""
				}
				c.Wait(evicted, c.Evicted) // the last victims may be evicted after the preemptor is placed
				for _, r := range []string{"r-0", "r-1", "r-2", "r-3"} {
					pod := c.Get(r)
					if pod != nil && strings.Contains(evicted, r) {
						c.Wait("gone", func() string {
							if c.Get(r) == nil {
								return "gone"
							}
							return "there"
						})
						continue
					}
					require.Equal(t, !strings.Contains(evicted, r), pod != nil, c.Describe())
					if pod == nil {
						continue
					}
					c.Wait("False", func() string {
						_, cond := podutil.GetPodCondition(&c.Get(r).Status, v1.DisruptionTarget)
						return fmt.Sprint(cond.Status)
					})
				}
			})
		}
	}
}

// Requests to evict a gang for a pod fail. Then another node becomes free, and the gang is not evicted. (A preempting
// gang keeps its reserved nodes: TestVictimsThatNeedNotLeave.)
func TestVictimsAreSparedWhenCapacityAppears(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	c.Gang("r", 2, a("", 10, "8", "n0"), a("", 10, "8", "n1"))
	c.Pod(a("other", 200, "8", "n2"))
	c.Run()
	w := &wrote{}
	w.answering(c, func(request string, _ int) error {
		if strings.HasPrefix(request, "delete") {
			return apierrors.NewServiceUnavailable("soon")
		}
		return nil
	})
	big := evictors["a pod"](c)
	c.Wait("asked", func() string {
		if slices.ContainsFunc(w.list(), func(r string) bool { return strings.HasPrefix(r, "delete") }) {
			return "asked"
		}
		return ""
	})
	c.WaitSaid(1, "not eligible due to a terminating pod") // it was tried again: the queue keeps it back for longer now
	c.Remove("other")
	w.answering(c, func(string, int) error { return nil })
	c.Wait("placed", placed(c, big))
	c.Never(func() bool { return c.Evicted() != "" })
	require.Equal(t, "n2", c.Get(big).Spec.NodeName)
	c.Wait("spared", func() string {
		if spared(c, "r-0", "r-1") {
			return "spared"
		}
		return "some are not"
	})
}

// A member is recreated while requests to evict its gang fail. It waits until the gang is gone, or until the gang is
// spared.
func TestRecreatedMemberWaitsWhileGangIsEvicted(t *testing.T) {
	down := apierrors.NewServiceUnavailable("soon")
	for name, comes := range evictors {
		for _, spared := range []bool{false, true} {
			t.Run(fmt.Sprintf("for %s, spared %t", name, spared), func(t *testing.T) {
				c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=4")
				c.Gang("r", 2, a("", 10, "8", "n0"), a("", 10, "8", "n1"))
				c.Run()
				w := &wrote{}
				w.answering(c, func(request string, _ int) error {
					if strings.HasPrefix(request, "delete") {
						return down
					}
					return nil
				})
				big := comes(c)
				c.Wait("asked", func() string {
					if slices.ContainsFunc(w.list(), func(r string) bool { return strings.HasPrefix(r, "delete") }) {
						return "asked"
					}
					return ""
				})
				again := a("r-2", 10, "4", "")
				again.Labels = map[string]string{scheduling.LabelPodGroup: "r"}
				c.Pod(again)
				c.Never(func() bool { return c.Get("r-2").Spec.NodeName != "" })
				if spared {
					c.Remove(big)
					c.Wait("r-2=n2", func() string { return c.Where("r-2") })
					require.Empty(t, c.Evicted())
					return
				}
				w.answering(c, func(string, int) error { return nil })
				c.Wait("placed", placed(c, big))
				require.Equal(t, "r-0 r-1", c.Evicted())
				require.Equal(t, "r-2>", c.Where("r-2"), "alone it is too few")
			})
		}
	}
}

// A gang can spare one of three members. A preemptor marks that member, but its eviction requests fail. Then a second
// preemptor evicts the gang whole. When the first preemptor is deleted, the marked member must not remain alone.
func TestSpareVictimIsEvictedWithItsGang(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	c.Gang("r", 2, a("", 10, "8", "n0"), a("", 10, "8", "n1"), a("", 10, "8", "n2"))
	c.Run()
	w := &wrote{}
	w.answering(c, func(request string, _ int) error {
		if strings.HasPrefix(request, "delete") {
			return apierrors.NewServiceUnavailable("soon")
		}
		return nil
	})
	asked := func(n int) {
		t.Helper()
		c.Wait("asked", func() string {
			marked := 0
			for _, name := range []string{"r-0", "r-1", "r-2"} {
				if _, cond := podutil.GetPodCondition(&c.Get(name).Status, v1.DisruptionTarget); cond != nil {
					marked++
				}
			}
			if marked >= n {
				return "asked"
			}
			return fmt.Sprint(marked, " are")
		})
	}
	c.Gang("one", 1, testcluster.Pending(1, 100, "8")...)
	asked(1)
	c.Gang("two", 2, testcluster.Pending(2, 200, "8")...)
	asked(3)
	c.Remove("one-0")
	c.Never(func() bool { return spared(c, "r-0") || spared(c, "r-1") || spared(c, "r-2") })
	w.answering(c, func(string, int) error { return nil })
	c.Wait("r-0 r-1 r-2", c.Evicted)
}

// The evictions of a gang that was deleted or is bound are forgotten.
func TestEvictionsAreForgottenWithTheirPreemptor(t *testing.T) {
	kept := func(c *testcluster.Cluster) func() string {
		return func() string {
			asked, stuck := c.Plugin.Preemptor.Victims.Kept()
			return fmt.Sprintf("%d asked, %d stuck", asked, stuck)
		}
	}
	for name, test := range map[string]struct {
		node string // another one, which comes
		gone bool   // the gang goes
	}{
		"the gang is gone":            {gone: true},
		"it has its places elsewhere": {node: "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testcluster.New(t, "s/b/n0=8 s/b/n1=8")
			c.Pod(a("low", 10, "8", "n0"))
			c.Pod(a("other", 200, "8", "n1"))
			c.Stay()
			c.Run()
			c.Gang("g", 1, testcluster.Pending(1, 100, "8")...)
			c.Wait("1 asked, 0 stuck", kept(c))
			c.Wait("low", c.Evicted)
			c.Plugin.Preemptor.Victims.Late(source.GangOf(c.Get("g-0")), c.Get("low"))
			require.Equal(t, "0 asked, 1 stuck", kept(c)())
			if test.gone {
				c.Remove("g-0")
			} else {
				c.Remove("other")
				c.Wait("g-0=n1", func() string { return c.Where("g-0") })
			}
			c.Wait("0 asked, 0 stuck", kept(c))
		})
	}
	t.Run("a reservation ends", func(t *testing.T) {
		c := testcluster.New(t, "s/b/n0=8")
		c.Pod(a("low", 10, "8", "n0"))
		c.Stay()
		c.Run()
		c.Gang("g", 1, testcluster.Pending(1, 100, "8")...)
		c.Wait("1 asked, 0 stuck", kept(c))
		c.Wait("low", c.Evicted)
		c.Remove("g-0")
		c.Wait("0 asked, 0 stuck", kept(c))
	})
}
