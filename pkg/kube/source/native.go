package source

import (
	"cmp"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

const nativeAPI = "scheduling.k8s.io"

// native reads Kubernetes' own PodGroup, of 1.36 and later. The PodGroups made from a Workload repeat its fields, so the
// Workload is not read. 1.35 has no PodGroup, see workload.
//
// The maker of a PodGroup sets its position in a tree:
//
//	CompositePodGroup          minGroupCount, one label key for all that is below it
//	    CompositePodGroup      the same, or none
//	        PodGroup           minCount, one label key for each: a gang of the group
var native = Source{
	Way:    "field spec.schedulingGroup.podGroupName",
	Space:  "podgroup-native",
	NameOf: nativeGang,
	Object: &Object{
		Resource:      schema.GroupVersionResource{Group: nativeAPI, Version: "v1beta1", Resource: "podgroups"},
		Role:          "rbac/sources/native.yaml",
		OlderVersions: []string{"v1alpha3", "v1alpha2"}, Kind: "PodGroup",
		Optional: true, ReadOnly: true,
		New: func() runtime.Object { return &unstructured.Unstructured{} }, Read: readNative, More: nativeMore,
		Condition: nativeCondition, Spec: func() any { return &groupSpec{} },
	},
	AddFamily: nativeFamily,
}

const compositePodGroup = "CompositePodGroup"

var compositePodGroups = &Owner{
	Resource: schema.GroupVersionResource{Group: nativeAPI, Version: "v1alpha3", Resource: "compositepodgroups"},
	Role:     "rbac/sources/native.yaml",
	Kind:     compositePodGroup,
	Read:     readComposite,
	Spec:     func() any { return &groupSpec{} },
	Family:   true,
}

// nativeGang returns the PodGroup that a pod names; "" for none. A name with a slash is a WorkloadRef, see workload.
func nativeGang(pod *v1.Pod) string {
	if name := schedulingGroup(pod); strings.IndexByte(name, '/') < 0 {
		return name
	}
	return ""
}

// schedulingGroup returns the pod's spec.schedulingGroup; "" if it has none.
func schedulingGroup(pod *v1.Pod) string {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return *group.PodGroupName
	}
	return ""
}

// The condition of a PodGroup that has reached its minimum once, and its name in 1.36. It is never removed.
const (
	initiallyScheduled     = "PodGroupInitiallyScheduled"
	initiallyScheduledIn36 = "PodGroupScheduled"
)

// nativeCondition returns the type of the only condition that the scheduler writes; it depends on the API version of pg.
func nativeCondition(pg *sigs.PodGroup) string {
	if pg.APIVersion == nativeAPI+"/v1alpha2" {
		return initiallyScheduledIn36
	}
	return initiallyScheduled
}

// groupSpec is the spec of a PodGroup or CompositePodGroup. A scheduler does not read the fields of type any without a comment.
type groupSpec struct {
	SchedulingPolicy      policy `json:"schedulingPolicy"`
	SchedulingConstraints struct {
		Topology []struct {
			Key any `json:"key"`
		} `json:"topology"`
	} `json:"schedulingConstraints"`
	DisruptionMode    any     `json:"disruptionMode"`
	Parent            string  `json:"parentCompositePodGroupName"`
	PriorityClassName string  `json:"priorityClassName"`
	Priority          *int32  `json:"priority"`
	PreemptionPolicy  *string `json:"preemptionPolicy"`
	ResourceClaims    []struct {
		Name     string  `json:"name"`
		Claim    any     `json:"resourceClaimName"`
		Template *string `json:"resourceClaimTemplateName"`
	} `json:"resourceClaims"`
	WorkloadRef         any `json:"workloadRef"`
	PodGroupTemplateRef any `json:"podGroupTemplateRef"` // of 1.36
}

// policy says whether a gang starts together (gang) or not (basic).
type policy struct {
	Basic any `json:"basic"`
	Gang  *struct {
		MinCount      *int32 `json:"minCount" min:"1"`
		MinGroupCount *int32 `json:"minGroupCount" min:"1"`
	} `json:"gang"`
}

// least returns minCount, or minGroupCount of a CompositePodGroup; 0 for policy basic. at is the policy's field, for errors.
func (p *policy) least(at string, composite bool) (int, error) {
	if (p.Basic != nil) == (p.Gang != nil) {
		which := map[bool]string{true: "both are", false: "neither is"}[p.Gang != nil]
		return 0, fmt.Errorf("%s: %s set; set exactly one of basic and gang", at, which)
	}
	if p.Gang == nil {
		return 0, nil
	}
	name, n := "minCount", p.Gang.MinCount
	if composite {
		name, n = "minGroupCount", p.Gang.MinGroupCount
	}
	if n == nil {
		return 0, fmt.Errorf("%s.gang.%s is missing; write an integer ≥ 1", at, name)
	}
	return int(*n), nil
}

// group is the parsed spec of a PodGroup or CompositePodGroup.
type group struct {
	least       int
	topologyKey string
	whole       bool
	parent      string
	class       string
	priority    *int32 // nil also if admission wrote it, since the user named no class
	never       *bool
	claims      error // a claim of the group is made from a template
}

