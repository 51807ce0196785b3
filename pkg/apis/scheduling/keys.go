package scheduling

// Names of the schedulers that Muster answers to in spec.schedulerName of a pod.
const (
	// SchedulerName is Muster's own.
	SchedulerName = "muster-scheduler"
	// DropInSchedulerName is Koordinator's; the drop-in profile serves it, so that pods
	// written for Koordinator run unchanged.
	DropInSchedulerName = "koord-scheduler"
)

// A pod names its gang by one of these; the first counts. LabelPodGroup and LabelPodGroupX
// name a PodGroup of the pod's namespace.
const (
	// LabelPodGroup names a PodGroup of scheduling.sigs.k8s.io.
	LabelPodGroup = "pod-group.scheduling.sigs.k8s.io"
	// LabelPodGroupX names a PodGroup of scheduling.x-k8s.io.
	LabelPodGroupX = "scheduling.x-k8s.io/pod-group"
	// AnnotationGangName names a gang that has no PodGroup: its members describe it
	// themselves, with the annotations below.
	AnnotationGangName = "gang.scheduling.koordinator.sh/name"
	// LabelGangName came before AnnotationGangName, and means the same.
	LabelGangName = "pod-group.scheduling.sigs.k8s.io/name"
)

// These describe a gang. They stand on the PodGroup, or on the members of a gang that
// has none.
const (
	// AnnotationMinAvailable is minMember of a gang without a PodGroup. See ParseMinAvailable.
	AnnotationMinAvailable = "gang.scheduling.koordinator.sh/min-available"
	// LabelMinAvailable came before AnnotationMinAvailable, means the same, and counts first.
	LabelMinAvailable = "pod-group.scheduling.sigs.k8s.io/min-available"
	// AnnotationTotalNumber says how many members there will be. See ParseTotalNumber.
	AnnotationTotalNumber = "gang.scheduling.koordinator.sh/total-number"
	// AnnotationWaitingTime ends the wait in Permit. See ParseWaitingTime.
	AnnotationWaitingTime = "gang.scheduling.koordinator.sh/waiting-time"
	// AnnotationMode says what one member's failure means for the others. See ParseMode.
	AnnotationMode = "gang.scheduling.koordinator.sh/mode"
	// AnnotationMatchPolicy says which members count towards minMember. See ParseMatchPolicy.
	AnnotationMatchPolicy = "gang.scheduling.koordinator.sh/match-policy"
	// AnnotationMatchPolicyAlias is another name of AnnotationMatchPolicy, which counts first.
	AnnotationMatchPolicyAlias = "pod-group.scheduling.sigs.k8s.io/match-policy"
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
	// AnnotationAllocatedAhead is what Muster writes on a ResourceClaim that members of a gang share when it allocates
	// the claim before they come: it tells which allocation that was.
	AnnotationAllocatedAhead = "muster.sh/allocated-ahead"
	// LabelDisablePreemptible with the value "true" makes a pod no victim, ever.
	LabelDisablePreemptible = "scheduling.koordinator.sh/disable-preemptible"
	// LabelQuotaPreemptible with the value "false" makes a pod no victim, ever.
	LabelQuotaPreemptible = "quota.scheduling.koordinator.sh/preemptible"
)

