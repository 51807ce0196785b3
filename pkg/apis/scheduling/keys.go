package scheduling

// The values of spec.schedulerName of pods that Muster serves.
const (
	// SchedulerName is Muster's own name.
	SchedulerName = "muster-scheduler"
	// DropInSchedulerName is Koordinator's name. The drop-in profile serves it, so that pods written for Koordinator run unchanged.
	DropInSchedulerName = "koord-scheduler"
)

// A pod names its gang by one of these keys; the first takes precedence. LabelPodGroup and LabelPodGroupX
// name a PodGroup of the pod's namespace.
const (
	// LabelPodGroup names a PodGroup of scheduling.sigs.k8s.io.
	LabelPodGroup = "pod-group.scheduling.sigs.k8s.io"
	// LabelPodGroupX names a PodGroup of scheduling.x-k8s.io.
	LabelPodGroupX = "scheduling.x-k8s.io/pod-group"
	// AnnotationGangName names a gang that has no PodGroup: its members describe it themselves, with the annotations below.
	AnnotationGangName = "gang.scheduling.koordinator.sh/name"
	// LabelGangName is deprecated, and means the same as AnnotationGangName.
	LabelGangName = "pod-group.scheduling.sigs.k8s.io/name"
)

// Keys that describe a gang, on its PodGroup, or on the members of a gang without a PodGroup.
const (
	// AnnotationMinAvailable is minMember of a gang without a PodGroup. See ParseMinAvailable.
	AnnotationMinAvailable = "gang.scheduling.koordinator.sh/min-available"
	// LabelMinAvailable is deprecated, means the same as AnnotationMinAvailable, and takes precedence.
	LabelMinAvailable = "pod-group.scheduling.sigs.k8s.io/min-available"
	// AnnotationTotalNumber is how many members the gang will have. See ParseTotalNumber.
	AnnotationTotalNumber = "gang.scheduling.koordinator.sh/total-number"
	// AnnotationWaitingTime is the longest time that a member waits at Permit. See ParseWaitingTime.
	AnnotationWaitingTime = "gang.scheduling.koordinator.sh/waiting-time"
	// AnnotationMode says what happens to waiting members when one member fails. See ParseMode.
	AnnotationMode = "gang.scheduling.koordinator.sh/mode"
	// AnnotationMatchPolicy says which members count towards minMember. See ParseMatchPolicy.
	AnnotationMatchPolicy = "gang.scheduling.koordinator.sh/match-policy"
	// AnnotationMatchPolicyAlias is another name of AnnotationMatchPolicy, which takes precedence.
	AnnotationMatchPolicyAlias = "pod-group.scheduling.sigs.k8s.io/match-policy"
	// AnnotationGroups lists the gangs of a GangGroup. See ParseGroups.
	AnnotationGroups = "gang.scheduling.koordinator.sh/groups"
	// AnnotationRepair says what happens if the domain of a running gang cannot replace a lost member. See ParseRepair.
	AnnotationRepair = "muster.sh/repair"
	// AnnotationBackfill says that pods use spare nodes, and are evicted first for the repair of a gang. See ParseBackfill.
	AnnotationBackfill = "muster.sh/backfill"
	// AnnotationMaxRuntime declares how long a pod runs after it has a node. Muster plans with it and does not enforce it. See
	// ParseMaxRuntime.
	AnnotationMaxRuntime = "muster.sh/max-runtime"
	// AnnotationTopologySpec is the topology constraint. See ParseGatherSpec.
	AnnotationTopologySpec = "gang.scheduling.koordinator.sh/network-topology-spec"
)

// Keys of pods.
const (
	// AnnotationTopologyIndex is the member's rank. See ParseTopologyIndex.
	AnnotationTopologyIndex = "gang.scheduling.koordinator.sh/network-topology-index"
	// AnnotationTopologySelector is any string. Pods of the cluster with the same string attract one another.
	AnnotationTopologySelector = "scheduling.koordinator.sh/network-topology-selector"
	// AnnotationAllocatedAhead identifies an allocation on a ResourceClaim. Muster writes it when it allocates a claim that members of a
	// gang share before these members are scheduled.
	AnnotationAllocatedAhead = "muster.sh/allocated-ahead"
	// LabelDisablePreemptible with the value "true" forbids evicting the pod.
	LabelDisablePreemptible = "scheduling.koordinator.sh/disable-preemptible"
	// LabelQuotaPreemptible with the value "false" forbids evicting the pod.
	LabelQuotaPreemptible = "quota.scheduling.koordinator.sh/preemptible"
)

// AnnotationMaintenance on a node says when the node is to be empty. See ParseMaintenance.
const AnnotationMaintenance = "muster.sh/maintenance"

