package fit

import "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

// scope is how far a plugin looks when it filters a node for a pod.
type scope uint8

const (
	// unknown: nothing is known. The plugin may read anything, also outside the snapshot.
	unknown scope = iota
	// local: the pod, and the node with its pods.
	local
	// pairwise: also pods on other nodes. Members are tried one after another.
	pairwise
	// ledgered: also allocations outside the snapshot, such as volumes and devices. An assumed member has allocated nothing,
	// so the plugin accepts too many members until a member's own cycle.
	ledgered
)

// fact is what is known of a plugin.
type fact struct {
	scope scope
	// keyed: it reads only the fields of a pod in nodeKey. Only for local plugins.
	keyed bool
	// blind: a member added to a node changes only the free resources for the next one. Only for keyed plugins.
	blind bool
}

// facts are the known Filter plugins.
var facts = map[string]fact{
	names.NodeName:              {scope: local, keyed: true, blind: true},
	names.NodeUnschedulable:     {scope: local, keyed: true, blind: true},
	names.TaintToleration:       {scope: local, keyed: true, blind: true},
	names.NodeAffinity:          {scope: local, keyed: true, blind: true},
	names.NodeResourcesFit:      {scope: local, keyed: true, blind: true},
	"Coscheduling":              {scope: local, keyed: true, blind: true}, // answers without a plan when Asking
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

// Limits returns whether a plugin's rejection of a counted member limits the node to the members that it had.
// Plugins that read only the snapshot count correctly, so their rejections set no limit.
func Limits(plugin string) bool {
	s := facts[plugin].scope
	return s == unknown || s == ledgered
}

// ReadsNamespaces is the plugin that reads namespace labels: pod affinity terms may select by them, and the scheduler has no event for
// that.
const ReadsNamespaces = names.InterPodAffinity
