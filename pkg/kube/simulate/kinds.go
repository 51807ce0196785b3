package simulate

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	// The API server's own defaults and conversions.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	x "github.com/muster-scheduler/muster/pkg/apis/scheduling/x/v1alpha1"
)

// kind is a kind of object that a scheduler reads.
type kind struct {
	resource   schema.GroupVersionResource
	namespaced bool
	// custom makes the Go type of a custom resource, which the server holds
	// unstructured; nil for those of Kubernetes.
	custom func() runtime.Object
	// crd refuses what an API server would refuse. With lax only what cannot be read is
	// refused: a cluster may have an older CRD, and what the scheduler makes of a bad
	// ClusterNetworkTopology can be seen.
	crd func() (*crd, error)
	lax bool
}

// kinds by group and kind; any version that Kubernetes can convert is read. They are
// listed in the order in which a cluster would have them: what others name comes first.
var kinds, kindOrder = kindTable([]namedKind{
	{"Namespace", kind{resource: corev1.SchemeGroupVersion.WithResource("namespaces")}},
	{"PriorityClass", kind{resource: schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")}},
	{"StorageClass", kind{resource: storagev1.SchemeGroupVersion.WithResource("storageclasses")}},
	{"CSIDriver", kind{resource: storagev1.SchemeGroupVersion.WithResource("csidrivers")}},
	{"DeviceClass", kind{resource: resourcev1.SchemeGroupVersion.WithResource("deviceclasses")}},
	{"ClusterNetworkTopology", kind{
		resource: koordinator.ClusterNetworkTopologies,
		custom:   func() runtime.Object { return &koordinator.ClusterNetworkTopology{} },
		crd:      readCRD("scheduling.koordinator.sh_clusternetworktopologies.yaml"), lax: true,
	}},
	{"Node", kind{resource: corev1.SchemeGroupVersion.WithResource("nodes")}},
	{"CSINode", kind{resource: storagev1.SchemeGroupVersion.WithResource("csinodes")}},
	{"CSIStorageCapacity", kind{resource: storagev1.SchemeGroupVersion.WithResource("csistoragecapacities"), namespaced: true}},
	{"VolumeAttachment", kind{resource: storagev1.SchemeGroupVersion.WithResource("volumeattachments")}},
	{"ResourceSlice", kind{resource: resourcev1.SchemeGroupVersion.WithResource("resourceslices")}},
	{"DeviceTaintRule", kind{resource: resourcev1.SchemeGroupVersion.WithResource("devicetaintrules")}},
	{"PersistentVolume", kind{resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes")}},
	{"PersistentVolumeClaim", kind{resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), namespaced: true}},
	{"ResourceClaim", kind{resource: resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), namespaced: true}},
	{"Service", kind{resource: corev1.SchemeGroupVersion.WithResource("services"), namespaced: true}},
	{"ReplicationController", kind{resource: corev1.SchemeGroupVersion.WithResource("replicationcontrollers"), namespaced: true}},
	{"ReplicaSet", kind{resource: appsv1.SchemeGroupVersion.WithResource("replicasets"), namespaced: true}},
	{"StatefulSet", kind{resource: appsv1.SchemeGroupVersion.WithResource("statefulsets"), namespaced: true}},
	{"PodDisruptionBudget", kind{resource: policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), namespaced: true}},
	{"PodGroup", kind{
		resource: sigs.PodGroups, namespaced: true, custom: func() runtime.Object { return &sigs.PodGroup{} },
		crd: readCRD("scheduling.sigs.k8s.io_podgroups.yaml"),
	}},
	{"PodGroup", kind{
		resource: x.PodGroups, namespaced: true, custom: func() runtime.Object { return &x.PodGroup{} },
		crd: readCRD("scheduling.x-k8s.io_podgroups.yaml"),
	}},
	{"Pod", kind{resource: pods, namespaced: true}},
})

var (
	pods            = corev1.SchemeGroupVersion.WithResource("pods")
	namespaces      = corev1.SchemeGroupVersion.WithResource("namespaces")
	priorityClasses = schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")
)

type namedKind struct {
	name string
	kind kind
}

func kindTable(all []namedKind) (table map[schema.GroupKind]*kind, order map[*kind]int) {
	table, order = map[schema.GroupKind]*kind{}, map[*kind]int{}
	for i := range all {
		k := &all[i].kind
		table[schema.GroupKind{Group: k.resource.Group, Kind: all[i].name}] = k
		order[k] = i
	}
	return table, order
}

// What an API server would be sent is read with defaults set, and with errors that name
// fields which do not exist. Versions that the scheduler does not read are converted by
// way of the internal one.
var (
	strict   = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)
	present  = strict.UniversalDecoder(versions...)
	internal = strict.UniversalDecoder()
)

// versions are those that the scheduler reads.
var versions = []schema.GroupVersion{
	corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, policyv1.SchemeGroupVersion,
	schedulingv1.SchemeGroupVersion, storagev1.SchemeGroupVersion, resourcev1.SchemeGroupVersion,
}
