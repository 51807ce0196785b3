package fit_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// stock is kube-scheduler with its default profile, all plugins, and a cluster of GPU
// nodes, a third of them busy.
type stock struct {
	*scheduler.Scheduler
	profile framework.Framework
	nodes   int
	made    int
}

const gpu = "nvidia.com/gpu"

func newStock(b *testing.B, nodes int) *stock {
	b.Helper()
	metrics.Register()
	ctx := b.Context()
	client := fake.NewClientset()
	sched, err := scheduler.New(ctx, client, scheduler.NewInformerFactory(client, 0, nil), nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(0) },
		scheduler.WithPercentageOfNodesToScore(new(int32(100))))
	require.NoError(b, err)
	s := &stock{Scheduler: sched, profile: sched.Profiles["default-scheduler"], nodes: nodes}
	for i := range nodes {
		n := node(fmt.Sprint("node-", i), "128").Label("spine", fmt.Sprint(i/128)).
			Capacity(map[v1.ResourceName]string{"cpu": "128", "memory": "1Ti", "pods": "110", gpu: "8"}).Obj()
		sched.Cache.AddNode(klog.Background(), n)
	}
	for i := range nodes {
		if i%3 == 0 {
			s.change(b, i)
		}
	}
	return s
}

// change puts a pod on a node.
func (s *stock) change(b *testing.B, i int) {
	p := pod(fmt.Sprint("pod-", s.made)).Req(gpus("1")).Node(fmt.Sprint("node-", i%s.nodes)).Obj()
	s.made++
	require.NoError(b, s.Cache.AddPod(klog.Background(), p))
}

// list brings the snapshot up to date and returns its nodes.
func (s *stock) list(b *testing.B) []fwk.NodeInfo {
	snapshot, _ := s.profile.SnapshotSharedLister().(*internalcache.Snapshot)
	require.NoError(b, s.Cache.UpdateSnapshot(klog.Background(), snapshot))
	nodes, err := snapshot.NodeInfos().List()
	require.NoError(b, err)
	return nodes
}

func gpus(n string) map[v1.ResourceName]string {
	return map[v1.ResourceName]string{"cpu": "10", "memory": "64Gi", gpu: n}
}

func template(i int) *v1.Pod { return pod(fmt.Sprint("member-", i)).Req(gpus("2")).Obj() }

// BenchmarkCount counts the slots of a gang's template on every node: when nothing is
// known; when one node in a hundred has changed since another gang was counted; and when
// none has. Beside it stands one scheduling cycle of the stock scheduler for one pod,
// which filters and scores every node.
func BenchmarkCount(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 15000} {
		s := newStock(b, nodes)
		b.Run(fmt.Sprintf("nodes=%d/stock cycle", nodes), func(b *testing.B) { s.cycle(b) })
		b.Run(fmt.Sprintf("nodes=%d/first", nodes), func(b *testing.B) {
			list := s.list(b)
			for b.Loop() {
				s.count(b, fit.NewMemory(s.profile), list)
			}
		})
		b.Run(fmt.Sprintf("nodes=%d/one in 100 changed", nodes), func(b *testing.B) {
			m := fit.NewMemory(s.profile)
			s.count(b, m, s.list(b))
			var took time.Duration
			for b.Loop() {
				for i := range nodes / 100 {
					s.change(b, i*100+s.made%100)
				}
				list := s.list(b)
				runtime.GC() // what the changes left behind is not the count's to clear away
				began := time.Now()
				s.count(b, m, list)
				took += time.Since(began)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/op")
		})
		b.Run(fmt.Sprintf("nodes=%d/none changed", nodes), func(b *testing.B) {
			m, list := fit.NewMemory(s.profile), s.list(b)
			s.count(b, m, list)
			for b.Loop() {
				s.count(b, m, list)
			}
		})
	}
}

// cycle schedules a pod and does not bind it.
func (s *stock) cycle(b *testing.B) {
	s.list(b)
	info, err := framework.NewPodInfo(template(0))
	require.NoError(b, err)
	for b.Loop() {
		_, err := s.SchedulePod(b.Context(), s.profile, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
		require.NoError(b, err)
	}
}

// count is what a gang does that is planned.
func (s *stock) count(b *testing.B, m *fit.Memory, list []fwk.NodeInfo) {
	c, err := fit.NewCounter(b.Context(), s.profile, template(s.made))
	require.NoError(b, err)
	if got := m.Count(b.Context(), c, list, nil); len(got.Slots) != len(list) {
		b.Fatal("not all nodes were counted")
	}
}
