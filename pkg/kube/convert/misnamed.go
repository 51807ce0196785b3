package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// MisspeltGangKey returns a label or annotation of the pod that looks like a misspelt key for naming a gang, such as "label a". It returns
// the name under it and the correct key, too; "" for none.
func MisspeltGangKey(pod *v1.Pod) (key, gangName, meant string) {
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		if meant := scheduling.MeantLabel(key); meant != "" && meant != scheduling.LabelQuotaName {
			return "label " + key, pod.Labels[key], "label " + meant
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if scheduling.MeansGangName(key) {
			return "annotation " + key, pod.Annotations[key], "annotation " + scheduling.AnnotationGangName
		}
	}
	return "", "", ""
}

// Misnamed returns the end of a message about a gang that lacks members (hasObject) or its object: the name that the user seems to
// mean; "" if none is known. pods name the gang in a misspelt key. others are gangs, with their members, that lack the other part.
func Misnamed(gangName string, hasObject bool, pods []*v1.Pod, others map[string][]string) string {
	if len(pods) > 0 {
		names := make([]string, len(pods))
		for i, pod := range pods {
			names[i] = PodKey(pod)
		}
		key, _, meant := MisspeltGangKey(pods[0])
		return fmt.Sprintf("; %s has the unknown %s: %s; did you mean %s?", FirstPod(names), key, gangName, meant)
	}
	unrelated := func(name string) bool { return sameButDigits(name, gangName) }
	names := slices.DeleteFunc(slices.SortedFunc(maps.Keys(others), topology.CompareNames), unrelated)
	switch near := scheduling.Near(gangName, names); {
	case near == "":
		return ""
	case hasObject:
		return fmt.Sprintf("; %s names gang %s, which does not exist; did you mean %s?", FirstPod(others[near]), near, gangName)
	default:
		return fmt.Sprintf("; did you mean %s, which has no members?", near)
	}
}

// FirstPod returns the name of the first pod, and the number of the others, as text.
func FirstPod(names []string) string {
	if len(names) == 1 {
		return "pod " + names[0]
	}
	return fmt.Sprintf("pod %s (and %d more)", names[0], len(names)-1)
}

// sameButDigits says whether two names differ only in their digits, as the names of unrelated jobs do.
func sameButDigits(a, b string) bool {
	strip := func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}
	return strings.Map(strip, a) == strings.Map(strip, b)
}

// QuotaNotFound returns the message that quota missing, which a pod's label names, does not exist. counts is the quota that counts the
// pod instead, "" for none. names are the names of all quotas.
func QuotaNotFound(missing, counts string, names []string) string {
	effect := "no quota counts the pod"
	if counts != "" {
		effect = "the pod counts in quota " + counts
	}
	text := fmt.Sprintf("there is no ElasticQuota named %q (label %s of the pod): %s; correct the label", missing,
		scheduling.LabelQuotaName, effect)
	if near := scheduling.Near(missing, names); near != "" {
		text += "; did you mean " + near + "?"
	}
	return text
}

// BorrowersText returns the quotas that use more than their min, in parentheses; "" if there are none.
func BorrowersText(quotas []string) string {
	if len(quotas) == 0 {
		return ""
	}
	return fmt.Sprintf(" (quotas above their min: %s)", strings.Join(quotas, ", "))
}
