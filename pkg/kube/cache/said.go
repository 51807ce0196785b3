package cache

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Said is what a gang's objects say of it.
type Said struct {
	Ref     gang.Ref
	Way     string // what its members write to be members, as Source.Way has it; "" if it has none
	Members int    // pods that have not finished
	Min     int    // how many start together; 0 if nothing declares the gang
	Rule    string // where it is said how members gather; "" if nobody says it
	Problem string // why it cannot be planned; "" if it can
	Owner   string // the kind of object that owns it; "" if none is known to
	Served  bool   // by this process, and by no other scheduler
}

// Said returns what is known of a gang now.
func (c *Cache) Said(ref gang.Ref) (Said, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil {
		return Said{}, false
	}
	out := Said{Ref: ref, Members: len(r.Pods), Owner: r.owner.Kind, Served: c.ours(r)}
	for _, pods := range []map[string]*v1.Pod{r.Pods, r.Finished} {
		for _, pod := range pods {
			if way := source.WayOf(pod); out.Way == "" || way < out.Way { // members may name it in several
				out.Way = way
			}
		}
	}
	if d := r.Declared; d != nil {
		out.Min, out.Rule, out.Problem = d.Min, d.Rule, d.Problem.Words
	} else {
		out.Problem = "nothing declares it: its object does not exist, or is not read"
	}
	return out, true
}
