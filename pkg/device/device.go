// Package device chooses devices of one node for the members of a gang: GPUs, NICs, FPGAs, whole or shared, by switch, NUMA node and
// partition, several types together.
//
//	        node
//	   numa0         numa1            the devices of a node     New(Inventory)  *Node, never changes
//	 p0     p1     p2     p3          the devices in use        NewState(node)  Take, Free: undo is Free
//	0 1 n  2 3 n  4 5 n  6 7 n        what a member requests    Ask.Request()   or an Invalid
//	                                  the members' devices      Solver.Choose   in rank order, all or nothing
//	                                  how many members fit      Solver.Slots
//
// The package has the annotations, rules and messages of Koordinator's DeviceShare, except where those rules reject members that fit;
// docs/decisions/0023-devices.md lists the differences. The package knows no pods, no other resources of a node, and none of its callers.
// Invariant: Node and Request never change.
package device

import (
	"fmt"
	"strconv"
)

// Type is a type of device, by its name in Koordinator's Device object.
type Type string

// The types that members can request. A node may have further types.
const (
	GPU  Type = "gpu"
	RDMA Type = "rdma"
	FPGA Type = "fpga"
)

// Amount is the capacity of a device, or a part of it.
type Amount struct {
	Core   int64 // percent of one device: of a GPU's compute, of a NIC, of an FPGA
	Memory int64 // bytes; GPUs only
	Ratio  int64 // percent of one GPU's memory
}

// Check returns an error if an amount is negative or too large. A negative amount would free what other members use.
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

// times returns how often a fits into free, at most limit.
func (a Amount) times(free Amount, limit int) int {
	for _, x := range [3][2]int64{{a.Core, free.Core}, {a.Memory, free.Memory}, {a.Ratio, free.Ratio}} {
		if x[0] > 0 {
			limit = int(min(int64(limit), max(x[1], 0)/x[0]))
		}
	}
	return limit
}

// complete returns a with the missing one of Ratio and Memory, for a device with capacity has. Ratio is the percentage of has.Memory,
// rounded down.
func (a Amount) complete(has Amount) Amount {
	switch {
	case a.Memory > 0 && has.Memory > 0:
		a.Ratio = a.Memory * 100 / has.Memory
	case a.Ratio > 0:
		a.Memory = a.Ratio * has.Memory / 100
	}
	return a
}

// Place is the position of a device in the node's tree.
type Place struct {
	Known  bool   // false if the position is unknown
	NUMA   int    // devices without a NUMA node share -1
	Switch string // PCIe switch; "" if unknown
}

// Device is one device of a node.
type Device struct {
	Type    Type
	Minor   int
	ID      string // UUID or PCI address
	Healthy bool   // an unhealthy device is not given to further members; its users keep it
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

// Inventory is what a node's Device object and labels declare.
type Inventory struct {
	Devices []Device
	// Table is the partitions by their number of GPUs. If nil, the built-in table of Vendor and Model is used, if there is
	// one; an empty table is a table without partitions.
	Table          map[int][]Partition
	Vendor, Model  string
	PartitionsOnly bool   // gpu-partition-policy: whole GPUs in partitions only, else where possible
	Isolation      string // gpu-isolation-provider; "" if none
}

// Share is a member's part of one device.
type Share struct {
	Type   Type
	Minor  int
	ID     string
	Amount Amount
	VFs    []VF
	// Exclusive excludes other members from the device (DeviceLevel), or from the type's devices on its switch (PCIeLevel).
	Exclusive Exclusive
}

// Allocation is the devices of a node that one member uses, by type in the order of the choice, then by minor.
type Allocation []Share

// Exclusive says what a member does not share with other members.
type Exclusive uint8

// The levels of exclusivePolicy.
const (
	Sharing Exclusive = iota
	DeviceLevel
	PCIeLevel
)

// Scope limits how far apart the devices of one type may be. A larger Scope is a smaller distance.
type Scope uint8

// The scopes of requiredTopologyScope. AnyScope requires nothing.
const (
	AnyScope Scope = iota
	NodeScope
	NUMAScope
	PCIeScope
	DeviceScope
)

// builtin returns Koordinator's partition table of a vendor's model; nil if it has none.
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

// name returns the device's usual name: gpu3.
func (d Device) name() string { return string(d.Type) + strconv.Itoa(d.Minor) }
