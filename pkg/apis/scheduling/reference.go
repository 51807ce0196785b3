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
			Intro: "The first of these that a pod has counts. A second one that names another gang is told in an event `TwoGangs`.",
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
					Meaning: "the gang that the pod belongs to; without a PodGroup of that name its members describe it by the annotations below",
					Legal:   "a name", Default: justTheOne, Example: "train",
				},
				{
					Name: LabelGangName, Label: true, On: onPod, Meaning: "deprecated: what the annotation `name` means", Legal: "a name",
					Default: justTheOne, Example: "train",
				},
			},
		},
		{
			Title: "What a gang is",
			Intro: "On the PodGroup, else on the member that comes first by name and says it. Members that say something " +
				"else are told so in an event `InvalidAnnotation`.",
			Keys: []Key{
				{
					Name: LabelMinAvailable, Label: true, On: onPod, Meaning: "deprecated: what the annotation `min-available` means; counts before it",
					Default: "the annotation `min-available`", Example: "4", Check: check(ParseLabelMinAvailable),
				},
				{
					Name: AnnotationMinAvailable, On: onPod,
					Meaning: "minMember of a gang without a PodGroup: so many members start together, or none does",
					Default: "none: without it the gang is not scheduled", Example: "4", Check: check(ParseMinAvailable),
				},
				{
					Name: AnnotationTotalNumber, On: onBoth,
					Meaning: "how many members there will be; is checked. Of a PodGroup with minMember 1 that belongs to a LeaderWorkerSet whose " +
						"leader comes first: the leader goes where so many find room",
					Legal:   "an integer ≥ 1, and at least min-available",
					Default: "min-available", Example: "8", Check: check(ParseTotalNumber),
				},
				{
					Name: AnnotationWaitingTime, On: onBoth,
					Meaning: "how long members that hold a node wait for the rest before all give their nodes back; " +
						"counts before `scheduleTimeoutSeconds`",
					Default: "`scheduleTimeoutSeconds`, else `defaultTimeout` of CoschedulingArgs", Example: "600s", Check: check(ParseWaitingTime),
				},
				{
					Name: AnnotationMode, On: onBoth,
					Meaning: "`Strict`: one member's failure returns all that wait to the queue. `NonStrict`: those that fit keep their nodes",
					Default: "`Strict`", Example: "NonStrict", Check: check(ParseMode),
				},
				{
					Name: AnnotationMatchPolicy, On: onBoth,
					Meaning: "which members count towards minMember: those that wait; also those that run; or those that wait until the gang was whole " +
						"once, and from then on members start one by one",
					Default: "`defaultMatchPolicy` of CoschedulingArgs", Example: "once-satisfied", Check: check(ParseMatchPolicy),
				},
				{
					Name: AnnotationMatchPolicyAlias, On: onBoth, Meaning: "another name of `match-policy`, which counts first", Default: "`match-policy`",
					Example: "once-satisfied", Check: check(ParseMatchPolicy),
				},
				{
					Name: AnnotationGroups, On: onBoth,
					Meaning: "the gangs that start together, each as namespace/name, at most 64. A gang belongs to them if each lists the others",
					Default: "the gang alone", Example: `["default/launcher","default/workers"]`, Check: check(ParseGroups),
				},
				{
					Name: AnnotationTopologySpec, On: onBoth,
					Meaning: "how the members gather. `MustGather`: in one domain of the layer, or the gang waits. `PreferGather`: in as few as can " +
						"be. `podCountMultiple`: a domain of the layer takes a multiple of so many. `scope`: what " +
						"gathers, all gangs of the group or each gang on its own",
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
			Intro: "Neighbours in rank sit together. The first of these that a pod has is its rank. " +
				"Ranks that others give count within what they number: a Job " +
				"(those of a JobSet by its `job-global-index`, else Jobs by name), a group of a LeaderWorkerSet, a StatefulSet. " +
				"First come pods with our annotation, then row by row, then pods without a rank; equal ones by name. " +
				"A value that is invalid is told in an event `InvalidTopologyIndex`, and the pod has no rank.",
			Keys: []Key{
				{
					Name: AnnotationTopologyIndex, On: onPod, Meaning: "the rank", Default: "the next of these keys", Example: "0",
					Check: check(ParseTopologyIndex),
				},
				{
					Name: LabelWorkerIndex, Label: true, On: onPod, Meaning: "LeaderWorkerSet's number of a pod in its group; 0 is the leader",
					Default: "the next of these keys", Example: "0", Check: index(LabelWorkerIndex),
				},
				{
					Name: LabelCompletionIndex, Label: true, On: onPod, Meaning: "the completion index of a pod of an Indexed Job",
					Default: "the next of these keys", Example: "3", Check: index(LabelCompletionIndex),
				},
				{
					Name: AnnotationCompletionIndex, On: onPod, Meaning: "the same, as older clusters write it", Default: "the next of these keys",
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
			Title: "Where a rank comes from",
			Intro: "What the ranks of Jobs and LeaderWorkerSets count in.",
			Keys: []Key{
				{
					Name: LabelGlobalIndex, Label: true, On: onPod, Meaning: "JobSet's number of the pod's Job", Default: "Jobs by name", Example: "1",
					Check: index(LabelGlobalIndex),
				},
				{
					Name: LabelJobSet, Label: true, On: onPod, Meaning: "the JobSet that numbers its Jobs", Legal: "a name",
					Default: "none", Example: "train",
				},
				{
					Name: LabelGroupIndex, Label: true, On: onPod, Meaning: "LeaderWorkerSet's number of the pod's group", Default: "the StatefulSet",
					Example: "1", Check: index(LabelGroupIndex),
				},
				{
					Name: LabelLeaderWorkerSet, Label: true, On: onPod, Meaning: "the LeaderWorkerSet that numbers its groups", Legal: "a name",
					Default: "none", Example: "vllm",
				},
			},
		},
		{
			Title: "Other pods",
			Keys: []Key{
				{
					Name: AnnotationTopologySelector, On: onPod, Meaning: "pods of the cluster with the same string attract one another", Legal: anyValue,
					Default: "none", Example: "model-a",
				},
				{
					Name: LabelDisablePreemptible, Label: true, On: onPod, Meaning: "`true`: the pod is never a victim",
					Legal: "`true`; other values have no effect", Default: "may be a victim", Example: "true",
				},
				{
					Name: LabelQuotaPreemptible, Label: true, On: onPod,
					Meaning: "`false`: the pod is never a victim; where its quota has a min, it must fit that with all others like it",
					Legal:   "`false`; other values have no effect", Default: "may be a victim", Example: "false",
				},
			},
		},
		{
			Title: "Quotas",
			Intro: "Which ElasticQuota of `scheduling.sigs.k8s.io` a pod belongs to: the one that its label names; else the one that is " +
				"called like the pod's namespace, in that namespace; else the one that lists the namespace; " +
				"else the ElasticQuota of `scheduling.x-k8s.io` in the namespace; else `koordinator-default-quota`. " +
				"A name that no quota has is told in an event `QuotaNotFound`; " +
				"what is wrong with a quota in an event `QuotaNotUsable` on it. See [the quota rules](reference/quotas.md).",
			Keys: []Key{
				{
					Name: LabelQuotaName, Label: true, On: onPod, Meaning: "the ElasticQuota that the pod belongs to",
					Legal: "the name of an ElasticQuota without quotas below it", Default: "by namespace, see above", Example: "research",
				},
				{
					Name: LabelQuotaParent, Label: true, On: onQuota, Meaning: "the quota above",
					Legal:   "the name of an ElasticQuota that is marked as a parent",
					Default: "`koordinator-root-quota`, or the root of its tree", Example: "research",
				},
				{
					Name: LabelQuotaIsParent, Label: true, On: onQuota, Meaning: "`true`: there are quotas below it, and no pods belong to it",
					Legal: "`true`; other values have no effect", Default: "pods belong to it", Example: "true",
				},
				{
					Name: LabelQuotaLends, Label: true, On: onQuota, Meaning: "`false`: what it does not use of its min is not lent",
					Legal: "`false`; other values have no effect", Default: "it is lent", Example: "false",
				},
				{
					Name: AnnotationQuotaWeight, On: onQuota, Meaning: "by which weights what is left over is divided",
					Default: "max; where that names nothing, as much as any sibling's", Example: `{"cpu":"40","memory":"80Gi"}`,
					Check: check(ParseQuotaAmounts(AnnotationQuotaWeight)),
				},
				{
					Name: AnnotationQuotaNamespaces, On: onQuota, Meaning: "the namespaces that the quota covers", Default: "none",
					Example: `["team-a","team-a-dev"]`, Check: check(ParseQuotaNamespaces),
				},
				{
					Name: LabelQuotaTree, Label: true, On: onQuota, Meaning: "of which tree the quota is", Legal: anyValue,
					Default: "the tree of the whole cluster", Example: "a100",
				},
				{
					Name: LabelQuotaIsRoot, Label: true, On: onQuota, Meaning: "`true`: the quota is the top of its tree",
					Legal: "`true`; other values have no effect", Default: "it has a parent", Example: "true",
				},
				{
					Name: AnnotationQuotaTotal, On: onQuota, Meaning: "on the top of a tree: how much there is for the tree", Default: "no limit",
					Example: `{"cpu":"960","nvidia.com/gpu":"96"}`, Check: check(ParseQuotaAmounts(AnnotationQuotaTotal)),
				},
				{
					Name: AnnotationQuotaBroken, On: onQuota, Meaning: "on the top of a tree: how much of that cannot be used", Default: "nothing",
					Example: `{"cpu":"96"}`, Check: check(ParseQuotaAmounts(AnnotationQuotaBroken)),
				},
				{
					Name: LabelQuotaOwnNodes, Label: true, On: onQuota,
					Meaning: "on the top of a tree, `true`: what there is for the tree is not there for the tree of the cluster",
					Legal:   "`true`; other values have no effect", Default: "it counts for both", Example: "true",
				},
				{
					Name: LabelQuotaProfile, Label: true, On: onQuota, Meaning: "the ElasticQuotaProfile that made the quota; has no effect",
					Legal: anyValue, Default: "none", Example: "a100",
				},
			},
		},
		{
			Title: "What Muster writes on quotas",
			Intro: "At most once a second, where it has changed; `status.used` besides.",
			Keys: []Key{
				{
					Name: AnnotationQuotaRuntime, On: onQuota, Meaning: "the quota's fair share", Legal: "any value; it has no effect",
					Default: "none", Example: `{"cpu":"48"}`,
				},
				{
					Name: AnnotationQuotaRequest, On: onQuota, Meaning: "what its pods have and ask for, as far as max allows",
					Legal: "any value; it has no effect", Default: "none", Example: `{"cpu":"64"}`,
				},
				{
					Name: AnnotationQuotaFixedUsed, On: onQuota, Meaning: "what pods have that are never evicted", Legal: "any value; it has no effect",
					Default: "none", Example: `{"cpu":"8"}`,
				},
			},
		},
		{
			Title: "What Muster writes on claims",
			Keys: []Key{
				{
					Name: AnnotationAllocatedAhead, On: "ResourceClaim",
					Meaning: "the claim was allocated for members of a gang that share it, before they came: which allocation that was",
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
