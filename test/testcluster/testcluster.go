// Package testcluster runs a real scheduler with the plugin on a fake API server. Tests use it for packages that only
// show their work in a whole scheduler. It is no part of the program.
//
//	c := testcluster.New(t, "spine/block/n0=8 spine/block/n1=8") // nodes and their CPUs
//	c.Pod(testcluster.A("low", 10, "8", "n0"))                   // runs on n0
//	c.Run()
//	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
//	c.Wait("g-0=n0 g-1=n1", func() string { return c.Where("g-0", "g-1") })
//
// A test finds the packages' own state in Plugin and Profile.
package testcluster

import (
	"bytes"
	"context"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/deviceshare"
	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
	"github.com/muster-scheduler/muster/pkg/kube/family"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Cluster is a scheduler with the plugin before an API server that does what a test wants:
// it refuses requests, or lets pods be slow to leave.
type Cluster struct {
	Config    string // a KubeSchedulerConfiguration
	Client    *fake.Clientset
	Custom    *dynamicfake.FakeDynamicClient
	Scheduler *scheduler.Scheduler // once it runs
	Plugin    *plugin.Plugin       // of the profile that was made last
	// Plugins are further ones that Config may name.
	Plugins frameworkruntime.Registry
	// Serves are resources of other projects that are served, too.
	Serves []schema.GroupVersionResource
	// Clock is the plugin's; nil is the real one.
	Clock clock.WithTicker

	t       testing.TB
	mu      sync.Mutex
	refuse  func(Request) error // what comes of a request; nil is nothing
	stay    bool                // deleted pods stay, terminating
	unseen  bool                // that is not to be seen of deleted pods
	deleted []string            // pods with an accepted deletion, in order
	events  []string
}

// New returns a cluster in which no scheduler runs yet; nodes are "spine/block/node=CPUs".
func New(t testing.TB, nodes string, objects ...runtime.Object) *Cluster {
	t.Helper()
	c := &Cluster{t: t, Config: Config}
	for word := range strings.FieldsSeq(nodes) {
		objects = append(objects, nodeOf(word))
	}
	objects = append(objects, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	c.Client = fake.NewClientset(objects...)
	c.Client.PrependReactor("create", "pods", c.bind)
	c.Client.PrependReactor("delete", "pods", c.delete)
	c.Client.PrependReactor("*", "pods", c.answer)
	c.Custom = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		koordinator.ClusterNetworkTopologies: "ClusterNetworkTopologyList", convert.Devices: "DeviceList", sigs.PodGroups: "PodGroupList",
		source.PodGroupsX: "PodGroupList",
		volcano:           "PodGroupList", convert.ElasticQuotas: "ElasticQuotaList",
	})
	c.create(koordinator.ClusterNetworkTopologies, "", map[string]any{
		"apiVersion": koordinator.GroupVersion.String(), "kind": "ClusterNetworkTopology", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"networkTopologySpec": []any{
			map[string]any{"topologyLayer": "SpineLayer", "labelKey": []any{"spine"}},
			map[string]any{"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": []any{"block"}},
			map[string]any{"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
		}},
	})
	return c
}

// Config is the configuration of a scheduler with one profile, which runs Coscheduling.
const Config = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {preEnqueue: {enabled: [{name: Holder}]}, permit: {enabled: [{name: Holder}]}}
`

// holder has pods with a label wait in Permit, or not get even there.
type holder struct{}

func (holder) PreEnqueue(_ context.Context, p *v1.Pod) *fwk.Status {
	if p.Labels["hold"] != "outside" {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "is held")
}

func (holder) Name() string { return "Holder" }

func (holder) Permit(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if p.Labels["hold"] != "inside" {
		return nil, 0
	}
	return fwk.NewStatus(fwk.Wait), time.Minute
}

var installDefaults = sync.OnceFunc(config.InstallDefaults)

// Run starts the scheduler, which ends with the test.
func (c *Cluster) Run() *Cluster {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	installDefaults() // for the whole process: tests may run side by side
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode([]byte(c.Config), nil, nil)
	require.NoError(c.t, err)
	cfg := obj.(*schedulerconfig.KubeSchedulerConfiguration)
	informers := scheduler.NewInformerFactory(c.Client, 0, nil)
	registry := frameworkruntime.Registry{
		"Holder": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return holder{}, nil },
	}
	require.NoError(c.t, registry.Merge(c.Plugins))
	ours := family.Factories(family.Options{Options: plugin.Options{
		Connect: connect.FromClient(c.Custom, c.Serves...), Settle: 10 * time.Millisecond, Clock: c.Clock,
	}})
	for _, name := range []string{plugin.GateName, deviceshare.Name, elasticquota.Name} {
		registry[name] = ours[name]
	}
	registry[plugin.Name] = func(ctx context.Context, raw runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p, err := ours[plugin.Name](ctx, raw, h)
		if err == nil {
			c.Plugin = p.(*plugin.Plugin)
		}
		return p, err
	}
	c.Scheduler, err = scheduler.New(ctx, c.Client, informers, nil, func(string) events.EventRecorderLogger { return c },
		scheduler.WithComponentConfigVersion(gvk.GroupVersion().String()),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPodInitialBackoffSeconds(1), scheduler.WithPodMaxBackoffSeconds(1),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
	)
	require.NoError(c.t, err)
	c.Plugin.Complete(c.Scheduler)
	informers.StartWithContext(ctx)
	informers.WaitForCacheSyncWithContext(ctx)
	require.NoError(c.t, c.Scheduler.WaitForHandlersSync(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Scheduler.Run(ctx)
	}()
	c.t.Cleanup(func() {
		cancel()
		<-ended
		c.endCycles()
		informers.Shutdown()
	})
	// A test that calls the plugin itself needs filled caches. A cluster in which something cannot be listed never has
	// them.
	c.Within(5*time.Second, c.Plugin.Cache.Open)
	return c
}

// endCycles ends the waits in Permit of a scheduler that has ended. Its last cycle may still run, and start one more
// wait. Cycles of parallel tests look the same, so this waits for them, too.
func (c *Cluster) endCycles() {
	stacks := make([]byte, 1<<20)
	c.Within(time.Second, func() bool {
		now := stacks[:goruntime.Stack(stacks, true)]
		for _, p := range c.Scheduler.Profiles {
			p.IterateOverWaitingPods(func(w fwk.WaitingPod) { w.Reject(plugin.Name, "the test ends") })
		}
		return !bytes.Contains(now, []byte("(*Scheduler).scheduleOnePod("))
	})
}

// Pods names the resource to the client's tracker.
var Pods = v1.SchemeGroupVersion.WithResource("pods")

// Profile is the scheduler's first profile.
func (c *Cluster) Profile() framework.Framework {
	return c.Scheduler.Profiles[scheduling.SchedulerName]
}
