package e2ekind

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// leader is the pod that schedules, as the Lease says.
func (w *world) leader() string {
	w.Helper()
	pod, _, _ := strings.Cut(w.holder(), "_")
	return pod
}

// holder is the holder in the Lease; no two processes have one name.
func (w *world) holder() string {
	w.Helper()
	return w.kubectl("get", "lease", "-n", system, "muster-scheduler", "-o", "jsonpath={.spec.holderIdentity}")
}

// failover: the leader goes in peace, which gives the Lease back, and then the next one is killed, which
// does not. A gang that comes meanwhile waits for no longer than that takes.
func failover(w *world) {
	w.takesOver("the leader's pod was deleted", 20*time.Second, func(leader string) {
		w.kubectl("delete", "pod", "-n", system, leader, "--wait=false")
	})
	w.takesOver("the leader was killed", 40*time.Second, func(leader string) {
		id := w.kubectl("get", "pod", "-n", system, leader, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
		node := w.kubectl("get", "pod", "-n", system, leader, "-o", "jsonpath={.spec.nodeName}")
		_, err := w.lab.Docker(w.Context(), "exec", node, "ctr", "--namespace=k8s.io", "tasks", "kill", "--signal=SIGKILL",
			strings.TrimPrefix(id, "containerd://"))
		require.NoError(w, err)
	})
}

func (w *world) takesOver(what string, patience time.Duration, end func(leader string)) {
	was := w.holder()
	began := time.Now()
	end(w.leader())
	g := gang{name: "failover", members: 3, cpu: "50m"}
	w.Run(what, func(t *testing.T) {
		w := w.within(t)
		w.apply(g.objects())
		w.eventually(patience, "another leader", func() error {
			if now := w.holder(); now == was || now == "" {
				return fmt.Errorf("it is %q", now)
			}
			return nil
		})
		took := time.Since(began)
		started := w.said(g, "started", patience)
		w.say("%s: another leads after %.1f s, a gang that came meanwhile works after %.1f s, its starts within %s",
			what, took.Seconds(), time.Since(began).Seconds(), spread(started).Round(time.Microsecond))
	})
	w.kubectl("rollout", "status", "-n", system, "deployment/muster-scheduler", "--timeout=120s")
}

// drain: the node of the leader is drained of the schedulers while a gang comes every second. All
// gangs start whole, and the longest time in which none was bound is measured.
func drain(w *world) {
	const gangs, at = 20, 6
	node := w.kubectl("get", "pod", "-n", system, w.leader(), "-o", "jsonpath={.spec.nodeName}")
	w.Cleanup(func() { w.kubectlLater("uncordon", node) })
	var all []gang
	objects := ""
	for i := range gangs {
		g := gang{name: fmt.Sprintf("drain-%d", i), members: 3, cpu: "20m"}
		all, objects = append(all, g), objects+"---\n"+g.objects()
	}
	w.deleteLater(objects)
	drained := make(chan error, 1)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i, g := range all {
		if i == at {
			go func() {
				_, err := w.lab.Kubectl(w.Context(), "drain", node, "--ignore-daemonsets", "--pod-selector=app.kubernetes.io/name=muster-scheduler",
					"--timeout=120s")
				drained <- err
			}()
		}
		w.kubectlWith(g.objects(), "apply", "--server-side", "-f", "-")
		<-tick.C
	}
	require.NoError(w, <-drained)
	var bound []time.Time
	for _, g := range all {
		w.said(g, "started", 90*time.Second)
		moments := w.scheduled(g)
		require.LessOrEqual(w, spread(moments), 2*time.Second, "%s was half: %v", g.name, moments)
		bound = append(bound, moments...)
	}
	w.say("%d gangs of 3, the leader's node drained at the %dth: all whole, longest time without a binding %s", gangs, at, gap(bound))
	require.Less(w, gap(bound), 20*time.Second)
	require.NotContains(w, w.kubectl("get", "pods", "-n", system, "-o", "jsonpath={range .items[*]}{.spec.nodeName} {end}")+" ", node+" ")
}

// scheduled is when each member of a gang was bound, to the second.
func (w *world) scheduled(g gang) (moments []time.Time) {
	w.Helper()
	for _, text := range strings.Fields(w.kubectl("get", "pods", "-l", "gang="+g.name, "-o",
		`jsonpath={.items[*].status.conditions[?(@.type=="PodScheduled")].lastTransitionTime}`)) {
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(w, err)
		moments = append(moments, at)
	}
	require.Len(w, moments, g.members)
	return moments
}
