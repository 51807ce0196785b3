// Package podgang defines a gang as a value, PodGangInfo, for all APIs. One file for each API builds it from objects;
// pkg/kube/backend writes it as the objects of one scheduler. The package knows no client, no clock and no scheduler.
// Invariant: builders are pure, so equal objects give equal gangs.
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

// PodGangInfo is one gang, for any API and any scheduler: all its groups start together, or none starts.
type PodGangInfo struct {
	Namespace, Name string
	// Kind is the kind of object that the gang was built from.
	Kind Kind
	// Owner is the owner and controller of the objects written for the gang.
	Owner Owner
	// SchedulerName is the scheduler of its pods, "" for the default scheduler.
	SchedulerName string
	// Labels are set on the objects written for the gang, beside the backend's own.
	Labels map[string]string
	// Annotations are the owner's, for backends that copy some of them.
	Annotations map[string]string
	// PodGroups are its groups, in the API's order.
	PodGroups []PodGroupInfo
	// TopologyConstraint holds for all its pods; nil for none.
	TopologyConstraint *TopologyConstraint
	// TopologyConstraintGroupConfigs hold for the pods of several groups together.
	TopologyConstraintGroupConfigs []TopologyConstraintGroupConfig
	PriorityClassName              string
	// ReuseReservationRef names the gang from which this one would take over the reservation; nil for none.
	ReuseReservationRef *types.NamespacedName
	// Base is the gang that must be scheduled before this one: scaled PodGangs have one.
	Base string
	// Queue is Volcano's queue.
	Queue string
	// Notes are for the user, about the objects that the gang was built from.
	Notes []Note
}

// Kind is a kind of object that declares a gang.
type Kind string

// The supported kinds.
const (
	PodCliqueSet    Kind = "PodCliqueSet"
	PodGang         Kind = "PodGang"
	LeaderWorkerSet Kind = "LeaderWorkerSet"
	VolcanoPodGroup Kind = "VolcanoPodGroup"
	JobSet          Kind = "JobSet"
)

// SchedulerField returns, for messages, the field of the object that sets the scheduler name of its pods.
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

// Owner is the object that owns the objects written for a gang.
type Owner struct {
	APIVersion, Kind, Name string
	UID                    types.UID
}

// PodGroupInfo is one group of a gang: pods of one role.
type PodGroupInfo struct {
	// Name is the group's name in its API: in a PodGang, the full name of the PodClique.
	Name string
	// MinReplicas is how many of its pods start together with the rest of the gang. Grove writes 0 for a placed group: see KeepMinima.
	MinReplicas int32
	// Total is the future number of pods, 0 if unknown. Invariant: MinReplicas <= Total, unless Total is 0.
	Total int32
	// PodReferences are the existing pods, if the API lists them.
	PodReferences []types.NamespacedName
	// Selector are the labels that all of its pods carry, and no other pods.
	Selector map[string]string
	// TopologyConstraint holds for the pods of this group; nil for none.
	TopologyConstraint *TopologyConstraint
	// Incarnation changes when all of its pods are recreated, "" if unknown: then the group is a gang again, even for a
	// scheduler that treats a satisfied group as satisfied for ever.
	Incarnation string
	// MinResources are the requests of all its pods; nil if unknown.
	MinResources corev1.ResourceList
	// LeaderFirst is why MinReplicas is 1 in a larger group; "" if it is not the leader that comes first.
	LeaderFirst string
	// SubGroups are the policies by which its pods form sub-groups with their own constraints.
	SubGroups []SubGroupInfo
}

// SubGroupInfo is a policy: the selected pods with equal values under its keys are one sub-group.
type SubGroupInfo struct {
	Name               string
	Size               int32 // pods of each
	Least              int32 // the minimum number of sub-groups
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

// Note is information for the user. It becomes an event on the object that declares the gang.
type Note struct {
	Reason, Message string
	Info            bool // nothing need be changed
}

// Error is why nothing is written for a gang: it becomes an event, and the write is retried.
type Error struct{ Reason, Message string }

func (e *Error) Error() string { return e.Message }
