package scheduling

import "strings"

// Key describes one annotation or label. docs/reference.md is generated from it.
type Key struct {
	Name    string
	Label   bool   // it is a label; else an annotation
	On      string // the kinds of objects on which Muster reads it
	Meaning string
	Legal   string // the supported values; "" in chapters() stands for the ones in Check's error
	Default string // the default without the key
	Example string
	// Check returns why a value is invalid. It is nil if every value is valid.
	Check func(value string) error
}

// Chapter is a group of keys in docs/reference.md.
type Chapter struct {
	Title string
	Intro string
	Keys  []Key
}

const (
	onPod   = "Pod"
	onBoth  = "PodGroup, Pod"
	onQuota = "ElasticQuota"
	onNode  = "Node"

	aName      = "the name of a PodGroup in the pod's namespace"
	anyValue   = "any string"
	justTheOne = "the pod is a member of no gang"
)

// Keys returns all keys that Muster reads or writes. Where one key takes precedence over another, it comes first.
func Keys() []Chapter {
	all := chapters()
	for _, c := range all {
		for i := range c.Keys {
			if k := &c.Keys[i]; k.Legal == "" {
				_, k.Legal, _ = strings.Cut(k.Check("\x00").Error(), "; supported values: ") // "\x00" is invalid for every key
			}
		}
	}
	return all
}

