package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// deployment adds a Deployment's ReplicaSet, <deployment>-<hash of the template>, and its pods to m.out.
func (m *maker) deployment(d *appsv1.Deployment) field.ErrorList {
	path := field.NewPath("spec")
	if errs := checkSelector(d.Spec.Selector, &d.Spec.Template, path); len(errs) > 0 {
		return errs
	}
	if d.Spec.Paused {
		m.note("Deployment", d.Namespace, d.Name, "no pods, since spec.paused is true")
		return nil
	}
	hash := templateHash(&d.Spec.Template)
	label := map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
	set := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name[:min(len(d.Name), validation.DNS1123SubdomainMaxLength-1-len(hash))] + "-" + hash,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentKind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(ptr.Deref(d.Spec.Replicas, 1)), MinReadySeconds: d.Spec.MinReadySeconds,
			Selector: d.Spec.Selector.DeepCopy(), Template: *d.Spec.Template.DeepCopy(),
		},
	}
	set.UID = m.api.UID("ReplicaSet", set.Name)
	set.Spec.Selector.MatchLabels = mergeMaps(label, set.Spec.Selector.MatchLabels)
	set.Spec.Template.Labels = mergeMaps(label, set.Spec.Template.Labels)
	set.Labels = set.Spec.Template.Labels
	m.add(set)
	return m.replicaSet(set, path)
}
