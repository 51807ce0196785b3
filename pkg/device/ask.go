package device

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The resources in which pods request devices.
const (
	NvidiaGPU  = "nvidia.com/gpu"
	AMDGPU     = "amd.com/gpu"
	HygonDCU   = "dcu.com/gpu"
	WholeGPU   = "koordinator.sh/gpu"
	SharedGPU  = "koordinator.sh/gpu.shared"
	GPUCore    = "koordinator.sh/gpu-core"
	GPUMemory  = "koordinator.sh/gpu-memory"
	GPURatio   = "koordinator.sh/gpu-memory-ratio"
	RDMAUnits  = "koordinator.sh/rdma"
	FPGAUnits  = "koordinator.sh/fpga"
	npuPrefix  = "huawei.com/npu-"
	maxMemory  = 1 << 46
	maxPercent = 1 << 20
)

// The annotations in which pods request more.
const (
	HintField      = "scheduling.koordinator.sh/device-allocate-hint"
	JointField     = "scheduling.koordinator.sh/device-joint-allocate"
	PartitionField = "scheduling.koordinator.sh/gpu-partition-spec"
)

// Ask is what a pod requests of devices, unparsed: Request parses it.
type Ask struct {
	Resources []Resource // other resources are ignored
	Hints     []Hint     // one for each type
	Joint     *JointAsk
	Partition *PartitionAsk
	Isolation string // gpu-isolation-provider
}

// Resource is an amount of a resource: percent or a number of devices, memory in bytes.
type Resource struct {
	Name  string
	Value int64
}

// Hint is the device-allocate-hint of a type.
type Hint struct {
	Type      Type
	Selector  *Selector
	VFs       *Selector // of VFs; nil if the pod wants none
	Strategy  string    // ApplyForAll, RequestsAsCount or ""
	Scope     string    // Device, PCIe, NUMANode, Node or ""
	Exclusive string    // DeviceLevel, PCIeLevel or ""
}

// JointAsk is the annotation device-joint-allocate.
type JointAsk struct {
	Types []Type
	Scope string // SamePCIe or ""
}

// PartitionAsk is the annotation gpu-partition-spec.
type PartitionAsk struct {
	Policy    string // Restricted, BestEffort or ""
	Bandwidth int64  // the minimal ringBusBandwidth; 0 for any
}

// Request is what one member requests of a node's devices. It never changes.
type Request struct {
	key   string
	wants []want // one for each type; types of a joint request come first

	joint     int  // how many wants after the first are chosen together with it; 0 for none
	samePCIe  bool // on exactly the switches of the first
	partition *PartitionAsk
	isolation string
	vendor    bool // requests a vendor's resource and no other device
}

// want is what a member requests of one type.
type want struct {
	deviceType Type
	resource   string // the first resource that requests it
	perDevice  Amount // of each device
	count      int    // of devices; 0 for all that match
	shared     bool   // GPUs: less than a whole card
	scope      Scope
	exclusive  Exclusive
	selector   *Selector
	vfs        *Selector
}

// Types lists the requested types.
func (r *Request) Types() (types []Type) {
	for i := range r.wants {
		types = append(types, r.wants[i].deviceType)
	}
	return types
}

// Vendor returns whether a member requests only a vendor's GPUs. On a node without a Device object, plugin NodeResourcesFit counts these.
func (r *Request) Vendor() bool { return r.vendor }

// Exclusive returns the exclusivity that the member requests for a type; Sharing for a nil request or a type that it does not request.
func (r *Request) Exclusive(t Type) Exclusive {
	if r == nil {
		return Sharing
	}
	for i := range r.wants {
		if r.wants[i].deviceType == t {
			return r.wants[i].exclusive
		}
	}
	return Sharing
}

// Key returns a text that is equal for interchangeable members.
func (r *Request) Key() string { return r.key }

// name computes Key.
func (r *Request) name() string {
	var b strings.Builder
	for _, w := range r.wants {
		fmt.Fprintf(&b, "%q %v %d %v %d %d %s vf %s;", w.deviceType, w.perDevice, w.count, w.shared, w.scope, w.exclusive, w.selector, w.vfs)
	}
	fmt.Fprintf(&b, "%d %v %q", r.joint, r.samePCIe, r.isolation)
	if r.partition != nil {
		fmt.Fprintf(&b, " %+v", *r.partition)
	}
	return b.String()
}

