package simulate

import (
	"fmt"
	"slices"
	"strings"
)

// Only says which part of a result is looked at; zero is all of it.
type Only struct {
	what string
	gang [2]string // namespace and name
}

// ParseOnly reads "waiting", "evicted", "gang=NAMESPACE/NAME" or nothing.
func ParseOnly(text string) (Only, error) {
	switch text {
	case "", "waiting", "evicted":
		return Only{what: text}, nil
	}
	of, ok := strings.CutPrefix(text, "gang=")
	namespace, name, both := strings.Cut(of, "/")
	if !ok || !both || namespace == "" || name == "" {
		return Only{}, fmt.Errorf("%s: supported values: waiting, evicted, gang=NAMESPACE/NAME", text)
	}
	return Only{"gang", [2]string{namespace, name}}, nil
}

// Only leaves out of a result what is not looked at. Summary stays as it is. It is an error to look
// at a gang that there is not.
func (r *Result) Only(o Only) (*Result, error) {
	if o.what == "" {
		return r, nil
	}
	out := *r
	switch o.what {
	case "waiting": // with those who have left for whoever waits
		out.keep(func(g Gang) bool { return g.State != Scheduled }, func(p Pod) bool { return p.State == Pending })
		out.Warnings, out.Evicted = nil, []string{}
	case "evicted":
		out.keep(func(g Gang) bool { return g.Eviction != nil }, func(p Pod) bool { return p.State == Evicted })
		out.Warnings, out.Held = nil, nil
	case "gang":
		is := func(namespace, name string) bool { return o.gang == [2]string{namespace, name} }
		out.keep(func(g Gang) bool { return is(g.Namespace, g.Name) }, func(p Pod) bool { return is(p.Namespace, p.gang) })
		if len(out.Gangs) == 0 && len(out.Pods) == 0 {
			if why := mayExist(r.undeclared, o.gang[0], o.gang[1]); why != "" {
				return nil, fmt.Errorf("gang=%s/%s: %s", o.gang[0], o.gang[1], why)
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
		out.Held = slices.DeleteFunc(slices.Clone(r.Held), func(h Held) bool { return !is(h.Namespace, h.gang) })
	}
	return &out, nil
}

func (r *Result) keep(gang func(Gang) bool, pod func(Pod) bool) {
	r.Gangs = slices.DeleteFunc(slices.Clone(r.Gangs), func(g Gang) bool { return !gang(g) })
	r.Pods = slices.DeleteFunc(slices.Clone(r.Pods), func(p Pod) bool { return !pod(p) })
}

// Summary counts what has become of everything.
type Summary struct {
	Gangs, Scheduled, Waiting, Unschedulable int
	Bound, Pending, Evicted                  int // pods; Bound only those that had no node before
	Ran                                      int // pods that ran before and still do
}

func (r *Result) summarize() {
	s := Summary{Gangs: len(r.Gangs)}
	for _, g := range r.Gangs {
		switch g.State {
		case Scheduled:
			s.Scheduled++
		case Unschedulable:
			s.Unschedulable++
		default:
			s.Waiting++
		}
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
