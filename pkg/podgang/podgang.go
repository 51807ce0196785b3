// Package podgang is what all APIs of gangs have in common: one gang as a value, PodGangInfo. One file an API builds
// it from objects as they are served; pkg/kube/backend writes it as the objects that one scheduler reads. It knows no
// client, no clock, and nothing of who places pods.
//
//	PodCliqueSet  PodGang  LeaderWorkerSet  Volcano's PodGroup  JobSet
//	      \          \            |            /               /
//	       '----------'----- PodGangInfo -----'---------------'
//	                              |
//	        workload   podgang   koordinator   muster   volcano
package podgang

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// PodGangInfo is one gang, whichever API describes it and whoever schedules it: its groups start together, or none
// does.
type PodGangInfo struct {
	Namespace, Name string
	// Kind is the kind of object that the gang was built from.
	Kind Kind
	// Owner owns what is written for the gang, and is its controller.
	Owner Owner
	// SchedulerName is that of its pods, "" for the default scheduler.
	SchedulerName string
	// Labels are those that objects which are written for the gang carry beside the backend's own.
	Labels map[string]string
	// Annotations are those of the owner, for the backends that pass some of them on.
	Annotations map[string]string
	// PodGroups are its groups, in the order in which the API lists them.
	PodGroups []PodGroupInfo
	// TopologyConstraint is about all its pods; nil is none.
	TopologyConstraint *TopologyConstraint
	// TopologyConstraintGroupConfigs are about the pods of several groups together.
	TopologyConstraintGroupConfigs []TopologyConstraintGroupConfig
	PriorityClassName              string
	// ReuseReservationRef names the gang whose places this one would take over; nil is none.
	ReuseReservationRef *types.NamespacedName
	// Base is the gang that must be scheduled before this one: a PodGang that was scaled out has one.
	Base string
	// Queue is Volcano's.
	Queue string
	// Notes are what people should know of the objects that it was built from.
	Notes []Note
}

// Kind is a kind of object that a gang may be built from.
type Kind string

// The kinds that there are builders for.
const (
	PodCliqueSet    Kind = "PodCliqueSet"
	PodGang         Kind = "PodGang"
	LeaderWorkerSet Kind = "LeaderWorkerSet"
	VolcanoPodGroup Kind = "VolcanoPodGroup"
	JobSet          Kind = "JobSet"
)

// SchedulerField is where an object of a kind says which scheduler its pods have.
func (k Kind) SchedulerField() string {
	switch k {
	case PodCliqueSet:
		return "spec.template.cliques[].spec.podSpec.schedulerName"
	case PodGang:
		return "metadata.labels[" + workloads.LabelSchedulerName + "]"
	case LeaderWorkerSet:
		return "spec.leaderWorkerTemplate.workerTemplate.spec.schedulerName"
	case JobSet:
		return "spec.replicatedJobs[].template.spec.template.spec.schedulerName"
	}
	return "its pods' spec.schedulerName"
}

// Owner is the object that owns what is written for a gang.
type Owner struct {
	APIVersion, Kind, Name string
	UID                    types.UID
}

// Reference is the owner as what it owns names it.
func (o Owner) Reference() metav1.OwnerReference {
	controller := true
	return metav1.OwnerReference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Controller: &controller}
}

// PodGroupInfo is one group of a gang: pods of one role.
type PodGroupInfo struct {
	// Name is the group's in its API: of a PodGang the whole name of the PodClique.
	Name string
	// MinReplicas is how many of its pods start together with the rest of the gang. 0 is what Grove writes of a group
	// that was placed: see KeepMinima.
	MinReplicas int32
	// Total is how many pods there will be, 0 if that is not known. It is not below MinReplicas.
	Total int32
	// PodReferences are the pods that exist, where the API lists them.
	PodReferences []types.NamespacedName
	// Selector are the labels that all of its pods carry, and no others.
	Selector map[string]string
	// TopologyConstraint is about the pods of this group; nil is none.
	TopologyConstraint *TopologyConstraint
	// Incarnation is another one when all of its pods are made anew, "" if nothing says so: a group that comes again
	// is a gang again, also for a scheduler to which it was satisfied once and for all.
	Incarnation string
	// MinResources is what its pods ask for in all; nil if that is not known.
	MinResources corev1.ResourceList
	// LeaderFirst says why MinReplicas is 1 of a group that is larger; "" if it is not for this.
	LeaderFirst string
	// SubGroups are the policies by which its pods form sub-groups with constraints of their own.
	SubGroups []SubGroupInfo
}

// SubGroupInfo is a policy: the pods that it selects and that have equal values under its keys are one sub-group.
type SubGroupInfo struct {
	Name               string
	Size               int32 // pods of each
	Least              int32 // how many sub-groups there must be
	LabelSelector      *metav1.LabelSelector
	MatchLabelKeys     []string
	TopologyConstraint *TopologyConstraint
}

// TopologyConstraintGroupConfig is a constraint for some groups of a gang together.
type TopologyConstraintGroupConfig struct {
	Name               string
	PodGroupNames      []string
	TopologyConstraint *TopologyConstraint
}

// Note is something that people should know: an event on the object that the gang was built from.
type Note struct {
	Reason, Message string
	Info            bool // nothing need be changed
}

// Reasons of notes and of errors that become events.
const (
	ReasonTierMissing        = "NetworkTopologyTierMissing"      // hard without a tier
	ReasonTierTooHigh        = "NetworkTopologyTierTooHigh"      // a tier above all layers
	ReasonTierIsNode         = "NetworkTopologyTierIsNode"       // tier 0
	ReasonTierUnknown        = "NetworkTopologyTierUnknown"      // a tier, or its name, that no layer has
	ReasonTopology           = "TopologyNotLegal"                // the ClusterNetworkTopology cannot be read
	ReasonKeyNotMapped       = "TopologyKeyNotMapped"            // a label key that no layer has
	ReasonGroupConfig        = "TopologyGroupConfigUnsupported"  // some groups together
	ReasonReuse              = "ReuseReservationUnsupported"     // reuseReservationRef
	ReasonConflict           = "PodGroupConflict"                // an object of that name is somebody else's
	ReasonUnsupported        = "NotTranslated"                   // what does not survive translation
	ReasonLeaderFirst        = "LeaderFirst"                     // the first pod starts alone
	ReasonTwoRules           = "TwoTopologyRules"                // two sources say how pods gather
	ReasonNotServed          = "SchedulingAPINotServed"          // no version of the native API
	ReasonTooManyGroups      = "TooManyPodGroups"                // more groups than an object takes
	ReasonNoBackend          = "NoBackend"                       // a scheduler name that nobody serves
	ReasonInvalid            = "InvalidGang"                     // what the object says is invalid
	ReasonNotWritten         = "NotWritten"                      // the API server refuses what would be written
	ReasonNotPrepared        = "PodNotPrepared"                  // a pod that the webhook has missed, and that cannot be mended
	ReasonRecreated          = "PodGroupRecreated"               // a field that can only be set at creation has changed
	ReasonTerminating        = "PodGroupTerminating"             // one of that name is on its way out
	ReasonPriorityAnnotation = "PriorityClassNameIsAnAnnotation" // the API has no field for it
)

// Error is why nothing is written for a gang: an event of that reason, and another try later.
type Error struct{ Reason, Message string }

func (e *Error) Error() string { return e.Message }