// Keys of ElasticQuotas of scheduling.sigs.k8s.io; LabelQuotaName is a label of pods.
const (
	// LabelQuotaName names the ElasticQuota that a pod belongs to.
	LabelQuotaName = "quota.scheduling.koordinator.sh/name"
	// LabelQuotaParent names the parent quota. The default is the root of the quota's tree.
	LabelQuotaParent = "quota.scheduling.koordinator.sh/parent"
	// LabelQuotaIsParent with the value "true" says that the quota has child quotas and no pods.
	LabelQuotaIsParent = "quota.scheduling.koordinator.sh/is-parent"
	// LabelQuotaLends with the value "false" says that the quota does not lend what it does not use of min.
	LabelQuotaLends = "quota.scheduling.koordinator.sh/allow-lent-resource"
	// LabelQuotaTree names the tree of a quota. LabelQuotaIsRoot with the value "true" marks the top of a tree.
	LabelQuotaTree   = "quota.scheduling.koordinator.sh/tree-id"
	LabelQuotaIsRoot = "quota.scheduling.koordinator.sh/is-root"
	// LabelQuotaProfile names the profile that created the quota.
	LabelQuotaProfile = "quota.scheduling.koordinator.sh/profile"
	// LabelQuotaOwnNodes with the value "true" removes the nodes of a tree from the cluster's tree.
	LabelQuotaOwnNodes = "quota.scheduling.koordinator.sh/ignore-default-tree"
	// AnnotationQuotaWeight has the weights for dividing unused capacity: amounts by resource as JSON.
	AnnotationQuotaWeight = "quota.scheduling.koordinator.sh/shared-weight"
	// AnnotationQuotaNamespaces lists the namespaces whose pods belong to a quota, as JSON.
	AnnotationQuotaNamespaces = "quota.scheduling.koordinator.sh/namespaces"
	// AnnotationQuotaTotal is the capacity of a tree, AnnotationQuotaBroken the unusable part of it: amounts by resource as JSON.
	AnnotationQuotaTotal  = "quota.scheduling.koordinator.sh/total-resource"
	AnnotationQuotaBroken = "quota.scheduling.koordinator.sh/unschedulable-resource"
	// Muster writes these: a quota's fair share, its requests, and what its pods use that are never evicted.
	AnnotationQuotaRuntime   = "quota.scheduling.koordinator.sh/runtime"
	AnnotationQuotaRequest   = "quota.scheduling.koordinator.sh/request"
	AnnotationQuotaFixedUsed = "quota.scheduling.koordinator.sh/non-preemptible-used"
)

// The built-in quotas, which need no object.
const (
	RootQuota    = "koordinator-root-quota"
	DefaultQuota = "koordinator-default-quota"
	SystemQuota  = "koordinator-system-quota"
)

// Keys in which other projects number their pods. Without AnnotationTopologyIndex, the first of these that a pod has is its rank.
const (
	// LabelWorkerIndex is the index in a LeaderWorkerSet's group: 0 is the leader. See ParseIndex.
	LabelWorkerIndex = "leaderworkerset.sigs.k8s.io/worker-index"
	// LabelCompletionIndex is the completion index in an Indexed Job. See ParseIndex.
	LabelCompletionIndex = "batch.kubernetes.io/job-completion-index"
	// AnnotationCompletionIndex means the same as LabelCompletionIndex, on older clusters.
	AnnotationCompletionIndex = "batch.kubernetes.io/job-completion-index"
	// LabelPodIndex is the ordinal in a StatefulSet. See ParseIndex.
	LabelPodIndex = "apps.kubernetes.io/pod-index"
	// LabelPodName is the pod's name, which ends in its ordinal, on older clusters. See ParseOrdinal.
	LabelPodName = "statefulset.kubernetes.io/pod-name"
)

// Keys of other projects that name the row of a pod: the pods that are numbered together.
const (
	// LabelLeaderWorkerSet names a LeaderWorkerSet, LabelGroupIndex one of its groups.
	LabelLeaderWorkerSet = "leaderworkerset.sigs.k8s.io/name"
	LabelGroupIndex      = "leaderworkerset.sigs.k8s.io/group-index"
	// LabelJobSet names a JobSet. LabelGlobalIndex is the number of one of its Jobs, in the order of the ReplicatedJobs.
	LabelJobSet      = "jobset.sigs.k8s.io/jobset-name"
	LabelGlobalIndex = "jobset.sigs.k8s.io/job-global-index"
)

// Layers with a fixed meaning. The user names all other layers.
const (
	// ClusterTopologyLayer is the root of every tree. It is never listed.
	ClusterTopologyLayer = "ClusterTopologyLayer"
	// NodeTopologyLayer is the last layer: the nodes.
	NodeTopologyLayer = "NodeTopologyLayer"
)

// MaxGroups is the maximal number of gangs in a GangGroup.
const MaxGroups = 64

// TopologyName is the name of the ClusterNetworkTopology that Muster reads. Others have no effect.
const TopologyName = "default"
