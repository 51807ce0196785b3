package simulate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/kube/memo"
	v1 "k8s.io/api/core/v1"
)

var podKind = v1.SchemeGroupVersion.WithKind("Pod")

// lean drops from a pod what a dump leaves out and the volume with the token of its service account: no scheduler reads them, and in a large
// cluster they are most of what is in memory.
func lean(pod *v1.Pod) {
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

// isToken says whether a volume is one that admission adds to every pod. The name ends in random letters.
func isToken(volume string) bool { return strings.HasPrefix(volume, "kube-api-access") }

// mostSpecs bounds how many specs are kept: where each pod is like no other, they help nothing.
const mostSpecs = 1024

// specs are specs of pods by their serialized text, so that equal ones are in memory once. The members of a gang, and all pods of a controller,
// differ in little but their node and hostname. Several goroutines may ask at a time.
//
// Invariant: what is behind a pointer, in a slice or in a map of a shared spec does not change.
type specs struct{ all memo.Map[string, *v1.PodSpec] }

// share replaces the spec of a pod by an equal one that was given before, but for node and hostname.
func (s *specs) share(pod *v1.Pod) {
	node, hostname := pod.Spec.NodeName, pod.Spec.Hostname
	pod.Spec.NodeName, pod.Spec.Hostname = "", ""
	if text, err := pod.Spec.Marshal(); err == nil {
		spec := pod.Spec
		pod.Spec = *s.all.Share(string(text), &spec, mostSpecs)
	}
	pod.Spec.NodeName, pod.Spec.Hostname = cmp.Or(node, pod.Spec.NodeName), cmp.Or(hostname, pod.Spec.Hostname)
}
