package simulate

import (
	"fmt"
	"slices"
	"strings"
)

// ResultFilter selects a part of a result; the zero value selects everything.
type ResultFilter struct {
	what string
	gang [2]string // namespace and name
}

// ParseResultFilter parses "waiting", "evicted", "gang=NAMESPACE/NAME" or "".
func ParseResultFilter(text string) (ResultFilter, error) {
	switch text {
	case "", "waiting", "evicted":
		return ResultFilter{what: text}, nil
	}
	gangKey, ok := strings.CutPrefix(text, "gang=")
	namespace, name, both := strings.Cut(gangKey, "/")
	if !ok || !both || namespace == "" || name == "" {
		return ResultFilter{}, fmt.Errorf("%s: supported values: waiting, evicted, gang=NAMESPACE/NAME", text)
	}
	return ResultFilter{"gang", [2]string{namespace, name}}, nil
}

// Filter returns the selected part of a result, with the whole Summary. The error says that the selected gang does not exist.
func (r *Result) Filter(o ResultFilter) (*Result, error) {
	if o.what == "" {
		return r, nil
	}
	out := *r
	switch o.what {
	case "waiting":
		out.keepOnly(func(g Gang) bool { return !g.State.Started() }, func(p Pod) bool { return p.State == Pending })
		out.Warnings, out.Evicted = nil, []string{}
	case "evicted":
		out.keepOnly(func(g Gang) bool { return g.Eviction != nil }, func(p Pod) bool { return p.State == Evicted })
		out.Warnings, out.Held = nil, nil
	case "gang":
		sameGang := func(namespace, name string) bool { return o.gang == [2]string{namespace, name} }
		out.keepOnly(func(g Gang) bool { return sameGang(g.Namespace, g.Name) }, func(p Pod) bool { return sameGang(p.Namespace, p.gang) })
		if len(out.Gangs) == 0 && len(out.Pods) == 0 {
			if reason := mayExist(r.unlistedDeclarations, o.gang[0], o.gang[1]); reason != "" {
				return nil, fmt.Errorf("gang=%s/%s: %s", o.gang[0], o.gang[1], reason)
			}
			return nil, fmt.Errorf("gang=%s/%s: there is no such gang", o.gang[0], o.gang[1])
		}
		names := map[string]bool{"PodGroup " + strings.Join(o.gang[:], "/"): true}
		out.Evicted = []string{}
		for _, p := range out.Pods {
			names["Pod "+p.Namespace+"/"+p.Name] = true
			if p.State == Evicted {
				out.Evicted = append(out.Evicted, p.Namespace+"/"+p.Name)
			}
		}
		out.Warnings = slices.DeleteFunc(slices.Clone(r.Warnings), func(w Event) bool { return !names[w.Object] })
		out.Held = slices.DeleteFunc(slices.Clone(r.Held), func(h HeldPod) bool { return !sameGang(h.Namespace, h.gang) })
	}
	return &out, nil
}

// keepOnly removes the gangs and the pods for which gang and pod return false.
func (r *Result) keepOnly(gang func(Gang) bool, pod func(Pod) bool) {
	r.Gangs = slices.DeleteFunc(slices.Clone(r.Gangs), func(g Gang) bool { return !gang(g) })
	r.Pods = slices.DeleteFunc(slices.Clone(r.Pods), func(p Pod) bool { return !pod(p) })
}

// Summary counts pods and gangs by state.
type Summary struct {
	Gangs                   int
	States                  map[State]int // of gangs
	Bound, Pending, Evicted int           // pods; Bound counts pods that had no node before
	Ran                     int           // pods that ran before and still run
}

// summarize sets r.Summary from r.Gangs and r.Pods.
func (r *Result) summarize() {
	s := Summary{Gangs: len(r.Gangs), States: map[State]int{}}
	for _, g := range r.Gangs {
		s.States[g.State]++
	}
	for _, p := range r.Pods {
		switch {
		case p.State == Evicted:
			s.Evicted++
		case p.State == Pending:
			s.Pending++
		case p.Ran:
			s.Ran++
		default:
			s.Bound++
		}
	}
	r.Summary = s
}
