package simulate

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kubernetes/pkg/features"
)

var (
	volumes        = v1.SchemeGroupVersion.WithResource("persistentvolumes")
	claims         = v1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	storageClasses = storagev1.SchemeGroupVersion.WithResource("storageclasses")
)

// bindVolumes does what volume controllers do after the scheduler has updated a volume or a claim. If the scheduler chose a volume, it
// binds the claim to it. If the scheduler chose a node, it provisions a volume. The scheduler binds the pod only after that.
func (a *api) bindVolumes(updated runtime.Object) error {
	switch o := updated.(type) {
	case *v1.PersistentVolume:
		if ref := o.Spec.ClaimRef; ref != nil && ref.UID != "" {
			return a.completeBinding(key{ref.Namespace, ref.Name}, o.Name)
		}
	case *v1.PersistentVolumeClaim:
		if o.Spec.VolumeName == "" && o.Annotations[volume.AnnSelectedNode] != "" {
			if err := a.provision(o); err != nil {
				return err
			}
			return a.completeBinding(key{o.Namespace, o.Name}, provisionedName(o))
		}
	}
	return nil
}

// completeBinding stores claim as bound to the volume with this name.
func (a *api) completeBinding(claim key, name string) error {
	_, err := a.change(claims, claim, existing(claims, claim.name, func(old runtime.Object) (runtime.Object, error) {
		out := old.DeepCopyObject().(*v1.PersistentVolumeClaim)
		bindClaim(out, name)
		return out, nil
	}))
	return err
}

// bindClaim sets the fields of a claim that is bound to the volume with this name.
func bindClaim(claim *v1.PersistentVolumeClaim, name string) {
	claim.Spec.VolumeName = name
	claim.Status.Phase = v1.ClaimBound
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
}

// pairs are volumes and claims of which one names the other. Users, restores and operators write such objects.
type pairs struct {
	volumesByClaim map[key][]string // volumes by the claim that they name
	claimsByVolume map[string]key   // claims by the volume that they name
}

