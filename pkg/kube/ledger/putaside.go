package ledger

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// Which of several equal volumes somebody has who is under way no object says, and VolumeBinding took them in no order. It knows
// itself: in its own books the volume is the claim's already, and it finds no other one for that.

// mostPutAside bounds how often it is asked for a page: each time it goes through all volumes of a class.
const mostPutAside = 32

// binderOf is how a profile's VolumeBinding finds volumes; nil if the profile has none.
func binderOf(profile framework.Framework) volumebinding.SchedulerVolumeBinder {
	for _, e := range profile.EnqueueExtensions() {
		if pl, ok := e.(*volumebinding.VolumeBinding); ok {
			return pl.Binder
		}
	}
	return nil
}

// putAside is the volume that VolumeBinding has put aside for a claim of somebody who is under way to a node; nil if it is not
// known.
func (p *volumePage) putAside(pod *v1.Pod, pvc *v1.PersistentVolumeClaim, node *v1.Node) *v1.PersistentVolume {
	binder := binderOf(p.profile)
	if binder == nil || p.asked >= mostPutAside {
		return nil
	}
	p.asked++
	alone := *pod // with that claim: what is found does not say for which it is
	alone.Spec.Volumes = nil
	for _, v := range pod.Spec.Volumes {
		if claimName(pod, &v) == pvc.Name {
			alone.Spec.Volumes = append(alone.Spec.Volumes, v)
			break
		}
	}
	claims, err := binder.GetPodVolumeClaims(klog.Background(), &alone)
	if err != nil {
		return nil
	}
	found, _, err := binder.FindPodVolumes(klog.Background(), &alone, claims, node)
	if err != nil || len(found.StaticBindings) != 1 {
		return nil
	}
	return p.kept(found.StaticBindings[0], pvc)
}

// kept is the volume of a binding if that is kept for the claim: else it is no more than what another claim might get. A binding
// shows nobody what it is of.
func (p *volumePage) kept(b *volumebinding.BindingInfo, pvc *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	is := reflect.ValueOf(b).Elem().FieldByName("pv")
	if !is.IsValid() || is.Type() != reflect.TypeFor[*v1.PersistentVolume]() || is.IsNil() {
		return nil
	}
	ref := is.Elem().FieldByName("Spec").FieldByName("ClaimRef")
	if ref.IsNil() || ref.Elem().FieldByName("Namespace").String() != pvc.Namespace || ref.Elem().FieldByName("Name").String() != pvc.Name {
		return nil
	}
	pv, err := p.pvs.Get(is.Elem().FieldByName("ObjectMeta").FieldByName("Name").String())
	if err != nil {
		return nil
	}
	return pv
}
