package fit_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// profile is kube-scheduler's default profile over the given world.
func profile(t *testing.T, nodes []*v1.Node, pods ...*v1.Pod) framework.Framework {
	t.Helper()
	return newProfile(t, internalcache.NewSnapshot(pods, nodes))
}

// newProfile is the default one on a snapshot.
func newProfile(t testing.TB, snapshot *internalcache.Snapshot) framework.Framework {
	t.Helper()
	metrics.Register()
	cfg, err := latest.Default()
	require.NoError(t, err)
	p := cfg.Profiles[0]
	p.Plugins.MultiPoint.Enabled = keepStateless(p.Plugins.MultiPoint.Enabled)
	client := fake.NewClientset()
	f, err := frameworkruntime.NewFramework(t.Context(), plugins.NewInTreeRegistry(), &p,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithMutableSnapshotLister(snapshot),
	)
	require.NoError(t, err)
	return f
}

// keepStateless removes the plugins that need the caches of a cluster.
func keepStateless(all []config.Plugin) (kept []config.Plugin) {
	for _, p := range all {
		switch p.Name {
		case "DynamicResources", "VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions", "DefaultPreemption":
		default:
			kept = append(kept, p)
		}
	}
	return kept
}

func node(name string, cpu string) *st.NodeWrapper {
	return st.MakeNode().Name(name).Label("kubernetes.io/hostname", name).
		Capacity(map[v1.ResourceName]string{"cpu": cpu, "memory": "64Gi", "pods": "20"})
}

func pod(name string) *st.PodWrapper {
	return st.MakePod().Namespace("ns").Name(name).UID(name).Label("app", "a")
}

func cpu(n string) map[v1.ResourceName]string { return map[v1.ResourceName]string{"cpu": n} }

func TestCount(t *testing.T) {
	low := pod("low").Node("n").Req(cpu("4")).Obj()
	for name, c := range map[string]struct {
		node     *v1.Node
		there    []*v1.Pod
		others   []*v1.Pod
		gone     []*v1.Pod
		template *v1.Pod
		want     offer.Slots
		why      string
	}{
		"whole node":             {node: node("n", "8").Obj(), template: pod("m").Req(cpu("8")).Obj(), want: 1},
		"several":                {node: node("n", "8").Obj(), template: pod("m").Req(cpu("2")).Obj(), want: 4},
		"no remainder":           {node: node("n", "8").Obj(), template: pod("m").Req(cpu("3")).Obj(), want: 2},
		"no request: pods count": {node: node("n", "8").Obj(), template: pod("m").Obj(), want: 20},
		"beside a running pod":   {node: node("n", "8").Obj(), there: []*v1.Pod{low}, template: pod("m").Req(cpu("2")).Obj(), want: 2},
		"as if it had gone": {
			node: node("n", "8").Obj(), there: []*v1.Pod{low}, gone: []*v1.Pod{low}, template: pod("m").Req(cpu("2")).Obj(), want: 4,
		},
		"beside a planned one": {
			node: node("n", "8").Obj(), others: []*v1.Pod{pod("o").Req(cpu("6")).Obj()}, template: pod("m").Req(cpu("2")).Obj(), want: 1,
		},
		"full": {
			node: node("n", "4").Obj(), there: []*v1.Pod{low}, template: pod("m").Req(cpu("2")).Obj(), want: 0, why: "Insufficient cpu",
		},
		"host port: one": {node: node("n", "8").Obj(), template: pod("m").Req(cpu("1")).HostPort(80).Obj(), want: 1},
		"against its own kind": {node: node("n", "8").Obj(), template: pod("m").Req(cpu("1")).PodAntiAffinity("kubernetes.io/hostname",
			st.MakeLabelSelector().In("app", []string{"a"}).Obj(), st.PodAntiAffinityWithRequiredReq).Obj(), want: 1},
		"taint": {
			node: node("n", "8").Taints([]v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}}).Obj(), template: pod("m").Req(cpu("1")).Obj(),
			want: 0, why: "node(s) had untolerated taint(s)",
		},
		"selector of another node": {
			node: node("n", "8").Obj(), template: pod("m").NodeSelector(map[string]string{"kubernetes.io/hostname": "x"}).Obj(), want: 0,
			why: "node(s) didn't match Pod's node affinity/selector",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := profile(t, []*v1.Node{c.node}, c.there...)
			counter, err := fit.NewCounter(t.Context(), f, c.template)
			require.NoError(t, err)
			got, why := counter.CountWithout(t.Context(), info(t, f, "n"), infos(t, c.others), c.gone)
			require.Equal(t, c.want, got, "%v", why)
			if c.why != "" {
				require.Contains(t, why, c.why)
			}
		})
	}
}

