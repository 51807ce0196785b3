package elasticquota

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// watched is a Manager with a monitored quota that uses 64 of 96. Its fair share is 40 while a pod of the other quota waits for 56.
func watched(t *testing.T) (w *world, at func(seconds int) (gone []string)) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	w = newWorld(t, func(a *config.QuotaArgs) { a.Revoke = true })
	w.clock = clock
	w.node("n1", "96", v1.ConditionTrue)
	w.declare("a max=96", "b min=56 max=96")
	for i, name := range []string{"old", "young"} {
		w.setPod(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"quota.scheduling.koordinator.sh/name": "a"},
			},
			Spec: v1.PodSpec{NodeName: "n1", Containers: []v1.Container{
				{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("32")}}},
			}},
			Status: v1.PodStatus{StartTime: &metav1.Time{Time: time.Unix(int64(100+i), 0)}},
		})
	}
	return w, func(seconds int) (gone []string) {
		clock.SetTime(time.Unix(1000+int64(seconds), 0))
		var waits []*v1.Pod
		w.hooks.Gained = func(pods map[string]*v1.Pod) { waits = slices.Collect(maps.Values(pods)) }
		w.Tick()
		slices.SortFunc(waits, func(a, b *v1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(key(a), key(b)))
		})
		for _, p := range waits {
			for _, victim := range w.revokeFor(p) {
				gone = append(gone, victim.Name)
			}
		}
		return gone
	}
}

// revokeFor is the cycle of a pod without a gang that fits no node. It tries the youngest victims first, each by itself.
func (w *world) revokeFor(p *v1.Pod) []*v1.Pod {
	claim := w.SearchOverdueVictims(group.Alone(p, ""))
	if claim == nil {
		return nil
	}
	var pods []*v1.Pod
	for _, known := range w.Manager.pods {
		if known.Spec.NodeName != "" {
			pods = append(pods, known.Pod)
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(convert.Started(b), convert.Started(a)) })
	var violated []string
	for _, victim := range pods {
		if w.evicted[key(victim)] || convert.Protected(victim) || !claim.May(victim, false) || claim.Check([]*v1.Pod{victim}) != quota.Admitted {
			continue
		}
		if violated = nil; w.hooks.Violated != nil {
			violated = w.hooks.Violated([]*v1.Pod{victim})
		}
		if len(violated) == 0 {
			claim.Revoked([]*v1.Pod{victim})
			w.evicted[key(victim)] = true
			w.reserved[key(p)] = true
			w.UpdatePod(key(p))
			return []*v1.Pod{victim}
		}
	}
	claim.NotRevoked(violated)
	return nil
}

// A quota above its fair share for delayEvictTime without a pause gives back another quota's fair share, once for each waiting pod.
func TestRevoke(t *testing.T) {
	w, at := watched(t)
	require.Empty(t, at(0), "no pod waits")
	p := w.pod("default/w", "b", "", "56")
	why := w.admitPod(p)
	require.Empty(t, why, "it is within what b is entitled to, and there is no room")
	require.Empty(t, at(1))
	require.Empty(t, at(120))
	require.Equal(t, []string{"young"}, at(121), "two minutes after a pod waits")
	require.Contains(t, w.notes,
		"QuotaRevoked: quota a has used more than its fair share for 2m0s, and default/w of quota b waits for it: evicted default/young "+
			"with 1 pod")
	w.dropPod(w.Manager.pods["default/young"].Pod)
	require.Empty(t, at(300), "it may start")
}

// The capacity of victims stays reserved for the first pod in the queue. The reservation ends when the pod is placed
// or deleted, or could have been placed for delayEvictTime.
func TestRevokedQuotaIsReservedForFirstInQueue(t *testing.T) {
	w, at := watched(t)
	admits := w.admitPod
	second := w.pod("default/a-second", "b", "", "40")
	second.CreationTimestamp = metav1.Unix(200, 0)
	first := w.pod("default/first", "b", "", "40")
	first.CreationTimestamp = metav1.Unix(100, 0)
	for _, p := range []*v1.Pod{second, first} {
		w.setPod(p)
		require.Empty(t, admits(p))
	}
	require.Empty(t, at(1))
	require.Equal(t, []string{"young"}, at(121))
	require.Contains(t, w.notes[len(w.notes)-1], "and default/first of quota b waits for it")
	require.Contains(t, admits(second), "reserved: cpu:40")
	w.dropPod(w.Manager.pods["default/young"].Pod)
	require.Empty(t, admits(first))
	require.Contains(t, admits(second), "reserved: cpu:40")

	// A pod outside the quotas takes its node; then more pods are evicted for it.
	w.setPod(w.pod("default/other", "a", "n1", "32"))
	require.Empty(t, at(181))
	require.Equal(t, []string{"old"}, at(301), "a pod with an unknown start is the oldest")

	// The pod is placed.
	w.dropPod(w.Manager.pods["default/old"].Pod)
	started := first.DeepCopy()
	started.Spec.NodeName = "n1"
	w.setPod(started)
	require.NotContains(t, admits(second), "reserved: cpu:40")
}

