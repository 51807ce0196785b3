package simulate

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// If the caller may not list a kind, objects of that kind are unknown: a gang that seems to have no object may have one, and a
// claim may have a template. The answers of the simulated scheduler about such gangs and pods are not reliable.

// UnlistedNote says that a kind could not be listed.
func UnlistedNote(resource string) string {
	return "no permission to list " + resource + " in the whole cluster: they count as if there were none"
}

// UnknownCause says that the cause of waiting is unknown, since objects of a kind could not be listed.
func UnknownCause(resource string) string {
	return "What it waits for is not known: no permission to list " + resource + "."
}

// UnknownRemedy says what helps if UnknownCause is shown.
func UnknownRemedy(resource string) string {
	return "permission to list " + resource + " in the whole cluster"
}

// unknown returns UnknownCause and UnknownRemedy in one text.
func unknown(resource string) string {
	return UnknownCause(resource) + " What would help: " + UnknownRemedy(resource) + "."
}

var (
	topologyResource      = resourceName(koordinator.ClusterNetworkTopologies)
	volumeResources       = []string{resourceName(claims), resourceName(volumes), resourceName(storageClasses)}
	claimTemplateResource = resourceName(claimTemplates)
	deviceClasses         = resourcev1.SchemeGroupVersion.WithResource("deviceclasses")
	claimResources        = []string{resourceName(resourceClaims), resourceName(deviceClasses), resourceName(resourceSlices)}
)

func resourceName(r schema.GroupVersionResource) string { return r.GroupResource().String() }

// Unlisted returns the kind that could not be listed and that the state of a gang depends on; "" if there is none.
func (s *simulation) Unlisted(ref gang.Ref, r cache.Report) string {
	switch r.Refusal.By {
	case gang.Declaration:
		if s.shared.Cache.Topology().Object == nil {
			return s.firstUnlisted(topologyResource)
		}
	case gang.Missing:
		if r.PodGroup == nil && r.Min == 0 || s.shared.Cache.Misses(ref) {
			return s.firstUnlisted(declaringResources(ref.Source)...)
		}
		if !s.shared.Cache.State(ref).Refusal.Exists() { // something beside members is missing
			return s.unlistedNeedOfMembers(ref)
		}
	case gang.Plan, gang.Template:
		return s.unlistedNeedOfMembers(ref)
	}
	return ""
}

// unlistedNeedOfMembers returns the first unlisted kind that a waiting member needs; "" if there is none.
func (s *simulation) unlistedNeedOfMembers(ref gang.Ref) string {
	for _, pod := range s.shared.Cache.Pending(ref) {
		if missed := s.unlistedNeed(pod); missed != "" {
			return missed
		}
	}
	return ""
}

// unlistedNeed returns the first unlisted kind that a pod needs; "" if there is none.
func (s *simulation) unlistedNeed(pod *v1.Pod) string {
	var all []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			all = append(all, volumeResources...)
		}
	}
	for _, claim := range pod.Spec.ResourceClaims {
		if claim.ResourceClaimTemplateName != nil {
			all = append(all, claimTemplateResource)
		}
		all = append(all, claimResources...)
	}
	return s.firstUnlisted(all...)
}

// firstUnlisted returns the first of the kinds that could not be listed; "" if all could.
func (s *simulation) firstUnlisted(kinds ...string) string {
	i := slices.IndexFunc(kinds, s.cluster.unlisted)
	if i < 0 {
		return ""
	}
	return kinds[i]
}

// declaringResources returns the kinds of objects that declare the gangs of a space (gang.Ref.Source); of every space for "".
func declaringResources(space string) (all []string) {
	for i := range source.All {
		src := &source.All[i]
		if space != "" && src.Space != space {
			continue
		}
		if src.Object != nil {
			all = append(all, resourceName(src.Object.Resource))
		}
		if src.Owner != nil && src.NeedsOwner {
			all = append(all, resourceName(src.Owner.Resource))
		}
	}
	return all
}

// MayExist returns why an unknown gang may exist nevertheless: kinds that declare gangs could not be listed. Else it returns "".
func (s *simulation) MayExist(namespace, name string) string {
	return mayExist(s.unlistedDeclarations(), namespace, name)
}

// unlistedDeclarations returns the kinds that declare gangs and could not be listed.
func (s *simulation) unlistedDeclarations() (all []string) {
	for _, kind := range declaringResources("") {
		if s.cluster.unlisted(kind) && !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	return all
}

// mayExist returns that gang namespace/name may exist nevertheless if unlisted is not empty; else "".
func mayExist(unlisted []string, namespace, name string) string {
	if len(unlisted) == 0 {
		return ""
	}
	return fmt.Sprintf("no pod is a member of a gang %s/%s; whether there is one is not known: no permission to list %s",
		namespace, name, strings.Join(unlisted, ", "))
}

// unlistedCause returns the unlisted kind that may explain why a pod has no node; "" if there is none.
func (s *simulation) unlistedCause(pod *v1.Pod) string {
	if len(pod.Spec.SchedulingGates) > 0 || s.scheduler.Profiles[pod.Spec.SchedulerName] == nil {
		return ""
	}
	ref := source.GangOf(pod)
	if ref.IsZero() {
		return s.unlistedNeed(pod)
	}
	report, ok := s.shared.Cache.Report(ref)
	if !ok {
		return ""
	}
	if report.Refusal.Exists() {
		return s.Unlisted(ref, report)
	}
	return s.unlistedNeed(pod)
}
