package scheduling

// Names of the schedulers that Muster answers to in spec.schedulerName of a pod.
const (
	// SchedulerName is Muster's own.
	SchedulerName = "muster-scheduler"
	// DropInSchedulerName is Koordinator's; the drop-in profile serves it, so that pods
	// written for Koordinator run unchanged.
	DropInSchedulerName = "koord-scheduler"
)

// A pod names its gang by one of these. The labels name a PodGroup of the pod's
// namespace and win over the annotation, the first label over the second.
const (
	// LabelPodGroup names a PodGroup of scheduling.sigs.k8s.io.
	LabelPodGroup = "pod-group.scheduling.sigs.k8s.io"
	// LabelPodGroupX names a PodGroup of scheduling.x-k8s.io.
	LabelPodGroupX = "scheduling.x-k8s.io/pod-group"
	// AnnotationGangName names a gang that has no PodGroup: its members describe it
	// themselves, with the annotations below.
	AnnotationGangName = "gang.scheduling.koordinator.sh/name"
)

// These describe a gang. They stand on the PodGroup, or on the members of a gang that
// has none.
const (
	// AnnotationMinAvailable is minMember of a gang without a PodGroup. See ParseMinAvailable.
	AnnotationMinAvailable = "gang.scheduling.koordinator.sh/min-available"
	// AnnotationTotalNumber says how many members there will be. See ParseTotalNumber.
	AnnotationTotalNumber = "gang.scheduling.koordinator.sh/total-number"
	// AnnotationWaitingTime ends the wait in Permit. See ParseWaitingTime.
	AnnotationWaitingTime = "gang.scheduling.koordinator.sh/waiting-time"
	// AnnotationMode says what one member's failure means for the others. See ParseMode.
	AnnotationMode = "gang.scheduling.koordinator.sh/mode"
	// AnnotationMatchPolicy says which members count towards minMember. See ParseMatchPolicy.
	AnnotationMatchPolicy = "gang.scheduling.koordinator.sh/match-policy"
	// AnnotationGroups lists the gangs of a GangGroup. See ParseGroups.
	AnnotationGroups = "gang.scheduling.koordinator.sh/groups"
	// AnnotationTopologySpec says how the members gather. See ParseGatherSpec.
	AnnotationTopologySpec = "gang.scheduling.koordinator.sh/network-topology-spec"
)

// These stand on a pod.
const (
	// AnnotationTopologyIndex is the member's rank. See ParseTopologyIndex.
	AnnotationTopologyIndex = "gang.scheduling.koordinator.sh/network-topology-index"
	// AnnotationTopologySelector holds any string; pods of the cluster with the same
	// string attract one another.
	AnnotationTopologySelector = "scheduling.koordinator.sh/network-topology-selector"
	// LabelDisablePreemptible with the value "true" makes a pod no victim, ever.
	LabelDisablePreemptible = "scheduling.koordinator.sh/disable-preemptible"
	// LabelQuotaPreemptible with the value "false" makes a pod no victim, ever.
	LabelQuotaPreemptible = "quota.scheduling.koordinator.sh/preemptible"
)

// Layers with a meaning of their own; every other layer's name is the user's.
const (
	// ClusterTopologyLayer is the root of every tree. It is never listed.
	ClusterTopologyLayer = "ClusterTopologyLayer"
	// NodeTopologyLayer is the last layer: the nodes.
	NodeTopologyLayer = "NodeTopologyLayer"
)

// TopologyName is the name of the one ClusterNetworkTopology that is read. Others may
// exist and have no effect.
const TopologyName = "default"