// Request parses what a pod requests. It returns nil if the pod requests no devices.
func (a Ask) Request() (*Request, *Invalid) {
	sums := map[string]int64{}
	for _, r := range a.Resources {
		if strings.HasPrefix(r.Name, npuPrefix) && r.Value != 0 {
			return nil, &Invalid{
				Resources: []string{r.Name}, Field: r.Name, Value: strconv.FormatInt(r.Value, 10),
				Legal: "left out: templates of NPUs are not supported",
			}
		}
		sums[r.Name] += r.Value
	}
	gpus, bad := gpuWant(sums)
	if bad != nil {
		return nil, bad
	}
	wants := gpus
	for _, other := range []struct {
		deviceType Type
		resource   string
	}{{RDMA, RDMAUnits}, {FPGA, FPGAUnits}} {
		if sums[other.resource] == 0 {
			continue
		}
		w, bad := unitWant(other.deviceType, other.resource, sums[other.resource], a.hintOf(other.deviceType))
		if bad != nil {
			return nil, bad
		}
		wants = append(wants, w)
	}
	if len(wants) == 0 {
		return nil, nil
	}
	slices.SortFunc(wants, func(x, y want) int { return cmp.Compare(x.deviceType, y.deviceType) })
	r := &Request{wants: wants, isolation: a.Isolation}
	r.vendor = len(wants) == 1 && (wants[0].resource == NvidiaGPU || wants[0].resource == AMDGPU || wants[0].resource == HygonDCU)
	for _, read := range []func(*Request) *Invalid{a.readHints, a.readJoint, a.readPartition} {
		if bad := read(r); bad != nil {
			return nil, bad
		}
	}
	r.key = r.name()
	return r, nil
}

// hintOf returns the hint of a type; an empty one if there is none.
func (a Ask) hintOf(t Type) Hint {
	for _, h := range a.Hints {
		if h.Type == t {
			return h
		}
	}
	return Hint{}
}

// combinations lists the valid sets of GPU resources.
var combinations = [][]string{
	{NvidiaGPU},
	{AMDGPU},
	{HygonDCU},
	{WholeGPU},
	{GPUMemory},
	{GPURatio},
	{GPUCore, GPUMemory},
	{GPUCore, GPURatio},
	{SharedGPU, GPUMemory},
	{SharedGPU, GPURatio},
	{SharedGPU, GPUCore, GPUMemory},
	{SharedGPU, GPUCore, GPURatio},
}

var gpuResources = []string{NvidiaGPU, AMDGPU, HygonDCU, WholeGPU, SharedGPU, GPUCore, GPUMemory, GPURatio}

// gpuWant parses the GPU resources. sums is the requested amount of each resource. Without a GPU it returns nil.
func gpuWant(sums map[string]int64) ([]want, *Invalid) {
	var requested []string
	for _, name := range gpuResources {
		if v := sums[name]; v < 0 || v > maxPercent && name != GPUMemory || v > maxMemory {
			return nil, invalid([]string{name}, name, v, "a number that a node may have")
		} else if v > 0 {
			requested = append(requested, name)
		}
	}
	if len(requested) == 0 {
		return nil, nil
	}
	if !slices.ContainsFunc(combinations, func(c []string) bool { return slices.Equal(c, requested) }) {
		return nil, &Invalid{Resources: slices.Sorted(slices.Values(requested)), Legal: "one of " + combinationText()}
	}
	if whole := sums[requested[0]]; len(requested) == 1 && requested[0] != GPUMemory && requested[0] != GPURatio {
		percent := whole
		if requested[0] != WholeGPU {
			percent *= 100
		} else if percent > 100 && percent%100 != 0 {
			return nil, &Invalid{Unit: true, Field: WholeGPU, Value: strconv.FormatInt(whole, 10), Legal: percentText}
		}
		sums = map[string]int64{GPUCore: percent, GPURatio: percent}
	}
	for _, name := range []string{GPUCore, GPURatio} {
		if v := sums[name]; sums[SharedGPU] == 0 && v > 100 && v%100 != 0 {
			return nil, invalid(requested, name, v, percentText)
		}
		if v := sums[name]; sums[SharedGPU] > 0 && (v%sums[SharedGPU] != 0 || v/sums[SharedGPU] > 100) {
			return nil, invalid(requested, name, v, fmt.Sprintf("the same for each of %d GPUs, at most 100", sums[SharedGPU]))
		}
	}
	count := max(sums[SharedGPU], sums[GPURatio]/100*int64(b2i(sums[SharedGPU] == 0)), 1)
	w := want{
		deviceType: GPU, resource: requested[0], count: int(count),
		perDevice: Amount{Core: sums[GPUCore] / count, Memory: sums[GPUMemory] / count, Ratio: sums[GPURatio] / count},
	}
	w.shared = w.perDevice.Ratio < 100
	if sums[GPUCore]%count != 0 {
		return nil, invalid(requested, GPUCore, sums[GPUCore], fmt.Sprintf("the same for each of %d GPUs", count))
	}
	if w.perDevice.Core > 100 {
		return nil, invalid(requested, GPUCore, sums[GPUCore], fmt.Sprintf("at most 100 for each GPU, and memory is asked of %d", count))
	}
	if w.perDevice.Memory == 0 && w.perDevice.Ratio == 0 {
		return nil, invalid(requested, GPUMemory, sums[GPUMemory], fmt.Sprintf("at least 1 byte for each of %d GPUs", count))
	}
	return []want{w}, nil
}

const percentText = "up to 100, or a multiple of 100"

// combinationText returns the valid combinations for a message.
func combinationText() string {
	var list []string
	for _, c := range combinations {
		list = append(list, strings.ReplaceAll(strings.Join(c, "+"), "koordinator.sh/", ""))
	}
	return strings.Join(list, ", ")
}

