package plugin

import (
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

// New makes the plugin of a profile.
func New(s *Shared, of Profile) *Plugin {
	name := of.ProfileName()
	s.Cache.Serve(name)
	p := &Plugin{Shared: s, first: len(s.profiles) == 0, profile: of.Framework, planner: place.NewPlanner(of.Framework, s.Cache, of.Ledgers...), added: of.Added}
	p.args.Store(&of.Args)
	p.Preemptor = preempt.New(preempt.Options{
		Profile: of.Framework, Cache: p.Cache, Teller: p.teller, Meter: p.Meter, Victims: &p.victims,
		Clock: p.options.Clock, Ended: of.Ended, Writers: p.options.Writers, Limits: p.limits,
		Quotas: quotas{p.quotas},
	})
	p.planner.MayLeave = p.Preemptor.MayLeave
	s.profiles[name] = p
	s.resume = append(s.resume, p.Preemptor.Resume)
	return p
}

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
	if o.Unanswered == nil {
		o.Unanswered = func(fwk.CycleState) bool { return false }
	}
	if o.Settle == 0 {
		o.Settle = 300 * time.Millisecond
	}
	if o.Writers == 0 {
		o.Writers = 16
	}
	if o.Narrow == 0 {
		o.Narrow = 16
	}
}

// Start makes what the profiles of a process share and sets it going. Arguments and handle are those of the first profile. The error is
// one of connecting.
func Start(ctx context.Context, o Options, rooms Rooms, args config.Args, h fwk.Handle) (*Shared, error) {
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
		Clock: o.Clock, Settle: o.Settle, Busy: o.Busy, Topology: o.TopologyManager == nil || *o.TopologyManager, Unread: o.Unread,
	})
	s.Cache = cache.New(cache.Options{
		Aware: args.AwareNetworkTopology, Limits: limitsOf(args), Clock: o.Clock, Leading: o.Leading, Do: s.do, Note: s.teller.Note, Free: s.free,
		Leaves: func(pod *v1.Pod) bool { return s.victims.Leaves(pod, o.Clock.Now()) },
		Lacks:  s.lacksClaim,
		Beside: append(rooms.Quotas.Resources(), rooms.Devices.Resource()), Ticked: rooms.Quotas.Tick,
	})
	s.shareDevices(rooms.Devices)
	s.shareQuotas(rooms.Quotas)
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
	s.Meter.Register(rooms.Quotas)
	go s.Writer.Run(ctx, args.ControllerWorkers)
	if o.Started != nil {
		o.Started(s)
	}
	return s, nil
}
