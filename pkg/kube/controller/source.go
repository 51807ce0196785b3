package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Source is a kind of object that declares gangs.
type Source struct {
	// Name is its value for --enable-source.
	Name string
	// Kind is the kind of its gangs.
	Kind podgang.Kind
	// Object is the kind of object.
	Object schema.GroupVersionKind
	// Build returns the gangs of one object. It reads further objects from the reader, which may be a cache.
	Build func(ctx context.Context, r client.Reader, object *unstructured.Unstructured) ([]*podgang.PodGangInfo, error)
	// Pods returns the name of the object that a pod belongs to, "" for none. It is nil if pods do not affect the gangs.
	Pods func(pod client.Object) string
	// Others are further kinds that are part of the object, and how they name it.
	Others []Other
	// Depends are kinds that all objects of the source depend on: a change reconciles all of them.
	Depends []schema.GroupVersionKind
	// BuildAlone builds the gangs from the object alone, for sources whose pods do not name their gang in labels; nil for others.
	BuildAlone func(object *unstructured.Unstructured) ([]*podgang.PodGangInfo, error)
	// ReadsPodSpecs says that pods are read with their spec, not only their metadata.
	ReadsPodSpecs bool
	// Amended says that Muster's manifests add a field to the kind's CRD.
	Amended bool
	// OwnsPods says that this controller may gate the pods: no other controller does.
	OwnsPods bool
}

// Other is a kind whose objects are parts of an object of the source. Only their metadata is read.
type Other struct {
	Object schema.GroupVersionKind
	Of     func(object client.Object) string // the name of the source's object; "" for none
}

// Sources are all sources that can be enabled.
var Sources = []Source{podGangs, podCliqueSets, leaderWorkerSets, volcanoPodGroups, jobSets}

// SourceNames returns the names of all sources, sorted.
func SourceNames() (names []string) {
	for i := range Sources {
		names = append(names, Sources[i].Name)
	}
	slices.Sort(names)
	return names
}

// SourcesOf returns the named sources, or an error for an unknown name.
func SourcesOf(names []string) (out []Source, err error) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		i := slices.IndexFunc(Sources, func(s Source) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no source %q; supported values: %s", name, strings.Join(SourceNames(), ", "))
		}
		out = append(out, Sources[i])
	}
	return out, nil
}

// podGangs are Grove's PodGangs, as its operator writes them.
var podGangs = Source{
	Name: "podgang", Kind: podgang.PodGang,
	Object: schema.GroupVersionKind{Group: "scheduler.grove.io", Version: "v1alpha1", Kind: "PodGang"},
	Build: func(_ context.Context, _ client.Reader, object *unstructured.Unstructured) ([]*podgang.PodGangInfo, error) {
		return single(podgang.FromPodGang(object))
	},
	Pods: func(pod client.Object) string { return pod.GetLabels()[workloads.LabelPodGang] },
}

// podCliqueSets are for clusters in which Grove writes no PodGangs for a scheduler.
var podCliqueSets = Source{
	Name: "podcliqueset", Kind: podgang.PodCliqueSet,
	Object: schema.GroupVersionKind{Group: "grove.io", Version: "v1alpha1", Kind: "PodCliqueSet"},
	Build: func(ctx context.Context, r client.Reader, object *unstructured.Unstructured) ([]*podgang.PodGangInfo, error) {
		domains, err := domains(ctx, r)
		if err != nil {
			return nil, err
		}
		pods, err := podsOf(ctx, r, object.GetNamespace(), client.MatchingLabels{labelPartOf: object.GetName()}, false)
		if err != nil {
			return nil, err
		}
		return podgang.FromPodCliqueSet(object, domains, pods)
	},
	Pods: func(pod client.Object) string {
		if pod.GetLabels()[workloads.LabelPodGang] == "" {
			return ""
		}
		return pod.GetLabels()[labelPartOf]
	},
	Depends: bindings,
}

const labelPartOf = "app.kubernetes.io/part-of"

var statefulSets = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}

// leaderWorkerSets make a gang of each group. The leaders' StatefulSet, of the same name, has the revision of groups without pods.
var leaderWorkerSets = Source{
	Name: "leaderworkerset", Kind: podgang.LeaderWorkerSet,
	Object: schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"},
	Build: func(ctx context.Context, r client.Reader, object *unstructured.Unstructured) ([]*podgang.PodGangInfo, error) {
		leaders := &metav1.PartialObjectMetadata{}
		leaders.SetGroupVersionKind(statefulSets)
		if err := r.Get(ctx, client.ObjectKeyFromObject(object), leaders); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		pods, err := podsOf(ctx, r, object.GetNamespace(), client.MatchingLabels{lws.SetNameLabelKey: object.GetName()}, false)
		if err != nil {
			return nil, err
		}
		return podgang.FromLeaderWorkerSet(object, leaders.GetLabels()[lws.RevisionKey], pods)
	},
	Pods: func(pod client.Object) string { return pod.GetLabels()[lws.SetNameLabelKey] },
	Others: []Other{{statefulSets, func(set client.Object) string {
		if set.GetLabels()[lws.SetNameLabelKey] != set.GetName() {
			return "" // the workers of one group
		}
		return set.GetName()
	}}},
	Amended: true, OwnsPods: true,
}

// volcanoGroup returns the Volcano PodGroup that a pod names; "" for none.
func volcanoGroup(pod client.Object) string {
	if key, ok, err := podgang.KeyOf(pod); err == nil && ok && key.Kind == podgang.VolcanoPodGroup {
		return key.Gang
	}
	return ""
}

// volcanoPodGroups are Volcano PodGroups for another scheduler than Volcano's. The pods name that scheduler, so a PodGroup
// without pods has no gang yet.
var volcanoPodGroups = Source{
	Name: "volcano", Kind: podgang.VolcanoPodGroup,
	Object:        schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"},
	Build:         buildVolcano,
	Pods:          volcanoGroup,
	ReadsPodSpecs: true,
}

// buildVolcano returns the gang of a Volcano PodGroup with its pods; none if it has no pods.
func buildVolcano(ctx context.Context, r client.Reader, object *unstructured.Unstructured) ([]*podgang.PodGangInfo, error) {
	var all corev1.PodList
	if err := r.List(ctx, &all, client.InNamespace(object.GetNamespace())); err != nil {
		return nil, err
	}
	var pods []metav1.Object
	schedulers := map[string]bool{}
	for i := range all.Items {
		if pod := &all.Items[i]; volcanoGroup(pod) == object.GetName() {
			pods = append(pods, pod)
			schedulers[pod.Spec.SchedulerName] = true
		}
	}
	switch len(schedulers) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, &podgang.Error{Reason: reasons.InvalidGang, Message: fmt.Sprintf("the pods have different schedulerNames: %s",
			strings.Join(slices.Sorted(maps.Keys(schedulers)), ", "))}
	}
	info, err := podgang.FromVolcanoPodGroup(object, pods)
	if err != nil {
		return nil, err
	}
	for name := range schedulers {
		info.SchedulerName = name
	}
	return []*podgang.PodGangInfo{info}, nil
}

// jobSets make one gang each, or several if some ReplicatedJobs start after other ones.
var jobSets = Source{
	Name: "jobset", Kind: podgang.JobSet,
	Object: schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"},
	Build: func(ctx context.Context, r client.Reader, object *unstructured.Unstructured) ([]*podgang.PodGangInfo, error) {
		pods, err := podsOf(ctx, r, object.GetNamespace(), client.MatchingLabels{workloads.JobSetName: object.GetName()}, false)
		if err != nil {
			return nil, err
		}
		return podgang.FromJobSet(object, pods)
	},
	Pods: func(pod client.Object) string { return pod.GetLabels()[workloads.JobSetName] },
	BuildAlone: func(object *unstructured.Unstructured) ([]*podgang.PodGangInfo, error) {
		return podgang.FromJobSet(object, nil)
	},
}

// single returns info in a list, or err.
func single(info *podgang.PodGangInfo, err error) ([]*podgang.PodGangInfo, error) {
	if err != nil {
		return nil, err
	}
	return []*podgang.PodGangInfo{info}, nil
}

// podsOf returns the pods of a namespace with these labels: only their metadata, for which one watch serves all, unless whole is true.
func podsOf(ctx context.Context, r client.Reader, namespace string, labels client.MatchingLabels, whole bool) ([]metav1.Object, error) {
	if whole {
		pods := &corev1.PodList{}
		err := r.List(ctx, pods, client.InNamespace(namespace), labels)
		return objectsOf(pods.Items), err
	}
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err := r.List(ctx, pods, client.InNamespace(namespace), labels)
	return objectsOf(pods.Items), err
}

// objectsOf returns pointers to the items as objects.
func objectsOf[T any, P interface {
	*T
	metav1.Object
}](items []T) []metav1.Object {
	out := make([]metav1.Object, len(items))
	for i := range items {
		out[i] = P(&items[i])
	}
	return out
}

// bindings are the kinds that map Grove's domains to label keys, newest first.
var bindings = []schema.GroupVersionKind{
	{Group: "grove.io", Version: "v1alpha1", Kind: "ClusterTopologyBinding"},
	{Group: "grove.io", Version: "v1alpha1", Kind: "ClusterTopology"},
}

// domains returns the label keys of Grove's domains, from the objects of bindings.
func domains(ctx context.Context, r client.Reader) (podgang.Domains, error) {
	var all []*unstructured.Unstructured
	for _, kind := range bindings {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := r.List(ctx, list); meta.IsNoMatchError(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return podgang.DomainsFrom(all)
}
