package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
)

// gangAPI is how another project's objects declare gangs. What they have no field for is said by
// annotations.
type gangAPI struct {
	resource schema.GroupVersionResource
	kind     string
	spec     func(g *gangSpec) map[string]any
	member   func(g *gangSpec, labels, annotations map[string]any)
	// forgets says that nothing is written which says that the gang was whole once.
	forgets bool
	// all says that the API's gangs need all their members. owner says that its object owns pods, so that the
	// pods are no gang without the object (TestOwners).
	all, owner bool
}

const (
	schedulerPluginsAPI = "scheduling.x-k8s.io"
	volcanoAPI          = "scheduling.volcano.sh"
	nativeAPI           = "scheduling.k8s.io"
	groveAPI            = "scheduler.grove.io"
	lwsAPI              = "leaderworkerset.x-k8s.io"
	jobSetAPI           = "jobset.x-k8s.io"
	jobAPI              = "batch"
)

var apis = map[string]*gangAPI{
	schedulerPluginsAPI: {
		resource: schema.GroupVersionResource{Group: schedulerPluginsAPI, Version: "v1alpha1", Resource: "podgroups"}, kind: "PodGroup",
		spec: func(g *gangSpec) map[string]any {
			return map[string]any{"minMember": g.min, "scheduleTimeoutSeconds": g.timeout}
		},
		member: func(g *gangSpec, labels, _ map[string]any) { labels["scheduling.x-k8s.io/pod-group"] = g.name },
	},
	volcanoAPI: {
		resource: schema.GroupVersionResource{Group: volcanoAPI, Version: "v1beta1", Resource: "podgroups"}, kind: "PodGroup",
		spec: func(g *gangSpec) map[string]any {
			spec := map[string]any{"minMember": g.min}
			if g.part > 0 {
				spec["subGroupPolicy"] = []any{
					map[string]any{"name": "p", "subGroupSize": g.part, "minSubGroups": g.least, "matchLabelKeys": []any{"part"}},
				}
			}
			return spec
		},
		member:  func(g *gangSpec, _, annotations map[string]any) { annotations["scheduling.k8s.io/group-name"] = g.name },
		forgets: true,
	},
	nativeAPI: {
		resource: schema.GroupVersionResource{Group: nativeAPI, Version: "v1beta1", Resource: "podgroups"}, kind: "PodGroup",
		spec: func(g *gangSpec) map[string]any {
			spec := map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": g.min}}}
			if g.inTree() {
				spec["parentCompositePodGroupName"] = g.tree()
			}
			return spec
		},
		member: func(*gangSpec, map[string]any, map[string]any) {}, // a field says it
	},
	groveAPI: {
		resource: schema.GroupVersionResource{Group: groveAPI, Version: "v1alpha1", Resource: "podgangs"}, kind: "PodGang",
		spec: func(g *gangSpec) map[string]any {
			return map[string]any{"podgroups": []any{map[string]any{"name": "all", "minReplicas": g.min, "podReferences": []any{}}}}
		},
		member: func(g *gangSpec, labels, _ map[string]any) {
			labels["grove.io/podgang"], labels["grove.io/podclique"] = g.name, "all"
		},
		forgets: true, owner: true,
	},
	lwsAPI: {
		resource: schema.GroupVersionResource{Group: lwsAPI, Version: "v1", Resource: "leaderworkersets"}, kind: "LeaderWorkerSet",
		spec: func(g *gangSpec) map[string]any {
			return map[string]any{"replicas": 1, "leaderWorkerTemplate": map[string]any{"size": g.min, "workerTemplate": template()}}
		},
		member: func(g *gangSpec, labels, annotations map[string]any) {
			labels["leaderworkerset.sigs.k8s.io/name"], labels["leaderworkerset.sigs.k8s.io/group-index"] = g.name, "0"
			labels["leaderworkerset.sigs.k8s.io/template-revision-hash"] = "r"
			annotations["leaderworkerset.sigs.k8s.io/size"] = fmt.Sprint(g.min)
		},
		forgets: true, all: true, owner: true,
	},
	jobSetAPI: {
		resource: schema.GroupVersionResource{Group: jobSetAPI, Version: "v1alpha2", Resource: "jobsets"}, kind: "JobSet",
		spec: func(g *gangSpec) map[string]any {
			job := map[string]any{"spec": map[string]any{"parallelism": g.min, "completions": g.min, "template": template()}}
			return map[string]any{"replicatedJobs": []any{map[string]any{"name": "w", "replicas": 1, "template": job}}}
		},
		member: func(g *gangSpec, labels, _ map[string]any) {
			labels["jobset.sigs.k8s.io/jobset-name"], labels["jobset.sigs.k8s.io/replicatedjob-name"] = g.name, "w"
			labels["jobset.sigs.k8s.io/jobset-uid"] = "of-" + g.name
		},
		forgets: true, all: true, owner: true,
	},
	jobAPI: {
		resource: schema.GroupVersionResource{Group: jobAPI, Version: "v1", Resource: "jobs"}, kind: "Job",
		spec: func(g *gangSpec) map[string]any {
			return map[string]any{"parallelism": g.min, "completions": g.min, "template": template()}
		},
		member: func(g *gangSpec, labels, annotations map[string]any) {
			labels["batch.kubernetes.io/job-name"], labels["batch.kubernetes.io/controller-uid"] = g.name, "of-"+g.name
			maps.Copy(annotations, g.annotations())
			annotations[scheduling.AnnotationMinAvailable] = fmt.Sprint(g.min)
		},
		forgets: true, all: true, owner: true,
	},
}

// wholeByLabels counts the gangs that their members describe by the deprecated labels.
const wholeByLabels = "gangs made whole of the deprecated labels"

// wholeOf counts the gangs of an API that were made whole.
func wholeOf(api string) string { return "gangs made whole of " + cmp.Or(api, "ours") }

func (a *gangAPI) object(g *gangSpec) string {
	annotations := g.annotations()
	if a.resource.Group != schedulerPluginsAPI {
		annotations[scheduling.AnnotationWaitingTime] = fmt.Sprintf("%ds", g.timeout)
	}
	meta := map[string]any{"annotations": annotations}
	if a.owner {
		meta["uid"] = "of-" + g.name // its pods are made by the history
	}
	return written(a.kind, a.resource.GroupVersion().String(), g.name, meta, map[string]any{"spec": a.spec(g)})
}

// template returns the pod template in an owner. No controller makes pods of it.
func template() map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}
}

// owned says that the gang is one of an object that owns pods.
func (g *gangSpec) owned() bool { return g.api != "" && apis[g.api].owner }

// resource is that of the object which declares a gang.
func (g *gangSpec) resource() schema.GroupVersionResource {
	if api := apis[g.api]; api != nil {
		return api.resource
	}
	return sigs.PodGroups
}

// forgets says that no object says that the gang was whole once.
func (g *gangSpec) forgets() bool { return g.byPods || g.api != "" && apis[g.api].forgets }

// withAPIs has every other API declare some gangs that are no GangGroup.
func withAPIs(seed uint64, h history) history {
	of, members := map[string]string{}, map[string]int{}
	for _, e := range h {
		if e.kind == memberPut {
			members[e.pod.gang]++
		}
	}
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, nameHash("apis")))}
	for i, e := range h {
		if e.gang == nil || e.gang.byPods || len(e.gang.group) > 0 {
			continue
		}
		api, known := of[e.gang.name]
		if !known && d.chance(50) {
			api = pick(d, slices.DeleteFunc(sortedKeys(apis), func(api string) bool { // where it would be another gang, or none
				return apis[api].all && members[e.gang.name] != e.gang.min
			}))
		}
		of[e.gang.name] = api
		g := *e.gang
		g.api = api
		if api == volcanoAPI && nameHash(g.name)%3 > 0 {
			withParts(&g, members[g.name])
		}
		h[i].gang = &g
	}
	return withTrees(d, h)
}
