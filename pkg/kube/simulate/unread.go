package simulate

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Of a kind that may not be listed nothing is known: a gang whose object seems to be missing may have one, and so may the
// network, and so may who names a claim. What the scheduler in memory says of it is not true then.

// Unread is what is said of a kind that could not be listed.
func Unread(resource string) string {
	return resource + " may not be listed in the whole cluster, and count as if there were none"
}

// Unknown is what is said of a gang or a pod that waits for nobody knows what, since objects of a kind could not be listed.
func Unknown(resource string) string {
	return "What it waits for is not known: " + resource + " may not be listed with your permissions."
}

// AskAgain is what helps then.
func AskAgain(resource string) string {
	return "to ask with the right to list " + resource + " in the whole cluster"
}

// unknown is both.
func unknown(resource string) string {
	return Unknown(resource) + " What would help: " + AskAgain(resource) + "."
}

var (
	topologies  = name(koordinator.ClusterNetworkTopologies)
	ofVolumes   = []string{name(v1.SchemeGroupVersion.WithResource("persistentvolumeclaims")), name(v1.SchemeGroupVersion.WithResource("persistentvolumes")), name(storagev1.SchemeGroupVersion.WithResource("storageclasses"))}
	ofTemplates = name(claimTemplates)
	ofClaims    = []string{name(resourcev1.SchemeGroupVersion.WithResource("resourceclaims")), name(resourcev1.SchemeGroupVersion.WithResource("deviceclasses")), name(resourceSlices)}
)

func name(r schema.GroupVersionResource) string { return r.GroupResource().String() }

// Unlisted is the kind on which depends what is said of a gang, and that could not be listed; "" if there is none.
func (s *simulation) Unlisted(ref gang.Ref, r cache.Report) string {
	switch r.Refusal.By {
	case gang.Declaration:
		if s.shared.Cache.Topology().Object == nil {
			return s.first(topologies)
		}
	case gang.Missing:
		if r.PodGroup == nil && r.Min == 0 || s.shared.Cache.Misses(ref) {
			return s.first(declaring(ref.Source)...)
		}
		if !s.shared.Cache.State(ref).Refusal.Is() { // what is lacking beside the members
			return s.named(ref)
		}
	case gang.Plan, gang.Template:
		return s.named(ref)
	}
	return ""
}

// named is the kind of something that members of a gang name who wait.
func (s *simulation) named(ref gang.Ref) string {
	for _, pod := range s.shared.Cache.Pending(ref) {
		if missed := s.namedBy(pod); missed != "" {
			return missed
		}
	}
	return ""
}

// namedBy is the kind of something that a pod needs, and that could not be listed; "" if there is none.
func (s *simulation) namedBy(pod *v1.Pod) string {
	var all []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			all = append(all, ofVolumes...)
		}
	}
	for _, claim := range pod.Spec.ResourceClaims {
		if claim.ResourceClaimTemplateName != nil {
			all = append(all, ofTemplates)
		}
		all = append(all, ofClaims...)
	}
	return s.first(all...)
}

// first is the first of some kinds that could not be listed; "" if all could.
func (s *simulation) first(kinds ...string) string {
	i := slices.IndexFunc(kinds, s.cluster.missed)
	if i < 0 {
		return ""
	}
	return kinds[i]
}

// declaring are the kinds of objects without which a gang of a space is not known, or of any.
func declaring(space string) (all []string) {
	for i := range source.All {
		src := &source.All[i]
		if space != "" && src.Space != space {
			continue
		}
		if src.Object != nil {
			all = append(all, name(src.Object.Resource))
		}
		if src.Owner != nil && src.Needs {
			all = append(all, name(src.Owner.Resource))
		}
	}
	return all
}

// MayExist says of a gang of which nothing is known why it may exist all the same: objects that declare gangs could not be
// listed. It is "" if all could.
func (s *simulation) MayExist(namespace, name string) string {
	return mayExist(s.undeclared(), namespace, name)
}

// undeclared are the kinds of objects that declare gangs and could not be listed.
func (s *simulation) undeclared() (all []string) {
	for _, kind := range declaring("") {
		if s.cluster.missed(kind) && !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	return all
}

func mayExist(undeclared []string, namespace, name string) string {
	if len(undeclared) == 0 {
		return ""
	}
	return fmt.Sprintf("no pod is a member of a gang %s/%s; whether there is one is not known: %s may not be listed with your permissions", namespace, name, strings.Join(undeclared, ", "))
}

// doubt takes back what is said of a gang as far as it is not known.
func (s *simulation) doubt(g *Gang, ref gang.Ref, r cache.Report) {
	if g.State == Scheduled {
		return
	}
	if g.Unknown = s.Unlisted(ref, r); g.Unknown != "" {
		g.State, g.Message = Waiting, unknown(g.Unknown)
	}
}

// doubted is the kind that could not be listed on which depends why a pod has no node; "" if there is none.
func (s *simulation) doubted(pod *v1.Pod) string {
	if len(pod.Spec.SchedulingGates) > 0 || s.scheduler.Profiles[pod.Spec.SchedulerName] == nil {
		return ""
	}
	ref := source.Of(pod)
	if ref.IsZero() {
		return s.namedBy(pod)
	}
	report, ok := s.shared.Cache.Report(ref)
	if !ok {
		return ""
	}
	if report.Refusal.Is() {
		return s.Unlisted(ref, report)
	}
	return s.namedBy(pod)
}