// chapters returns the keys without the Legal texts that Check determines.
func chapters() []Chapter {
	return []Chapter{
		{
			Title: "Which gang a pod is a member of",
			Intro: "If a pod has more than one of these keys, the first in this table counts. If another key names another gang, the pod gets an " +
				"event `TwoGangs`.",
			Keys: []Key{
				{
					Name: LabelPodGroup, Label: true, On: onPod, Meaning: "the PodGroup of `scheduling.sigs.k8s.io` that the pod belongs to", Legal: aName,
					Default: justTheOne, Example: "train",
				},
				{
					Name: LabelPodGroupX, Label: true, On: onPod, Meaning: "the PodGroup of `scheduling.x-k8s.io` that the pod belongs to", Legal: aName,
					Default: justTheOne, Example: "train",
				},
				{
					Name: AnnotationGangName, On: onPod,
					Meaning: "the gang that the pod belongs to. If no PodGroup has this name, the members define the gang with the annotations below",
					Legal:   "a name", Default: justTheOne, Example: "train",
				},
				{
					Name: LabelGangName, Label: true, On: onPod,
					Meaning: "deprecated, same meaning as the annotation `gang.scheduling.koordinator.sh/name`", Legal: "a name",
					Default: justTheOne, Example: "train",
				},
			},
		},
		{
			Title: "What a gang is",
			Intro: "Muster reads a key from the PodGroup. If the PodGroup lacks it, Muster reads it from the members: the first by name that has " +
				"the key. " +
				"A member with another value gets an event `InvalidAnnotation`.",
			Keys: []Key{
				{
					Name: LabelMinAvailable, Label: true, On: onPod,
					Meaning: "deprecated, same meaning as the annotation `min-available` for pods that name a gang; it makes no gang of a Job's pods. " +
						"If a pod has both, the label counts",
					Default: "the annotation `min-available`", Example: "4", Check: check(ParseLabelMinAvailable),
				},
				{
					Name: AnnotationMinAvailable, On: onPod,
					Meaning: "minMember of a gang without a PodGroup. This number of members starts together, or no member starts",
					Default: "none: the gang is not scheduled without it", Example: "4", Check: check(ParseMinAvailable),
				},
				{
					Name: AnnotationTotalNumber, On: onBoth,
					Meaning: "the number of members that the gang will have in the end. For a LeaderWorkerSet whose leader is created first: Muster " +
						"places the leader where this number of members fits",
					Legal:   "an integer ≥ 1, and at least min-available",
					Default: "min-available", Example: "8", Check: check(ParseTotalNumber),
				},
				{
					Name: AnnotationWaitingTime, On: onBoth,
					Meaning: "how long members with an assigned node wait for the other members. After this time all of them release their nodes. " +
						"It overrides `scheduleTimeoutSeconds`",
					Default: "`scheduleTimeoutSeconds`, else `defaultTimeout` of CoschedulingArgs", Example: "600s", Check: check(ParseWaitingTime),
				},
				{
					Name: AnnotationMode, On: onBoth,
					Meaning: "what happens to waiting members when one member fails. `Strict`: all return to the queue. `NonStrict`: the other members " +
						"keep their nodes",
					Default: "`Strict`", Example: "NonStrict", Check: check(ParseMode),
				},
				{
					Name: AnnotationMatchPolicy, On: onBoth,
					Meaning: "which members count towards minMember. `only-waiting`: members that wait at Permit. `waiting-and-running`: also running " +
						"members. " +
						"`once-satisfied`: waiting members until the gang has started once; after that each member starts alone",
					Default: "`defaultMatchPolicy` of CoschedulingArgs", Example: "once-satisfied", Check: check(ParseMatchPolicy),
				},
				{
					Name: AnnotationMatchPolicyAlias, On: onBoth,
					Meaning: "another name of the annotation `match-policy`. If both exist, `match-policy` counts", Default: "`match-policy`",
					Example: "once-satisfied", Check: check(ParseMatchPolicy),
				},
				{
					Name: AnnotationRepair, On: onBoth,
					Meaning: "what happens if the domain of a running gang cannot replace a lost member. `Replace`: the replacement waits. " +
						"`Move`: after `repairTimeout` the gang is evicted if another domain takes all its members; their nodes are reserved first",
					Default: "`repairPolicy` of CoschedulingArgs", Example: "Move", Check: check(ParseRepair),
				},
				{
					Name: AnnotationGroups, On: onBoth,
					Meaning: "a gang group: gangs that start together, at most 64, each as namespace/name. Each gang of the group must list all of them",
					Default: "the gang alone", Example: `["default/launcher","default/workers"]`, Check: check(ParseGroups),
				},
				{
					Name: AnnotationTopologySpec, On: onBoth,
					Meaning: "topology constraints. `MustGather`: all members run in one domain of the layer, or the gang waits. `PreferGather`: " +
						"members " +
						"run in as few domains as possible. `podCountMultiple`: each domain of the layer gets a multiple of this number of members. " +
						"`scope`: the constraint is for all gangs of the gang group together, or for each gang on its own",
					Legal: "a JSON object: `gatherStrategy`, a list of {`layer`: a layer of the ClusterNetworkTopology; `strategy`: `MustGather`, " +
						"`PreferGather`; `podCountMultiple`: an integer ≥ 1, default 1; `scope`: `GangGroup`, the default, or `PodGroup`}",
					Default: "anywhere",
					Example: `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"},` +
						`{"layer":"BlockLayer","strategy":"PreferGather","podCountMultiple":8,"scope":"PodGroup"}]}`,
					Check: check(ParseGatherSpec),
				},
			},
		},
		{
			Title: "A member's rank",
			Intro: "Members with neighbouring ranks get neighbouring nodes. If a pod has more than one of these keys, the first in this table is " +
				"its rank. " +
				"Muster sorts the members of a gang as follows. Pods with `network-topology-index` come first. " +
				"Pods with another key follow: first by the Job, the group of the LeaderWorkerSet, or the StatefulSet that gave the rank, then by " +
				"rank. " +
				"Jobs of a JobSet are sorted by `job-global-index`, other Jobs by name. The replica indices of Kubeflow, Volcano and Grove are " +
				"ranks, too, below all keys in this table. Pods without a rank come last, by name. " +
				"A pod with an invalid value gets an event `InvalidTopologyIndex` and has no rank.",
			Keys: []Key{
				{
					Name: AnnotationTopologyIndex, On: onPod, Meaning: "the rank", Default: "the next of these keys", Example: "0",
					Check: check(ParseTopologyIndex),
				},
				{
					Name: LabelWorkerIndex, Label: true, On: onPod, Meaning: "the number of a pod in its group of a LeaderWorkerSet; 0 is the leader",
					Default: "the next of these keys", Example: "0", Check: index(LabelWorkerIndex),
				},
				{
					Name: LabelCompletionIndex, Label: true, On: onPod, Meaning: "the completion index of a pod of an Indexed Job",
					Default: "the next of these keys", Example: "3", Check: index(LabelCompletionIndex),
				},
				{
					Name: AnnotationCompletionIndex, On: onPod,
					Meaning: "the same, as older clusters write it", Default: "the next of these keys",
					Example: "3", Check: index(AnnotationCompletionIndex),
				},
				{
					Name: LabelPodIndex, Label: true, On: onPod, Meaning: "the ordinal of a pod of a StatefulSet", Default: "the next of these keys",
					Example: "3", Check: index(LabelPodIndex),
				},
				{
					Name: LabelPodName, Label: true, On: onPod, Meaning: "the name of a pod of a StatefulSet, which ends in its ordinal",
					Default: "after all ranks, by name", Example: "train-3",
					Check: func(v string) error { _, err := ParseOrdinal(LabelPodName, v); return err },
				},
			},
		},
		{
			Title: "The object that gives a rank",
			Intro: "These labels say which Job or group a rank belongs to.",
			Keys: []Key{
				{
					Name: LabelGlobalIndex, Label: true, On: onPod,
					Meaning: "the number of the pod's Job in its JobSet", Default: "Jobs by name", Example: "1",
					Check: index(LabelGlobalIndex),
				},
				{
					Name: LabelJobSet, Label: true, On: onPod, Meaning: "the JobSet that the pod's Job belongs to", Legal: "a name",
					Default: "none", Example: "train",
				},
				{
					Name: LabelGroupIndex, Label: true, On: onPod,
					Meaning: "the number of the pod's group in its LeaderWorkerSet", Default: "the StatefulSet",
					Example: "1", Check: index(LabelGroupIndex),
				},
				{
					Name: LabelLeaderWorkerSet, Label: true, On: onPod, Meaning: "the LeaderWorkerSet that the pod's group belongs to", Legal: "a name",
					Default: "none", Example: "vllm",
				},
			},
		},
		{
			Title: "Other pods",
			Keys: []Key{
				{
					Name: AnnotationTopologySelector, On: onPod,
					Meaning: "Muster schedules a pod near the pods of the cluster that have the same value", Legal: anyValue,
					Default: "none", Example: "model-a",
				},
				{
					Name: AnnotationBackfill, On: onBoth,
					Meaning: "`Evictable`: the pods use the nodes that the argument `spares` keeps unused. For the repair of a gang they are evicted " +
						"before other pods, whatever their priority",
					Default: "the pods are as others", Example: "Evictable", Check: check(ParseBackfill),
				},
				{
					Name: LabelDisablePreemptible, Label: true, On: onPod, Meaning: "`true`: the pod is never a victim",
					Legal: "`true`; other values have no effect", Default: "may be a victim", Example: "true",
				},
				{
					Name: LabelQuotaPreemptible, Label: true, On: onPod,
					Meaning: "`false`: the pod is never a victim. Such pods of a quota must together fit the quota's min, for each resource that min " +
						"names",
					Legal: "`false`; other values have no effect", Default: "may be a victim", Example: "false",
				},
			},
		},
		{
			Title: "Run times",
			Intro: "A declared run time begins when the pod gets its node. Muster also reads `activeDeadlineSeconds` of the pod, and of its Job: " +
				"that one begins with the Job's `status.startTime`. If more than one value applies to a pod, the earliest end counts. " +
				"A gang, or a gang group, ends when its last member ends. If one member declares nothing, the end of the gang is unknown. " +
				"Muster reads the key also from the object that owns the gang, such as a Job, a JobSet or a LeaderWorkerSet. " +
				"It does not read Deployments and StatefulSets: write the key in their pod templates.",
			Keys: []Key{
				{
					Name: AnnotationMaxRuntime, On: onBoth,
					Meaning: "how long the pod runs at most. Muster plans with it, and does not end the pod. On a pod it counts for this pod only",
					Default: "`defaultMaxRuntime` of the pod's PriorityClass in the argument `backfill`, else unknown", Example: "4h",
					Check: check(ParseMaxRuntime),
				},
			},
		},
		{
			Title: "Nodes",
			Keys: []Key{
				{
					Name: AnnotationMaintenance, On: onNode,
					Meaning: "the node is to be empty in this time. Muster assigns no pod to it whose declared end is after the start. See " +
						"[Announce maintenance](admins/maintenance.md)",
					Legal: "START/END as RFC 3339 times with an END after START; several separated by commas", Default: "no maintenance",
					Example: "2026-12-01T02:00:00Z/2026-12-01T06:00:00Z", Check: check(ParseMaintenance),
				},
			},
		},
		{
			Title: "Quotas",
			Intro: "A pod belongs to the first of these quotas that exists: the ElasticQuota that its label names; the ElasticQuota in the pod's " +
				"namespace with the name of that namespace; the ElasticQuota whose annotation `namespaces` lists the namespace; " +
				"the ElasticQuota of `scheduling.x-k8s.io` in the namespace; `koordinator-default-quota`. " +
				"A pod whose label names a missing quota gets an event `QuotaNotFound`. " +
				"A quota with an invalid field gets an event `QuotaNotUsable`. See [the quota rules](reference/quotas.md).",
			Keys: []Key{
				{
					Name: LabelQuotaName, Label: true, On: onPod, Meaning: "the ElasticQuota that the pod belongs to",
					Legal: "the name of an ElasticQuota without quotas below it", Default: "by namespace, see above", Example: "research",
				},
				{
					Name: LabelQuotaParent, Label: true, On: onQuota, Meaning: "the parent quota",
					Legal:   "the name of an ElasticQuota that is marked as a parent",
					Default: "`koordinator-root-quota`, or the root of its tree", Example: "research",
				},
				{
					Name: LabelQuotaIsParent, Label: true, On: onQuota, Meaning: "`true`: the quota is a parent of other quotas, and no pods belong to it",
					Legal: "`true`; other values have no effect", Default: "pods belong to it", Example: "true",
				},
				{
					Name: LabelQuotaLends, Label: true, On: onQuota, Meaning: "`false`: other quotas cannot borrow the unused part of its min",
					Legal: "`false`; other values have no effect", Default: "other quotas can borrow it", Example: "false",
				},
				{
					Name: AnnotationQuotaWeight, On: onQuota,
					Meaning: "the quota's weight when capacity beyond the min of all quotas is divided, by resource",
					Default: "max. For a resource without max: the largest weight of a sibling quota", Example: `{"cpu":"40","memory":"80Gi"}`,
					Check: check(ParseQuotaAmounts(AnnotationQuotaWeight)),
				},
				{
					Name: AnnotationQuotaNamespaces, On: onQuota, Meaning: "the namespaces that the quota covers", Default: "none",
					Example: `["team-a","team-a-dev"]`, Check: check(ParseQuotaNamespaces),
				},
				{
					Name: LabelQuotaTree, Label: true, On: onQuota, Meaning: "the quota tree that the quota belongs to", Legal: anyValue,
					Default: "the tree of the whole cluster", Example: "a100",
				},
				{
					Name: LabelQuotaIsRoot, Label: true, On: onQuota, Meaning: "`true`: the quota is the top of its tree",
					Legal: "`true`; other values have no effect", Default: "it has a parent", Example: "true",
				},
				{
					Name: AnnotationQuotaTotal, On: onQuota, Meaning: "on the top of a tree: the capacity of the tree", Default: "no limit",
					Example: `{"cpu":"960","nvidia.com/gpu":"96"}`, Check: check(ParseQuotaAmounts(AnnotationQuotaTotal)),
				},
				{
					Name: AnnotationQuotaBroken, On: onQuota,
					Meaning: "on the top of a tree: the part of that capacity that cannot be used", Default: "nothing",
					Example: `{"cpu":"96"}`, Check: check(ParseQuotaAmounts(AnnotationQuotaBroken)),
				},
				{
					Name: LabelQuotaOwnNodes, Label: true, On: onQuota,
					Meaning: "on the top of a tree, `true`: the capacity of this tree is subtracted from the tree of the cluster",
					Legal:   "`true`; other values have no effect", Default: "the capacity counts in both trees", Example: "true",
				},
				{
					Name: LabelQuotaProfile, Label: true, On: onQuota, Meaning: "the ElasticQuotaProfile that made the quota; has no effect",
					Legal: anyValue, Default: "none", Example: "a100",
				},
			},
		},
		{
			Title: "What Muster writes on quotas",
			Intro: "Muster writes changed values at most once a second. It also writes `status.used`.",
			Keys: []Key{
				{
					Name: AnnotationQuotaRuntime, On: onQuota, Meaning: "the quota's fair share", Legal: "any value; it has no effect",
					Default: "none", Example: `{"cpu":"48"}`,
				},
				{
					Name: AnnotationQuotaRequest, On: onQuota, Meaning: "used amounts and requests of waiting pods, at most max",
					Legal: "any value; it has no effect", Default: "none", Example: `{"cpu":"64"}`,
				},
				{
					Name: AnnotationQuotaFixedUsed, On: onQuota, Meaning: "used amounts of non-preemptible pods", Legal: "any value; it has no effect",
					Default: "none", Example: `{"cpu":"8"}`,
				},
			},
		},
		{
			Title: "What Muster writes on claims",
			Keys: []Key{
				{
					Name: AnnotationAllocatedAhead, On: "ResourceClaim",
					Meaning: "Muster allocated this claim before the members that share it reached a node. The value identifies that allocation",
					Legal:   "any string; only Muster's own has an effect", Default: "none", Example: "9b6a2f1c00d1e3f7",
				},
			},
		},
	}
}

// check returns a Key.Check that calls parse.
func check[T any](parse func(string) (T, error)) func(string) error {
	return func(value string) error { _, err := parse(value); return err }
}

// index returns a Key.Check for a key with an integer ≥ 0.
func index(key string) func(string) error {
	return func(value string) error { _, err := ParseIndex(key, value); return err }
}
