package scheduling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
)

// GangDomain is the prefix of the annotations that describe gangs. All keys with this prefix are annotations. Unknown keys with another
// prefix may belong to other components, and are no mistake.
const GangDomain = "gang.scheduling.koordinator.sh/"

// theirs are names in GangDomain that other components use: Koordinator's scheduler writes timeout on pods of gangs that waited too long.
var theirs = []string{"timeout"}

// gangNames are the names of all known keys in GangDomain, without the prefix.
var gangNames = func() (names []string) {
	for _, chapter := range Keys() {
		for _, key := range chapter.Keys {
			if name, ok := strings.CutPrefix(key.Name, GangDomain); ok {
				names = append(names, name)
			}
		}
	}
	return names
}()

// Unknown returns a message for each unknown annotation or label in GangDomain, with the most similar known key. It returns one for each
// misspelt annotation of Muster's own, too. The messages are sorted. A label is no mistake if the object also has the annotation of that
// name.
func Unknown(annotations, labels map[string]string) (messages []string) {
	for key := range annotations {
		if name, ok := unknownGangName(key); ok {
			messages = append(messages, unknown("", key, name))
		}
		if meant := meantOf(key, ownAnnotations); strings.HasPrefix(key, ownDomain) && meant != "" {
			messages = append(messages, misspelt("", key, meant))
		}
	}
	for key := range labels {
		name, ok := strings.CutPrefix(key, GangDomain)
		if _, also := annotations[key]; ok && !also && !slices.Contains(theirs, name) {
			messages = append(messages, unknown("label ", key, name))
		}
		if meant := MeantLabel(key); meant != "" {
			messages = append(messages, misspelt("label ", key, meant))
		}
	}
	slices.Sort(messages)
	return messages
}

// unknownGangName returns the name of an unknown annotation in GangDomain.
func unknownGangName(key string) (name string, ok bool) {
	name, ok = strings.CutPrefix(key, GangDomain)
	return name, ok && !slices.Contains(gangNames, name) && !slices.Contains(theirs, name)
}

// MeansGangName reports whether an annotation key seems to be a misspelling of AnnotationGangName.
func MeansGangName(key string) bool {
	name, ok := unknownGangName(key)
	return ok && GangDomain+Near(name, gangNames) == AnnotationGangName
}

// Misspelt returns a sorted message for each key of values that is at most two letters from one of keys: other valid keys of other projects
// differ more. form is "label " for labels, "" for annotations.
func Misspelt(form string, values map[string]string, keys []string) (messages []string) {
	for key := range values {
		if meant := meantOf(key, keys); meant != "" && strictjson.Distance(key, meant) <= 2 {
			messages = append(messages, misspelt(form, key, meant))
		}
	}
	slices.Sort(messages)
	return messages
}

// MisspeltOn returns a message for each misspelt annotation or label of a Node or an ElasticQuota.
func MisspeltOn(kind string, annotations, labels map[string]string) []string {
	keys := keysOn[kind]
	return append(Misspelt("", annotations, keys[false]), Misspelt("label ", labels, keys[true])...)
}

// keysOn are the known keys of Nodes and ElasticQuotas: the labels (true) and the annotations (false) of each kind.
var keysOn = func() map[string]map[bool][]string {
	all := map[string]map[bool][]string{onNode: {}, onQuota: {}}
	for _, chapter := range Keys() {
		for _, key := range chapter.Keys {
			if keys := all[key.On]; keys != nil {
				keys[key.Label] = append(keys[key.Label], key.Name)
			}
		}
	}
	return all
}()

// misspelt returns the message that key is unknown and seems to mean another key. Both are labels or both are annotations (form).
func misspelt(form, key, meant string) string {
	return fmt.Sprintf("%s%s: unknown; did you mean %s%s?", form, key, form, meant)
}

// memberLabels are the labels by which a pod joins a gang or a quota.
var memberLabels = []string{LabelPodGroup, LabelPodGroupX, LabelGangName, LabelQuotaName}

// knownKeys are all keys that Muster reads.
var knownKeys = func() map[string]bool {
	all := map[string]bool{}
	for _, chapter := range Keys() {
		for _, key := range chapter.Keys {
			all[key.Name] = true
		}
	}
	return all
}()

// ownDomain is the prefix of Muster's own keys, and ownAnnotations are the ones that users write.
const ownDomain = "muster.sh/"

var ownAnnotations = []string{AnnotationRepair, AnnotationBackfill, AnnotationMaxRuntime}

// MeantLabel returns the label for joining a gang or a quota of which key seems to be a misspelling; "" if there is none.
func MeantLabel(key string) string { return meantOf(key, memberLabels) }

// meantOf returns the one of keys of which key seems to be a misspelling; "" if there is none. The Distance is at most an eighth of the
// longer one. A known key is no misspelling.
func meantOf(key string, keys []string) (meant string) {
	best := 0
	for _, other := range keys {
		if key == other {
			return ""
		}
		if 8*max(len(key)-len(other), len(other)-len(key)) > max(len(key), len(other)) {
			continue // the Distance is at least the difference of the lengths; most keys of most pods end here
		}
		d := strictjson.Distance(key, other)
		if 8*d <= max(len(key), len(other)) && (meant == "" || d < best) && !knownKeys[key] {
			meant, best = other, d
		}
	}
	return meant
}

// Near returns the one of names that is most similar to name; "" if none is similar.
func Near(name string, names []string) string { return strictjson.Near(name, names) }

// Similar reports whether one of two names may be a misspelling of the other.
func Similar(a, b string) bool { return strictjson.Similar(a, b) }

// unknown returns the message on one unknown key. The words are stable, and equal to the ones in manifests/admission.
func unknown(kind, key, name string) string {
	near := Near(name, gangNames)
	if near == "" {
		return fmt.Sprintf("%s%s: unknown; supported values: annotations %s", kind, key, strings.Join(gangNames, ", "))
	}
	if kind != "" {
		near = "annotation " + near
	}
	return fmt.Sprintf("%s%s: unknown; did you mean %s?", kind, key, near)
}
