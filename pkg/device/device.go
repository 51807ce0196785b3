// Package device says which devices of one node the members of a gang get: GPUs, NICs, FPGAs,
// whole or shared, by switch, NUMA node and partition, one type beside another.
//
//	        node
//	   numa0         numa1            what a node has      New(Inventory)  *Node, never changes
//	 p0     p1     p2     p3          what is taken of it  NewState(node)  Take, Free: undo is Free
//	0 1 n  2 3 n  4 5 n  6 7 n        what a member wants  Ask.Request()   or an Invalid
//	                                  what it gets         Solver.Choose   in rank order, all or nobody
//	                                  how many it takes    Solver.Slots
//
// The words, rules and refusals are those of Koordinator's DeviceShare, where these are not in the
// way of members that fit; docs/decisions/0023-devices.md lists the differences. The package knows
// no pods, no other resources of a node, and nobody who asks.
package device

import (
	"fmt"
	"strconv"
)

// Type is a type of devices as Koordinator's Device object names it.
type Type string

// The types that members can ask for. A node may have others.
const (
	GPU  Type = "gpu"
	RDMA Type = "rdma"
	FPGA Type = "fpga"
)

// Amount is what a device has, or what is taken of it.
type Amount struct {
	Core   int64 // percent of one device: of a GPU's compute, of a NIC, of an FPGA
	Memory int64 // bytes; GPUs only
	Ratio  int64 // percent of one GPU's memory
}

// Check says what of an amount cannot be: whoever writes a number below 0 would give away what others hold.
func (a Amount) Check() error {
	if a.Core < 0 || a.Memory < 0 || a.Ratio < 0 || max(a.Core, a.Ratio) > maxPercent || a.Memory > maxMemory {
		return fmt.Errorf("resources that cannot be: %+v", a)
	}
	return nil
}

func (a Amount) plus(b Amount) Amount {
	return Amount{a.Core + b.Core, a.Memory + b.Memory, a.Ratio + b.Ratio}
}

func (a Amount) minus(b Amount) Amount {
	return Amount{a.Core - b.Core, a.Memory - b.Memory, a.Ratio - b.Ratio}
}

// times says how often a goes into free, at most so often.
func (a Amount) times(free Amount, most int) int {
	for _, x := range [3][2]int64{{a.Core, free.Core}, {a.Memory, free.Memory}, {a.Ratio, free.Ratio}} {
		if x[0] > 0 {
			most = int(min(int64(most), max(x[1], 0)/x[0]))
		}
	}
	return most
}

// of completes an amount that is asked of a device: memory in bytes is so many percent of what
// this device has, rounded down, and the other way round.
func (a Amount) of(has Amount) Amount {
	switch {
	case a.Memory > 0 && has.Memory > 0:
		a.Ratio = a.Memory * 100 / has.Memory
	case a.Ratio > 0:
		a.Memory = a.Ratio * has.Memory / 100
	}
	return a
}

// Place is where a device is plugged in.
type Place struct {
	Known  bool   // false if nobody says
	NUMA   int    // those without a number of their own share -1
	Switch string // PCIe switch; "" if unknown
}

// Device is one device of a node.
type Device struct {
	Type    Type
	Minor   int
	ID      string // UUID or PCI address
	Healthy bool   // else nobody gets it; who has it keeps it
	Has     Amount
	Place   Place
	Labels  map[string]string
	VFs     []VFGroup
}

// VFGroup is a group of virtual functions of one device.
type VFGroup struct {
	Labels map[string]string
	VFs    []VF
}

// VF is a virtual function.
type VF struct {
	Minor int
	BusID string
}

// Partition is a set of GPUs that may be used together.
type Partition struct {
	Minors    []int
	Score     int   // allocationScore: higher is better
	Bandwidth int64 // ringBusBandwidth; 0 if unknown
}

// Inventory is what a node has, as its Device object and its labels say.
type Inventory struct {
	Devices []Device
	// Table holds the partitions by their number of GPUs. If nil, the one that is built in for
	// Vendor and Model is used, if any; an empty table is one without partitions.
	Table         map[int][]Partition
	Vendor, Model string
	Honor         bool   // gpu-partition-policy: whole GPUs in partitions only, else where possible
	Isolation     string // gpu-isolation-provider; "" if none
}

// Share is what a member holds of one device.
type Share struct {
	Type   Type
	Minor  int
	ID     string
	Amount Amount
	VFs    []VF
	// Alone says who else may not use the device: nobody else (DeviceLevel), or nobody else any
	// device of the type on its switch (PCIeLevel).
	Alone Exclusive
}

// Allocation is what one member holds of a node's devices, by type in the order in which they were
// chosen, then by minor.
type Allocation []Share

// Exclusive says whom a member does not share with.
type Exclusive uint8

// The levels of exclusivePolicy.
const (
	Sharing Exclusive = iota
	DeviceLevel
	PCIeLevel
)

// Scope is how far apart the devices of one type may be: the larger, the closer.
type Scope uint8

// The scopes of requiredTopologyScope. AnyScope asks for nothing.
const (
	AnyScope Scope = iota
	NodeScope
	NUMAScope
	PCIeScope
	DeviceScope
)

// builtin is the partition table of those vendors and models whose table Koordinator knows.
func builtin(vendor, model string) map[int][]Partition {
	if vendor != "" && vendor != "nvidia" || model != "H100" && model != "H800" && model != "H20" {
		return nil
	}
	table := map[int][]Partition{}
	for n := 1; n <= 8; n *= 2 {
		for first := 0; first < 8; first += n {
			p := Partition{Score: 1}
			for k := range n {
				p.Minors = append(p.Minors, first+k)
			}
			table[n] = append(table[n], p)
		}
	}
	return table
}

// name names a device as people do: gpu3.
func (d Device) name() string { return string(d.Type) + strconv.Itoa(d.Minor) }
