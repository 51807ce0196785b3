package podgang

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// Verdict is the result of an admission check: errors reject the object, warnings do not.
type Verdict struct {
	Warnings []string
	Errors   field.ErrorList
}

// And returns the warnings and errors of both.
func (v Verdict) And(w Verdict) Verdict {
	return Verdict{slices.Concat(v.Warnings, w.Warnings), slices.Concat(v.Errors, w.Errors)}
}

func (v *Verdict) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// withoutErrorsOf returns v without the errors that an object's former version also had, so that unrelated changes are accepted.
func (v Verdict) withoutErrorsOf(old Verdict) Verdict {
	v.Errors = slices.DeleteFunc(slices.Clone(v.Errors), func(e *field.Error) bool {
		return slices.ContainsFunc(old.Errors, func(o *field.Error) bool { return o.Error() == e.Error() })
	})
	return v
}

// Messages of other projects, and Muster's own if these have none.
const (
	notNegative = "must be greater than or equal to 0"
	// BothTiers is Volcano's message.
	BothTiers = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously."
	// NoSubGroups is LeaderWorkerSet's message.
	NoSubGroups = "cannot have subgroup-exclusive-topology without subGroupSize set"
)

var modes = []string{"hard", "soft"}

// invalidMode returns the message about an invalid mode.
func invalidMode(path, mode string) string {
	return fmt.Sprintf(`%s: Unsupported value: %q: supported values: "hard", "soft"`, path, mode)
}

// ValidateLeaderWorkerSet checks spec.networkTopology and the equivalent annotations. old is the former version, nil at creation. The field
// is immutable, since running pods are not moved.
func ValidateLeaderWorkerSet(lws, old *unstructured.Unstructured) Verdict {
	var set leaderWorkerSet
	out := readVerdict(lws, &set.LeaderWorkerSetSpec)
	path := field.NewPath("spec", "networkTopology")
	out = out.And(checkTopology(set.NetworkTopology, path))
	if n := set.NetworkTopology; n != nil && n.HighestTierAllowed != nil && *n.HighestTierAllowed == 0 {
		out.warn("%s.%s", path, OneNode)
	}
	out = out.And(checkAnnotations(lws.GetAnnotations()))
	if value, ok := lws.GetAnnotations()[lwsv1.SubGroupExclusiveKeyAnnotationKey]; ok && set.LeaderWorkerTemplate.SubGroupPolicy == nil {
		key := field.NewPath("metadata", "annotations").Key(lwsv1.SubGroupExclusiveKeyAnnotationKey)
		out.Errors = append(out.Errors, field.Invalid(key, value, NoSubGroups))
	}
	if reason := set.leaderFirst(lws); reason != "" && len(set.topology(lws)) > 0 {
		out.warn("gang minMember is 1 because %s", reason)
	}
	if old == nil {
		return out
	}
	var oldSet leaderWorkerSet
	if text := describeTopology(set.NetworkTopology); read(old, &oldSet.LeaderWorkerSetSpec) == nil &&
		text != describeTopology(oldSet.NetworkTopology) {
		out.Errors = append(out.Errors, field.Invalid(path, text, "field is immutable"))
	}
	return out.withoutErrorsOf(ValidateLeaderWorkerSet(old, nil))
}

// readVerdict decodes an object into into, and returns an error in the verdict if that fails.
func readVerdict(u *unstructured.Unstructured, into any) (out Verdict) {
	if err := read(u, into); err != nil {
		out.Errors = append(out.Errors, field.TypeInvalid(nil, u.GetName(), err.Error()))
	}
	return out
}

// checkTopology returns the errors and warnings of a networkTopology.
func checkTopology(n *workloads.NetworkTopology, path *field.Path) (out Verdict) {
	if n == nil {
		return out
	}
	if n.Mode != "" && !slices.Contains(modes, n.Mode) {
		out.Errors = append(out.Errors, field.NotSupported(path.Child("mode"), n.Mode, modes))
	}
	if k := n.HighestTierAllowed; k != nil && *k < 0 {
		out.Errors = append(out.Errors, field.Invalid(path.Child("highestTierAllowed"), *k, notNegative))
	}
	switch {
	case n.HighestTierAllowed != nil && n.HighestTierName != "":
		out.Errors = append(out.Errors, field.Forbidden(path, BothTiers))
	case n.Mode != "soft" && n.HighestTierAllowed == nil && n.HighestTierName == "":
		out.warn("%s.mode hard has no effect until highestTierAllowed is set", path)
	}
	return out
}

// describeTopology returns a networkTopology as text, for messages and comparison.
func describeTopology(n *workloads.NetworkTopology) string {
	if n == nil {
		return "nothing"
	}
	tier := n.HighestTierName
	if n.HighestTierAllowed != nil {
		tier = fmt.Sprint(*n.HighestTierAllowed)
	}
	return fmt.Sprintf("mode %s, highest tier %s", n.Mode, tier)
}

