// Package plugin is the Coscheduling plugin: it translates what the scheduler asks
// into questions for the core, and answers back. One file for each extension point:
//
//	queue.go       QueueSort: members stand together
//	events.go      what may cure a refusal, and who is tried again then
//	gate.go        PreEnqueue: one member is tried for all
//	prefilter.go   PreFilter: the plan of the whole gang, then one node for each member
//	filter.go      Filter: no other node for a planned member, no planned place for others
//	postfilter.go  PostFilter: eviction and reservation
//	score.go       PreScore, Score: pods without a gang go where others attract them
//	permit.go      Reserve, Permit, Unreserve, PostBind: the barrier
//	effects.go     what the book of gangs wants done
//	joint.go       devices that members share: written before they come, taken back if none starts
//	devices.go     what the plugin DeviceShare must know of gangs, and they of it
//	quotas.go      what the plugin ElasticQuota must know of gangs, and they of it
//	extend.go      what plugins of somebody's own are asked besides
//
// It wires the rooms that do the work: plans (place), victims (preempt), what people are
// told (status), what is known (cache). It decides nothing itself.
package plugin

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/allot"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/deviceshare"
	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/ledger"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/kube/wake"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = config.PluginName

// Options are what the process decides. All but Connect may be left open.
type Options struct {
	// Connect says where objects come from, as package connect does.
	Connect func(context.Context, fwk.Handle) (cache.Source, error)
	// TopologyManager writes the status of the ClusterNetworkTopology; nil means yes.
	TopologyManager *bool
	// Clock is the time; nil means the real one.
	Clock clock.WithTicker
	// Leading says whether this process schedules, or is a standby; nil means it does.
	Leading func() bool
	// Settle is how long changes of a gang are gathered before its status is written;
	// 0 means 300 ms, less than 0 means not at all.
	Settle time.Duration
	// Busy says whether bindings are under way, for which the status of gangs and quotas should wait;
	// nil means never.
	Busy func() bool
	// Writers is how many requests an eviction has under way at a time; 0 means 16. With
	// one their order is always the same.
	Writers int
	// Started is called with what all profiles share, once.
	Started func(*Shared)
	// Tried is called with every attempt to place a gang once it was made, before anything comes
	// of it; nil means that nobody watches. It must change nothing.
	Tried func(context.Context, Trial)
	// Plugins are the factories, by name, of plugins of somebody's own, which may be more than kube-scheduler
	// knows of: see extend.go.
	Plugins frameworkruntime.Registry
}

// Trial is one attempt and what it has found: a plan, or why there is none. Both are empty when a
// plugin has failed.
type Trial struct {
	*Plugin
	Attempt *place.Attempt
	Found   place.Outcome
	Refusal *place.Refusal
}

// Shared is what the profiles of one process share.
type Shared struct {
	Cache  *cache.Cache
	Writer *status.Writer
	Meter  *status.Meter

	profiles map[string]*Plugin // by name

	options  Options
	handle   fwk.Handle // of the first profile: queue and waiting pods are the same for all
	teller   *status.Teller
	victims  preempt.Victims
	refused  wake.Room // groups that wait for something to change
	allotted allot.Room
	quotas   *elasticquota.Room
	// Pods without a gang that wait for something that no event tells of: that the gangs are tried that were partially bound at the start,
	// and that a place is given back which is held.
	resumes, keptOff wake.Kept[string, *v1.Pod]
	// Groups that are to be tried again only to say newer words.
	renewals wake.Kept[gang.Ref, struct{}]
	// Groups whose places are free, and whose quotas wait for somebody to leave, with the pod that was tried for them.
	awaited wake.Kept[gang.Ref, string]
	// Nominations that do not count in the cycle that goes on, with their nodes.
	aside wake.Kept[*v1.Pod, string]
	// resume are called once, when everything was seen: with all profiles made.
	resume  []func()
	resumed sync.Once
}

// Plugin is the plugin of one profile.
type Plugin struct {
	*Shared
	args      atomic.Pointer[config.Args]
	first     bool // what all profiles share has its arguments
	profile   framework.Framework
	planner   *place.Planner
	Preemptor *preempt.Preemptor // evicts for gangs
	ordinary  *preempt.PodPreemption
	hasGate   bool // the profile runs the Gate
	added     *added
	checks    []Checker
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
// each of its profiles: this one, its Gate, DeviceShare and ElasticQuota, and those of somebody's own, which may stand in
// for none of them. Profiles of one call share the cache.
func Factories(o Options) frameworkruntime.Registry {
	f := &family{options: o, plugins: map[string]*Plugin{}, added: map[string]*added{}, devices: &deviceshare.Room{}, quotas: &elasticquota.Room{}}
	all := frameworkruntime.Registry{}
	for name, factory := range o.Plugins {
		all[name] = f.noting(factory)
	}
	maps.Copy(all, frameworkruntime.Registry{Name: f.newPlugin, GateName: f.newGate, deviceshare.Name: f.devices.New, elasticquota.Name: f.quotas.New})
	return all
}

// family is the plugins of all profiles.
type family struct {
	options Options
	devices *deviceshare.Room
	quotas  *elasticquota.Room

	mu      sync.Mutex
	shared  *Shared
	plugins map[string]*Plugin // by profile
	added   map[string]*added  // likewise
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
		if f.shared, err = start(ctx, f.options, f, args, h); err != nil {
			return nil, err
		}
		if note := unasked(h.Extenders()); note != "" {
			klog.FromContext(ctx).Info(note)
		}
	}
	f.shared.Cache.Serve(h.ProfileName())
	ledgers := append(ledger.All(profile), f.devices.Ledger(profile))
	p := &Plugin{Shared: f.shared, first: len(f.plugins) == 0, profile: profile, planner: place.NewPlanner(profile, f.shared.Cache, ledgers...)}
	p.args.Store(&args)
	p.added = f.addedTo(h.ProfileName())
	p.Preemptor = preempt.New(preempt.Options{
		Profile: profile, Cache: p.Cache, Teller: p.teller, Meter: p.Meter, Victims: &p.victims,
		Clock: p.options.Clock, Ended: ctx.Done(), Writers: p.options.Writers, Limits: p.limits,
		Quotas: quotas{p.quotas},
	})
	f.plugins[h.ProfileName()], f.shared.profiles[h.ProfileName()] = p, p
	f.shared.resume = append(f.shared.resume, p.Preemptor.Resume)
	return p, nil
}

