package plugin

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// New returns the plugin of a profile.
func New(s *Shared, profile Profile) *Plugin {
	name := profile.ProfileName()
	s.Cache.Serve(name)
	p := &Plugin{
		Shared: s, first: len(s.profiles) == 0, profile: profile.Framework, addedPlugins: profile.Added,
		planner: place.NewPlanner(profile.Framework, s.Cache, profile.Ledgers...),
	}
	p.args.Store(&profile.Args)
	p.Preemptor = preempt.New(preempt.Options{
		Profile: profile.Framework, Cache: p.Cache, Teller: p.teller, Meter: p.Meter, Victims: &p.victims,
		Clock: p.options.Clock, Ended: profile.Ended, Writers: p.options.Writers, Limits: p.evictionLimits,
		Quotas: quotaChecks{p.quotas},
	})
	p.planner.MayEvict, p.planner.Args = p.Preemptor.QuotaCheck, p.args.Load
	s.profiles[name] = p
	s.resumeFuncs = append(s.resumeFuncs, p.Preemptor.Resume)
	return p
}

// defaults sets the options that the process left empty.
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
	if o.Unanswered == nil {
		o.Unanswered = func(fwk.CycleState) bool { return false }
	}
	o.Settle = cmp.Or(o.Settle, 300*time.Millisecond)
	o.Writers = cmp.Or(o.Writers, 16)
	o.ListenerRatio = cmp.Or(o.ListenerRatio, 16)
}

// Start returns the state that the profiles of a process share, and starts its cache and writers. args and h are of the first profile. The
// error is from Options.Connect or from starting the cache.
func Start(ctx context.Context, o Options, rooms Rooms, args config.Args, h fwk.Handle) (*Shared, error) {
	o.defaults()
	source, err := o.Connect(ctx, h)
	if err != nil {
		return nil, err
	}
	s := &Shared{
		options: o, handle: h, profiles: map[string]*Plugin{}, Writer: status.NewWriter(h.ClientSet(), source.Dynamic, o.Clock),
		Meter: status.NewMeter(o.Clock),
	}
	s.Writer.Before = o.BeforeWrite
	s.teller = status.NewReporter(s.Writer, h.EventRecorder(), status.ReporterOptions{
		Clock: o.Clock, Settle: o.Settle, Busy: o.Busy, Topology: o.TopologyManager == nil || *o.TopologyManager, Unread: o.NoGangStatus,
		SpareProblems: s.SpareProblems,
	})
	s.Cache = cache.New(cache.Options{
		Aware: args.AwareNetworkTopology, Limits: gangLimits(args), Clock: o.Clock, Leading: o.Leading, Do: s.carryOut,
		Note: s.teller.Note, Free: s.retryFreed, FreeOf: s.retryPodsOf,
		Leaves:         func(pod *v1.Pod) bool { return s.victims.Terminates(pod, o.Clock.Now()) },
		Lacks:          s.missingClaim,
		Evicts:         s.evicts,
		ExtraResources: append(rooms.Quotas.Resources(), rooms.Devices.Resource()),
		Ticked:         func() { rooms.Quotas.Tick(); s.retryAtMaintenance() },
	})
	s.connectDevices(rooms.Devices)
	s.connectQuotas(rooms.Quotas)
	s.allocations.Client = h.ClientSet()
	if manager := h.SharedDRAManager(); manager != nil {
		s.allocations.Claims = manager.ResourceClaims()
	}
	s.resumeFuncs = append(s.resumeFuncs, s.findAllocations)
	s.teller.SetCache(s.Cache)
	s.Meter.SetSources(s.Cache, fit.FilterRuns, status.NodesOf(h.SharedInformerFactory().Core().V1().Pods().Lister()))
	if err := s.Cache.Start(ctx, source); err != nil {
		return nil, err
	}
	s.Meter.Register(rooms.Quotas)
	go s.Writer.Run(ctx, args.ControllerWorkers)
	if o.Started != nil {
		o.Started(s)
	}
	return s, nil
}
