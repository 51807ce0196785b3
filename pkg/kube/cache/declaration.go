package cache

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Declarations is what the objects of a gang declare.
type Declarations struct {
	Ref     gang.Ref
	Way     string // by which label, annotation or field its members name it, as source.WayOf; "" if by none
	Members int    // members that have not finished
	Min     int    // minMember; 0 without a declaration
	Rule    string // where its topology constraint is declared; "" without one
	Problem string // why it cannot be planned; "" if it can
	Owner   string // the kind of its owner; "" if none is known
	Served  bool   // this process schedules it
}

// Declarations returns what objects declare about a gang; ok is false if the gang is unknown.
func (c *Cache) Declarations(ref gang.Ref) (declared Declarations, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return Declarations{}, false
	}
	out := Declarations{Ref: ref, Members: len(r.Pods), Owner: r.owner.Kind, Served: c.servesGang(r)}
	for _, pods := range []map[string]*v1.Pod{r.Pods, r.Finished} {
		for _, pod := range pods {
			if way := source.WayOf(pod); out.Way == "" || way < out.Way { // members may use several ways
				out.Way = way
			}
		}
	}
	if d := r.Declared; d != nil {
		out.Min = d.Min
		out.Rule = d.ConstraintOrigin
		out.Problem = d.Problem.Words
	} else {
		out.Problem = "nothing declares it: its object does not exist, or is not read"
	}
	return out, true
}
