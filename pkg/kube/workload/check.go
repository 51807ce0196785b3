package workload

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The checks cover only the fields on which an expansion depends.

// checkCount returns an error if n, a number of pods or of their owners, is below 0 or above MaxPods.
func checkCount(n int64, path *field.Path) field.ErrorList {
	switch {
	case n < 0:
		return field.ErrorList{field.Invalid(path, n, "must be greater than or equal to 0")}
	case n > MaxPods:
		return field.ErrorList{field.Invalid(path, n, "must be less than or equal to 100000 in a simulation")}
	}
	return nil
}

// checkTemplate returns errors for a template without containers, or with a restartPolicy that is not in policies.
func checkTemplate(t *v1.PodTemplateSpec, path *field.Path, policies ...v1.RestartPolicy) (errs field.ErrorList) {
	spec := path.Child("spec")
	if len(t.Spec.Containers) == 0 {
		errs = append(errs, field.Required(spec.Child("containers"), ""))
	}
	if p := t.Spec.RestartPolicy; p != "" && !slices.Contains(policies, p) {
		errs = append(errs, field.NotSupported(spec.Child("restartPolicy"), p, policies))
	}
	return errs
}

// checkSelector returns an error if a selector does not select the template's pods.
func checkSelector(selector *metav1.LabelSelector, t *v1.PodTemplateSpec, path *field.Path) field.ErrorList {
	selectorPath := path.Child("selector")
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(selectorPath, "must select the labels of spec.template")}
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return field.ErrorList{field.Invalid(selectorPath, metav1.FormatLabelSelector(selector), err.Error())}
	}
	if !s.Matches(labels.Set(t.Labels)) {
		return field.ErrorList{field.Invalid(path.Child("template", "metadata", "labels"), labels.FormatLabels(t.Labels),
			"must match `selector`, which is "+metav1.FormatLabelSelector(selector))}
	}
	return nil
}
