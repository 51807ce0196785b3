package deviceshare

import (
	"context"
	"errors"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
)

// Plugin is the plugin of one profile.
type Plugin struct {
	*Room
	handle fwk.Handle
}

// Configurations may name the plugin at all extension points of Koordinator's plugin. Bind is added, so that a pod gets its node and its
// devices in one write.
var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PreBindPlugin     = (*Plugin)(nil)
	_ fwk.BindPlugin        = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// New returns the plugin of a profile.
func (r *Room) New(ctx context.Context, raw runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := config.DecodeDevices(raw)
	if err != nil {
		return nil, err
	}
	if len(args.Idle) > 0 {
		klog.FromContext(ctx).Info("Arguments of DeviceShare have no effect here", "profile", h.ProfileName(), "arguments",
			strings.Join(args.Idle, ", "))
	}
	if err := r.initialize(args, h); err != nil {
		return nil, err
	}
	return &Plugin{Room: r, handle: h}, nil
}

// initialize stores the arguments and registers for deleted pods, at its first call. Later it returns an error for different arguments.
func (r *Room) initialize(args config.DeviceArgs, h fwk.Handle) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.initialized {
		if r.packed != args.Packed {
			return errors.New("DeviceShareArgs.scoringStrategy.type: it must be the same in all profiles, which share the devices of a node")
		}
		return nil
	}
	r.initialized, r.packed = true, args.Packed
	if m := h.SharedDRAManager(); m != nil {
		r.byClass = func(name v1.ResourceName) bool { return m.DeviceClassResolver().GetDeviceClass(name) != nil }
	}
	_, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(watch.Handler(func(*v1.Pod) {}, r.deleted))
	return err
}

// Name implements fwk.Plugin.
func (*Plugin) Name() string { return Name }

// stateKey is the key of the pod's request in the cycle state.
const stateKey fwk.StateKey = "muster.sh/" + Name

// cycleRequest is a pod's request in a cycle state.
type cycleRequest struct{ *podDevices }

// Clone implements fwk.StateData. A request never changes.
func (a cycleRequest) Clone() fwk.StateData { return a }

// wanted returns a pod's request for devices; nil if there is none. As long as there are no Device objects, only Koordinator's resources
// are requests for devices; other plugins count the other ones.
func (p *Plugin) wanted(pod *v1.Pod) *podDevices {
	if p.devices.noneYet() && !convert.NamesKoordinator(pod) {
		return nil
	}
	return p.readPod(pod)
}

// PreFilter stores the pod's request in the cycle state. It rejects an invalid one, and skips a pod without a request.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	w := p.wanted(pod)
	switch {
	case w == nil:
	case w.invalid != nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, w.invalid.Error())
	case w.request != nil:
		if !fit.IsWhatIf(ctx) {
			p.waiting.Add(convert.PodKey(pod), pod)
		}
		state.Write(stateKey, cycleRequest{w})
		return nil, nil
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions implements fwk.PreFilterPlugin. There are none, because Filter reads the pods of the NodeInfo.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter accepts a node that has devices for the pod beside its present pods. These include pods for which no devices are chosen yet: all
// of them must fit together.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(stateKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	w := data.(cycleRequest).podDevices
	v := p.view(node)
	if why := p.neverFits(w, v, node); why != nil {
		return unschedulable(why)
	}
	if v.state == nil {
		return nil
	}
	var why *device.Refusal
	p.solve(func(s *device.Solver) {
		last := []*device.Request{w.request}
		members := append(device.Concerned(v.open, last), w.request)
		st := v.state.Clone() // concurrent Filters may search the same view
		if !fits(s, st, members) {
			why = whyNot(s, st, members)
		}
	})
	if why != nil {
		return unschedulable(why)
	}
	return nil
}

// fits returns whether all members fit together. It returns false if the search reaches its limit. Equal members are counted at once.
func fits(s *device.Solver, st *device.State, members []*device.Request) bool {
	first := members[0]
	if !slices.ContainsFunc(members, func(r *device.Request) bool { return r != first && r.Key() != first.Key() }) {
		if n := s.Slots(st, first, len(members)); n.Exact || n.Slots == len(members) {
			return n.Slots == len(members)
		}
	}
	ok, _ := s.Fits(st, members)
	return ok
}

// fewMembers bounds the members for which whyNot searches the exact reason, because that takes a search for each.
const fewMembers = 4

// whyNot returns why the last member does not fit beside the earlier ones, even if the search reaches its limit. Refusal.Lasting can be set
// only if the last member does not fit alone: the earlier ones may be evicted. Only earlier members that compete with it for devices count
// (device.Concerned).
func whyNot(s *device.Solver, st *device.State, members []*device.Request) *device.Refusal {
	last := members[len(members)-1:]
	others := device.Concerned(members[:len(members)-1], last)
	if why := s.Why(st, last); why != nil {
		return why
	}
	why := &device.Refusal{Reason: device.TogetherWithOthers, Type: last[0].Types()[0]}
	if len(others) >= fewMembers {
		return why
	}
	reason := s.Why(st, others)
	if reason == nil {
		reason = s.Why(st, slices.Concat(others, last))
	}
	if reason != nil && slices.Contains(last[0].Types(), reason.Type) {
		why.Reason, why.Type = reason.Reason, reason.Type
	}
	return why
}

// PreScore and Score do nothing. They exist for configurations that name the plugin there.
func (*Plugin) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return fwk.NewStatus(fwk.Skip)
}

// Score implements fwk.ScorePlugin.
func (*Plugin) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// SignPod implements fwk.SignPlugin. For pods with devices no result is reused for the next pod, because each takes devices of its node.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if convert.WantsDevices(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with devices are placed one by one")
	}
	return nil, nil
}
