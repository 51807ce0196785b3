// Package plugin is the Coscheduling plugin: it translates what the scheduler asks
// into questions for the core, and answers back. One file for each extension point:
//
//	queue.go       QueueSort: members stand together
//	gate.go        PreEnqueue: one member is tried for all
//	prefilter.go   PreFilter: the plan of the whole gang, then one node for each member
//	filter.go      Filter: no other node for a planned member, no planned place for others
//	postfilter.go  PostFilter: eviction and reservation
//	execution.go   the eviction itself, in the background
//	ordinary.go    PostFilter of pods without a gang: DefaultPreemption, with gangs as victims
//	calm.go        what is said of refused gangs does not change all the time
//	score.go       PreScore, Score: pods without a gang go where others attract them
//	permit.go      Reserve, Permit, Unreserve, PostBind: the barrier
//
// It decides nothing about placement (plan, evict) and keeps no state of its own but
// the victims that it has asked to leave: gangs are in the book (cache).
package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = config.PluginName

// Options are what the process decides. The zero value is a plugin in a cluster.
type Options struct {
	// TopologyManager writes the status of the ClusterNetworkTopology; nil means yes.
	TopologyManager *bool
	// Dynamic is the client for custom resources; nil makes one from the scheduler's
	// configuration, after checking that the scheduler may do what it must.
	Dynamic dynamic.Interface
	// Clock is the time; nil means the real one.
	Clock clock.WithTicker
	// Leading says whether this process schedules, or is a standby; nil means it does.
	Leading func() bool
	// Settle is how long changes of a gang are gathered before its status is written;
	// 0 means 300 ms, less than 0 means not at all.
	Settle time.Duration
	// Busy says whether bindings are under way, for which the status of gangs should wait;
	// nil means never.
	Busy func() bool
	// Writers is how many requests an eviction has under way at a time; 0 means 16. With
	// one their order is always the same.
	Writers int
	// Started is called with what all profiles share, once.
	Started func(*Shared)
}

// Shared is what the profiles of one process share.
type Shared struct {
	Cache  *cache.Cache
	Writer *status.Writer

	options Options
	handle  fwk.Handle // of the first profile: queue and waiting pods are the same for all
	victims victims
	told    told
	calm    calm
	delayed delayed
}

// Plugin is the plugin of one profile.
type Plugin struct {
	*Shared
	args     config.Args
	profile  framework.Framework
	executor *preemption.Executor
	budgets  policylisters.PodDisruptionBudgetLister
	pods     corelisters.PodLister
	ordinary ordinary
	memory   *fit.Memory
	layouts  layouts
	hasGate  bool // the profile runs the Gate
}

