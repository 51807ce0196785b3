package plugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// BenchmarkEvent has the scheduler's queue hear that a pod was bound while 2,000 members
// wait that are kept out, by the Gate and by the plugin itself.
func BenchmarkEvent(b *testing.B) {
	for _, c := range []struct{ by, plugins string }{
		{"gate", "{}"},
		{"plugin", "{multiPoint: {disabled: [{name: CoschedulingGate}]}}"},
	} {
		b.Run("kept out by "+c.by, func(b *testing.B) {
			cluster := newTestCluster(b, "s/b/n=8")
			cluster.config = strings.Replace(testConfig, "{preEnqueue: {enabled: [{name: Holder}]}, permit: {enabled: [{name: Holder}]}}", c.plugins, 1)
			const waiting = 2000
			var members []*v1.Pod
			for i := range waiting {
				members = append(members, a(fmt.Sprint("m", i), 0, "1", ""))
			}
			cluster.gang("g", waiting+1, members...)
			cluster.run()
			queue := cluster.sched.SchedulingQueue
			cluster.wait("all", func() string {
				if pods, _ := queue.PendingPods(); len(pods) == waiting {
					return "all"
				}
				return ""
			})
			cluster.wait("open", func() string {
				if cluster.plugin.Cache.Open() {
					return "open"
				}
				return ""
			})
			bound := a("bound", 0, "1", "n")
			for b.Loop() {
				queue.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodAdd, nil, bound, nil)
			}
		})
	}
}

// BenchmarkLayout finds out where the nodes of a snapshot stand in the tree: anew, and
// from one gang to the next.
func BenchmarkLayout(b *testing.B) {
	var nodes strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&nodes, "s%d/b%d/n%d=8 ", i/500, i/20, i)
	}
	cluster := newTestCluster(b, nodes.String())
	cluster.run()
	p := cluster.plugin
	cluster.wait("all", func() string {
		if p.Cache.Topology().Tree.NumNodes() == 5000 {
			return "all"
		}
		return ""
	})
	cluster.pod(a("first", 0, "1", "")) // has the scheduler take its snapshot
	cluster.wait("all", func() string {
		if all, err := p.profile.SnapshotSharedLister().NodeInfos().List(); err == nil && len(all) == 5000 {
			return "all"
		}
		return ""
	})
	list, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	require.NoError(b, err)
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			var l layouts
			l.of(p.Cache, list)
		}
	})
	b.Run("again", func(b *testing.B) {
		var l layouts
		for b.Loop() {
			l.of(p.Cache, list)
		}
	})
}
