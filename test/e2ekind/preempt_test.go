package e2ekind

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// classes are the two priorities of these steps.
const classes = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-low}
value: 100
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-high}
value: 1000
`

// preempt: an important gang takes the place of another. Real processes get a real SIGTERM, have their
// grace, and the gang starts when they have left, not before.
func preempt(w *world) {
	const grace = 4 * time.Second
	w.apply(classes)
	size := w.ofAWorker(60) // so that two do not share one
	low := gang{name: "low", members: 3, cpu: size, priority: "e2e-low", leaves: grace}
	w.apply(low.objects())
	w.said(low, "started", 60*time.Second)
	logs := w.follow(low)

	high := gang{name: "high", members: 3, cpu: size, priority: "e2e-high"}
	began := time.Now()
	w.apply(high.objects())
	started := w.said(high, "started", 90*time.Second)
	w.say("from the important gang's pods to its work: %.1f s, starts within %s", time.Since(began).Seconds(),
		spread(started).Round(time.Microsecond))
	var lastLeft time.Time
	for pod, log := range logs() {
		asked, left := moment(w, log, "SIGTERM"), moment(w, log, "left")
		require.InDelta(w, grace.Seconds(), left.Sub(asked).Seconds(), 1, "%s has its grace: %s", pod, log)
		if left.After(lastLeft) {
			lastLeft = left
		}
		w.say("victim %s:\n%s", pod, indent(strings.TrimSpace(log)))
	}
	for _, up := range w.said(high, "up", time.Second) {
		require.False(w, up.Before(lastLeft), "a member is up at %s, and the last victim left at %s", up, lastLeft)
	}
}

// ofAWorker is so many hundredths of a worker's CPU.
func (w *world) ofAWorker(hundredths int) string {
	cpus := w.kubectl("get", "node", w.lab.Workers()[0], "-o", "jsonpath={.status.allocatable.cpu}")
	n, err := strconv.Atoi(cpus)
	require.NoError(w, err)
	return fmt.Sprintf("%dm", n*10*hundredths)
}

// follow keeps the logs of pods, also of pods that are gone afterwards. What it returns waits for their end.
func (w *world) follow(g gang) func() map[string]string {
	type said struct{ pod, log string }
	all := make(chan said, g.members)
	ctx, cancel := context.WithTimeout(w.Context(), 3*time.Minute)
	w.Cleanup(cancel)
	for _, pod := range g.pods() {
		go func() {
			log, _ := w.lab.Kubectl(ctx, "logs", "-f", pod) // ends with the pod
			all <- said{pod, log}
		}()
	}
	return func() map[string]string {
		logs := map[string]string{}
		for range g.pods() {
			s := <-all
			logs[s.pod] = s.log
		}
		return logs
	}
}

// moment is when a log says something.
func moment(w *world, log, what string) time.Time {
	w.Helper()
	found := regexp.MustCompile(`(?m)^(\S+Z) ` + what).FindStringSubmatch(log)
	require.NotNil(w, found, "%q is not in %s", what, log)
	at, err := time.Parse(time.RFC3339Nano, found[1])
	require.NoError(w, err)
	return at
}
