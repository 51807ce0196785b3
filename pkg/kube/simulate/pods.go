package simulate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/kube/memo"
	v1 "k8s.io/api/core/v1"
)

var podKind = v1.SchemeGroupVersion.WithKind("Pod")

// trimPod removes from a pod the fields that a dump omits, and the volume with the service account token. A scheduler does not read these,
// and in a large cluster they take most of the memory.
func trimPod(pod *v1.Pod) {
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Projected != nil && isToken(v.Name) })
	for _, all := range []*[]v1.Container{&pod.Spec.InitContainers, &pod.Spec.Containers} {
		kept := make([]v1.Container, len(*all))
		for i, c := range *all {
			kept[i] = v1.Container{
				Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: c.Resources, ResizePolicy: c.ResizePolicy,
				RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules, VolumeDevices: c.VolumeDevices,
				VolumeMounts: slices.DeleteFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return isToken(m.Name) }),
			}
		}
		*all = kept
	}
	for _, all := range []*[]v1.ContainerStatus{&pod.Status.InitContainerStatuses, &pod.Status.ContainerStatuses} {
		kept := make([]v1.ContainerStatus, len(*all))
		for i, c := range *all {
			kept[i] = v1.ContainerStatus{
				Name: c.Name, Ready: c.Ready, Started: c.Started, RestartCount: c.RestartCount,
				Resources: c.Resources, AllocatedResources: c.AllocatedResources, AllocatedResourcesStatus: c.AllocatedResourcesStatus,
			}
		}
		*all = kept
	}
}

// isToken says whether volume is the service account token, by its name's prefix; the name ends in random letters.
func isToken(volume string) bool { return strings.HasPrefix(volume, "kube-api-access") }

// mostSpecs bounds the kept specs: if all pods differ, shared specs save nothing.
const mostSpecs = 1024

// specs maps serialized pod specs to specs, so that equal specs are in memory once. Pods of one controller differ in little but
// node and hostname. Its methods may be called concurrently.
//
// Invariant: values behind pointers, slices and maps of a shared spec do not change.
type specs struct{ all memo.Map[string, *v1.PodSpec] }

// share replaces the spec of a pod by an equal earlier spec, if there is one. It ignores and keeps the pod's node and hostname.
func (s *specs) share(pod *v1.Pod) {
	node, hostname := pod.Spec.NodeName, pod.Spec.Hostname
	pod.Spec.NodeName, pod.Spec.Hostname = "", ""
	if text, err := pod.Spec.Marshal(); err == nil {
		spec := pod.Spec
		pod.Spec = *s.all.Share(string(text), &spec, mostSpecs)
	}
	pod.Spec.NodeName, pod.Spec.Hostname = cmp.Or(node, pod.Spec.NodeName), cmp.Or(hostname, pod.Spec.Hostname)
}
