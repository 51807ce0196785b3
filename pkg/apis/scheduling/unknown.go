package scheduling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
)

// GangDomain is where gangs are described. All keys in it are annotations; keys of other
// domains are other components' too, and nobody's mistake.
const GangDomain = "gang.scheduling.koordinator.sh/"

// theirs are names in GangDomain that have a meaning elsewhere: Koordinator's scheduler writes
// timeout on pods of gangs that have waited too long.
var theirs = []string{"timeout"}

// gangNames are the names in GangDomain that mean something, as the reference lists them.
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

// Unknown says which annotations and labels in GangDomain nobody knows, and which ones are
// like them; by name. A label that says what an annotation says beside it is for people who
// look for it.
func Unknown(annotations, labels map[string]string) (says []string) {
	for key := range annotations {
		if name, ok := strings.CutPrefix(key, GangDomain); ok && !slices.Contains(gangNames, name) && !slices.Contains(theirs, name) {
			says = append(says, unknown("", key, name))
		}
	}
	for key := range labels {
		name, ok := strings.CutPrefix(key, GangDomain)
		if _, also := annotations[key]; ok && !also && !slices.Contains(theirs, name) {
			says = append(says, unknown("label ", key, name))
		}
		if meant := MeantLabel(key); meant != "" {
			says = append(says, fmt.Sprintf("label %s: unknown; did you mean label %s?", key, meant))
		}
	}
	slices.Sort(says)
	return says
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

// MeantLabel returns the label by which a pod joins a gang or a quota that an unknown key is a misspelling of, which differs in at
// most an eighth; "" if none.
func MeantLabel(key string) (meant string) {
	best := 0
	for _, label := range memberLabels {
		d := strictjson.Distance(key, label)
		if 8*d <= max(len(key), len(label)) && (meant == "" || d < best) && !knownKeys[key] {
			meant, best = label, d
		}
	}
	return meant
}

// Near returns the one of names that a name is most like; "" if none is.
func Near(name string, names []string) string { return strictjson.Near(name, names) }

// unknown is what is said of one. The words are stable, and those of manifests/admission.
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
