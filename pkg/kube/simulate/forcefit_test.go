package simulate

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// forceFitCase is two full nodes and gang big, of priority 100, which was created in second 2 and waits for both.
type forceFitCase struct {
	args    string // of the plugin; the default is a force fit after 10 s for priority 100
	bigSpec string // added to the spec of the members of big.
	victims string // the pods on the nodes; the default is younger.
	more    string // further nodes and pods.
	evicted []string
}

// runningGang is a gang of two pods on nodes m1 and m2. It was created in that second.
func runningGang(name string, second, priority int) string {
	return podGroup(name, second) + fmt.Sprint(member(name, 0, priority, ", nodeName: m1"), member(name, 1, priority, ", nodeName: m2"))
}

func podGroup(name string, second int) string {
	return document("{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, "+
		"metadata: {name: %s, creationTimestamp: '2026-01-01T00:00:%02dZ'}, spec: {minMember: 2}}", name, second)
}

// member is a pod of a gang that fills a node.
func member(name string, i, priority int, spec string) string {
	return document(`{apiVersion: v1, kind: Pod, metadata: {name: %s-%d, labels: {pod-group.scheduling.sigs.k8s.io: %[1]s}},
  spec: {schedulerName: muster-scheduler, priority: %[3]d, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]%[4]s}}`,
		name, i, priority, spec)
}

// A gang that waited for long evicts only whole gangs of equal priority that were created after it.
func TestForceFit(t *testing.T) {
	quietLogs(t)
	younger := []string{"default/younger-0", "default/younger-1"}
	low := pod("low", ", nodeName: m3, priority: 5")
	for name, c := range map[string]forceFitCase{
		"younger gang of equal priority":  {evicted: younger},
		"younger gang of higher priority": {victims: runningGang("younger", 3, 101)},
		"older gang":                      {victims: runningGang("older", 1, 100)},
		"gang of the same age":            {victims: runningGang("twin", 2, 100)},
		"pods without a gang":             {victims: pod("one", ", nodeName: m1, priority: 100") + pod("two", ", nodeName: m2, priority: 100")},
		"off":                             {args: "{}"},
		"not yet":                         {args: "{forceFit: {after: 1h, minPriority: 100}}"},
		"priority below minPriority":      {args: "{forceFit: {after: 10s, minPriority: 101}}"},
		"preemption is off":               {args: "{forceFit: {after: 10s, minPriority: 100}, enablePreemption: false}"},
		"gang never preempts":             {bigSpec: ", preemptionPolicy: Never"},
		"victims of lower priority suffice": {
			more: node("m3", 4) + low + pod("low-too", ", nodeName: m3, priority: 5"), evicted: []string{"default/low", "default/low-too"},
		},
		"victims of lower priority do not suffice": {more: node("m3", 2) + low, evicted: younger},
	} {
		t.Run(name, func(t *testing.T) {
			config := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: muster-scheduler, " +
				"pluginConfig: [{name: Coscheduling, args: " + cmp.Or(c.args, "{forceFit: {after: 10s, minPriority: 100}}") + "}]}]"
			_, r := run(t, Options{Config: []byte(config)}, node("m1", 2)+node("m2", 2)+cmp.Or(c.victims, runningGang("younger", 3, 100))+c.more+
				podGroup("big", 2)+member("big", 0, 100, c.bigSpec)+member("big", 1, 100, c.bigSpec))
			require.Equal(t, append([]string{}, c.evicted...), r.Evicted)
		})
	}
}
