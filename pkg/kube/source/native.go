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

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// nativeAPI is Kubernetes' own API of gangs.
const nativeAPI = "scheduling.k8s.io"

// native is Kubernetes' own PodGroup, of 1.36 and later. What a Workload says stands in the
// PodGroups that are made from it, so it is not read. 1.35 has no PodGroup, see workload.
//
// Whoever makes a PodGroup says where it is in a tree:
//
//	CompositePodGroup          minGroupCount, one label key for all that is below it
//	    CompositePodGroup      the same, or none
//	        PodGroup           minCount, one label key for each: a gang of the group
var native = Source{
	Way:    "field spec.schedulingGroup.podGroupName",
	Space:  "podgroup-native",
	NameOf: nativeGang,
	Object: &Object{
		Resource: schema.GroupVersionResource{Group: nativeAPI, Version: "v1beta1", Resource: "podgroups"},
		Role:     "rbac/sources/native.yaml",
		Others:   []string{"v1alpha3", "v1alpha2"}, Kind: "PodGroup",
		Optional: true, ReadOnly: true,
		New: func() runtime.Object { return &unstructured.Unstructured{} }, Read: readNative, More: moreOfNative,
		Condition: nativeCondition,
	},
	Family: nativeFamily,
}

const compositePodGroup = "CompositePodGroup"

var compositePodGroups = &Owner{
	Resource: schema.GroupVersionResource{Group: nativeAPI, Version: "v1alpha3", Resource: "compositepodgroups"},
	Role:     "rbac/sources/native.yaml",
	Kind:     compositePodGroup,
	Read:     readComposite,
	Family:   true,
}

func nativeGang(pod *v1.Pod) string {
	if name := schedulingGroup(pod); strings.IndexByte(name, '/') < 0 {
		return name
	}
	return ""
}

// schedulingGroup is what a pod says in spec.schedulingGroup, "" if it says nothing.
func schedulingGroup(pod *v1.Pod) string {
	if of := pod.Spec.SchedulingGroup; of != nil && of.PodGroupName != nil {
		return *of.PodGroupName
	}
	return ""
}

// The condition of a PodGroup that was whole once, which then stays, and what it was in 1.36.
const (
	initiallyScheduled     = "PodGroupInitiallyScheduled"
	initiallyScheduledIn36 = "PodGroupScheduled"
)

// nativeCondition is what the scheduler is asked to write, and all that it writes.
func nativeCondition(pg *sigs.PodGroup) string {
	if pg.APIVersion == nativeAPI+"/v1alpha2" {
		return initiallyScheduledIn36
	}
	return initiallyScheduled
}

// groupSpec is the spec of a PodGroup or CompositePodGroup, as far as a scheduler reads it.
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
		Template *string `json:"resourceClaimTemplateName"`
	} `json:"resourceClaims"`
}

// policy says that a gang starts together (gang), or that it does not (basic).
type policy struct {
	Basic any `json:"basic"`
	Gang  *struct {
		MinCount      *int32 `json:"minCount" min:"1"`
		MinGroupCount *int32 `json:"minGroupCount" min:"1"`
	} `json:"gang"`
}

// least is the minimum of a gang, which a CompositePodGroup has in another field; 0 if none is asked for.
func (p *policy) least(at string, composite bool) (int, error) {
	if (p.Basic != nil) == (p.Gang != nil) {
		return 0, fmt.Errorf("%s: supported values: one of basic and gang", at)
	}
	if p.Gang == nil {
		return 0, nil
	}
	name, n := "minCount", p.Gang.MinCount
	if composite {
		name, n = "minGroupCount", p.Gang.MinGroupCount
	}
	if n == nil {
		return 0, fmt.Errorf("%s.gang.%s: nothing is invalid; supported values: an integer ≥ 1", at, name)
	}
	return int(*n), nil
}

// group is what a PodGroup or CompositePodGroup says.
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

// readGroup reads what can be read, and returns the first error.
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
	out.least, out.topologyKey, out.whole, out.never, out.claims = least, key, whole, never, spec.claims()
	return out, cmp.Or(bad, badPolicy, badKey, badMode, badPreemption, out.claims)
}

// readNative gives a PodGroup the shape of the others. What is wrong with it is in its More.
func readNative(u *unstructured.Unstructured) (*sigs.PodGroup, error) {
	pg := shape(u)
	is, _ := readGroup(u)
	pg.Spec.MinMember = int32(max(1, is.least))
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if workloads.Read(u, "status", &status) == nil {
		pg.Status.Conditions = status.Conditions
	}
	return pg, nil
}

// topologyKey is the label key in whose domain all must be; "" if none is named.
func (s *groupSpec) topologyKey() (string, error) {
	all := s.SchedulingConstraints.Topology
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", fmt.Errorf("spec.schedulingConstraints.topology: %d constraints; supported values: at most 1", len(all))
	}
	key, _ := all[0].Key.(string)
	if key == "" {
		return "", fmt.Errorf("%s: %s is invalid; supported values: a label key of nodes", FieldTopologyKey, workloads.Quoted(all[0].Key))
	}
	return key, nil
}

// wholeOnly says whether a disruptionMode has all members leave together. 1.36 has it as a word.
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
	return false, fmt.Errorf("spec.disruptionMode: %s is invalid; supported values: one of single and all", workloads.Quoted(s.DisruptionMode))
}

// claims says that pods cannot use a claim which is made from a template for their group: plugin DynamicResources rejects claims
// that pods do not own, unless a feature gate is on that needs kube-scheduler's own gangs. A claim that exists is like any other.
func (s *groupSpec) claims() error {
	for i, c := range s.ResourceClaims {
		if c.Template != nil {
			return fmt.Errorf("spec.resourceClaims[%d].resourceClaimTemplateName: %q: pods that share claim %q do not start: "+
				"the scheduler's feature gate DRAWorkloadResourceClaims needs GenericWorkload, which must be off beside Muster; "+
				"create a ResourceClaim and name it here and in the pods (resourceClaimName)", i, *c.Template, c.Name)
		}
	}
	return nil
}

// neverPreempts says whether pods are never evicted for the group; nil if its pods say that.
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

// moreOfNative is what no other PodGroup says. Its priority, which admission finds by its class, is that of its pods.
func moreOfNative(u *unstructured.Unstructured) (out More) {
	is, err := readGroup(u)
	out.Problem, out.Whole, out.Priority, out.Never = err, is.whole, is.priority, is.never
	if is.topologyKey != "" {
		out.Words = map[string]string{FieldTopologyKey: is.topologyKey}
	}
	if is.claims != nil {
		out.Notes = append(out.Notes, Note{InvalidAnnotation, is.claims.Error()})
	}
	if is.priority == nil {
		out.PriorityClass = is.class
	}
	if is.parent != "" {
		out.Owner = OwnerKey{compositePodGroups.Kind, u.GetNamespace(), is.parent}
	}
	return out
}

// readComposite takes the minimum of a CompositePodGroup, and files its label key under the name
// that it has for its PodGroups: it is they who say it.
func readComposite(u *unstructured.Unstructured, out *Owned) error {
	is, err := readGroup(u)
	if is.parent != "" {
		out.Parent = OwnerKey{out.Key.Kind, out.Key.Namespace, is.parent}
	}
	if err != nil {
		out.Problem = fmt.Errorf("%s: %w", out.Key, err)
	}
	out.Size, out.TopologyKey, out.Priority, out.Never = is.least, is.topologyKey, is.priority, is.never
	return nil
}