// checkAnnotations checks the annotations that are topology constraints.
func checkAnnotations(annotations map[string]string) (out Verdict) {
	path := field.NewPath("metadata", "annotations")
	if mode, ok := annotations[workloads.VolcanoMode]; ok && !slices.Contains(modes, mode) {
		out.Errors = append(out.Errors, field.NotSupported(path.Key(workloads.VolcanoMode), mode, modes))
	}
	if tier, ok := annotations[workloads.VolcanoTier]; ok {
		n, err := scheduling.ParseIndex(workloads.VolcanoTier, tier)
		switch {
		case err != nil:
			out.Errors = append(out.Errors, field.Invalid(path.Key(workloads.VolcanoTier), tier, notNegative))
		case n == 0:
			out.warn("%s is 0: all pods of a group must run on the same node", workloads.VolcanoTier)
		}
	}
	if spec, ok := annotations[scheduling.AnnotationTopologySpec]; ok {
		if _, err := scheduling.ParseGatherSpec(spec); err != nil {
			out.Errors = append(out.Errors, field.Invalid(path.Key(scheduling.AnnotationTopologySpec), spec, err.Error()))
		}
	}
	return out
}

// ValidateVolcano checks networkTopology of Volcano's PodGroup or Job, and that of each subGroupPolicy or task.
func ValidateVolcano(object, old *unstructured.Unstructured) Verdict {
	type policy struct {
		Name            string                     `json:"name"`
		NetworkTopology *workloads.NetworkTopology `json:"networkTopology"`
	}
	var fields struct {
		NetworkTopology *workloads.NetworkTopology `json:"networkTopology"`
		SubGroupPolicy  []policy                   `json:"subGroupPolicy"`
		Tasks           []struct {
			Name            string  `json:"name"`
			PartitionPolicy *policy `json:"partitionPolicy"`
		} `json:"tasks"`
	}
	out := readVerdict(object, &fields)
	spec := field.NewPath("spec")
	out = out.And(checkTopology(fields.NetworkTopology, spec.Child("networkTopology")))
	for i, p := range fields.SubGroupPolicy {
		path := spec.Child("subGroupPolicy").Index(i).Child("networkTopology")
		out = out.And(checkTopology(p.NetworkTopology, path).prefixDetail("in subGroupPolicy '" + p.Name + "': "))
	}
	for i, t := range fields.Tasks {
		if t.PartitionPolicy != nil {
			path := spec.Child("tasks").Index(i).Child("partitionPolicy", "networkTopology")
			out = out.And(checkTopology(t.PartitionPolicy.NetworkTopology, path).prefixDetail("in task '" + t.Name + "': "))
		}
	}
	if old != nil {
		out = out.withoutErrorsOf(ValidateVolcano(old, nil))
	}
	return out
}

// prefixDetail adds a prefix, which names a part of the object, to the detail of errors of type Forbidden.
func (v Verdict) prefixDetail(prefix string) Verdict {
	for _, e := range v.Errors {
		if e.Type == field.ErrorTypeForbidden {
			e.Detail = prefix + e.Detail
		}
	}
	return v
}

// ValidatePodGroup checks a PodGroup of scheduling.sigs.k8s.io or scheduling.x-k8s.io. An unknown layer is a warning: it may be added.
func ValidatePodGroup(pg, old *unstructured.Unstructured, topology Topology) Verdict {
	var fields struct {
		MinMember *int32 `json:"minMember"`
	}
	out := readVerdict(pg, &fields)
	path := field.NewPath("metadata", "annotations")
	annotations := pg.GetAnnotations()
	addError := func(key string, err error) {
		if err != nil {
			out.Errors = append(out.Errors, field.Invalid(path.Key(key), annotations[key], err.Error()))
		}
	}
	minMember := 1
	if n := fields.MinMember; n != nil {
		if minMember = int(*n); *n < 1 {
			out.Errors = append(out.Errors, field.Invalid(field.NewPath("spec", "minMember"), *n, "must be greater than or equal to 1"))
		}
	}
	if value, ok := annotations[scheduling.AnnotationTotalNumber]; ok {
		n, err := scheduling.ParseTotalNumber(value)
		if err == nil && n < minMember {
			err = fmt.Errorf("must be greater than or equal to spec.minMember, %d", minMember)
		}
		addError(scheduling.AnnotationTotalNumber, err)
	}
	if value, ok := annotations[scheduling.AnnotationGroups]; ok {
		groups, err := scheduling.ParseGroups(value)
		if name := pg.GetNamespace() + "/" + pg.GetName(); err == nil && len(groups) > 0 && !slices.Contains(groups, name) {
			err = fmt.Errorf("must list %s itself", name)
		}
		addError(scheduling.AnnotationGroups, err)
	}
	if value, ok := annotations[scheduling.AnnotationMode]; ok {
		_, err := scheduling.ParseMode(value)
		addError(scheduling.AnnotationMode, err)
	}
	if value, ok := annotations[scheduling.AnnotationMatchPolicy]; ok {
		_, err := scheduling.ParseMatchPolicy(value)
		addError(scheduling.AnnotationMatchPolicy, err)
	}
	if value, ok := annotations[scheduling.AnnotationRepair]; ok {
		_, err := scheduling.ParseRepair(value)
		addError(scheduling.AnnotationRepair, err)
	}
	if value, ok := annotations[scheduling.AnnotationBackfill]; ok {
		_, err := scheduling.ParseBackfill(value)
		addError(scheduling.AnnotationBackfill, err)
	}
	if value, ok := annotations[scheduling.AnnotationMaxRuntime]; ok {
		_, err := scheduling.ParseMaxRuntime(value)
		addError(scheduling.AnnotationMaxRuntime, err)
	}
	if value, ok := annotations[scheduling.AnnotationTopologySpec]; ok {
		spec, err := scheduling.ParseGatherSpec(value)
		addError(scheduling.AnnotationTopologySpec, err)
		for i := range rulesOf(spec) {
			if layer := spec.Rules[i].Layer; !topology.hasLayer(layer) {
				out.warn("%s: layer %q is not in ClusterNetworkTopology %s", scheduling.AnnotationTopologySpec, layer, scheduling.TopologyName)
			}
		}
	}
	if old != nil {
		out = out.withoutErrorsOf(ValidatePodGroup(old, nil, topology))
	}
	return out
}