var (
	_ fwk.QueueSortPlugin   = (*Plugin)(nil)
	_ fwk.PreEnqueuePlugin  = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PermitPlugin      = (*Plugin)(nil)
	_ fwk.PostBindPlugin    = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// Factories returns the factories, by name, with which a scheduler makes the plugins of
// each of its profiles: this one, and its Gate. Profiles of one call share the cache.
func Factories(o Options) frameworkruntime.Registry {
	f := &family{options: o, plugins: map[string]*Plugin{}}
	return frameworkruntime.Registry{Name: f.newPlugin, GateName: f.newGate}
}

// family is the plugins of all profiles.
type family struct {
	options Options

	mu      sync.Mutex
	shared  *Shared
	plugins map[string]*Plugin // by profile
}

func (f *family) newPlugin(ctx context.Context, raw runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := config.Decode(raw)
	if err != nil {
		return nil, err
	}
	profile, ok := h.(framework.Framework)
	if !ok {
		return nil, fmt.Errorf("plugin %s needs the handle of a kube-scheduler profile, not a %T", Name, h)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shared == nil {
		if f.shared, err = start(ctx, f.options, args, h); err != nil {
			return nil, err
		}
	}
	f.shared.Cache.Serve(h.ProfileName())
	p := &Plugin{
		Shared: f.shared, args: args, profile: profile,
		executor: preemption.NewExecutor(h, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)),
		budgets:  h.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister(),
		pods:     h.SharedInformerFactory().Core().V1().Pods().Lister(),
	}
	p.memory = fit.NewMemory(profile)
	p.ordinary.plugin = p
	p.executor.PreemptPod = p.gently(p.executor.PreemptPod)
	f.plugins[h.ProfileName()] = p
	return p, nil
}

// IsMember says whether a pod belongs to a gang.
func IsMember(pod *v1.Pod) bool { return convert.GangOf(pod) != "" }

// start makes what profiles share and sets it going.
func start(ctx context.Context, o Options, args config.Args, h fwk.Handle) (*Shared, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Leading == nil {
		o.Leading = func() bool { return true }
	}
	if o.Busy == nil {
		o.Busy = func() bool { return false }
	}
	if o.Settle == 0 {
		o.Settle = 300 * time.Millisecond
	}
	if o.Writers == 0 {
		o.Writers = 16
	}
	trimNodes(ctx, h)
	source := cache.Source{Core: h.SharedInformerFactory(), Dynamic: o.Dynamic, Served: always}
	if o.Dynamic == nil {
		if err := checkPermissions(ctx, h.ClientSet()); err != nil {
			return nil, err
		}
		// Custom resources are not known to protobuf.
		cfg := *h.KubeConfig()
		cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		dyn, err := dynamic.NewForConfig(&cfg)
		if err != nil {
			return nil, err
		}
		source.Dynamic, source.Served = dyn, served(h.ClientSet().Discovery())
	}
	finished, err := cache.NewFinished(h.ClientSet())
	if err != nil {
		return nil, err
	}
	source.Finished = finished
	s := &Shared{options: o, handle: h, Writer: status.NewWriter(h.ClientSet(), source.Dynamic)}
	s.Cache = cache.New(cache.Options{
		Aware: args.AwareNetworkTopology, Leave: args.PreemptionTimeout, Wait: args.DefaultTimeout, Policy: gang.MatchPolicy(args.DefaultMatchPolicy),
		Starve: args.StarvationTimeout, Clock: o.Clock, Leading: o.Leading, Do: s.do, Note: s.note, Free: s.free,
		Leaves: func(pod *v1.Pod) bool { return s.victims.leaves(pod, o.Clock.Now()) },
	})
	if err := s.Cache.Start(ctx, source); err != nil {
		return nil, err
	}
	status.RegisterMetrics(fit.Runs)
	go s.Writer.Run(ctx, args.ControllerWorkers)
	if o.Started != nil {
		o.Started(s)
	}
	return s, nil
}

// trimNodes leaves out of all nodes who wrote which field when: nobody here reads it, and
// it is a sixth of what a scheduler keeps of a large cluster. kube-scheduler does so for
// pods.
func trimNodes(ctx context.Context, h fwk.Handle) {
	err := h.SharedInformerFactory().Core().V1().Nodes().Informer().SetTransform(func(object any) (any, error) {
		node, ok := object.(*v1.Node)
		if !ok || len(node.ManagedFields) == 0 {
			return object, nil
		}
		own := *node // whoever gave it may still read it
		own.ManagedFields = nil
		return &own, nil
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Nodes are kept whole", "err", err)
	}
}

func always(schema.GroupVersionResource) (bool, error) { return true, nil }

// served asks the API server whether it serves a resource.
func served(d discovery.DiscoveryInterface) func(schema.GroupVersionResource) (bool, error) {
	return func(gvr schema.GroupVersionResource) (bool, error) {
		list, err := d.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
		if err != nil {
			if meta.IsNoMatchError(err) || isNotFound(err) {
				return false, nil
			}
			return false, err
		}
		for _, r := range list.APIResources {
			if r.Name == gvr.Resource {
				return true, nil
			}
		}
		return false, nil
	}
}