// bindPair binds obj, a volume or a claim, to its counterpart if one of them names the other and both exist. It ignores other objects.
// The volume controller does the same without a scheduler.
func (c *cluster) bindPair(obj runtime.Object) error {
	switch o := obj.(type) {
	case *v1.PersistentVolume:
		claim, named := c.pairs.claimsByVolume[o.Name]
		if ref := o.Spec.ClaimRef; ref != nil {
			claim, named = key{ref.Namespace, ref.Name}, true
			if !slices.Contains(c.pairs.volumesByClaim[claim], o.Name) {
				c.pairs.volumesByClaim[claim] = append(c.pairs.volumesByClaim[claim], o.Name)
			}
		}
		if named {
			return c.bindVolume(claim, o.Name)
		}
	case *v1.PersistentVolumeClaim:
		claim, names := key{o.Namespace, o.Name}, c.pairs.volumesByClaim[key{o.Namespace, o.Name}]
		if o.Spec.VolumeName != "" {
			c.pairs.claimsByVolume[o.Spec.VolumeName], names = claim, []string{o.Spec.VolumeName}
		}
		for _, name := range names { // the first volume that suffices
			if err := c.bindVolume(claim, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// bindVolume binds a claim to the volume with this name, one of which names the other. It does nothing unless both exist, the volume
// is free, and it suffices.
func (c *cluster) bindVolume(claim key, name string) error {
	o, err := c.get(claims, claim)
	if err != nil {
		return nil //nolint:nilerr // it may come
	}
	stored, err := c.get(volumes, key{name: name})
	if err != nil {
		return nil //nolint:nilerr // it may come
	}
	pvc, pv := o.(*v1.PersistentVolumeClaim), stored.(*v1.PersistentVolume)
	kept := volume.IsVolumeBoundToClaim(pv, pvc)
	switch {
	case pvc.Spec.VolumeName == name && kept:
	case pvc.Spec.VolumeName == name && pv.Spec.ClaimRef == nil && suffices(pv, pvc):
	case pvc.Spec.VolumeName == "" && kept && volume.CheckAccessModes(pvc, pv):
		classes := utilfeature.DefaultFeatureGate.Enabled(features.VolumeAttributesClass)
		if found, err := volume.FindMatchingVolume(pvc, []*v1.PersistentVolume{pv}, nil, nil, true, classes); found == nil || err != nil {
			return nil //nolint:nilerr // no volume matches the claim, so the claim is not bound
		}
	default:
		return nil
	}
	bound, _, err := volume.GetBindVolumeToClaim(pv, pvc)
	if err != nil {
		return err
	}
	bound.Status.Phase = v1.VolumeBound
	if _, err := c.change(volumes, key{name: name}, func(runtime.Object) (runtime.Object, error) { return bound, nil }); err != nil {
		return err
	}
	return c.completeBinding(claim, name)
}

// suffices says whether a volume that a claim names meets the claim. Otherwise the volume controller binds neither and reports it.
func suffices(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	capacity, requests := pv.Spec.Capacity[v1.ResourceStorage], claim.Spec.Resources.Requests[v1.ResourceStorage]
	return capacity.Cmp(requests) >= 0 && volume.GetPersistentVolumeClass(pv) == volume.GetPersistentVolumeClaimClass(claim) &&
		!volume.CheckVolumeModeMismatches(&claim.Spec, &pv.Spec) && volume.CheckAccessModes(claim, pv)
}

// setVolumePhase sets the phase of a volume that has none.
func setVolumePhase(pv *v1.PersistentVolume) {
	switch {
	case pv.Status.Phase != "" && pv.Status.Phase != v1.VolumePending:
	case pv.Spec.ClaimRef != nil:
		pv.Status.Phase = v1.VolumeBound
	default:
		pv.Status.Phase = v1.VolumeAvailable
	}
}

// provision creates a volume that is bound to claim, as its provisioner would.
func (a *api) provision(claim *v1.PersistentVolumeClaim) error {
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: provisionedName(claim), UID: types.UID("pv-" + string(claim.UID))},
		Spec: v1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			ClaimRef: &v1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
	}
	if class := claim.Spec.StorageClassName; class != nil {
		pv.Spec.StorageClassName = *class
		if o, err := a.get(storageClasses, key{name: *class}); err == nil {
			pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: o.(*storagev1.StorageClass).Provisioner, VolumeHandle: pv.Name}
		}
	}
	_, err := a.change(volumes, key{name: pv.Name}, func(runtime.Object) (runtime.Object, error) { return pv, nil })
	return err
}

// makeVolumeClaims does what the ephemeral volume controller does for a new pod: it creates a claim for each ephemeral volume. It
// creates none for a running pod: such a pod has its claims already, or their volumes are unknown.
func (c *cluster) makeVolumeClaims(pod *v1.Pod) error {
	if pod.Spec.NodeName != "" {
		return nil
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		k := key{pod.Namespace, ephemeral.VolumeClaimName(pod, v)}
		if _, err := c.get(claims, k); err == nil {
			continue
		}
		template := v.Ephemeral.VolumeClaimTemplate
		claim := &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: k.name, Namespace: k.namespace, UID: types.UID(string(pod.UID) + "-" + v.Name), CreationTimestamp: pod.CreationTimestamp,
				Labels: template.Labels, Annotations: maps.Clone(template.Annotations),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
			},
			Spec:   *template.Spec.DeepCopy(),
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
		}
		if _, err := c.change(claims, k, func(runtime.Object) (runtime.Object, error) { return claim, nil }); err != nil {
			return err
		}
		if err := c.bindPair(claim); err != nil {
			return err
		}
	}
	return nil
}

// deleteVolumeClaims deletes the claims that were made for a deleted pod, and the volumes that were made for these claims.
func (a *api) deleteVolumeClaims(pod *v1.Pod) error {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil {
			continue
		}
		k := key{pod.Namespace, ephemeral.VolumeClaimName(pod, v)}
		o, err := a.get(claims, k)
		if err != nil || !metav1.IsControlledBy(o.(*v1.PersistentVolumeClaim), pod) {
			continue
		}
		deleted := func(runtime.Object) (runtime.Object, error) { return nil, nil }
		if _, err := a.change(claims, k, deleted); err != nil {
			return err
		}
		made := key{name: provisionedName(o.(*v1.PersistentVolumeClaim))}
		if _, err := a.get(volumes, made); err == nil {
			if _, err := a.change(volumes, made, deleted); err != nil {
				return err
			}
		}
	}
	return nil
}

// provisionedName returns the name of the volume that is created for a claim.
func provisionedName(claim *v1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }
