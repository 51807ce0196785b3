package fit

import "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

// scope is how far a plugin looks when it is asked whether a pod may go to a node.
type scope uint8

const (
	// unknown: nothing is known of it. It may look anywhere, and at things that are not in
	// the scheduler's snapshot.
	unknown scope = iota
	// local: at the pod and at the node, with the pods on it.
	local
	// pairwise: at pods on other nodes as well. Members are tried one after the other.
	pairwise
	// ledgered: at what pods have taken, which is written down beside the snapshot: volumes,
	// devices. A member that is only supposed to be there has taken nothing, so that the
	// plugin lets more members pass than there is room for. In a member's own cycle it knows.
	ledgered
)

// fact is what is known of a plugin.
type fact struct {
	scope scope
	// keyed: of a pod it reads nothing but what is in nodeKey. Only for local ones.
	keyed bool
	// blind: a member that is added to a node changes nothing for the next one but what is
	// left of resources. Only for keyed ones.
	blind bool
}

// facts are what this package knows of Filter plugins; of all others it knows nothing.
var facts = map[string]fact{
	names.NodeName:              {scope: local, keyed: true, blind: true},
	names.NodeUnschedulable:     {scope: local, keyed: true, blind: true},
	names.TaintToleration:       {scope: local, keyed: true, blind: true},
	names.NodeAffinity:          {scope: local, keyed: true, blind: true},
	names.NodeResourcesFit:      {scope: local, keyed: true, blind: true},
	"Coscheduling":              {scope: local, keyed: true, blind: true}, // which steps aside when asked
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

	"DeviceShare": {scope: local}, // it chooses for all who are on the node; its ledger counts
}

// Limits says what a plugin's refusal of a node tells, where a member came to it in a cycle
// of its own although it had been counted there: that the node takes no more than it had by
// then. Plugins that look at nothing but the snapshot count right, so that it tells nothing.
func Limits(plugin string) bool {
	s := facts[plugin].scope
	return s == unknown || s == ledgered
}

// ReadsNamespaces is the plugin that reads the labels of namespaces: terms of pod affinity may
// go by them, and the scheduler has no event for that.
const ReadsNamespaces = names.InterPodAffinity
