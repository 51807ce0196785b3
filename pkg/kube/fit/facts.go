package fit

import "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

// scope is what a plugin reads when it filters a node for a pod.
type scope uint8

const (
	// unknown: it is not known what the plugin reads. It may be anything, even outside the snapshot.
	unknown scope = iota
	// local: it reads the pod, and the node with its pods.
	local
	// pairwise: it also reads pods on other nodes. So members are tried one after another.
	pairwise
	// ledgered: it also reads allocations outside the snapshot, such as volumes and devices. An assumed member has no allocation yet, so that
	// the plugin accepts too many members until each member's own cycle.
	ledgered
)

// fact is what is known about a plugin.
type fact struct {
	scope scope
	// keyed says that of a pod it reads only the fields in nodeKey. It is set only for local plugins.
	keyed bool
	// blind says that of other members on the node it reads only their resources. It is set only for keyed plugins.
	blind bool
}

// facts are the known Filter plugins.
var facts = map[string]fact{
	names.NodeName:              {scope: local, keyed: true, blind: true},
	names.NodeUnschedulable:     {scope: local, keyed: true, blind: true},
	names.TaintToleration:       {scope: local, keyed: true, blind: true},
	names.NodeAffinity:          {scope: local, keyed: true, blind: true},
	names.NodeResourcesFit:      {scope: local, keyed: true, blind: true},
	"Coscheduling":              {scope: local, keyed: true, blind: true}, // with IsWhatIf it does not use its plan
	names.NodePorts:             {scope: local, keyed: true},
	names.VolumeZone:            {scope: local},
	names.NodeDeclaredFeatures:  {scope: local},
	names.GangScheduling:        {scope: local},
	names.DeferredPodScheduling: {scope: local},

	names.InterPodAffinity:   {scope: pairwise},
	names.PodTopologySpread:  {scope: pairwise},
	names.VolumeRestrictions: {scope: pairwise},

	names.VolumeBinding:    {scope: ledgered},
	names.NodeVolumeLimits: {scope: ledgered},
	names.DynamicResources: {scope: ledgered},

	"DeviceShare": {scope: local}, // it chooses for all pods of the node; its ledger counts
}

// Limits returns whether a plugin may reject a member on a node although this package has counted capacity for it. Then the node is limited
// to the members that it has. Plugins that read only the snapshot are counted correctly.
func Limits(plugin string) bool {
	s := facts[plugin].scope
	return s == unknown || s == ledgered
}

// ReadsNamespaces is the plugin that reads namespace labels, for pod affinity terms. The scheduler has no event for changes of these.
const ReadsNamespaces = names.InterPodAffinity