// No node fits the pod that victims were evicted for, and its reservation is given up: the capacity is free again.
func TestRevokedQuotaReservationExpires(t *testing.T) {
	w, at := watched(t)
	changed := 0
	w.hooks.Changed = func() { changed++ }
	first := w.pod("default/first", "b", "", "40")
	w.admitPod(first)
	require.Empty(t, at(1))
	require.Equal(t, []string{"young"}, at(121))
	second := w.pod("default/second", "b", "", "40")
	require.Contains(t, w.admitPod(second), "reserved: cpu:40")
	before := changed
	delete(w.reserved, "default/first")
	w.UpdatePod("default/first")
	require.Greater(t, changed, before, "others hear that it is free")
	w.dropPod(w.Manager.pods["default/young"].Pod)
	require.Empty(t, w.admitPod(second))
}

// A reservation is free once its pod is deleted.
func TestQuotaReservationEndsWithThePod(t *testing.T) {
	w, at := watched(t)
	first, second := w.pod("default/first", "b", "", "40"), w.pod("default/second", "b", "", "40")
	w.admitPod(first)
	require.Empty(t, at(1))
	require.Equal(t, []string{"young"}, at(121))
	w.dropPod(w.Manager.pods["default/young"].Pod)
	require.Contains(t, w.admitPod(second), "reserved: cpu:40")
	w.dropPod(first)
	require.Empty(t, w.admitPod(second))
}

// A pause restarts delayEvictTime, and so does a terminating pod.
func TestRevokeAfterAPause(t *testing.T) {
	w, at := watched(t)
	p := w.pod("default/w", "b", "", "56")
	w.admitPod(p)
	require.Empty(t, at(0))
	w.dropPod(p)
	require.Empty(t, at(60))
	w.setPod(p)
	w.admitPod(p)
	require.Empty(t, at(61))
	require.Empty(t, at(180))
	w.Leaves = func(p *v1.Pod) bool { return p.Name == "young" }
	require.Empty(t, at(181), "it leaves already")
	w.Leaves = nil
	require.Empty(t, at(300))
	require.Equal(t, []string{"young"}, at(301))
}

// No pod is evicted if it is protected, if the waiting quota's fair share is too small, or if quotas are not monitored.
func TestRevokeSparesProtectedPods(t *testing.T) {
	w, at := watched(t)
	w.args.Delay = 0
	p := w.pod("default/w", "b", "", "96")
	w.admitPod(p)
	require.Empty(t, at(1), "b is entitled to less")
	w.admitPod(w.pod("default/v", "b", "", "56"))
	w.args.Revoke = false
	require.Empty(t, at(2))
	w.args.Revoke = true
	for _, name := range []string{"default/old", "default/young"} {
		p := w.Manager.pods[name].DeepCopy()
		p.Labels["quota.scheduling.koordinator.sh/preemptible"] = "false"
		w.setPod(p)
	}
	require.Empty(t, at(3))
}

// A disruption budget protects its pods: other pods are evicted, or none, which is reported once.
func TestRevokeWithinBudgets(t *testing.T) {
	w, at := watched(t)
	keeps := map[string]bool{"young": true}
	w.Violated = func(pods []*v1.Pod) (names []string) {
		for _, p := range pods {
			if keeps[p.Name] {
				return []string{"default/of-" + p.Name}
			}
		}
		return nil
	}
	w.admitPod(w.pod("default/w", "b", "", "56"))
	require.Empty(t, at(1))
	require.Equal(t, []string{"old"}, at(121))

	w, at = watched(t)
	w.Violated = func([]*v1.Pod) []string { return []string{"default/all"} }
	w.admitPod(w.pod("default/w", "b", "", "56"))
	require.Empty(t, at(1))
	require.Empty(t, at(121))
	said := "QuotaNotRevoked: quota a has used more than its fair share for 2m0s, and default/w of quota b waits for it: no pod is " +
		"evicted, because PodDisruptionBudgets do not allow it: default/all"
	require.Contains(t, w.notes, said)
	told := len(w.notes)
	require.Empty(t, at(200))
	require.Len(t, w.notes, told)
	w.Violated = nil
	require.Equal(t, []string{"young"}, at(300))
}

// A pod with a reserved node is no waiter after it is bound.
func TestBoundPodIsNotRetried(t *testing.T) {
	w := newWorld(t, func(*config.QuotaArgs) {})
	w.node("n1", "40", v1.ConditionTrue)
	w.declare(`a max=40 namespaces=["default"]`)
	p := w.pod("default/p", "", "", "40")
	w.reserved[key(p)] = true
	w.UpdatePod(key(p))
	require.Empty(t, w.admitPod(p))
	require.Contains(t, w.revoke.waiting, GangName(p))
	delete(w.reserved, key(p))
	bound := p.DeepCopy()
	bound.Spec.NodeName = "n1"
	w.setPod(bound)
	require.Empty(t, w.revoke.waiting)
}