// The guess is only a guess: whatever it is, counting one by one gives the same.
func TestCountIsWhatTheFiltersSay(t *testing.T) {
	for _, size := range []string{"1", "1500m", "2", "7", "8", "9"} {
		for _, there := range []string{"0", "500m", "3"} {
			running := pod("r").Node("n").Req(cpu(there)).Obj()
			f := profile(t, []*v1.Node{node("n", "8").Obj()}, running)
			template := pod("m").Req(cpu(size)).Obj()
			counter, err := fit.NewCounter(t.Context(), f, template)
			require.NoError(t, err)
			got, _ := counter.Count(t.Context(), info(t, f, "n"), nil)
			require.Equal(t, slow(t, f, template), got, "%s each beside %s", size, there)
		}
	}
}

// slow puts one pod after the other on a copy of the node until a Filter refuses.
func slow(t *testing.T, f framework.Framework, template *v1.Pod) (n offer.Slots) {
	ni := info(t, f, "n").Snapshot()
	for {
		state := framework.NewCycleState()
		_, s, _ := f.RunPreFilterPlugins(t.Context(), state, template)
		require.True(t, s.IsSuccess())
		if !f.RunFilterPlugins(t.Context(), state, template, ni).IsSuccess() {
			return n
		}
		ni.AddPodInfo(infos(t, []*v1.Pod{template})[0])
		n++
	}
}

func TestCountLeavesTheSnapshotAlone(t *testing.T) {
	low := pod("low").Node("n").Req(cpu("4")).Obj()
	f := profile(t, []*v1.Node{node("n", "8").Obj()}, low)
	ni := info(t, f, "n")
	before := ni.GetGeneration()
	counter, err := fit.NewCounter(t.Context(), f, pod("m").Req(cpu("1")).Obj())
	require.NoError(t, err)
	counter.CountWithout(t.Context(), ni, infos(t, []*v1.Pod{pod("o").Obj()}), []*v1.Pod{low})
	require.Len(t, ni.GetPods(), 1)
	require.Equal(t, before, ni.GetGeneration())
	require.Equal(t, int64(4000), ni.GetRequested().GetMilliCPU())
}

func TestAPreFilterThatRefusesEverywhere(t *testing.T) {
	f := profile(t, []*v1.Node{node("n", "8").Obj()})
	template := pod("m").NodeAffinityIn("metadata.name", []string{"other"}, st.NodeSelectorTypeMatchExpressions).Obj()
	counter, err := fit.NewCounter(t.Context(), f, template)
	require.NoError(t, err)
	got, why := counter.Count(t.Context(), info(t, f, "n"), nil)
	require.Zero(t, got)
	require.NotEmpty(t, why)
	require.False(t, counter.Fits(t.Context(), info(t, f, "n"), nil).IsSuccess())
}

func TestBesideDoesNotChangeTheCycle(t *testing.T) {
	f := profile(t, []*v1.Node{node("n", "8").Obj()})
	asks := pod("m").Req(cpu("4")).Obj()
	state := framework.NewCycleState()
	_, s, _ := f.RunPreFilterPlugins(t.Context(), state, asks)
	require.True(t, s.IsSuccess())
	q := fit.Question{Pod: asks, Node: info(t, f, "n"), Others: []*v1.Pod{pod("o").UID("o").Req(cpu("6")).Obj()}}
	require.False(t, fit.Beside(t.Context(), f, state, q).IsSuccess())
	q.Others = []*v1.Pod{pod("o").UID("o").Req(cpu("4")).Obj()}
	require.True(t, fit.Beside(t.Context(), f, state, q).IsSuccess())
	require.True(t, f.RunFilterPlugins(t.Context(), state, asks, q.Node).IsSuccess())
}

// TestBesideCountsPodsOnce: the scheduler adds pods nominated for the node, which are also planned there.
func TestBesideCountsPodsOnce(t *testing.T) {
	other := pod("o").UID("o").Req(cpu("4")).Node("n").Obj()
	f := profile(t, []*v1.Node{node("n", "8").Obj()}, other)
	asks := pod("m").Req(cpu("4")).Obj()
	state := framework.NewCycleState()
	_, s, _ := f.RunPreFilterPlugins(t.Context(), state, asks)
	require.True(t, s.IsSuccess())
	q := fit.Question{Pod: asks, Node: info(t, f, "n"), Others: []*v1.Pod{other}}
	require.True(t, fit.Beside(t.Context(), f, state, q).IsSuccess())
	q.Others = append(q.Others, pod("p").UID("p").Req(cpu("1")).Obj())
	require.False(t, fit.Beside(t.Context(), f, state, q).IsSuccess())
}

func TestAsking(t *testing.T) { require.False(t, fit.IsWhatIf(context.Background())) }

func info(t *testing.T, f framework.Framework, name string) fwk.NodeInfo {
	t.Helper()
	ni, err := f.SnapshotSharedLister().NodeInfos().Get(name)
	require.NoError(t, err)
	return ni
}

func infos(t *testing.T, pods []*v1.Pod) (out fit.Pods) {
	t.Helper()
	for _, p := range pods {
		i, err := framework.NewPodInfo(p)
		require.NoError(t, err)
		out = append(out, i)
	}
	return out
}