// These stand on an ElasticQuota of scheduling.sigs.k8s.io, and LabelQuotaName on a pod.
const (
	// LabelQuotaName names the ElasticQuota that a pod belongs to.
	LabelQuotaName = "quota.scheduling.koordinator.sh/name"
	// LabelQuotaParent names the ElasticQuota above one; without it that is the root of its tree.
	LabelQuotaParent = "quota.scheduling.koordinator.sh/parent"
	// LabelQuotaIsParent with the value "true" says that there are quotas below, and no pods.
	LabelQuotaIsParent = "quota.scheduling.koordinator.sh/is-parent"
	// LabelQuotaLends with the value "false" keeps what is not used of min.
	LabelQuotaLends = "quota.scheduling.koordinator.sh/allow-lent-resource"
	// LabelQuotaTree says of which tree a quota is, and LabelQuotaIsRoot with the value "true" that it is the top of it.
	LabelQuotaTree   = "quota.scheduling.koordinator.sh/tree-id"
	LabelQuotaIsRoot = "quota.scheduling.koordinator.sh/is-root"
	// LabelQuotaProfile is by which profile a quota was made.
	LabelQuotaProfile = "quota.scheduling.koordinator.sh/profile"
	// LabelQuotaOwnNodes with the value "true" takes a tree's nodes out of the tree of the cluster.
	LabelQuotaOwnNodes = "quota.scheduling.koordinator.sh/ignore-default-tree"
	// AnnotationQuotaWeight says by which weights what is left over is divided: amounts by resource as JSON.
	AnnotationQuotaWeight = "quota.scheduling.koordinator.sh/shared-weight"
	// AnnotationQuotaNamespaces lists the namespaces whose pods belong to a quota, as JSON.
	AnnotationQuotaNamespaces = "quota.scheduling.koordinator.sh/namespaces"
	// AnnotationQuotaTotal is what there is for a tree, AnnotationQuotaBroken how much of it cannot be used: amounts by resource as JSON.
	AnnotationQuotaTotal  = "quota.scheduling.koordinator.sh/total-resource"
	AnnotationQuotaBroken = "quota.scheduling.koordinator.sh/unschedulable-resource"
	// These are what Muster writes: what a quota is entitled to, asks for, and has of pods that are never evicted.
	AnnotationQuotaRuntime   = "quota.scheduling.koordinator.sh/runtime"
	AnnotationQuotaRequest   = "quota.scheduling.koordinator.sh/request"
	AnnotationQuotaFixedUsed = "quota.scheduling.koordinator.sh/non-preemptible-used"
)

// Quotas that are there without being declared.
const (
	RootQuota    = "koordinator-root-quota"
	DefaultQuota = "koordinator-default-quota"
	SystemQuota  = "koordinator-system-quota"
)

// Other systems number the pods that they make by these. Without an AnnotationTopologyIndex
// the first that a pod has is its rank, in this order. None of them is ours to define.
const (
	// LabelWorkerIndex is LeaderWorkerSet's: 0 is the leader of a group. See ParseIndex.
	LabelWorkerIndex = "leaderworkerset.sigs.k8s.io/worker-index"
	// LabelCompletionIndex is that of an Indexed Job. See ParseIndex.
	LabelCompletionIndex = "batch.kubernetes.io/job-completion-index"
	// AnnotationCompletionIndex came before LabelCompletionIndex, and means the same.
	AnnotationCompletionIndex = "batch.kubernetes.io/job-completion-index"
	// LabelPodIndex is the ordinal in a StatefulSet. See ParseIndex.
	LabelPodIndex = "apps.kubernetes.io/pod-index"
	// LabelPodName came before LabelPodIndex: the pod's name, which ends in its ordinal. See
	// ParseOrdinal.
	LabelPodName = "statefulset.kubernetes.io/pod-name"
)

// Other systems say with these which of several rows of pods one is in.
const (
	// LabelLeaderWorkerSet names a LeaderWorkerSet, LabelGroupIndex one of its groups.
	LabelLeaderWorkerSet = "leaderworkerset.sigs.k8s.io/name"
	LabelGroupIndex      = "leaderworkerset.sigs.k8s.io/group-index"
	// LabelJobSet names a JobSet, LabelGlobalIndex one of its Jobs: the Jobs of all its
	// ReplicatedJobs are numbered as they are listed.
	LabelJobSet      = "jobset.sigs.k8s.io/jobset-name"
	LabelGlobalIndex = "jobset.sigs.k8s.io/job-global-index"
)

// Layers with a meaning of their own; every other layer's name is the user's.
const (
	// ClusterTopologyLayer is the root of every tree. It is never listed.
	ClusterTopologyLayer = "ClusterTopologyLayer"
	// NodeTopologyLayer is the last layer: the nodes.
	NodeTopologyLayer = "NodeTopologyLayer"
)

// MaxGroups is how many gangs a GangGroup has at the most.
const MaxGroups = 64

// TopologyName is the name of the one ClusterNetworkTopology that is read. Others may
// exist and have no effect.
const TopologyName = "default"
