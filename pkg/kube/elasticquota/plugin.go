package elasticquota

import (
	"context"
	"errors"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
)

// Plugin is the plugin of one profile.
type Plugin struct{ *Manager }

// Koordinator's plugin has these extension points, and existing configurations name them.
var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// New returns the plugin of a profile.
func (r *Manager) New(ctx context.Context, raw runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := config.DecodeQuota(raw)
	if err != nil {
		return nil, err
	}
	if len(args.Idle) > 0 {
		klog.FromContext(ctx).Info("Arguments of ElasticQuota have no effect here",
			"profile", h.ProfileName(), "arguments", strings.Join(args.Idle, ", "))
	}
	if err := r.start(args, raw != nil, h); err != nil {
		return nil, err
	}
	return &Plugin{r}, nil
}

// start adopts a profile's arguments, and registers the event handlers at its first call. Afterwards quotas that were read before take
// effect. written says that the profile's configuration contains arguments.
func (r *Manager) start(args config.QuotaArgs, written bool, h fwk.Handle) error {
	r.mu.Lock()
	first, previous := !r.started, r.args
	err := r.adoptArgs(args, written)
	if err == nil && first {
		err = r.watch(h)
	}
	if err == nil && len(r.objects) > 0 && (first || !reflect.DeepEqual(previous, r.args)) {
		r.invalidateTree()
		return nil
	}
	r.mu.Unlock()
	return err
}

// watch registers event handlers for pods, nodes and devices. r.mu is locked.
func (r *Manager) watch(h fwk.Handle) error {
	r.started = true
	core := h.SharedInformerFactory().Core().V1()
	r.lister, r.volumes = core.Pods().Lister(), core.PersistentVolumeClaims().Lister()
	if _, err := core.Pods().Informer().AddEventHandler(watch.Handler(r.setPod, r.dropPod)); err != nil {
		return err
	}
	if h.SharedDRAManager() != nil {
		resourceInformers := h.SharedInformerFactory().Resource().V1()
		if err := errors.Join(r.watchDevices(resourceInformers), r.watchClasses(resourceInformers)); err != nil {
			return err
		}
	}
	_, err := core.Nodes().Informer().AddEventHandler(watch.Handler(r.setNode, func(n *v1.Node) { r.dropNode(n.Name) }))
	return err
}

// adoptArgs sets r.args. A profile without arguments (written is false) uses those of other profiles. Different arguments are an error.
func (r *Manager) adoptArgs(args config.QuotaArgs, written bool) error {
	switch {
	case !r.argsWritten:
		r.args, r.argsWritten = args, written
	case written && !reflect.DeepEqual(r.args, args):
		return errors.New("ElasticQuotaArgs: profiles have different arguments; all profiles need the same, because they share the quotas")
	}
	return nil
}

// Name implements fwk.Plugin.
func (*Plugin) Name() string { return Name }

// PreFilter rejects a pod without a gang that its quota does not admit. Members of gangs are admitted with their gang, elsewhere.
func (p *Plugin) PreFilter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !p.Active() || fit.IsWhatIf(ctx) || pod.Spec.NodeName != "" || !source.GangOf(pod).IsZero() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if why := p.admitPod(pod); why != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter exists for configurations that name the plugin at PostFilter. Package preempt selects the victims.
func (*Plugin) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve charges a pod without a gang to its quota.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if source.GangOf(pod).IsZero() {
		p.assume(pod, true)
	}
	return nil
}

// Unreserve reverts Reserve.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if source.GangOf(pod).IsZero() {
		p.assume(pod, false)
	}
}

// EventsToRegister implements fwk.EnqueueExtensions. It names few events, because the Manager itself reports when a waiting pod may be
// admitted.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel | fwk.UpdatePodScaleDown},
	}}, nil
}

// SignPod implements fwk.SignPlugin. With quotas no result is reused for the next identical pod, because each pod changes its quota.
func (p *Plugin) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if p.Active() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with quotas are scheduled one by one")
	}
	return nil, nil
}
