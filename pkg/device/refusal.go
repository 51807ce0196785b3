package device

import "strings"

// Reason says why a node's devices do not suffice.
type Reason uint8

// The reasons, most of them Koordinator's.
const (
	MissingDevice      Reason = iota + 1 // no object declares the devices of the node
	UnreadableDevice                     // the Device object is invalid
	OfferedTwice                         // the node also offers them in another way, with its own count
	OtherIsolation                       // the pod requests another isolation provider than the node has
	TooFew                               // devices of the type
	TooFewVFs                            // VFs of the type's devices
	TooFewInScope                        // GPUs within the required scope
	TooFewPartitioned                    // GPUs in a free partition
	NoTable                              // of partitions
	NotInTable                           // no partition has so many GPUs
	NoTree                               // the positions of the GPUs are unknown
	SharedInScope                        // several shared GPUs with a scope
	JointRules                           // each type fits alone
	TogetherWithOthers                   // each member fits alone
)

// Refusal is why a member does not fit on a node together with the earlier members of its gang.
type Refusal struct {
	Reason Reason
	Type   Type
	// Resource is the resource that is offered twice.
	Resource string
	// Lasting says that the member would not fit on the empty node either: evicting pods does not help.
	Lasting bool
}

// Missing returns the refusal of a node without declared devices; nil if the member requests a vendor's devices, which are counted as any
// other resource there.
func Missing(r *Request) *Refusal {
	if r.vendor {
		return nil
	}
	return &Refusal{Reason: MissingDevice, Type: r.wants[0].deviceType, Lasting: true}
}

// Unreadable returns the refusal of a node with an invalid Device object, whatever the member requests.
func Unreadable(r *Request) *Refusal {
	return &Refusal{Reason: UnreadableDevice, Type: r.wants[0].deviceType, Lasting: true}
}

// OfferedTwiceRefusal returns the refusal of a node on which another allocator also offers the resource, without knowledge of this
// package's state.
func OfferedTwiceRefusal(r *Request, resource string) *Refusal {
	return &Refusal{Reason: OfferedTwice, Type: r.wants[0].deviceType, Resource: resource, Lasting: true}
}

// Text returns the reason in Koordinator's words.
func (r *Refusal) Text() string {
	switch r.Reason {
	case MissingDevice:
		return "node(s) missing Device"
	case UnreadableDevice:
		return "node(s) have a Device that cannot be read"
	case OfferedTwice:
		return "node(s) offer " + r.Resource + " twice: by a Device and by a DeviceClass"
	case OtherIsolation:
		return "node(s) have another GPU isolation provider"
	case TooFewVFs:
		return "Insufficient " + string(r.Type) + " VirtualFunctions"
	case TooFewInScope:
		return "Insufficient Topology Scoped GPU Devices"
	case TooFewPartitioned:
		return "Insufficient Partitioned GPU Devices"
	case NoTable:
		return "node(s) missing GPU Partition Table"
	case NotInTable:
		return "node(s) Unsupported number of GPU requests"
	case NoTree:
		return "node(s) missing GPU Device Topology Tree"
	case SharedInScope:
		return "node(s) Unsupported Multi-Shared GPU"
	case JointRules:
		return "node(s) Device Joint-Allocate rules violation"
	case TogetherWithOthers:
		return "node(s) have devices for each of several pods, but not for all"
	}
	if r.Type == GPU {
		return "Insufficient GPU Devices"
	}
	return "Insufficient " + string(r.Type) + " devices"
}

// Invalid is an invalid request of a pod. Only another pod spec helps.
type Invalid struct {
	Resources    []string // an invalid combination, or the resources that the value is invalid with; nil if an annotation is invalid
	Unit         bool     // the value of one resource is no percentage
	Field, Value string   // "" if the combination of the resources is invalid
	Legal        string
}

// Text returns Koordinator's message, then the value and the supported values.
func (i *Invalid) Text() string {
	switch {
	case i.Unit:
		return "invalid resource unit " + i.Field + ": " + i.Value + ": must be " + i.Legal
	case i.Resources == nil:
		return i.Field + ": " + quote(i.Value) + ": must be " + i.Legal
	case i.Field == "":
		return "invalid resource device requests: [" + strings.Join(i.Resources, " ") + "]: must be " + i.Legal
	}
	return "invalid resource device requests: [" + strings.Join(i.Resources, " ") + "]: " + i.Field + "=" + i.Value + ": must be " + i.Legal
}

func (i *Invalid) Error() string { return i.Text() }

func quote(s string) string { return `"` + s + `"` }
