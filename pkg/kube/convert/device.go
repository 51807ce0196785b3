package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	podresource "k8s.io/component-helpers/resource"

	"github.com/muster-scheduler/muster/pkg/device"
)

// Devices is Koordinator's Device resource: one object for each node, with the node's name, that declares its devices.
var Devices = schema.GroupVersionResource{Group: "scheduling.koordinator.sh", Version: "v1alpha1", Resource: "devices"}

// Annotations and labels of devices that package device does not name.
const (
	// DeviceAllocated is the annotation with the devices that a pod uses.
	DeviceAllocated = "scheduling.koordinator.sh/device-allocated"

	gpuPartitions      = "scheduling.koordinator.sh/gpu-partitions"
	gpuPartitionPolicy = "node.koordinator.sh/gpu-partition-policy"
	gpuVendor          = "node.koordinator.sh/gpu-vendor"
	gpuModel           = "node.koordinator.sh/gpu-model"
	gpuIsolation       = "koordinator.sh/gpu-isolation-provider"
)

// deviceSpec is the part of a Device object that is read.
type deviceSpec struct {
	Devices []struct {
		Type      device.Type       `json:"type"`
		ID        string            `json:"id"`
		Minor     int32             `json:"minor"`
		Health    bool              `json:"health"`
		Labels    map[string]string `json:"labels"`
		Resources v1.ResourceList   `json:"resources"`
		Topology  *struct {
			NUMA   int32  `json:"nodeID"`
			Switch string `json:"pcieID"`
		} `json:"topology"`
		VFGroups []struct {
			Labels map[string]string `json:"labels"`
			VFs    []virtualFunction `json:"vfs"`
		} `json:"vfGroups"`
	} `json:"devices"`
}

type virtualFunction struct {
	Minor int    `json:"minor,omitempty"`
	BusID string `json:"busID,omitempty"`
}

// DeviceNode returns the devices of a node from its Device object and its labels.
func DeviceNode(object *unstructured.Unstructured, nodeLabels map[string]string) (*device.Node, error) {
	inv, err := deviceInventory(object, nodeLabels)
	if err != nil {
		return nil, err
	}
	n, err := device.New(inv)
	if err != nil {
		return nil, fmt.Errorf("devices of node %s: %w", object.GetName(), err)
	}
	return n, nil
}

