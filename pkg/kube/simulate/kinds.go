package simulate

import (
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	// The API server's own defaults and conversions.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// kind is a kind of object that a scheduler reads, or from which a controller makes pods.
type kind struct {
	name       string
	resource   schema.GroupVersionResource
	versions   []string // other versions of a custom resource, which are converted to the first
	namespaced bool
	// custom returns a new Go value for a custom resource, which the server stores unstructured; nil for a kind of Kubernetes.
	custom func() any
	// spec returns an empty spec, in which the fields of an unstructured custom resource are looked up; nil if they are not known.
	spec func() any
	// crd returns the CRD that validates objects as an API server does; nil for an API of another project. With lax, an invalid object
	// that can be decoded is accepted: a cluster may have an older CRD, and the scheduler reports an invalid ClusterNetworkTopology.
	crd func() (*crd, error)
	lax bool
	// workload says that package workload makes pods of the kind.
	workload bool
	order    int // the position in which objects are created: referenced kinds come first
}

// kinds is the table by group and kind; any version that Kubernetes can convert is read. The first call fixes the table: until then
// integrations may be registered.
var kinds = sync.OnceValue(func() map[schema.GroupKind]*kind { return kindTable(allKinds()) })

// allKinds lists the kinds in their order.
func allKinds() []namedKind {
	return slices.Concat([]namedKind{
		{"PriorityClass", kind{resource: schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")}},
	}, gangOwners(), ownKinds, gangObjects(), []namedKind{
		{"Pod", kind{resource: pods, namespaced: true}},
	})
}

// ownKinds are the kinds that do not come from an integration.
var ownKinds = []namedKind{
	{"Namespace", kind{resource: corev1.SchemeGroupVersion.WithResource("namespaces")}},
	{"StorageClass", kind{resource: storagev1.SchemeGroupVersion.WithResource("storageclasses")}},
	{"CSIDriver", kind{resource: storagev1.SchemeGroupVersion.WithResource("csidrivers")}},
	{"DeviceClass", kind{resource: resourcev1.SchemeGroupVersion.WithResource("deviceclasses")}},
	{"ClusterNetworkTopology", kind{
		resource: koordinator.ClusterNetworkTopologies,
		custom:   func() any { return &koordinator.ClusterNetworkTopology{} },
		crd:      readCRD("scheduling.koordinator.sh_clusternetworktopologies.yaml"), lax: true,
	}},
	{"Node", kind{resource: corev1.SchemeGroupVersion.WithResource("nodes")}},
	{"CSINode", kind{resource: csiNodes}},
	{"CSIStorageCapacity", kind{resource: storagev1.SchemeGroupVersion.WithResource("csistoragecapacities"), namespaced: true}},
	{"VolumeAttachment", kind{resource: storagev1.SchemeGroupVersion.WithResource("volumeattachments")}},
	{"ResourceSlice", kind{resource: resourceSlices}},
	{"Device", kind{resource: convert.Devices, custom: newUnstructured}},
	{"ElasticQuota", kind{resource: convert.ElasticQuotas, namespaced: true, custom: newUnstructured, spec: newQuotaSpec}},
	{"ElasticQuota", kind{resource: convert.ElasticQuotasX, namespaced: true, custom: newUnstructured, spec: newQuotaSpec}},
	{"DeviceTaintRule", kind{resource: resourcev1.SchemeGroupVersion.WithResource("devicetaintrules")}},
	{"PersistentVolume", kind{resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes")}},
	{"PersistentVolumeClaim", kind{resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), namespaced: true}},
	{"ResourceClaimTemplate", kind{resource: claimTemplates, namespaced: true}},
	{"ResourceClaim", kind{resource: resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), namespaced: true}},
	{"Service", kind{resource: corev1.SchemeGroupVersion.WithResource("services"), namespaced: true}},
	{"ReplicationController", kind{resource: corev1.SchemeGroupVersion.WithResource("replicationcontrollers"), namespaced: true}},
	{"ReplicaSet", kind{resource: appsv1.SchemeGroupVersion.WithResource("replicasets"), namespaced: true, workload: true}},
	{"StatefulSet", kind{resource: appsv1.SchemeGroupVersion.WithResource("statefulsets"), namespaced: true, workload: true}},
	{"PodDisruptionBudget", kind{resource: policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), namespaced: true}},
	{"Deployment", kind{resource: appsv1.SchemeGroupVersion.WithResource("deployments"), namespaced: true, workload: true}},
	{"Job", kind{resource: batchv1.SchemeGroupVersion.WithResource("jobs"), namespaced: true, workload: true}},
	{"JobSet", kind{
		resource: workloads.JobSetKind.GroupVersion().WithResource("jobsets"), namespaced: true, workload: true,
		custom: func() any { return &workloads.JobSet{} },
	}},
	{"LeaderWorkerSet", kind{
		resource: workloads.LeaderWorkerSetKind.GroupVersion().WithResource("leaderworkersets"), namespaced: true, workload: true,
		custom: func() any { return &workloads.LeaderWorkerSet{} },
	}},
}

func newUnstructured() any { return &unstructured.Unstructured{} }

// newQuotaSpec returns an empty spec of an ElasticQuota.
func newQuotaSpec() any {
	return &struct {
		Min any `json:"min"`
		Max any `json:"max"`
	}{}
}

// gangOwners returns the kinds of owners that describe gangs. Workload kinds are listed again in ownKinds, and the later entry is used.
func gangOwners() (all []namedKind) {
	for _, o := range source.Owners {
		all = append(all, namedKind{o.Kind, kind{resource: o.Resource, namespaced: true, custom: newUnstructured, spec: o.Spec}})
	}
	return all
}

// gangObjects returns the kinds of objects that declare gangs.
func gangObjects() (all []namedKind) {
	for _, s := range source.All {
		o := s.Object
		if o == nil {
			continue
		}
		k := kind{resource: o.Resource, versions: o.OlderVersions, namespaced: true, custom: func() any { return o.New() }, spec: o.Spec}
		if !o.ReadOnly {
			k.crd = readCRD(o.Resource.Group + "_" + o.Resource.Resource + ".yaml")
		}
		all = append(all, namedKind{o.Kind, k})
	}
	return all
}

var (
	pods            = corev1.SchemeGroupVersion.WithResource("pods")
	nodes           = corev1.SchemeGroupVersion.WithResource("nodes")
	csiNodes        = storagev1.SchemeGroupVersion.WithResource("csinodes")
	resourceSlices  = resourcev1.SchemeGroupVersion.WithResource("resourceslices")
	namespaces      = corev1.SchemeGroupVersion.WithResource("namespaces")
	priorityClasses = schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")
)

type namedKind struct {
	name string
	kind kind
}

// kindTable returns the kinds by group and kind, with their names and orders set. The last entry of a kind counts.
func kindTable(all []namedKind) map[schema.GroupKind]*kind {
	table := map[schema.GroupKind]*kind{}
	for i := range all {
		k := &all[i].kind
		k.name, k.order = all[i].name, i
		table[schema.GroupKind{Group: k.resource.Group, Kind: all[i].name}] = k
	}
	return table
}

// Objects are decoded with defaults, and with errors that name unknown fields. Versions that the scheduler does not read are
// converted through the internal version.
var (
	strictCodecs      = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)
	strictDecoder     = strictCodecs.UniversalDecoder(versions...)
	convertingDecoder = strictCodecs.UniversalDecoder()
)

// versions are the versions that the scheduler reads.
var versions = []schema.GroupVersion{
	corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion, policyv1.SchemeGroupVersion,
	schedulingv1.SchemeGroupVersion, storagev1.SchemeGroupVersion, resourcev1.SchemeGroupVersion,
}
