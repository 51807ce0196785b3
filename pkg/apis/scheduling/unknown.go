package scheduling

import (
	"fmt"
	"slices"
	"strings"
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
	}
	slices.Sort(says)
	return says
}

// unknown is what is said of one. The words are stable, and those of manifests/admission.
func unknown(kind, key, name string) string {
	near := nearest(name)
	if near == "" {
		return fmt.Sprintf("%s%s: unknown; supported values: annotations %s", kind, key, strings.Join(gangNames, ", "))
	}
	if kind != "" {
		near = "annotation " + near
	}
	return fmt.Sprintf("%s%s: unknown; did you mean %s?", kind, key, near)
}

// nearest returns the name in GangDomain that is most like this one, the first of several; ""
// if none is like it. Two are as far apart as the longer one is long without what both begin
// and end with, and alike if that is at most half of it.
func nearest(name string) (near string) {
	best := 0
	for _, legal := range gangNames {
		d, long := distance(name, legal), max(len(name), len(legal))
		if 2*d <= long && (near == "" || d < best) {
			near, best = legal, d
		}
	}
	return near
}

func distance(a, b string) int {
	short := min(len(a), len(b))
	begin := 0
	end := 0
	for begin < short && a[begin] == b[begin] {
		begin++
	}
	for end < short-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return max(len(a), len(b)) - begin - end
}
