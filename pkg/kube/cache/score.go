package cache

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Score is a measure of how near to each other the pods of an owner's gangs are; 1 is nearest.
type Score struct {
	Resource schema.GroupVersionResource
	Object   *v1.ObjectReference
	Value    float64 // above 0 and up to 1, to three digits
}

// Score returns the score to write into the object that owns a gang (topology.Tree.Near). ok is false if this process does not report the
// gang, the score is unchanged, or a gang of the object has too few members.
func (c *Cache) Score(ref gang.Ref) (out Score, ok bool) {
	tree := c.Topology().Tree
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[ref]
	if r == nil || r.Owner == nil || !c.servesGang(r) {
		return out, false
	}
	if out.Resource, ok = r.Owner.Scored(); !ok {
		return out, false
	}
	out.Object = r.Owner.Object
	var bound []int // node indexes
	for other := range c.lineage.Gangs(r.owner) {
		if numbers := c.book.Numbers(other); numbers.Bound < numbers.Min {
			return out, false
		}
		for _, pod := range c.gangs[other].Pods {
			if i, ok := tree.NodeIndex(pod.Spec.NodeName); ok && !convert.Finished(pod) {
				bound = append(bound, i)
			}
		}
	}
	needed := 0
	for _, part := range r.Owner.Parts {
		needed += min(part.Size, 1)
	}
	near, ok := tree.Near(slices.Values(bound))
	out.Value = math.Round(near*1000) / 1000
	return out, ok && len(c.lineage.Gangs(r.owner)) >= needed && (r.Owner.Score == nil || *r.Owner.Score != out.Value)
}
