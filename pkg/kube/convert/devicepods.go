package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/device"
)

// OtherDevices says whether the labels that affect a node's devices differ between oldLabels and labels.
func OtherDevices(oldLabels, labels map[string]string) bool {
	return slices.ContainsFunc([]string{gpuPartitionPolicy, gpuVendor, gpuModel, gpuIsolation},
		func(key string) bool { return oldLabels[key] != labels[key] })
}

// deviceResources are the resources that WantsDevices checks.
var deviceResources = map[v1.ResourceName]bool{
	device.NvidiaGPU: true, device.AMDGPU: true, device.HygonDCU: true, device.WholeGPU: true, device.SharedGPU: true,
	device.GPUCore: true, device.GPUMemory: true, device.GPURatio: true, device.RDMAUnits: true, device.FPGAUnits: true,
}

// WantsDevices says whether a pod may request devices. It is fast, since most pods request none.
func WantsDevices(pod *v1.Pod) bool {
	return hasRequest(pod, func(name v1.ResourceName) bool {
		return deviceResources[name] || strings.HasPrefix(string(name), npuPrefix)
	})
}

// NamesKoordinator says whether a pod requests Koordinator's own device resources, and so needs DeviceShare.
func NamesKoordinator(pod *v1.Pod) bool {
	return hasRequest(pod, func(name v1.ResourceName) bool {
		return deviceResources[name] && strings.HasPrefix(string(name), "koordinator.sh/")
	})
}

// DeviceNames returns the device resources that a pod requests, sorted.
func DeviceNames(pod *v1.Pod) (names []v1.ResourceName) {
	hasRequest(pod, func(name v1.ResourceName) bool {
		if deviceResources[name] {
			names = append(names, name)
		}
		return false
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// hasRequest says whether match returns true for a resource that a container requests.
func hasRequest(pod *v1.Pod, match func(v1.ResourceName) bool) bool {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if match(name) {
					return true
				}
			}
		}
	}
	return false
}

// npuPrefix is the prefix of unsupported resources, which are rejected by name.
const npuPrefix = "huawei.com/npu-"

// deviceWords returns a pod's annotations about devices as one text, without parsing them (Template compares pods by it, and must be fast).
// It returns "" if the pod requests no devices, or has none of these annotations.
func deviceWords(pod *v1.Pod) string {
	if len(pod.Annotations) == 0 || !WantsDevices(pod) {
		return ""
	}
	var words strings.Builder
	for _, key := range []string{device.HintField, device.JointField, device.PartitionField} {
		if text, found := pod.Annotations[key]; found {
			fmt.Fprintf(&words, "%s=%q ", key, text)
		}
	}
	return words.String()
}

// OtherDeviceWords says whether the annotations or the label about devices differ between two versions of a pod.
func OtherDeviceWords(oldPod, pod *v1.Pod) bool {
	return oldPod.Labels[gpuIsolation] != pod.Labels[gpuIsolation] && WantsDevices(pod) ||
		!maps.Equal(oldPod.Annotations, pod.Annotations) && deviceWords(oldPod) != deviceWords(pod)
}

// DevicesHeld returns a text that is equal for pods of a node which use the same devices; "" for none.
func DevicesHeld(pod *v1.Pod) string {
	a, err := DeviceAllocation(pod)
	switch {
	case err != nil:
		return pod.Annotations[DeviceAllocated]
	case a == nil:
		return ""
	}
	for i := range a {
		a[i].ID = "" // minors identify the devices more briefly
	}
	return DeviceAnnotation(a)
}

// DevicesText returns the devices that a pod uses, for users, such as "gpu 0,1 rdma 0:1%"; "" for none.
func DevicesText(pod *v1.Pod) string {
	a, err := DeviceAllocation(pod)
	if err != nil || pod.Spec.NodeName == "" {
		return ""
	}
	var out []string
	lastType := device.Type("")
	for _, s := range a {
		text := fmt.Sprint(s.Minor)
		part := s.Amount.Core
		if s.Type == device.GPU {
			part = s.Amount.Ratio
		}
		if part < 100 {
			text += fmt.Sprintf(":%d%%", part)
		}
		for _, vf := range s.VFs {
			text += "@" + vf.BusID
		}
		if s.Type == lastType {
			out[len(out)-1] += "," + text
			continue
		}
		lastType = s.Type
		out = append(out, string(s.Type)+" "+text)
	}
	return strings.Join(out, " ")
}