// rulesOf returns the rules of spec; nil for a nil spec.
func rulesOf(spec *scheduling.GatherSpec) []scheduling.GatherRule {
	if spec == nil {
		return nil
	}
	return spec.Rules
}

// CliqueSetRules says which features of PodCliqueSets a backend lacks.
type CliqueSetRules struct {
	Backend         string // for messages
	NoMNNVL         bool   // multi-node NVLink
	NoScalingGroups bool   // constraints for the cliques of a scaling group together
}

// Annotations of Grove that request multi-node NVLink, of an older and of the current version.
const (
	annotationAutoMNNVL  = "grove.io/auto-mnnvl"
	annotationMNNVLGroup = "grove.io/mnnvl-group"
)

// ValidatePodCliqueSet checks a PodCliqueSet against the features of a backend. Errors that the former version had are ignored if the
// scheduler names are unchanged. Other kinds are accepted.
func ValidatePodCliqueSet(pcs, old *unstructured.Unstructured, rules CliqueSetRules) Verdict {
	if pcs.GetKind() != string(PodCliqueSet) {
		return Verdict{}
	}
	var set podCliqueSet
	out := readVerdict(pcs, &set)
	path := field.NewPath("spec", "template")
	if rules.NoMNNVL {
		out.Errors = append(out.Errors, mnnvl(field.NewPath("metadata", "annotations"), pcs.GetAnnotations(), rules.Backend)...)
		for _, c := range set.Template.Cliques {
			out.Errors = append(out.Errors, mnnvl(path.Child("cliques").Key(c.Name).Child("annotations"), c.Annotations, rules.Backend)...)
		}
		for _, g := range set.Template.PodCliqueScalingGroups {
			out.Errors = append(out.Errors,
				mnnvl(path.Child("podCliqueScalingGroups").Key(g.Name).Child("annotations"), g.Annotations, rules.Backend)...)
		}
	}
	for _, g := range set.Template.PodCliqueScalingGroups {
		if rules.NoScalingGroups && g.TopologyConstraint != nil {
			out.Errors = append(out.Errors, field.Forbidden(path.Child("podCliqueScalingGroups").Key(g.Name).Child("topologyConstraint"),
				fmt.Sprintf("%s backend does not support topologyConstraint on PodCliqueScalingGroup %q", rules.Backend, g.Name)))
		}
	}
	if old != nil && slices.Equal(SchedulerNames(pcs), SchedulerNames(old)) {
		out = out.withoutErrorsOf(ValidatePodCliqueSet(old, nil, rules))
	}
	return out
}

// mnnvl returns errors for annotations that request multi-node NVLink.
func mnnvl(path *field.Path, annotations map[string]string, backend string) (out field.ErrorList) {
	for key, requestsMNNVL := range map[string]bool{
		annotationAutoMNNVL:  annotations[annotationAutoMNNVL] == "enabled",
		annotationMNNVLGroup: annotations[annotationMNNVLGroup] != "" && annotations[annotationMNNVLGroup] != "none",
	} {
		if requestsMNNVL {
			out = append(out,
				field.Invalid(path.Key(key), annotations[key], backend+" backend does not support MNNVL; remove the annotation or use kai-scheduler"))
		}
	}
	slices.SortFunc(out, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return out
}
