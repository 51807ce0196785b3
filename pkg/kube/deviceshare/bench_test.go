package deviceshare

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// many is a scheduler with the plugin over nodes with eight GPUs and four NICs each. It schedules nothing.
type many struct {
	*Room
	sched   *scheduler.Scheduler
	profile framework.Framework
	nodes   int
	low     []*v1.Pod // that have started since there were none
	turn    int
}

func newMany(b *testing.B, nodes int) *many {
	b.Helper()
	metrics.Register()
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: s, plugins: {multiPoint: {enabled: [{name: DeviceShare}]},
	bind: {enabled: [{name: DeviceShare}, {name: DefaultBinder}], disabled: [{name: "*"}]}}}]
`), nil, nil)
	require.NoError(b, err)
	m := &many{Room: &Room{}, nodes: nodes}
	client := fake.NewClientset()
	m.sched, err = scheduler.New(b.Context(), client, scheduler.NewInformerFactory(client, 0, nil), nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(0) },
		scheduler.WithComponentConfigVersion(gvk.GroupVersion().String()),
		scheduler.WithProfiles(obj.(*schedulerconfig.KubeSchedulerConfiguration).Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{Name: m.New}))
	require.NoError(b, err)
	m.profile = m.sched.Profiles["s"]
	for i := range nodes {
		m.sched.Cache.AddNode(klog.Background(), st.MakeNode().Name(nodeName(i)).Capacity(map[v1.ResourceName]string{
			"cpu": "64", "pods": "110", "koordinator.sh/gpu-core": "800", "koordinator.sh/gpu-memory-ratio": "800", "koordinator.sh/gpu": "800",
			"koordinator.sh/rdma": "400",
		}).Obj())
		u := d8()
		u.SetName(nodeName(i))
		m.devices.set(u)
	}
	return m
}

func nodeName(i int) string { return fmt.Sprint("node-", i) }

// list brings the snapshot up to date and returns its nodes.
func (m *many) list(b *testing.B) []fwk.NodeInfo {
	snapshot, _ := m.profile.SnapshotSharedLister().(*internalcache.Snapshot)
	require.NoError(b, m.sched.Cache.UpdateSnapshot(klog.Background(), snapshot))
	list, err := snapshot.NodeInfos().List()
	require.NoError(b, err)
	return list
}

// change has a pod start on one node in a hundred, with a GPU.
func (m *many) change(b *testing.B) {
	for i := range m.nodes / 100 {
		p := has(fmt.Sprint("low-", m.turn, "-", i), m.turn%8)
		p.Spec.NodeName = nodeName((i*100 + m.turn/8) % m.nodes)
		require.NoError(b, m.sched.Cache.AddPod(klog.Background(), p))
		m.low = append(m.low, p)
	}
	if m.turn++; m.turn%mostTurns > 0 {
		return
	}
	for _, p := range m.low { // or there would soon be no room
		require.NoError(b, m.sched.Cache.RemovePod(klog.Background(), p))
	}
	m.low = nil
}

// mostTurns is when half of the GPUs are taken.
const mostTurns = 400

// count is what is done for a gang that is planned: each member wants a GPU and a NIC of its switch, or of another one.
func (m *many) count(b *testing.B, memory *fit.Memory, list []fwk.NodeInfo) {
	member := wanting("member", "koordinator.sh/gpu=100 koordinator.sh/rdma=50", nil)
	pages, err := fit.Open(b.Context(), []fit.Ledger{m.Ledger(m.profile)}, []fit.Demand{{Pod: member, Members: 64}})
	require.NoError(b, err)
	c, err := fit.NewCounter(b.Context(), m.profile, member, pages...)
	require.NoError(b, err)
	free := 0
	for _, n := range memory.Count(b.Context(), c, list, nil).Slots {
		free += int(n)
	}
	require.Greater(b, free, m.nodes)
}

// BenchmarkNodes counts members with devices on 1,000 nodes: when nothing is known, when one node in a hundred has changed
// since, and when none has.
func BenchmarkNodes(b *testing.B) {
	m := newMany(b, 1000)
	b.Run("first", func(b *testing.B) {
		list := m.list(b)
		for b.Loop() {
			m.count(b, fit.NewMemory(m.profile), list)
		}
	})
	b.Run("one in 100 changed", func(b *testing.B) {
		memory := fit.NewMemory(m.profile)
		m.count(b, memory, m.list(b))
		for b.Loop() {
			b.StopTimer()
			m.change(b)
			list := m.list(b)
			b.StartTimer()
			m.count(b, memory, list)
		}
	})
	b.Run("none changed", func(b *testing.B) {
		memory, list := fit.NewMemory(m.profile), m.list(b)
		m.count(b, memory, list)
		for b.Loop() {
			m.count(b, memory, list)
		}
	})
}
