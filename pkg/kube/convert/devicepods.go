package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/device"
)

// OtherDevices says whether labels of a node say something else of its devices than others did.
func OtherDevices(was, is map[string]string) bool {
	return slices.ContainsFunc([]string{gpuPartitionPolicy, gpuVendor, gpuModel, gpuIsolation}, func(key string) bool { return was[key] != is[key] })
}

// deviceResources are the names of which WantsDevices looks for one.
var deviceResources = map[v1.ResourceName]bool{
	device.NvidiaGPU: true, device.AMDGPU: true, device.HygonDCU: true, device.WholeGPU: true, device.SharedGPU: true,
	device.GPUCore: true, device.GPUMemory: true, device.GPURatio: true, device.RDMAUnits: true, device.FPGAUnits: true,
}

// WantsDevices says whether a pod may want devices: a glance at what it requests, for the many that do not.
func WantsDevices(pod *v1.Pod) bool {
	return asksFor(pod, func(name v1.ResourceName) bool {
		return deviceResources[name] || strings.HasPrefix(string(name), npuPrefix)
	})
}

// NamesKoordinator says whether a pod asks for devices by Koordinator's own resources, and so for DeviceShare.
func NamesKoordinator(pod *v1.Pod) bool {
	return asksFor(pod, func(name v1.ResourceName) bool {
		return deviceResources[name] && strings.HasPrefix(string(name), "koordinator.sh/")
	})
}

// DeviceNames are the names of the resources by which a pod asks for devices, in order.
func DeviceNames(pod *v1.Pod) (names []v1.ResourceName) {
	asksFor(pod, func(name v1.ResourceName) bool {
		if deviceResources[name] {
			names = append(names, name)
		}
		return false
	})
	slices.Sort(names)
	return slices.Compact(names)
}

func asksFor(pod *v1.Pod, which func(v1.ResourceName) bool) bool {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if which(name) {
					return true
				}
			}
		}
	}
	return false
}

// npuPrefix is that of resources which are refused by name.
const npuPrefix = "huawei.com/npu-"

// deviceWords are what a pod says of the devices that it wants beside its requests and labels, "" if it wants none.
// They are not read, which takes longer than all else that tells pods apart.
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

// OtherDeviceWords says whether a pod asks for devices in other words than before.
func OtherDeviceWords(was, is *v1.Pod) bool {
	return !maps.Equal(was.Annotations, is.Annotations) && deviceWords(was) != deviceWords(is)
}

// DevicesHeld names which devices a pod holds of its node, so that pods of one Template with equal names leave the same
// room when they go; "" if nothing is written.
func DevicesHeld(pod *v1.Pod) string {
	a, err := DeviceAllocation(pod)
	switch {
	case err != nil:
		return pod.Annotations[DeviceAllocated]
	case a == nil:
		return ""
	}
	for i := range a {
		a[i].ID = "" // minors say it, in fewer words
	}
	return DeviceAnnotation(a)
}

// DevicesText says to people what a pod holds of its node, such as "gpu 0,1 rdma 0:1%"; "" if nothing is written.
func DevicesText(pod *v1.Pod) string {
	a, err := DeviceAllocation(pod)
	if err != nil || pod.Spec.NodeName == "" {
		return ""
	}
	var out []string
	last := device.Type("")
	for _, s := range a {
		one := fmt.Sprint(s.Minor)
		part := s.Amount.Core
		if s.Type == device.GPU {
			part = s.Amount.Ratio
		}
		if part < 100 {
			one += fmt.Sprintf(":%d%%", part)
		}
		for _, vf := range s.VFs {
			one += "@" + vf.BusID
		}
		if s.Type == last {
			out[len(out)-1] += "," + one
			continue
		}
		last = s.Type
		out = append(out, string(s.Type)+" "+one)
	}
	return strings.Join(out, " ")
}
