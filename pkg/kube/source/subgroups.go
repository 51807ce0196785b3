package source

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	labelsets "k8s.io/apimachinery/pkg/labels"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// SubGroups is a policy by which members of a gang form sub-groups: those that it selects and that
// have equal values under its keys are one. Sub-groups gather by themselves.
type SubGroups struct {
	Name    string
	Size    int // how many members each has
	Least   int // how many sub-groups there must be
	Selects labelsets.Selector
	Keys    []string
	Says    map[string]string // how the members of each gather, as fields of networkTopology say it
	Gather  *scheduling.GatherSpec
}

// between separates what names a sub-group: no name and no value of a label has it.
const between = "\x1f"

// Of names the sub-group that a pod is in; "" if in none.
func (s *SubGroups) Of(pod *v1.Pod) string {
	if !s.Selects.Matches(labelsets.Set(pod.Labels)) {
		return ""
	}
	name := s.Name
	for _, key := range s.Keys {
		value, ok := pod.Labels[key]
		if !ok {
			return ""
		}
		name += between + value
	}
	return name
}

// SubGroupOf names the sub-group of the gang that a pod is in, by the first policy that selects it,
// and the policy's place in SubGroups; "" and -1 if it is in none.
func (d *Declaration) SubGroupOf(pod *v1.Pod) (name string, policy int) {
	for i := range d.SubGroups {
		if name := d.SubGroups[i].Of(pod); name != "" {
			return name, i
		}
	}
	if _, ok := d.Tasks[taskOf(pod)]; ok {
		return taskOf(pod), -1
	}
	return "", -1
}

// readSubGroups reads a list of policies.
func readSubGroups(all []workloads.SubGroupPolicy) (out []SubGroups, err error) {
	for i, p := range all {
		at := fmt.Sprintf("spec.subGroupPolicy[%d]", i)
		switch {
		case p.Name == "":
			return nil, fmt.Errorf(`%s.name: "" is invalid; supported values: a name`, at)
		case slices.ContainsFunc(out, func(o SubGroups) bool { return o.Name == p.Name }):
			return nil, fmt.Errorf("%s.name: %q is there twice", at, p.Name)
		}
		s := SubGroups{
			Name: p.Name, Size: int(workloads.OrOne(p.SubGroupSize)), Least: int(p.MinSubGroups), Keys: p.MatchLabelKeys,
			Selects: labelsets.Everything(), Says: map[string]string{},
		}
		if p.LabelSelector != nil {
			if s.Selects, err = metav1.LabelSelectorAsSelector(p.LabelSelector); err != nil {
				return nil, fmt.Errorf("%s.labelSelector: %w", at, err)
			}
		}
		tierWords(p.NetworkTopology, func(key, value string) { s.Says[key] = value })
		out = append(out, s)
	}
	return out, nil
}

// readSubGroups reads how the members of sub-groups gather.
func (d *Declaration) readSubGroups(defaults Defaults) {
	if len(d.SubGroups) == 0 {
		return
	}
	d.Multiples = true // a sub-group starts whole or not at all
	language := tiers(FieldTopologyMode, FieldTopologyTier, FieldTopologyTierName)
	var names []string
	for i := range d.SubGroups {
		s := &d.SubGroups[i]
		got := reading{}
		if len(s.Says) > 0 {
			got = language.read(func(key string) (string, bool) { return said(s.Says, key) }, defaults.Layers)
			d.ReadsLayers = true
		}
		if got.err != nil {
			d.problem(fmt.Errorf("spec.subGroupPolicy[%d] %q: %w", i, s.Name, got.err))
			return
		}
		for _, n := range got.notes {
			d.note(n.Reason, s.Name+": "+n.Message)
		}
		if got.gather != nil && defaults.Aware {
			s.Gather, names = got.gather, append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	d.note(TopologyRule, "rule of sub-groups from field spec.subGroupPolicy "+strings.Join(names, ", "))
}
