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
)

// Plugin is the plugin of one profile.
type Plugin struct{ *Room }

// Koordinator's plugin has these extension points, at which configurations may name it.
var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
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

// PreFilter admits a pod without a gang. Members are admitted with their gang. Which pods may be evicted for a pod that is not admitted package preempt
// finds out.
func (p *Plugin) PreFilter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !p.Active() || fit.Asking(ctx) || pod.Spec.NodeName != "" || !source.Of(pod).IsZero() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if why := p.admitPod(pod); why != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

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
