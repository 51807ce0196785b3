// Package workload expands a workload (a Job, a Deployment, a LeaderWorkerSet, …) to the pods that its controller would create.
// It sets their names, labels, indices, owners and claims. Each kind has one file.
//
// The expansion is pure: no API server, no clock, no randomness. Five random letters of a controller become a fixed hash.
// It omits fields that schedulers do not read: environment variables and finalizers.
//
// The package does not depend on the scheduler or on gangs.
package workload

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"

	// The API server's own defaults.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
)

// API is what an expansion reads from an API server.
type API struct {
	// UID returns the UID of an object in the workload's namespace: the existing or the future one.
	UID func(kind, name string) types.UID
	// Priority returns the value of a PriorityClass; "" is the default.
	Priority func(class string) int32
}

// EmptyAPI is an API without objects, to check whether a workload can be expanded.
var EmptyAPI = API{
	UID:      func(string, string) types.UID { return "" },
	Priority: func(string) int32 { return 0 },
}

// Expansion is the objects that the controllers of a workload create. Objects that other objects refer to come first.
type Expansion struct {
	Objects []Object
	// Notes say why there are fewer pods than expected.
	Notes []string
}

// Object is an object that is created at once, or when other pods run (After).
type Object struct {
	runtime.Object
	// After are the pods, of the same namespace, that must run before the object is created.
	After []string
	// Near is the node label that must have the same value as on the node of the first of these pods.
	Near string
}

// MaxPods is the maximal number of pods of one object.
const MaxPods = 100_000

// Expand returns the objects that the controller of workload o would create in an empty cluster. o has a namespace, a UID and the API
// server's defaults. It is a Job, Deployment, ReplicaSet or StatefulSet in its type, or an unstructured JobSet or LeaderWorkerSet. For
// an invalid workload, the error is that of an API server.
func Expand(o runtime.Object, api API) (Expansion, error) {
	m := maker{api: api}
	var errs field.ErrorList
	spec := field.NewPath("spec")
	switch o := o.(type) {
	case *batchv1.Job:
		errs = m.userJob(o)
	case *appsv1.Deployment:
		errs = m.deployment(o)
	case *appsv1.ReplicaSet:
		errs = m.replicaSet(o, spec)
	case *appsv1.StatefulSet:
		errs = m.userStatefulSet(o)
	case *unstructured.Unstructured:
		switch o.GroupVersionKind() {
		case workloads.JobSetKind:
			errs = m.jobSet(o)
		case workloads.LeaderWorkerSetKind:
			errs = m.leaderWorkerSet(o)
		default:
			return Expansion{}, fmt.Errorf("%s: no controller is known here", o.GroupVersionKind())
		}
	default:
		return Expansion{}, fmt.Errorf("%T: no controller is known here", o)
	}
	if len(errs) > 0 {
		accessor, err := meta.Accessor(o)
		if err != nil {
			return Expansion{}, err
		}
		return Expansion{}, apierrors.NewInvalid(kindOf(o).GroupKind(), accessor.GetName(), errs)
	}
	for _, object := range m.out.Objects {
		legacyscheme.Scheme.Default(object.Object)
	}
	return m.out, nil
}

// kindOf returns the kind of an object: its own field, else that of its Go type.
func kindOf(o runtime.Object) schema.GroupVersionKind {
	if kind := o.GetObjectKind().GroupVersionKind(); !kind.Empty() {
		return kind
	}
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(o)
	if err != nil || len(kinds) == 0 {
		return schema.GroupVersionKind{}
	}
	return kinds[0]
}

// maker expands one workload into out.
type maker struct {
	api API
	out Expansion
}

// add appends objects to create at once.
func (m *maker) add(objects ...runtime.Object) {
	for _, o := range objects {
		m.out.Objects = append(m.out.Objects, Object{Object: o})
	}
}

// note adds a note on why a workload has fewer pods than expected.
func (m *maker) note(kind, namespace, name, reason string) {
	m.out.Notes = append(m.out.Notes, fmt.Sprintf("%s %s/%s: %s", kind, namespace, name, reason))
}

// Above returns the workload, "Kind namespace/name", that created the pod's controller, such as a Deployment; "" for none.
func Above(pod *v1.Pod) string {
	kind, name := "", ""
	if name = pod.Labels[lwsv1.SetNameLabelKey]; name != "" {
		kind = workloads.LeaderWorkerSetKind.Kind
	} else if name = pod.Labels[workloads.JobSetName]; name != "" {
		kind = workloads.JobSetKind.Kind
	} else if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == replicaSetKind.Kind {
		var ok bool
		if name, ok = strings.CutSuffix(owner.Name, "-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]); ok {
			kind = deploymentKind.Kind
		}
	}
	if kind == "" {
		return ""
	}
	return kind + " " + pod.Namespace + "/" + name
}

// podOf returns a pod of a template, with its owner. The caller must set its name.
func podOf(template *v1.PodTemplateSpec, owner metav1.Object, kind schema.GroupVersionKind) *v1.Pod {
	t := template.DeepCopy()
	return &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Labels: t.Labels, Annotations: t.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Spec: t.Spec,
	}
}

// headlessService returns the Service under which pods have DNS names, also before they are ready.
func headlessService(name string, owner metav1.Object, kind schema.GroupVersionKind, selector map[string]string) *v1.Service {
	return &v1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Spec: v1.ServiceSpec{ClusterIP: v1.ClusterIPNone, Selector: selector, PublishNotReadyAddresses: true},
	}
}
