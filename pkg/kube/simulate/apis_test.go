package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"

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
}

const (
	schedulerPluginsAPI = "scheduling.x-k8s.io"
	volcanoAPI          = "scheduling.volcano.sh"
	nativeAPI           = "scheduling.k8s.io"
	groveAPI            = "scheduler.grove.io"
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
		spec:    func(g *gangSpec) map[string]any { return map[string]any{"minMember": g.min} },
		member:  func(g *gangSpec, _, annotations map[string]any) { annotations["scheduling.k8s.io/group-name"] = g.name },
		forgets: true,
	},
	nativeAPI: {
		resource: schema.GroupVersionResource{Group: nativeAPI, Version: "v1beta1", Resource: "podgroups"}, kind: "PodGroup",
		spec: func(g *gangSpec) map[string]any {
			return map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": g.min}}}
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
		forgets: true,
	},
}

// wholeOf counts the gangs of an API that were made whole.
func wholeOf(api string) string { return "gangs made whole of " + cmp.Or(api, "ours") }

func (a *gangAPI) object(g *gangSpec) string {
	annotations := g.annotations()
	if a.resource.Group != schedulerPluginsAPI {
		annotations[scheduling.AnnotationWaitingTime] = fmt.Sprintf("%ds", g.timeout)
	}
	return written(a.kind, a.resource.GroupVersion().String(), g.name, map[string]any{"annotations": annotations}, map[string]any{"spec": a.spec(g)})
}

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
	of := map[string]string{}
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, nameHash("apis")))}
	for i, e := range h {
		if e.gang == nil || e.gang.byPods || len(e.gang.group) > 0 {
			continue
		}
		api, known := of[e.gang.name]
		if !known && d.chance(50) {
			api = pick(d, sortedKeys(apis))
		}
		of[e.gang.name] = api
		g := *e.gang
		g.api = api
		h[i].gang = &g
	}
	return h
}
