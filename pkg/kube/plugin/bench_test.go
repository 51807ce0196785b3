package plugin_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// BenchmarkEvent has the scheduler's queue hear that a pod was bound while 2,000 members
// wait that are kept out, by the Gate and by the plugin itself.
func BenchmarkEvent(b *testing.B) {
	for _, c := range []struct{ by, plugins string }{
		{"gate", "{}"},
		{"plugin", "{multiPoint: {disabled: [{name: CoschedulingGate}]}}"},
	} {
		b.Run("kept out by "+c.by, func(b *testing.B) {
			cluster := testcluster.New(b, "s/b/n=8")
			cluster.Config = strings.Replace(testcluster.Config, "{preEnqueue: {enabled: [{name: Holder}]}, permit: {enabled: [{name: Holder}]}}", c.plugins, 1)
			const waiting = 2000
			var members []*v1.Pod
			for i := range waiting {
				members = append(members, testcluster.A(fmt.Sprint("m", i), 0, "1", ""))
			}
			cluster.Gang("g", waiting+1, members...)
			cluster.Run()
			queue := cluster.Scheduler.SchedulingQueue
			cluster.Wait("all", func() string {
				if pods, _ := queue.PendingPods(); len(pods) == waiting {
					return "all"
				}
				return ""
			})
			cluster.Wait("open", func() string {
				if cluster.Plugin.Cache.Open() {
					return "open"
				}
				return ""
			})
			bound := testcluster.A("bound", 0, "1", "n")
			for b.Loop() {
				queue.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodAdd, nil, bound, nil)
			}
		})
	}
}

// BenchmarkReport has the meter hear that something of a gang has changed, of which 2,000 members
// wait: as often as one of them comes, is bound, or goes.
func BenchmarkReport(b *testing.B) {
	cluster := testcluster.New(b, "s/b/n=8")
	cluster.Gang("g", 2001, testcluster.Pending(2000, 0, "1")...)
	cluster.Run()
	cluster.Wait("open", func() string {
		if cluster.Plugin.Cache.Open() {
			return "open"
		}
		return ""
	})
	gangs := cluster.Plugin.Cache.Gangs()
	for b.Loop() {
		cluster.Plugin.Meter.Gang(gangs[0])
	}
}
