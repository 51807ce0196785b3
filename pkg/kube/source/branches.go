package source

import (
	"fmt"
	"slices"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// branch is a part of a group with a topology constraint of its own.
type branch struct {
	where  string // the object or field with the constraint
	gangs  []gang.Ref
	keys   labelKeys         // the fields in which values may name label keys
	values map[string]string // the label keys by field
}

// readBranches parses d.branches into d.Branches. A note replaces all of them if the group has a network-topology-spec.
func (d *Declaration) readBranches(defaults Defaults) {
	for _, b := range d.branches {
		if d.ConstraintOrigin != "" && !d.ReadsLayers {
			d.note(reasons.InvalidAnnotation, fmt.Sprintf("%s contradicts %s, which is used; remove one of them", b.where, d.ConstraintOrigin))
			return
		}
		got := b.keys.read(func(key string) (string, bool) { return annotationValue(b.values, key) }, defaults.Layers)
		d.ReadsLayers = true
		if got.err != nil {
			d.setProblem(fmt.Errorf("%s: %w", b.where, got.err))
			d.note(reasons.InvalidAnnotation, b.where+": "+got.err.Error())
			return
		}
		for _, n := range got.notes {
			d.note(n.Reason, b.where+": "+n.Message)
		}
		if got.gather == nil || !defaults.NetworkTopologyAware {
			continue
		}
		own := convert.Own{Gangs: slices.Clone(b.gangs), Gather: got.gather}
		sortRefs(own.Gangs)
		d.Branches = append(d.Branches, own)
		d.note(reasons.TopologyRule, "topology constraint of a part of the group from "+b.where)
	}
}
