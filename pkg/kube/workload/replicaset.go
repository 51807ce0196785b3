package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

var replicaSetKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// replicaSet adds the pods of a ReplicaSet: <set>-<letters>. path is its spec, for errors.
func (m *maker) replicaSet(r *appsv1.ReplicaSet, path *field.Path) (errs field.ErrorList) {
	replicas := ptr.Deref(r.Spec.Replicas, 1)
	errs = append(errs, checkCount(int64(replicas), path.Child("replicas"))...)
	errs = append(errs, checkSelector(r.Spec.Selector, &r.Spec.Template, path)...)
	errs = append(errs, checkTemplate(&r.Spec.Template, path.Child("template"), v1.RestartPolicyAlways)...)
	if len(errs) > 0 {
		return errs
	}
	names := namer{}
	for range int(replicas) {
		pod := podOf(&r.Spec.Template, r, replicaSetKind)
		pod.Name = names.complete(r.Name + "-")
		m.add(pod)
	}
	return nil
}