// deviceInventory parses a Device object. Some properties come from labels of the node.
func deviceInventory(object *unstructured.Unstructured, nodeLabels map[string]string) (device.Inventory, error) {
	inv := device.Inventory{
		Vendor: nodeLabels[gpuVendor], Model: nodeLabels[gpuModel], Isolation: nodeLabels[gpuIsolation],
		PartitionsOnly: nodeLabels[gpuPartitionPolicy] == "Honor" || object.GetLabels()[gpuPartitionPolicy] == "Honor",
	}
	var content struct {
		Spec deviceSpec `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &content); err != nil {
		return inv, fmt.Errorf("devices of node %s: %w", object.GetName(), err)
	}
	for _, d := range content.Spec.Devices {
		out := device.Device{
			Type: d.Type, Minor: int(d.Minor), ID: d.ID, Healthy: d.Health, Labels: d.Labels, Has: deviceAmount(d.Type, d.Resources),
		}
		if d.Topology != nil {
			out.Place = device.Place{Known: true, NUMA: int(d.Topology.NUMA), Switch: d.Topology.Switch}
		}
		for _, g := range d.VFGroups {
			group := device.VFGroup{Labels: g.Labels}
			for _, vf := range g.VFs {
				group.VFs = append(group.VFs, device.VF(vf))
			}
			out.VFs = append(out.VFs, group)
		}
		inv.Devices = append(inv.Devices, out)
	}
	table, err := partitionTable(object.GetAnnotations()[gpuPartitions])
	if err != nil {
		return inv, fmt.Errorf("devices of node %s: %s: %w", object.GetName(), gpuPartitions, err)
	}
	inv.Table = table
	return inv, nil
}

// deviceAmount returns the capacity of one device.
func deviceAmount(t device.Type, list v1.ResourceList) (a device.Amount) {
	value := func(name v1.ResourceName) int64 { return number(list[name]) }
	if t == device.GPU {
		return device.Amount{Core: value(device.GPUCore), Memory: value(device.GPUMemory), Ratio: value(device.GPURatio)}
	}
	return device.Amount{Core: value(v1.ResourceName("koordinator.sh/" + string(t)))}
}

// number returns q as an integer: -1 if q is negative, the largest int64 if q is larger.
func number(q resource.Quantity) int64 {
	switch {
	case q.Sign() < 0:
		return -1
	case q.CmpInt64(math.MaxInt64) >= 0:
		return math.MaxInt64
	}
	return q.Value()
}

// partitionTable parses the annotation gpu-partitions: partitions by their number of GPUs; nil for "".
func partitionTable(text string) (map[int][]device.Partition, error) {
	if text == "" {
		return nil, nil
	}
	var tables map[int][]struct {
		Minors    []int              `json:"minors"`
		Bandwidth *resource.Quantity `json:"ringBusBandwidth"`
		Score     int                `json:"allocationScore"`
	}
	if err := json.Unmarshal([]byte(text), &tables); err != nil {
		return nil, err
	}
	table := map[int][]device.Partition{}
	for n, list := range tables {
		table[n] = []device.Partition{}
		for _, p := range list {
			out := device.Partition{Minors: p.Minors, Score: p.Score}
			if p.Bandwidth != nil {
				out.Bandwidth = p.Bandwidth.Value()
			}
			table[n] = append(table[n], out)
		}
	}
	return table, nil
}

// DeviceRequest returns a pod's request for devices; nil for none. The error names the invalid field, its value and the supported
// values. A retry helps only after the pod's annotations have changed, since its resources cannot change.
func DeviceRequest(pod *v1.Pod) (*device.Request, error) {
	ask := deviceAsk(pod)
	if r, invalid := ask.Request(); invalid != nil {
		return nil, invalid
	} else if r == nil {
		return nil, nil
	}
	ask.Isolation = pod.Labels[gpuIsolation]
	for _, read := range []func(*v1.Pod, *device.Ask) error{readHints, readJoint, readPartition} {
		if err := read(pod, &ask); err != nil {
			return nil, err
		}
	}
	r, invalid := ask.Request()
	if invalid != nil {
		return nil, invalid
	}
	return r, nil
}

// DeviceResources returns the request in a pod's resources without its annotations: a running pod uses at least these; nil if there
// is none, or it is invalid.
func DeviceResources(pod *v1.Pod) *device.Request {
	r, _ := deviceAsk(pod).Request()
	return r
}

// deviceAsk returns the request in a pod's resources, not yet checked.
func deviceAsk(pod *v1.Pod) (ask device.Ask) {
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		ask.Resources = append(ask.Resources, device.Resource{Name: string(name), Value: number(requests[name])})
	}
	return ask
}

// annotation parses the JSON in an annotation into target; found is false without it. Unknown fields are errors: they may be misspelt.
func annotation(pod *v1.Pod, key string, target any) (found bool, err error) {
	text, found := pod.Annotations[key]
	if !found {
		return false, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	err = d.Decode(target)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return true, fmt.Errorf("%s: %q: must be JSON, and it ends too early", key, text)
	case err != nil:
		return true, fmt.Errorf("%s: %w", key, err)
	}
	if d.More() {
		return true, fmt.Errorf("%s: more than one JSON value", key)
	}
	return true, nil
}

// readHints sets ask.Hints from the annotation with hints by device type, if there is one.
func readHints(pod *v1.Pod, ask *device.Ask) error {
	var hints map[device.Type]*struct {
		Selector  *metav1.LabelSelector `json:"selector"`
		VFs       *metav1.LabelSelector `json:"vfSelector"`
		Strategy  string                `json:"allocateStrategy"`
		Scope     string                `json:"requiredTopologyScope"`
		Exclusive string                `json:"exclusivePolicy"`
	}
	if _, err := annotation(pod, device.HintField, &hints); err != nil {
		return err
	}
	for _, t := range slices.Sorted(maps.Keys(hints)) {
		if h := hints[t]; h != nil {
			ask.Hints = append(ask.Hints, device.Hint{
				Type: t, Selector: selector(h.Selector), VFs: selector(h.VFs),
				Strategy: h.Strategy, Scope: h.Scope, Exclusive: h.Exclusive,
			})
		}
	}
	return nil
}

// readJoint sets ask.Joint from the annotation on devices that are allocated together, if there is one.
func readJoint(pod *v1.Pod, ask *device.Ask) error {
	var joint struct {
		Types []device.Type `json:"deviceTypes"`
		Scope string        `json:"requiredScope"`
	}
	found, err := annotation(pod, device.JointField, &joint)
	if found {
		ask.Joint = &device.JointAsk{Types: joint.Types, Scope: joint.Scope}
	}
	return err
}

// readPartition sets ask.Partition from the annotation on GPU partitions, if there is one.
func readPartition(pod *v1.Pod, ask *device.Ask) error {
	var spec struct {
		Policy    string             `json:"allocatePolicy"`
		Bandwidth *resource.Quantity `json:"ringBusBandwidth"`
	}
	found, err := annotation(pod, device.PartitionField, &spec)
	if found {
		ask.Partition = &device.PartitionAsk{Policy: spec.Policy}
		if spec.Bandwidth != nil {
			ask.Partition.Bandwidth = spec.Bandwidth.Value()
		}
	}
	return err
}

// selector returns a label selector for package device; nil for nil.
func selector(s *metav1.LabelSelector) *device.Selector {
	if s == nil {
		return nil
	}
	out := &device.Selector{}
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		out.Requirements = append(out.Requirements, device.Requirement{Key: k, Operator: "In", Values: []string{s.MatchLabels[k]}})
	}
	for _, e := range s.MatchExpressions {
		out.Requirements = append(out.Requirements, device.Requirement{Key: e.Key, Operator: string(e.Operator), Values: e.Values})
	}
	return out
}

// deviceEntry is an entry of the annotation device-allocated.
type deviceEntry struct {
	Minor     int32           `json:"minor"`
	Resources v1.ResourceList `json:"resources"`
	ID        string          `json:"id,omitempty"`
	Extension *extension      `json:"extension,omitempty"`
}

type extension struct {
	VFs []virtualFunction `json:"vfs,omitempty"`
}

// DeviceAllocation returns the devices that a pod uses, from its annotation; nil without it. It ignores unknown fields.
func DeviceAllocation(pod *v1.Pod) (device.Allocation, error) {
	text, found := pod.Annotations[DeviceAllocated]
	if !found {
		return nil, nil
	}
	var entries map[device.Type][]deviceEntry
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", DeviceAllocated, err)
	}
	r, err := DeviceRequest(pod)
	if err != nil {
		r = nil // it keeps its devices, whatever it requests
	}
	var out device.Allocation
	for _, t := range slices.Sorted(maps.Keys(entries)) {
		for _, e := range entries[t] {
			s := device.Share{Type: t, Minor: int(e.Minor), ID: e.ID, Amount: deviceAmount(t, e.Resources), Exclusive: r.Exclusive(t)}
			if err := s.Amount.Check(); err != nil {
				return nil, fmt.Errorf("%s: %s %d: %w", DeviceAllocated, t, e.Minor, err)
			}
			if e.Extension != nil {
				for _, vf := range e.Extension.VFs {
					s.VFs = append(s.VFs, device.VF(vf))
				}
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// DeviceAnnotation returns an allocation as the value of the annotation device-allocated.
func DeviceAnnotation(a device.Allocation) string {
	entries := map[device.Type][]deviceEntry{}
	for _, s := range a {
		e := deviceEntry{Minor: int32(s.Minor), ID: s.ID, Resources: v1.ResourceList{}} //nolint:gosec // a minor was one
		if s.Type == device.GPU {
			if s.Amount.Core > 0 {
				e.Resources[device.GPUCore] = *resource.NewQuantity(s.Amount.Core, resource.DecimalSI)
			}
			e.Resources[device.GPUMemory] = *resource.NewQuantity(s.Amount.Memory, resource.BinarySI)
			e.Resources[device.GPURatio] = *resource.NewQuantity(s.Amount.Ratio, resource.DecimalSI)
		} else {
			e.Resources[v1.ResourceName("koordinator.sh/"+string(s.Type))] = *resource.NewQuantity(s.Amount.Core, resource.DecimalSI)
		}
		if len(s.VFs) > 0 {
			e.Extension = &extension{}
			for _, vf := range s.VFs {
				e.Extension.VFs = append(e.Extension.VFs, virtualFunction(vf))
			}
		}
		entries[s.Type] = append(entries[s.Type], e)
	}
	out, err := json.Marshal(entries)
	if err != nil {
		panic("an allocation cannot be written: " + strconv.Quote(err.Error())) // it is text and numbers
	}
	return string(out)
}
