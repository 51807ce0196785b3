package source

import (
	"fmt"
	"slices"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// branch is some gangs of a group that gather with one another, and what is said of that.
type branch struct {
	where string // the object or the field that says so
	gangs []gang.Ref
	keys  labelKeys // the language of words
	words map[string]string
}

// readBranches reads how branches of the gang's group gather.
func (d *Declaration) readBranches(defaults Defaults) {
	for _, b := range d.branches {
		if d.Rule != "" && !d.ReadsLayers {
			d.note(InvalidAnnotation, fmt.Sprintf("%s says something else than %s, which is used", b.where, d.Rule))
			return
		}
		got := b.keys.read(func(key string) (string, bool) { return said(b.words, key) }, defaults.Layers)
		d.ReadsLayers = true
		if got.err != nil {
			d.problem(fmt.Errorf("%s: %w", b.where, got.err))
			d.note(InvalidAnnotation, b.where+": "+got.err.Error())
			return
		}
		for _, n := range got.notes {
			d.note(n.Reason, b.where+": "+n.Message)
		}
		if got.gather == nil || !defaults.Aware {
			continue
		}
		own := convert.Own{Gangs: slices.Clone(b.gangs), Gather: got.gather}
		sortRefs(own.Gangs)
		d.Branches = append(d.Branches, own)
		d.note(TopologyRule, "rule of a part of the group from "+b.where)
	}
}
