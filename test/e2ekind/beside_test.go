package e2ekind

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// twoSchedulers: the cluster's own scheduler and Muster place pods on the same nodes at the same time,
// each its own; kubelets take them all, and no gang is half.
func twoSchedulers(w *world) {
	gangs := []gang{
		{name: "beside-a", members: 4, cpu: "50m"},
		{name: "beside-b", members: 4, cpu: "50m"},
		{name: "beside-c", members: 4, cpu: "50m"},
	}
	all := ""
	for i := range 12 {
		all += ordinary(fmt.Sprintf("ordinary-%d", i), "50m")
		if i%4 == 3 {
			all += "---\n" + gangs[i/4].objects()
		}
		all += "---\n"
	}
	began := time.Now()
	w.apply(all)
	for _, g := range gangs {
		started := w.said(g, "started", 60*time.Second)
		w.say("%s: starts within %s", g.name, spread(started).Round(time.Microsecond))
	}
	w.kubectl("wait", "pod", "--for=condition=Ready", "--timeout=60s", "-l", "ordinary=true")
	w.say("12 ordinary pods and 3 gangs of 4 run after %.1f s", time.Since(began).Seconds())
	require.Empty(w, w.kubectl("get", "pods", "--field-selector=status.phase=Failed", "-o", "name"), "kubelets have refused these")
	for line := range strings.Lines(w.kubectl("get", "events", "--field-selector=reason=Scheduled", "-o",
		`jsonpath={range .items[*]}{.involvedObject.name} {.reportingComponent}{"\n"}{end}`)) {
		name, component, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.HasPrefix(name, "ordinary-"):
			require.Contains(w, component, "default-scheduler", name)
		case strings.HasPrefix(name, "beside-"):
			require.Contains(w, component, "muster-scheduler", name)
		}
	}
}

// ordinary is a pod of the cluster's own scheduler.
func ordinary(name, cpu string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, labels: {ordinary: "true"}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - {name: member, image: %q, imagePullPolicy: Never, resources: {requests: {cpu: %s}}}
`, name, memberImage, cpu)
}