// unitWant parses a resource whose unit is percent of one device.
func unitWant(t Type, resource string, v int64, h Hint) (want, *Invalid) {
	w := want{deviceType: t, resource: resource, count: 1, perDevice: Amount{Core: v}}
	switch {
	case v < 0 || v > maxPercent:
		return w, invalid([]string{resource}, resource, v, "a number that a node may have")
	case v > 100 && v%100 != 0:
		return w, &Invalid{Unit: true, Field: resource, Value: strconv.FormatInt(v, 10), Legal: percentText}
	case v > 100:
		w.count, w.perDevice.Core = int(v/100), 100
	case h.Strategy == "ApplyForAll":
		w.count = 0
	case h.Strategy == "RequestsAsCount":
		w.count, w.perDevice.Core = int(v), 1
		if h.Exclusive == "DeviceLevel" {
			w.perDevice.Core = 100
		}
	}
	return w, nil
}

// check returns an Invalid for a type that a pod cannot request: a misspelt type would silently have no effect.
func (t Type) check(field string) *Invalid {
	if t == GPU || t == RDMA || t == FPGA {
		return nil
	}
	return &Invalid{Field: field, Value: string(t), Legal: "gpu, rdma or fpga"}
}

// readHints applies the hints to the requested types of r. Hints of other types are validated, too.
func (a Ask) readHints(r *Request) *Invalid {
	for _, h := range a.Hints {
		path := HintField + ": " + string(h.Type)
		if bad := h.Type.check(HintField); bad != nil {
			return bad
		}
		scope, ok := map[string]Scope{"": AnyScope, "Node": NodeScope, "NUMANode": NUMAScope, "PCIe": PCIeScope, "Device": DeviceScope}[h.Scope]
		if !ok {
			return &Invalid{Field: path + ".requiredTopologyScope", Value: h.Scope, Legal: "Device, PCIe, NUMANode or Node"}
		}
		exclusive, ok := map[string]Exclusive{"": Sharing, "DeviceLevel": DeviceLevel, "PCIeLevel": PCIeLevel}[h.Exclusive]
		if !ok {
			return &Invalid{Field: path + ".exclusivePolicy", Value: h.Exclusive, Legal: "DeviceLevel or PCIeLevel"}
		}
		switch {
		case !slices.Contains([]string{"", "ApplyForAll", "RequestsAsCount"}, h.Strategy):
			return &Invalid{Field: path + ".allocateStrategy", Value: h.Strategy, Legal: "ApplyForAll or RequestsAsCount"}
		case h.Strategy != "" && h.Type == GPU:
			return &Invalid{Field: path + ".allocateStrategy", Value: h.Strategy, Legal: "left out: GPUs are counted by their resources"}
		}
		for _, s := range []struct {
			name string
			*Selector
		}{{".selector", h.Selector}, {".vfSelector", h.VFs}} {
			if bad := s.check(path + s.name); bad != nil {
				return bad
			}
		}
		for i := range r.wants {
			if w := &r.wants[i]; w.deviceType == h.Type {
				w.scope = scope
				w.exclusive = exclusive
				w.selector = h.Selector
				w.vfs = h.VFs
			}
		}
	}
	return nil
}

// readJoint moves the wants that are chosen together to the front. Types without a request are left out; a request of one type is not
// joint.
func (a Ask) readJoint(r *Request) *Invalid {
	j := a.Joint
	if j == nil {
		return nil
	}
	if j.Scope != "" && j.Scope != "SamePCIe" {
		return &Invalid{Field: JointField + ": requiredScope", Value: j.Scope, Legal: "SamePCIe"}
	}
	for _, t := range j.Types {
		if bad := t.check(JointField + ": deviceTypes"); bad != nil {
			return bad
		}
	}
	if len(j.Types) == 0 || len(r.wants) == 1 {
		return nil
	}
	rank := func(w want) int {
		if i := slices.Index(j.Types, w.deviceType); i >= 0 {
			return i
		}
		return len(j.Types)
	}
	slices.SortStableFunc(r.wants, func(x, y want) int { return cmp.Compare(rank(x), rank(y)) })
	if r.wants[0].deviceType != j.Types[0] {
		return &Invalid{Field: JointField + ": deviceTypes[0]", Value: string(j.Types[0]), Legal: "a type of which the pod requests devices"}
	}
	for _, w := range r.wants[1:] {
		r.joint += b2i(rank(w) < len(j.Types))
	}
	r.samePCIe = r.joint > 0 && j.Scope == "SamePCIe"
	return nil
}

// readPartition validates the partition request and copies it to r.
func (a Ask) readPartition(r *Request) *Invalid {
	if a.Partition == nil {
		return nil
	}
	if p := a.Partition.Policy; !slices.Contains([]string{"", "Restricted", "BestEffort"}, p) {
		return &Invalid{Field: PartitionField + ": allocatePolicy", Value: p, Legal: "Restricted or BestEffort"}
	}
	r.partition = a.Partition
	return nil
}

func invalid(requested []string, field string, v int64, legal string) *Invalid {
	return &Invalid{Resources: slices.Sorted(slices.Values(requested)), Field: field, Value: strconv.FormatInt(v, 10), Legal: legal}
}