// readGroup reads all valid fields, and returns the first error.
func readGroup(u *unstructured.Unstructured) (out group, err error) {
	var spec groupSpec
	bad := workloads.Read(u, "spec", &spec)
	out.parent, out.class = spec.Parent, spec.PriorityClassName
	if p := spec.Priority; p != nil && (out.class != "" || *p != 0) {
		out.priority = p
	}
	never, badPreemption := spec.neverPreempts()
	least, badPolicy := spec.SchedulingPolicy.least("spec.schedulingPolicy", u.GetKind() == compositePodGroup)
	key, badKey := spec.topologyKey()
	whole, badMode := spec.wholeOnly()
	out.least = least
	out.topologyKey = key
	out.whole = whole
	out.never = never
	out.claims = spec.claims()
	return out, cmp.Or(bad, badPolicy, badKey, badMode, badPreemption, out.claims)
}

// readNative converts a PodGroup to the shape of Koordinator's. It returns no error: nativeMore reports invalid fields.
func readNative(u *unstructured.Unstructured) (*sigs.PodGroup, error) {
	pg := shape(u)
	group, _ := readGroup(u)
	pg.Spec.MinMember = int32(max(1, group.least))
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if workloads.Read(u, "status", &status) == nil {
		pg.Status.Conditions = status.Conditions
	}
	return pg, nil
}

// topologyKey returns the label key with one value on the nodes of all members; "" for none.
func (s *groupSpec) topologyKey() (string, error) {
	all := s.SchedulingConstraints.Topology
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", fmt.Errorf("spec.schedulingConstraints.topology: %d constraints are listed; keep at most 1", len(all))
	}
	key, _ := all[0].Key.(string)
	if key == "" {
		return "", fmt.Errorf("%s: %s is invalid; write a label key of nodes", FieldTopologyKey, workloads.Quoted(all[0].Key))
	}
	return key, nil
}

// wholeOnly says whether disruptionMode demands that all members are evicted together. In 1.36 the field is a string.
func (s *groupSpec) wholeOnly() (bool, error) {
	switch m := s.DisruptionMode.(type) {
	case nil:
		return false, nil
	case map[string]any:
		_, single := m["single"]
		if _, all := m["all"]; single != all {
			return all, nil
		}
	case string:
		if m == "Pod" || m == "PodGroup" {
			return m == "PodGroup", nil
		}
	}
	return false, fmt.Errorf("spec.disruptionMode: %s is invalid; set exactly one of single and all", workloads.Quoted(s.DisruptionMode))
}

// claims returns an error if a claim is made from a template for the group: plugin DynamicResources rejects claims that pods do
// not own. The feature gate that permits them needs kube-scheduler's own gangs. A claim that exists is valid.
func (s *groupSpec) claims() error {
	for i, c := range s.ResourceClaims {
		if c.Template != nil {
			return fmt.Errorf("spec.resourceClaims[%d].resourceClaimTemplateName: %q: create a ResourceClaim, and name it here and in the pods "+
				"(resourceClaimName). Pods cannot share claim %q from a template: "+
				"feature gate DRAWorkloadResourceClaims needs GenericWorkload, which must be off in a scheduler with Muster", i, *c.Template, c.Name)
		}
	}
	return nil
}

// neverPreempts says whether the group never preempts; nil if its pods' own policy counts.
func (s *groupSpec) neverPreempts() (*bool, error) {
	switch p := s.PreemptionPolicy; {
	case p == nil:
		return nil, nil
	case *p == string(v1.PreemptNever) || *p == string(v1.PreemptLowerPriority):
		return new(*p == string(v1.PreemptNever)), nil
	default:
		return nil, fmt.Errorf(`spec.preemptionPolicy: Unsupported value: %q: supported values: "Never", "PreemptLowerPriority"`, *p)
	}
}

// nativeMore returns the fields that only this PodGroup has. Its priority, which admission derives from its class, is that of its pods.
func nativeMore(u *unstructured.Unstructured) (out More) {
	group, err := readGroup(u)
	out.Problem = err
	out.EvictWhole = group.whole
	out.Priority = group.priority
	out.NeverPreempts = group.never
	if group.topologyKey != "" {
		out.Values = map[string]string{FieldTopologyKey: group.topologyKey}
	}
	if group.claims != nil {
		out.Notes = append(out.Notes, Note{reasons.InvalidAnnotation, group.claims.Error()})
	}
	if group.priority == nil {
		out.PriorityClass = group.class
	}
	if group.parent != "" {
		out.Owner = OwnerKey{compositePodGroups.Kind, u.GetNamespace(), group.parent}
	}
	return out
}

// readComposite reads a CompositePodGroup. Its PodGroups declare its label key under another field than it does.
func readComposite(u *unstructured.Unstructured, out *Owned) error {
	group, err := readGroup(u)
	if group.parent != "" {
		out.Parent = OwnerKey{out.Key.Kind, out.Key.Namespace, group.parent}
	}
	if err != nil {
		out.Problem = fmt.Errorf("%s: %w", out.Key, err)
	}
	out.Size = group.least
	out.TopologyKey = group.topologyKey
	out.Priority = group.priority
	out.NeverPreempts = group.never
	return nil
}
