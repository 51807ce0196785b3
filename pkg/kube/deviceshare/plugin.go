package deviceshare

import (
	"context"
	"errors"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// Plugin is the plugin of one profile.
type Plugin struct {
	*Room
	handle fwk.Handle
}

// Koordinator's plugin has these extension points, at which configurations may name it, and PreBind and Score; it
// binds, too, so that a pod gets its devices in the write that gives it its node.
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

// New makes the plugin of a profile.
func (r *Room) New(ctx context.Context, raw runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := config.DecodeDevices(raw)
	if err != nil {
		return nil, err
	}
	if len(args.Idle) > 0 {
		klog.FromContext(ctx).Info("Arguments of DeviceShare have no effect here", "profile", h.ProfileName(), "arguments", strings.Join(args.Idle, ", "))
	}
	if err := r.begin(args, h); err != nil {
		return nil, err
	}
	return &Plugin{Room: r, handle: h}, nil
}

// begin has the room hear of pods that are deleted, once, and choose as all profiles say.
func (r *Room) begin(args config.DeviceArgs, h fwk.Handle) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun {
		if r.packed != args.Packed {
			return errors.New("DeviceShareArgs.scoringStrategy.type: it must be the same in all profiles, which share the devices of a node")
		}
		return nil
	}
	r.begun, r.packed = true, args.Packed
	if m := h.SharedDRAManager(); m != nil {
		r.byClass = func(name v1.ResourceName) bool { return m.DeviceClassResolver().GetDeviceClass(name) != nil }
	}
	_, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if pod, ok := o.(*v1.Pod); ok {
			r.gone(pod)
		}
	}})
	return err
}

// Name implements fwk.Plugin.
func (*Plugin) Name() string { return Name }

// stateKey is where PreFilter leaves what the pod wants.
const stateKey fwk.StateKey = "muster.sh/" + Name

// ask is what a pod wants, in a cycle state.
type ask struct{ *wanted }

// Clone implements fwk.StateData. What a pod wants never changes.
func (a ask) Clone() fwk.StateData { return a }

// wanted is what a pod wants of what is counted here, nil if that is nothing: what does not bear Koordinator's name is
// others' to count as long as nobody says which devices there are.
func (p *Plugin) wanted(pod *v1.Pod) *wanted {
	if p.devices.never() && !convert.NamesKoordinator(pod) {
		return nil
	}
	return p.readPod(pod)
}

// PreFilter reads what the pod wants. What cannot be meant only another pod cures.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	w := p.wanted(pod)
	switch {
	case w == nil:
	case w.bad != nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, w.bad.Error())
	case w.request != nil:
		if !fit.Asking(ctx) {
			p.waiting.Add(convert.PodKey(pod), pod)
		}
		state.Write(stateKey, ask{w})
		return nil, nil
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions implements fwk.PreFilterPlugin: none are needed, since Filter looks at the pods of the node that
// it is given, whoever has been added or taken away.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter says whether the node has devices for the pod beside all who are on it: those who have theirs, and those who
// have chosen none yet, for whom there must be enough as well.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(stateKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	w := data.(ask).wanted
	v := p.view(node)
	if why := p.never(w, v, node); why != nil {
		return refused(why)
	}
	if v.state == nil {
		return nil
	}
	var why *device.Refusal
	p.solve(func(s *device.Solver) {
		last := []*device.Request{w.request}
		members := append(device.Concerned(v.open, last), w.request)
		st := v.state.Clone() // others may search the same view
		if !fits(s, st, members) {
			why = whyNot(s, st, members)
		}
	})
	if why != nil {
		return refused(why)
	}
	return nil
}

// fits says whether members fit together. For many that are alike it is one count; a search that gives up says no.
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

// fewMembers is for how many it is found out what exactly the last of them lacks: that takes a search for each.
const fewMembers = 4

// whyNot says why the last of some members does not fit with the others, also where nobody could find that out. The
// others may leave: it is lasting only if the last would not fit by itself.
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
	is := s.Why(st, others)
	if is == nil {
		is = s.Why(st, slices.Concat(others, last))
	}
	if is != nil && slices.Contains(last[0].Types(), is.Type) {
		why.Reason, why.Type = is.Reason, is.Type
	}
	return why
}

// PreScore and Score are there for configurations that name the plugin at Score: which node is best other plugins say.
func (*Plugin) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return fwk.NewStatus(fwk.Skip)
}

// Score implements fwk.ScorePlugin.
func (*Plugin) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// SignPod implements fwk.SignPlugin: a pod with devices leaves its node another than the next one like it finds it.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if convert.WantsDevices(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with devices are placed one by one")
	}
	return nil, nil
}
