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

// bindVolumes does what volume controllers do when the scheduler has chosen a volume
// for a claim, or a node on which the claim's volume is to be made. The scheduler binds
// no pod before that is done.
func (a *api) bindVolumes(updated runtime.Object) error {
	switch o := updated.(type) {
	case *v1.PersistentVolume:
		if ref := o.Spec.ClaimRef; ref != nil && ref.UID != "" {
			return a.fulfil(key{ref.Namespace, ref.Name}, o.Name)
		}
	case *v1.PersistentVolumeClaim:
		if o.Spec.VolumeName == "" && o.Annotations[volume.AnnSelectedNode] != "" {
			if err := a.provision(o); err != nil {
				return err
			}
			return a.fulfil(key{o.Namespace, o.Name}, madeFor(o))
		}
	}
	return nil
}

// fulfil binds a claim to a volume.
func (a *api) fulfil(claim key, name string) error {
	_, err := a.change(claims, claim, existing(claims, claim.name, func(old runtime.Object) (runtime.Object, error) {
		out := old.DeepCopyObject().(*v1.PersistentVolumeClaim)
		bindClaim(out, name)
		return out, nil
	}))
	return err
}

func bindClaim(claim *v1.PersistentVolumeClaim, name string) {
	claim.Spec.VolumeName = name
	claim.Status.Phase = v1.ClaimBound
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
}

// pairs are claims and volumes of which one names the other, as users, restores and operators write them.
type pairs struct {
	kept  map[key][]string // volumes by the claim that they name
	named map[string]key   // claims by the volume that they name
}

// pair does what the controller of volumes does before anybody asks: a volume and a claim of which one names the other are bound as soon as both are
// there, also if the claim waits for a pod.
func (c *cluster) pair(is runtime.Object) error {
	switch o := is.(type) {
	case *v1.PersistentVolume:
		claim, named := c.pairs.named[o.Name]
		if ref := o.Spec.ClaimRef; ref != nil {
			claim, named = key{ref.Namespace, ref.Name}, true
			if !slices.Contains(c.pairs.kept[claim], o.Name) {
				c.pairs.kept[claim] = append(c.pairs.kept[claim], o.Name)
			}
		}
		if named {
			return c.bind(claim, o.Name)
		}
	case *v1.PersistentVolumeClaim:
		claim, names := key{o.Namespace, o.Name}, c.pairs.kept[key{o.Namespace, o.Name}]
		if o.Spec.VolumeName != "" {
			c.pairs.named[o.Spec.VolumeName], names = claim, []string{o.Spec.VolumeName}
		}
		for _, name := range names { // the first one that will do
			if err := c.bind(claim, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// bind binds a claim and a volume of which one names the other, if both are there, and the volume is nobody else's and will do.
func (c *cluster) bind(claim key, name string) error {
	o, err := c.get(claims, claim)
	if err != nil {
		return nil //nolint:nilerr // it may come
	}
	is, err := c.get(volumes, key{name: name})
	if err != nil {
		return nil //nolint:nilerr // it may come
	}
	pvc, pv := o.(*v1.PersistentVolumeClaim), is.(*v1.PersistentVolume)
	kept := volume.IsVolumeBoundToClaim(pv, pvc)
	switch {
	case pvc.Spec.VolumeName == name && kept:
	case pvc.Spec.VolumeName == name && pv.Spec.ClaimRef == nil && suffices(pv, pvc):
	case pvc.Spec.VolumeName == "" && kept && volume.CheckAccessModes(pvc, pv):
		classes := utilfeature.DefaultFeatureGate.Enabled(features.VolumeAttributesClass)
		if found, err := volume.FindMatchingVolume(pvc, []*v1.PersistentVolume{pv}, nil, nil, true, classes); found == nil || err != nil {
			return nil //nolint:nilerr // a claim that asks for what there is not stays as it is
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
	return c.fulfil(claim, name)
}

// suffices says whether a volume that a claim names is what the claim asks for: else the controller leaves them as they are, and says so.
func suffices(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	has, asks := pv.Spec.Capacity[v1.ResourceStorage], claim.Spec.Resources.Requests[v1.ResourceStorage]
	return has.Cmp(asks) >= 0 && volume.GetPersistentVolumeClass(pv) == volume.GetPersistentVolumeClaimClass(claim) &&
		!volume.CheckVolumeModeMismatches(&claim.Spec, &pv.Spec) && volume.CheckAccessModes(claim, pv)
}

// offer says whether a volume is to be had, if nobody has said so.
func offer(pv *v1.PersistentVolume) {
	switch {
	case pv.Status.Phase != "" && pv.Status.Phase != v1.VolumePending:
	case pv.Spec.ClaimRef != nil:
		pv.Status.Phase = v1.VolumeBound
	default:
		pv.Status.Phase = v1.VolumeAvailable
	}
}

// provision makes a claim's volume.
func (a *api) provision(claim *v1.PersistentVolumeClaim) error {
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: madeFor(claim), UID: types.UID("pv-" + string(claim.UID))},
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

// claimVolumes does what the controller of ephemeral volumes does for a new pod: it makes a claim for each of them. Of a pod that runs
// the claims are there, or nobody knows where their volumes are.
func (c *cluster) claimVolumes(pod *v1.Pod) error {
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
		if err := c.pair(claim); err != nil {
			return err
		}
	}
	return nil
}

// unclaimVolumes does what is done when a pod has gone: claims that were made for it go, too, and volumes that were made for these.
func (a *api) unclaimVolumes(pod *v1.Pod) error {
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
		gone := func(runtime.Object) (runtime.Object, error) { return nil, nil }
		if _, err := a.change(claims, k, gone); err != nil {
			return err
		}
		made := key{name: madeFor(o.(*v1.PersistentVolumeClaim))}
		if _, err := a.get(volumes, made); err == nil {
			if _, err := a.change(volumes, made, gone); err != nil {
				return err
			}
		}
	}
	return nil
}

// madeFor is the name of a volume that is made for a claim.
func madeFor(claim *v1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }
