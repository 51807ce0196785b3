package ledger

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// For a pod that is being bound, VolumeBinding chooses one of several equal volumes at random, and no object shows which. But its own cache
// has it: for the pod's claim, VolumeBinding then finds only this volume.

// maxBinderCalls bounds the calls of VolumeBinding for one page: each call reads all volumes of a class.
const maxBinderCalls = 32

// binderOf returns the volume binder of a profile; nil if the profile has no VolumeBinding.
func binderOf(profile framework.Framework) volumebinding.SchedulerVolumeBinder {
	for _, e := range profile.EnqueueExtensions() {
		if pl, ok := e.(*volumebinding.VolumeBinding); ok {
			return pl.Binder
		}
	}
	return nil
}

// assumedVolume returns the volume that VolumeBinding has assumed for a claim of a pod that is being bound to a node; nil if that is
// unknown.
func (p *volumePage) assumedVolume(pod *v1.Pod, pvc *v1.PersistentVolumeClaim, node *v1.Node) *v1.PersistentVolume {
	binder := binderOf(p.profile)
	if binder == nil || p.binderCalls >= maxBinderCalls {
		return nil
	}
	p.binderCalls++
	single := *pod // with that claim only: the binding does not name its claim
	single.Spec.Volumes = nil
	for _, v := range pod.Spec.Volumes {
		if claimName(pod, &v) == pvc.Name {
			single.Spec.Volumes = append(single.Spec.Volumes, v)
			break
		}
	}
	claims, err := binder.GetPodVolumeClaims(klog.Background(), &single)
	if err != nil {
		return nil
	}
	found, _, err := binder.FindPodVolumes(klog.Background(), &single, claims, node)
	if err != nil || len(found.StaticBindings) != 1 {
		return nil
	}
	return p.volumeOf(found.StaticBindings[0], pvc)
}

// volumeOf returns the volume of a binding if it is assumed for the claim pvc, else nil. It uses reflection, because the fields of a
// binding are private.
func (p *volumePage) volumeOf(b *volumebinding.BindingInfo, pvc *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	field := reflect.ValueOf(b).Elem().FieldByName("pv")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*v1.PersistentVolume]() || field.IsNil() {
		return nil
	}
	ref := field.Elem().FieldByName("Spec").FieldByName("ClaimRef")
	if ref.IsNil() || ref.Elem().FieldByName("Namespace").String() != pvc.Namespace || ref.Elem().FieldByName("Name").String() != pvc.Name {
		return nil
	}
	pv, err := p.pvs.Get(field.Elem().FieldByName("ObjectMeta").FieldByName("Name").String())
	if err != nil {
		return nil
	}
	return pv
}
