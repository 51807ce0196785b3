package source

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	labelsets "k8s.io/apimachinery/pkg/labels"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// SubGroups is a policy by which members form sub-groups: the selected members with equal values under Keys are one sub-group.
// Each sub-group has the topology constraint for itself.
type SubGroups struct {
	Name         string
	Size         int // the members of each sub-group
	MinSubGroups int // the minimum number of sub-groups
	Selects      labelsets.Selector
	Keys         []string
	Values       map[string]string // fields of networkTopology, by their key
	Gather       *scheduling.GatherSpec
}

// separator separates the parts of a sub-group's name: no name and no label value contains it.
const separator = "\x1f"

// Of returns the sub-group's name for a pod; "" if the policy does not select the pod, or the pod lacks a label of Keys.
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
		name += separator + value
	}
	return name
}

// SubGroupOf returns the sub-group of a pod by the first policy that selects the pod, and the index of that policy. Without a policy
// it returns the pod's task and -1; "" and -1 if the pod has neither.
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

// readSubGroups parses a list of policies.
func readSubGroups(all []workloads.SubGroupPolicy) (out []SubGroups, err error) {
	for i, p := range all {
		at := fmt.Sprintf("spec.subGroupPolicy[%d]", i)
		switch {
		case p.Name == "":
			return nil, fmt.Errorf(`%s.name is missing; write a name`, at)
		case slices.ContainsFunc(out, func(o SubGroups) bool { return o.Name == p.Name }):
			return nil, fmt.Errorf("%s.name: %q is listed twice; write another name", at, p.Name)
		}
		s := SubGroups{
			Name: p.Name, Size: int(workloads.OrOne(p.SubGroupSize)), MinSubGroups: int(p.MinSubGroups), Keys: p.MatchLabelKeys,
			Selects: labelsets.Everything(), Values: map[string]string{},
		}
		if p.LabelSelector != nil {
			if s.Selects, err = metav1.LabelSelectorAsSelector(p.LabelSelector); err != nil {
				return nil, fmt.Errorf("%s.labelSelector: %w", at, err)
			}
		}
		addTierFields(p.NetworkTopology, func(key, value string) { s.Values[key] = value })
		out = append(out, s)
	}
	return out, nil
}

// readSubGroups parses the topology constraint of each sub-group policy in d.SubGroups into its Gather.
func (d *Declaration) readSubGroups(defaults Defaults) {
	if len(d.SubGroups) == 0 {
		return
	}
	d.Multiples = true // a sub-group starts whole or not at all
	format := tiers(FieldTopologyMode, FieldTopologyTier, FieldTopologyTierName)
	var names []string
	for i := range d.SubGroups {
		s := &d.SubGroups[i]
		got := parseResult{}
		if len(s.Values) > 0 {
			got = format.read(func(key string) (string, bool) { return annotationValue(s.Values, key) }, defaults.Layers)
			d.ReadsLayers = true
		}
		if got.err != nil {
			d.setProblem(fmt.Errorf("spec.subGroupPolicy[%d] %q: %w", i, s.Name, got.err))
			return
		}
		for _, n := range got.notes {
			d.note(n.Reason, s.Name+": "+n.Message)
		}
		if got.gather != nil && defaults.NetworkTopologyAware {
			s.Gather, names = got.gather, append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	d.note(reasons.TopologyRule, "rule of sub-groups from field spec.subGroupPolicy "+strings.Join(names, ", "))
}
