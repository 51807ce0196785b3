package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

const devicesPods = `
NAME                  READY   STATUS    RESTARTS   AGE   IP             NODE    NOMINATED NODE
gpu-training-pod-0    1/1     Running   0          5s    10.244.12.10   gpu-0   <none>
gpu-training-pod-1    1/1     Running   0          5s    10.244.12.11   gpu-0   <none>
gpu-training-pod-2    1/1     Running   0          5s    10.244.13.10   gpu-1   <none>
gpu-training-pod-3    1/1     Running   0          5s    10.244.13.11   gpu-1   <none>
`

// devicesWorld is a command whose output decodeDevices reads.
var devicesWorld = []string{"get", "nodes,devices,pods", "-o", "json"}

// example3 returns the steps of an example with pods on GPUs and NICs of one switch.
func example3(c *localcluster.Cluster) []step {
	file := func(name string) string { return example("devices/" + name) }
	return []step{
		title("Example 3: GPUs with the NICs of their switches"),
		addGPUNodes(c),
		say("What they have Koordinator's agent would write into Device objects; here a file does:"),
		runHidden("apply", "-f", file("crd.yaml")),
		runHidden("wait", "crd/devices.scheduling.koordinator.sh", "--for=condition=Established", "--timeout=60s"),
		runShown("apply", "-f", file("devices.yaml")),
		say("A gang of 4 pods comes, with 2 GPUs each and the NIC of the switch that both are on:"),
		runShown("apply", "-f", file("gang.yaml")),
		runChecked(rows("all 4 run, two on each node", devicesPods, podsSettled...),
			"get", "pods", "-o", "wide", "-l", "pod-group.scheduling.sigs.k8s.io=gpu-training"),
		say("The devices of each pod are written in the pod, by the request that bound it. " +
			"a is gpu-training-pod-0, b the next one, and so on; a line is a switch:"),
		drawDevices,
	}
}

// addGPUNodes adds nodes with devices.
func addGPUNodes(c *localcluster.Cluster) step {
	return func(ctx context.Context, d *demo) error {
		n, err := addNodesOf(ctx, c, examples.Devices, "devices/nodes.yaml")
		if err == nil {
			d.say(fmt.Sprintf("%d more nodes come, from %s: 4 GPUs and 2 NICs each, on 2 switches.", n, example("devices/nodes.yaml")))
		}
		return err
	}
}

// drawDevices shows the devices of each node with a Device object, and the pods that use them, and checks the allocation.
func drawDevices(ctx context.Context, d *demo) error {
	out, err := d.kubectl(ctx, devicesWorld...)
	if err != nil {
		return err
	}
	text, apart, err := picturedDevices(out)
	if err != nil {
		return err
	}
	d.show("\n" + text)
	d.checks([]check{equal("each has both GPUs of one switch and its NIC, and no pod has the device of another one", "", apart)})
	return nil
}

// picturedDevices returns a drawing of the nodes in list, a List in JSON, that have a Device object. wrong names the pods that do not
// have two GPUs and a NIC of one switch for themselves; "" if there are none.
func picturedDevices(list string) (text, wrong string, err error) {
	var raw struct{ Items []json.RawMessage }
	if err := json.Unmarshal([]byte(list), &raw); err != nil {
		return "", "", err
	}
	var objects []*unstructured.Unstructured
	labels, pods := map[string]map[string]string{}, map[string][]*v1.Pod{}
	for _, item := range raw.Items {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(item, &u.Object); err != nil {
			return "", "", err
		}
		switch u.GetKind() {
		case "Node":
			labels[u.GetName()] = u.GetLabels()
		case "Device":
			objects = append(objects, u)
		case "Pod":
			pod := &v1.Pod{}
			if err := json.Unmarshal(item, pod); err != nil {
				return "", "", err
			}
			pods[pod.Spec.NodeName] = append(pods[pod.Spec.NodeName], pod)
		}
	}
	var b strings.Builder
	for _, u := range objects {
		n, err := convert.DeviceNode(u, labels[u.GetName()])
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", u.GetName(), err)
		}
		state := device.NewState(n)
		var held []device.Held
		podByDevice := map[string]string{}
		for _, pod := range pods[u.GetName()] {
			a, err := convert.DeviceAllocation(pod)
			if err != nil {
				return "", "", fmt.Errorf("%s: %w", pod.Name, err)
			}
			state.Take(a)
			held = append(held, device.Held{Mark: letterOf(pod.Name), Allocation: a})
			if text := onOneSwitch(a); text != "" {
				wrong += pod.Name + " has " + text + "; "
			}
			for _, s := range a {
				at := fmt.Sprint(s.Type, s.Minor)
				if podByDevice[at] != "" {
					wrong += fmt.Sprintf("%s and %s have %s; ", podByDevice[at], pod.Name, at)
				}
				podByDevice[at] = pod.Name
			}
		}
		fmt.Fprintf(&b, "%s\n%s", u.GetName(), indentLines(state.Draw(held)))
	}
	return b.String(), wrong, nil
}

// onOneSwitch returns "" if the allocation is GPUs 2n and 2n+1 and NIC n; else what it is.
func onOneSwitch(a device.Allocation) string {
	var gpus, nics []int
	for _, s := range a {
		if s.Type == device.GPU {
			gpus = append(gpus, s.Minor)
		} else {
			nics = append(nics, s.Minor)
		}
	}
	slices.Sort(gpus)
	if len(gpus) == 2 && len(nics) == 1 && gpus[0] == 2*nics[0] && gpus[1] == gpus[0]+1 {
		return ""
	}
	return fmt.Sprintf("GPUs %v and NICs %v", gpus, nics)
}

// letterOf returns a for pod 0, b for pod 1, and so on.
func letterOf(pod string) string {
	i, _ := strconv.Atoi(pod[strings.LastIndexByte(pod, '-')+1:])
	return string(rune('a' + i%26))
}

func indentLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}
