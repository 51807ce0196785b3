package e2ekind

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// A gang of members that start their work together. They are found by their stable names, which a
// headless Service gives them.
type gang struct {
	name     string
	members  int
	cpu      string        // of one member
	priority string        // a PriorityClass
	leaves   time.Duration // how long a member takes to end after SIGTERM
	spec     string        // more of the members' spec, in one line each
}

func (g gang) objects() string {
	all := fmt.Sprintf(`
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %[1]s, namespace: default}
spec: {minMember: %[2]d}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {gang: %[1]s}
`, g.name, g.members)
	for rank := range g.members {
		all += "---\n" + g.pod(rank)
	}
	return all
}

func (g gang) pod(rank int) string {
	priority := ""
	if g.priority != "" {
		priority = "priorityClassName: " + g.priority
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s-%[3]d
  namespace: default
  labels: {gang: %[1]s, pod-group.scheduling.sigs.k8s.io: %[1]s}
spec:
  schedulerName: muster-scheduler
  hostname: %[1]s-%[3]d
  subdomain: %[1]s
  terminationGracePeriodSeconds: %[6]d
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  %[7]s
  %[8]s
  containers:
  - name: member
    image: %[5]s
    imagePullPolicy: Never
    args: [-rank=%[3]d, -members=%[2]d, "-rank0=%[1]s-0.%[1]s:7000", -leaves=%[9]s]
    resources: {requests: {cpu: %[4]q, memory: 16Mi}}
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, g.name, g.members, rank, g.cpu, memberImage, int(g.leaves.Seconds())+30, priority, g.spec, g.leaves)
}

// alone returns the first pod as a pod without a gang.
func (g gang) alone() string {
	return strings.Replace(g.pod(0), ", pod-group.scheduling.sigs.k8s.io: "+g.name, "", 1)
}

func (g gang) pods() (names []string) {
	for rank := range g.members {
		names = append(names, fmt.Sprintf("%s-%d", g.name, rank))
	}
	return names
}

// said are the moments at which each member said something; it waits until all have.
func (w *world) said(g gang, what string, patience time.Duration) []time.Time {
	w.Helper()
	var moments []time.Time
	pattern := regexp.MustCompile(`(?m)^(\S+Z) ` + what)
	w.eventually(patience, "all of "+g.name+" say "+what, func() error {
		moments = nil
		for _, pod := range g.pods() {
			log, err := w.lab.Kubectl(w.Context(), "logs", pod)
			if err != nil {
				return err
			}
			found := pattern.FindStringSubmatch(log)
			if found == nil {
				return fmt.Errorf("%s says %q", pod, log)
			}
			moment, err := time.Parse(time.RFC3339Nano, found[1])
			if err != nil {
				return err
			}
			moments = append(moments, moment)
		}
		return nil
	})
	return moments
}

// gap is the longest time between two moments that follow one another.
func gap(moments []time.Time) (longest time.Duration) {
	sorted := slices.SortedFunc(slices.Values(moments), time.Time.Compare)
	for i := range sorted[1:] {
		longest = max(longest, sorted[i+1].Sub(sorted[i]))
	}
	return longest
}

// spread is the time between the first and the last.
func spread(moments []time.Time) time.Duration {
	sorted := slices.SortedFunc(slices.Values(moments), time.Time.Compare)
	return sorted[len(sorted)-1].Sub(sorted[0])
}

// bound counts the members that have a node.
func (w *world) bound(g gang) (bound int) {
	w.Helper()
	nodes := w.kubectl("get", "pods", "-l", "gang="+g.name, "-o", `jsonpath={range .items[*]}[{.spec.nodeName}]{end}`)
	return len(regexp.MustCompile(`\[[^\]]+\]`).FindAllString(nodes, -1))
}

// together: a gang that is not whole does not start, and one that is starts together: rank 0 starts its
// work only when all others have connected to it.
func together(w *world) {
	g := gang{name: "train", members: 4, cpu: w.ofAWorker(30)} // of which no node takes all
	objects := g.objects()
	last := "---\n" + g.pod(g.members-1)
	w.apply(strings.TrimSuffix(objects, last))
	w.expect(20*time.Second, "NotReady|SchedulingGated|WaitingForGang|Unschedulable|waiting|minMember|min member", "get", "pod", "train-0",
		"-o", "jsonpath={.status.conditions}")
	require.Zero(w, w.bound(g), "three of four wait")
	began := time.Now()
	nodes := map[string]bool{}
	w.apply(strings.TrimPrefix(last, "---\n"))
	started := w.said(g, "started", 60*time.Second)
	up := w.said(g, "up", time.Second)
	for rank, moment := range started {
		node := w.kubectl("get", "pod", g.pods()[rank], "-o", "jsonpath={.spec.nodeName}")
		nodes[node] = true
		w.say("%s: container up %s, work started %s, on %s", g.pods()[rank], up[rank].Format("15:04:05.000"), moment.Format("15:04:05.000000"),
			node)
	}
	w.say("from the fourth pod to the work of all: %.1f s; containers up within %s, starts within %s",
		time.Since(began).Seconds(), spread(up).Round(time.Millisecond), spread(started).Round(time.Microsecond))
	require.Greater(w, len(nodes), 1)
	require.Less(w, spread(started), time.Second)
	require.Less(w, spread(up), 10*time.Second)
	w.say("rank 0 says:\n%s", indent(w.kubectl("logs", "train-0")))
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }
