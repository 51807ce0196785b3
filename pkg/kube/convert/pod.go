// Package convert converts API objects to the values of Muster's core packages and back. Its functions are pure: no client, no cache,
// no lock. It decides nothing about gangs.
package convert

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Key returns the name of a namespaced object: namespace/name.
func Key(namespace, name string) string { return namespace + "/" + name }

// SplitKey is the inverse of Key.
func SplitKey(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}

// PodKey returns the key of a pod.
func PodKey(pod *v1.Pod) string { return Key(pod.Namespace, pod.Name) }

// Finished says whether a pod has finished or is terminating, so that it is no longer a member.
func Finished(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || hasEnded(pod)
}

// Terminating says whether a pod that has a node is being deleted, and has not ended.
func Terminating(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" && !hasEnded(pod)
}

func hasEnded(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// Ended returns when the last container of a finished pod terminated, in Unix seconds; 0 if unknown.
func Ended(pod *v1.Pod) (end int64) {
	if !hasEnded(pod) {
		return 0
	}
	for i := range pod.Status.ContainerStatuses {
		if t := pod.Status.ContainerStatuses[i].State.Terminated; t != nil && !t.FinishedAt.IsZero() {
			end = max(end, t.FinishedAt.Unix())
		}
	}
	return end
}

// Member returns a pod as a member of a gang. If the rank is invalid, it returns an error and the default rank.
func Member(pod *v1.Pod, ref gang.Ref) (gang.Member, error) {
	m := gang.Member{
		Gang: ref, Pod: PodKey(pod), UID: string(pod.UID),
		Node: pod.Spec.NodeName, Gate: Gate(pod), Priority: Priority(pod),
		Done: pod.Spec.NodeName != "" && hasEnded(pod), Succeeded: pod.Status.Phase == v1.PodSucceeded, Ended: Ended(pod),
	}
	if t := pod.CreationTimestamp; !t.IsZero() {
		m.Created = t.Unix()
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		m.Owner = string(owner.UID)
	}
	var err error
	m.Row, m.Rank, err = rank(pod)
	return m, err
}

// Gate returns why a pod may not be scheduled yet; "" if it may. The reason is a scheduling gate, or a ResourceClaim that is not yet
// created from its template.
func Gate(pod *v1.Pod) string {
	var gates []string
	for _, g := range pod.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	if len(gates) > 0 {
		return "spec.schedulingGates has " + strings.Join(gates, ", ")
	}
	for _, ref := range pod.Spec.ResourceClaims {
		if ClaimToCome(pod, ref) {
			return "the ResourceClaim for spec.resourceClaims " + ref.Name + " does not exist"
		}
	}
	return ""
}

// ClaimToCome says whether a claim of a pod has not been created from its template yet.
func ClaimToCome(pod *v1.Pod, ref v1.PodResourceClaim) bool {
	_, _, err := resourceclaim.Name(pod, &ref)
	return errors.Is(err, resourceclaim.ErrClaimNotFound)
}

// Priority returns a pod's priority, 0 if admission set none.
func Priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// Started returns when a pod was started, else created, in Unix nanoseconds.
func Started(pod *v1.Pod) int64 {
	if t := pod.Status.StartTime; t != nil {
		return t.UnixNano()
	}
	return pod.CreationTimestamp.UnixNano()
}

// NeverPreempts says whether a pod never preempts.
func NeverPreempts(pod *v1.Pod) bool {
	return pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever
}

// Protected says whether a label forbids evicting the pod.
func Protected(pod *v1.Pod) bool {
	return pod.Labels[scheduling.LabelDisablePreemptible] == "true" ||
		pod.Labels[scheduling.LabelQuotaPreemptible] == "false"
}

// Template returns a key that is equal for pods which Filters treat alike. It ignores the labels with the replica's index.
func Template(pod *v1.Pod) string {
	spec := &pod.Spec
	key := struct {
		Overhead    v1.ResourceList
		Selector    map[string]string
		Affinity    *v1.Affinity
		Tolerations []v1.Toleration
		Spread      []v1.TopologySpreadConstraint
		Ports       []v1.ContainerPort
		Volumes     []v1.Volume
		Claims      []v1.PodResourceClaim
		HostNetwork bool
		OS          *v1.PodOS
		Devices     string `json:",omitempty"`
	}{
		Overhead: spec.Overhead, Selector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations,
		Spread: spec.TopologySpreadConstraints, Ports: schedutil.GetHostPorts(pod), Volumes: boundVolumes(spec),
		Claims: spec.ResourceClaims, HostNetwork: spec.HostNetwork, OS: spec.OS,
		Devices: deviceWords(pod),
	}
	constraints, err := json.Marshal(key)
	if err != nil {
		return PodKey(pod) // a pod that cannot be marshalled equals no other
	}
	w := words(make([]byte, 0, 1024))
	w.addRequirements(pod, Requests(pod))
	w.add(spec.SchedulerName)
	w = strconv.AppendInt(w, int64(Priority(pod)), 10)
	return string(append(w, constraints...))
}

// Occupies returns a key that is equal for pods of one node which free the same capacity when they terminate.
func Occupies(pod *v1.Pod, requests quota.List) string {
	w := words(make([]byte, 0, 256))
	w.addRequirements(pod, requests)
	ports := schedutil.GetHostPorts(pod)
	volumes := boundVolumes(&pod.Spec)
	claims := pod.Spec.ResourceClaims
	antiAffinity := []v1.PodAffinityTerm(nil)
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		antiAffinity = a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if len(ports)+len(volumes)+len(claims)+len(antiAffinity) > 0 {
		constraints, err := json.Marshal([]any{ports, volumes, claims, antiAffinity})
		if err != nil {
			return PodKey(pod)
		}
		w = append(w, constraints...)
	}
	return string(w) + deviceWords(pod) + DevicesHeld(pod)
}

// addRequirements adds the namespace of a pod, its labels except the replica's own index, and its requests.
func (w *words) addRequirements(pod *v1.Pod, requests quota.List) {
	w.add(pod.Namespace)
	for _, k := range slices.Sorted(maps.Keys(pod.Labels)) {
		if !isReplicaIndex(k) {
			w.add(k)
			w.add(pod.Labels[k])
		}
	}
	*w = append(*w, '|')
	for _, k := range slices.Sorted(maps.Keys(requests)) {
		w.add(k)
		*w = strconv.AppendInt(*w, requests[k], 10)
	}
}

// words is a sequence of texts with unambiguous borders. JSON takes four times as long, and a cluster has 100,000 pods.
type words []byte

// add appends the length of text and text.
func (w *words) add(text string) {
	*w = append(append(strconv.AppendInt(append(*w, ' '), int64(len(text)), 10), ':'), text...)
}

// Shape is Template without the names of volume claims and resource claims, which differ between the members of a StatefulSet.
func Shape(pod *v1.Pod) string {
	out := *pod
	out.Spec.Volumes = slices.Clone(pod.Spec.Volumes)
	for i, v := range out.Spec.Volumes {
		if claim := v.PersistentVolumeClaim; claim != nil {
			out.Spec.Volumes[i].PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ReadOnly: claim.ReadOnly}
		}
	}
	out.Spec.ResourceClaims = slices.Clone(pod.Spec.ResourceClaims)
	for i := range out.Spec.ResourceClaims {
		out.Spec.ResourceClaims[i].ResourceClaimName = nil
	}
	return Template(&out)
}

// boundVolumes returns the volumes that not every node can provide. (Some of the other volumes have generated names.)
func boundVolumes(spec *v1.PodSpec) (volumes []v1.Volume) {
	for _, v := range spec.Volumes {
		s := v.VolumeSource
		if s.ConfigMap == nil && s.Secret == nil && s.Projected == nil && s.DownwardAPI == nil && s.EmptyDir == nil && s.HostPath == nil {
			volumes = append(volumes, v)
		}
	}
	return volumes
}

// WithoutClaims removes the claims for which drop is true from spec and its containers. It replaces slices, and changes no element.
func WithoutClaims(spec *v1.PodSpec, drop func(v1.PodResourceClaim) bool) {
	if !slices.ContainsFunc(spec.ResourceClaims, drop) {
		return
	}
	names := map[string]bool{}
	spec.ResourceClaims = slices.DeleteFunc(slices.Clone(spec.ResourceClaims), drop)
	for _, ref := range spec.ResourceClaims {
		names[ref.Name] = true
	}
	keepClaims := func(containers []v1.Container) []v1.Container {
		containers = slices.Clone(containers)
		for i := range containers {
			var claims []v1.ResourceClaim
			for _, c := range containers[i].Resources.Claims {
				if names[c.Name] {
					claims = append(claims, c)
				}
			}
			containers[i].Resources.Claims = claims
		}
		return containers
	}
	spec.InitContainers, spec.Containers = keepClaims(spec.InitContainers), keepClaims(spec.Containers)
}

// KeepsOffAfar says whether a pod has required anti-affinity with another topology key than the host name.
func KeepsOffAfar(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		func(t v1.PodAffinityTerm) bool { return t.TopologyKey != v1.LabelHostname })
}
