package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
)

// Failures are the kinds of results that a pipeline may count as a failure.
var Failures = []string{"waiting", "evicted", "rejected"}

// Failed says which of the named Failures the result has, with the number and the first of each; "" if none.
func (r *Result) Failed(kinds []string) string {
	found := map[string][]string{}
	for _, g := range r.Gangs {
		if !g.State.Started() {
			found["waiting"] = append(found["waiting"], "gang "+g.Namespace+"/"+g.Name)
		}
	}
	for _, p := range r.Pods {
		if p.State == Pending {
			found["waiting"] = append(found["waiting"], "pod "+p.Namespace+"/"+p.Name)
		}
	}
	for _, h := range r.Held {
		found["waiting"] = append(found["waiting"], "pod "+h.Namespace+"/"+h.Name)
	}
	for _, name := range r.Evicted {
		found["evicted"] = append(found["evicted"], "pod "+name)
	}
	for _, g := range r.Gangs {
		if g.Eviction != nil && len(r.Evicted) == 0 { // a filtered result
			found["evicted"] = append(found["evicted"], "pods for gang "+g.Namespace+"/"+g.Name)
		}
	}
	for _, w := range r.Warnings {
		found["rejected"] = append(found["rejected"], w.Object)
	}
	for _, g := range r.Gangs {
		if g.State == reasons.Rejected || g.State == reasons.TopologySpecConflict {
			found["rejected"] = append(found["rejected"], "gang "+g.Namespace+"/"+g.Name)
		}
	}
	var all []string
	for _, kind := range Failures {
		if names := found[kind]; slices.Contains(kinds, kind) && len(names) > 0 {
			text := fmt.Sprintf("%s: %s", kind, names[0])
			if len(names) > 1 {
				text += fmt.Sprintf(" and %d more objects", len(names)-1)
			}
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "--fail-on " + strings.Join(all, "; ")
}
