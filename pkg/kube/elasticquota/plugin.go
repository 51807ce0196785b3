package elasticquota

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Plugin is the plugin of one profile.
type Plugin struct{ *Room }

// Koordinator's plugin has these extension points, at which configurations may name it, but for Filter.
var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// New makes the plugin of a profile.
func (r *Room) New(ctx context.Context, raw runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := config.DecodeQuota(raw)
	if err != nil {
		return nil, err
	}
	if len(args.Idle) > 0 {
		klog.FromContext(ctx).Info("Arguments of ElasticQuota have no effect here", "profile", h.ProfileName(), "arguments", strings.Join(args.Idle, ", "))
	}
	if err := r.begin(args, raw != nil, h); err != nil {
		return nil, err
	}
	return &Plugin{r}, nil
}

// begin has the room hear of pods and nodes, once. Quotas that were heard of before that count from now on, and by the arguments of
// whichever profile has any, also if that is not the first.
func (r *Room) begin(args config.QuotaArgs, written bool, h fwk.Handle) error {
	r.mu.Lock()
	first, before := !r.begun, r.args
	err := r.agree(args, written)
	if err == nil && first {
		err = r.hear(h)
	}
	if err == nil && len(r.objects) > 0 && (first || !reflect.DeepEqual(before, r.args)) {
		r.regrow()
		return nil
	}
	r.mu.Unlock()
	return err
}

// hear has the room hear of pods and nodes. r.mu is held.
func (r *Room) hear(h fwk.Handle) error {
	r.begun = true
	core := h.SharedInformerFactory().Core().V1()
	r.lister, r.volumes = core.Pods().Lister(), core.PersistentVolumeClaims().Lister()
	if _, err := core.Pods().Informer().AddEventHandler(handler(r.setPod, r.dropPod)); err != nil {
		return err
	}
	if h.SharedDRAManager() != nil {
		of := h.SharedInformerFactory().Resource().V1()
		if err := errors.Join(r.hearDevices(of), r.hearClasses(of)); err != nil {
			return err
		}
	}
	_, err := core.Nodes().Informer().AddEventHandler(handler(r.setNode, func(n *v1.Node) { r.dropNode(n.Name) }))
	return err
}

// agree takes over the arguments of a profile. One for which none are written has those of the others.
func (r *Room) agree(args config.QuotaArgs, written bool) error {
	switch {
	case !r.written:
		r.args, r.written = args, written
	case written && !reflect.DeepEqual(r.args, args):
		return fmt.Errorf("ElasticQuotaArgs: they must be the same in all profiles that have any, since all share the quotas")
	}
	return nil
}

// handler calls set for every object that exists and drop for every one that goes.
func handler[T any](set, drop func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { set(o.(T)) },
		UpdateFunc: func(_, o any) { set(o.(T)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if t, ok := o.(T); ok {
				drop(t)
			}
		},
	}
}

// Name implements fwk.Plugin.
func (*Plugin) Name() string { return Name }

// stateKey is where PreFilter leaves why a pod is not admitted.
const stateKey fwk.StateKey = "muster.sh/" + Name

// refused is why a pod is not admitted, in a cycle state, and what its quotas have when some have left.
type refused struct {
	why   string
	view  *quota.View
	asked bool // who may leave for it: until then who leaves already has what he has
}

// Clone implements fwk.StateData: DefaultPreemption looks at several nodes at a time.
func (r *refused) Clone() fwk.StateData { return &refused{r.why, r.view.Clone(), r.asked} }

// PreFilter admits a pod without a gang. Members are admitted with their gang. Where somebody may leave for a pod that is not
// admitted Filter says no, so that DefaultPreemption looks for whom.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !p.Active() || fit.Asking(ctx) || pod.Spec.NodeName != "" || !source.Of(pod).IsZero() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	why, view := p.admitPod(pod)
	switch {
	case why == "":
		return nil, fwk.NewStatus(fwk.Skip)
	case view == nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	state.Write(stateKey, &refused{why: why, view: view})
	return nil, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// RemovePod has a victim leave.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, gone fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return p.with(state, func(r *refused) {
		r.asked = true
		r.view.Leave(key(gone.GetPod()))
	})
}

// AddPod has it come back.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, back fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return p.with(state, func(r *refused) { r.view.Return(key(back.GetPod())) })
}

func (p *Plugin) with(state fwk.CycleState, do func(*refused)) *fwk.Status {
	data, err := state.Read(stateKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	do(data.(*refused))
	return nil
}

// Filter says whether the pod is admitted when those have left who have.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(stateKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	r := data.(*refused)
	if !r.asked {
		return fwk.NewStatus(fwk.Unschedulable, r.why)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, refusal := r.view.Admit(p.askOf(pod)); refusal != nil {
		return fwk.NewStatus(fwk.Unschedulable, Words(refusal, "pod's"))
	}
	return nil
}

// PostFilter is there for configurations that name the plugin at PostFilter: whom to evict for a pod others say.
func (*Plugin) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve charges a pod without a gang to its quota.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if source.Of(pod).IsZero() {
		p.assume(pod, true)
	}
	return nil
}

// Unreserve gives that back.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if source.Of(pod).IsZero() {
		p.assume(pod, false)
	}
}

// EventsToRegister implements fwk.EnqueueExtensions. No event of the scheduler's cures a refusal: the room says itself when somebody
// would be admitted (Changed).
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel | fwk.UpdatePodScaleDown},
	}}, nil
}

// SignPod implements fwk.SignPlugin: a pod leaves its quota another than the next one like it finds it.
func (p *Plugin) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if p.Active() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with quotas are placed one by one")
	}
	return nil, nil
}