// unasked says which extenders are not asked when the places of a gang are counted; "" if
// there are none that would have something to say.
func unasked(extenders []fwk.Extender) string {
	var names []string
	for _, e := range extenders {
		if e.IsFilter() {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "Extenders that filter nodes are not asked when the places of a gang are counted, only in each member's own cycle. " +
		"A node that an extender refuses there takes no more members until it changes, and the gang is planned anew: " + strings.Join(names, ", ")
}

// Profile returns the plugin of a profile, which is there once the scheduler is made; nil if no
// profile has that name.
func (s *Shared) Profile(name string) *Plugin { return s.profiles[name] }

// Looks says whether an eviction waits to see how far a member is, by the clock on the wall.
func (s *Shared) Looks() bool { return s.victims.Looks() }

// Template is equal for pods that an attempt counts alike.
func (p *Plugin) Template(pod *v1.Pod) string { return p.planner.Template(pod) }

// Try makes an attempt to place a group on nodes as the group's own cycle would, and nothing comes
// of it.
func (p *Plugin) Try(ctx context.Context, group *cache.Group, nodes []fwk.NodeInfo) Trial {
	return p.TryOn(ctx, group, nodes, func(string) bool { return true })
}

// TryOn is Try as if the group might go to no other nodes than these.
func (p *Plugin) TryOn(ctx context.Context, group *cache.Group, nodes []fwk.NodeInfo, may func(node string) bool) Trial {
	avoid := p.avoid(group)
	a := p.planner.NewAttempt(group, nodes, func(n fwk.NodeInfo) bool { return !may(n.Node().Name) || avoid != nil && avoid(n) })
	t := Trial{Plugin: p, Attempt: a}
	t.Found, t.Refusal, _ = a.Plan(ctx)
	return t
}

// tried tells who watches.
func (p *Plugin) tried(ctx context.Context, t Trial) {
	if p.options.Tried != nil {
		t.Plugin = p
		p.options.Tried(ctx, t)
	}
}

// IsMember says whether a pod belongs to a gang.
func IsMember(pod *v1.Pod) bool { return !source.Of(pod).IsZero() }

// defaults fills in what the process left open.
func (o *Options) defaults() {
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
}

// start makes what profiles share and sets it going.
func start(ctx context.Context, o Options, f *family, args config.Args, h fwk.Handle) (*Shared, error) {
	o.defaults()
	source, err := o.Connect(ctx, h)
	if err != nil {
		return nil, err
	}
	s := &Shared{
		options: o, handle: h, profiles: map[string]*Plugin{}, Writer: status.NewWriter(h.ClientSet(), source.Dynamic),
		Meter: status.NewMeter(o.Clock),
	}
	s.teller = status.NewTeller(s.Writer, h.EventRecorder(), status.TellerOptions{
		Clock: o.Clock, Settle: o.Settle, Busy: o.Busy, Topology: o.TopologyManager == nil || *o.TopologyManager,
	})
	s.Cache = cache.New(cache.Options{
		Aware: args.AwareNetworkTopology, Limits: limitsOf(args), Clock: o.Clock, Leading: o.Leading, Do: s.do, Note: s.teller.Note, Free: s.free,
		Leaves: func(pod *v1.Pod) bool { return s.victims.Leaves(pod, o.Clock.Now()) },
		Lacks:  s.lacksClaim,
		Beside: append(f.quotas.Resources(), f.devices.Resource()), Ticked: s.revoke,
	})
	s.shareDevices(f.devices)
	s.shareQuotas(f.quotas)
	s.allotted.Client = h.ClientSet()
	if manager := h.SharedDRAManager(); manager != nil {
		s.allotted.Claims = manager.ResourceClaims()
	}
	s.resume = append(s.resume, s.findAllotted)
	s.teller.About(s.Cache)
	s.Meter.About(s.Cache, fit.Runs, status.NodesOf(h.SharedInformerFactory().Core().V1().Pods().Lister()))
	if err := s.Cache.Start(ctx, source); err != nil {
		return nil, err
	}
	s.Meter.Register(f.quotas)
	go s.Writer.Run(ctx, args.ControllerWorkers)
	if o.Started != nil {
		o.Started(s)
	}
	return s, nil
}
