package device

import "strings"

// Reason is why a node's devices do not do.
type Reason uint8

// The reasons, most of them Koordinator's.
const (
	MissingDevice      Reason = iota + 1 // nobody says what the node has
	UnreadableDevice                     // somebody does, and it cannot be
	OfferedTwice                         // by somebody else, too, who counts for himself
	OtherIsolation                       // the pod asks for another provider of isolation than the node has
	TooFew                               // devices of the type
	TooFewVFs                            // VFs of the type's devices
	TooFewInScope                        // GPUs as close as they must be
	TooFewPartitioned                    // GPUs in a partition that is free
	NoTable                              // of partitions
	NotInTable                           // no partition has so many GPUs
	NoTree                               // nobody says where the GPUs are
	SharedInScope                        // several shared GPUs with a scope
	JointRules                           // each type would do by itself
	TogetherWithOthers                   // each member would do by itself
)

// Refusal says why a node has no room for a member, with those of its gang that come before it.
type Refusal struct {
	Reason Reason
	Type   Type
	// Resource is what is offered twice.
	Resource string
	// Lasting says that the member would find no room if nobody else were there: nobody needs to
	// leave for it.
	Lasting bool
}

// Missing says why a node has no room for a member of whose devices nobody says anything; nil if the member
// asks for a vendor's devices, which are counted as any other resource there.
func Missing(r *Request) *Refusal {
	if r.vendor {
		return nil
	}
	return &Refusal{Reason: MissingDevice, Type: r.wants[0].of, Lasting: true}
}

// Unreadable says why a node has no room for a member, whatever it asks for: somebody counts devices there in
// a way that cannot be.
func Unreadable(r *Request) *Refusal {
	return &Refusal{Reason: UnreadableDevice, Type: r.wants[0].of, Lasting: true}
}

// Twice says that somebody else gives away what a member asks for, who does not know what is taken here.
func Twice(r *Request, resource string) *Refusal {
	return &Refusal{Reason: OfferedTwice, Type: r.wants[0].of, Resource: resource, Lasting: true}
}

// Text says a refusal in Koordinator's words.
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

// Invalid says what of a pod's words cannot be meant. Nothing but another pod cures it.
type Invalid struct {
	Resources    []string // that do not go together, or with this value; nil if an annotation is wrong
	Unit         bool     // one resource has a value that is no percentage
	Field, Value string   // "" where it is the resources altogether
	Legal        string
}

// Text says it in Koordinator's words, then which value it is and what is legal.
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

// Error is Text.
func (i *Invalid) Error() string { return i.Text() }

func quote(s string) string { return `"` + s + `"` }
