package elasticquota

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/apis/config"
)

// watched is a room that watches a quota which has 64 of 96, and is entitled to 40 as long as somebody of the other one waits for 56.
func watched(t *testing.T) (w *world, at func(seconds int) (gone []string)) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	w = newWorld(t, func(a *config.QuotaArgs) { a.Revoke = true })
	w.clock = clock
	w.node("n1", "96", v1.ConditionTrue)
	w.declare("a max=96", "b min=56 max=96")
	for i, name := range []string{"old", "young"} {
		w.setPod(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"quota.scheduling.koordinator.sh/name": "a"}},
			Spec: v1.PodSpec{NodeName: "n1", Containers: []v1.Container{
				{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("32")}}},
			}},
			Status: v1.PodStatus{StartTime: &metav1.Time{Time: time.Unix(int64(100+i), 0)}},
		})
	}
	return w, func(seconds int) (gone []string) {
		clock.SetTime(time.Unix(1000+int64(seconds), 0))
		if what := w.Revoke(); what != nil {
			for _, p := range what.Gone {
				gone = append(gone, p.Name)
			}
		}
		return gone
	}
}

// Who has had too much for delayEvictTime without a pause gives back what another quota is entitled to, once for each who waits.
func TestRevoke(t *testing.T) {
	w, at := watched(t)
	require.Empty(t, at(0), "nobody waits")
	p := w.pod("default/w", "b", "", "56")
	why, _ := w.admitPod(p)
	require.Empty(t, why, "it is within what b is entitled to, and there is no room")
	require.Empty(t, at(1))
	require.Empty(t, at(120))
	require.Equal(t, []string{"young"}, at(121), "two minutes after somebody waits")
	require.Contains(t, w.notes, "QuotaRevoked: quota a has had more than it is entitled to for 2m0s, which default/w of quota b waits for: default/young with 1 pod leave")
	w.dropPod(w.Room.pods["default/young"].Pod)
	require.Empty(t, at(300), "it may start")
}

// TestRevokedQuotaGoesToTheFirst: what victims leave is kept for the pod that is first in the queue, until it has a place, is gone, or could have had
// one for delayEvictTime.
func TestRevokedQuotaGoesToTheFirst(t *testing.T) {
	w, at := watched(t)
	admits := func(p *v1.Pod) string { why, _ := w.admitPod(p); return why }
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
	require.Contains(t, w.notes[len(w.notes)-1], "which default/first of quota b waits for")
	require.Contains(t, admits(second), "quota claimed by default/first")
	w.dropPod(w.Room.pods["default/young"].Pod)
	require.Empty(t, admits(first))
	require.Contains(t, admits(second), "quota claimed by default/first")

	// Its place is taken by a pod that no quota keeps out; then more is evicted for it.
	w.setPod(w.pod("default/other", "a", "n1", "32"))
	require.Empty(t, at(181))
	require.Equal(t, []string{"old"}, at(301), "the pod that nobody knows the start of is the oldest")

	// It has a place.
	w.dropPod(w.Room.pods["default/old"].Pod)
	started := first.DeepCopy()
	started.Spec.NodeName = "n1"
	w.setPod(started)
	require.NotContains(t, admits(second), "claimed")
	require.Empty(t, w.revoke.granted)
}

// TestRevokedQuotaIsNotKeptForEver: no node takes the pod that others were evicted for. After delayEvictTime others have what is free, and nothing more is
// evicted for it; a new pod of its name is another one.
func TestRevokedQuotaIsNotKeptForEver(t *testing.T) {
	w, at := watched(t)
	changed := 0
	w.hooks.Changed = func() { changed++ }
	first := w.pod("default/first", "b", "", "40")
	w.admitPod(first)
	require.Empty(t, at(1))
	require.Equal(t, []string{"young"}, at(121))
	w.dropPod(w.Room.pods["default/young"].Pod)
	require.Empty(t, at(181))
	before := changed
	require.Empty(t, at(301))
	require.Greater(t, changed, before, "others hear that it is free")
	second := w.pod("default/second", "b", "", "40")
	why, _ := w.admitPod(second)
	require.Empty(t, why)
	w.setPod(w.pod("default/young", "a", "n1", "32")) // it was made again
	w.dropPod(second)
	require.Empty(t, at(361))
	require.Empty(t, at(601), "it would be evicted again and again")
	w.dropPod(first)
	again := first.DeepCopy()
	again.UID = "another"
	w.setPod(again)
	w.admitPod(again)
	require.Len(t, at(661), 1)
}

// A pause begins the time anew, and so does somebody who leaves.
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

// Nobody leaves who is never evicted, or for somebody whose quota is not entitled to that much; or if nobody watches.
func TestRevokeNobody(t *testing.T) {
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
		p := w.Room.pods[name].DeepCopy()
		p.Labels["quota.scheduling.koordinator.sh/preemptible"] = "false"
		w.setPod(p)
	}
	require.Empty(t, at(3))
}

// Nobody leaves against a disruption budget: somebody else does, or nobody, which is said once.
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
	said := "QuotaNotRevoked: quota a has had more than it is entitled to for 2m0s, which default/w of quota b waits for: nobody leaves as long as PodDisruptionBudgets do not allow it: default/all"
	require.Contains(t, w.notes, said)
	told := len(w.notes)
	require.Empty(t, at(200))
	require.Len(t, w.notes, told)
	w.Violated = nil
	require.Equal(t, []string{"young"}, at(300))
}
