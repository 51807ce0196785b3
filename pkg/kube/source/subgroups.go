package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	labelsets "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
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
	return "", -1
}

// subGroupPolicy is one of Volcano's subGroupPolicy.
type subGroupPolicy struct {
	Name           string                `json:"name"`
	SubGroupSize   *int32                `json:"subGroupSize"`
	MinSubGroups   *int32                `json:"minSubGroups"`
	LabelSelector  *metav1.LabelSelector `json:"labelSelector"`
	MatchLabelKeys []string              `json:"matchLabelKeys"`
}

// readSubGroups reads a list of policies.
func readSubGroups(u *unstructured.Unstructured, path ...string) (out []SubGroups, err error) {
	value, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil || !found || value == nil {
		return nil, err
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf(": %v is not legal; legal: a list", value)
	}
	for i, item := range list {
		s, err := readPolicy(item)
		if err == nil && slices.ContainsFunc(out, func(o SubGroups) bool { return o.Name == s.Name }) {
			err = fmt.Errorf("name: %q is there twice", s.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func readPolicy(item any) (out SubGroups, err error) {
	object, ok := item.(map[string]any)
	if !ok {
		return out, fmt.Errorf("%v is not legal; legal: an object", item)
	}
	var p subGroupPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &p); err != nil {
		return out, err
	}
	out = SubGroups{Name: p.Name, Size: 1, Keys: p.MatchLabelKeys, Says: map[string]string{}, Selects: labelsets.Everything()}
	switch {
	case p.Name == "":
		return out, errors.New(`name: "" is not legal; legal: a name`)
	case p.SubGroupSize != nil && *p.SubGroupSize < 1:
		return out, fmt.Errorf("subGroupSize: %d is not legal; legal: an integer ≥ 1", *p.SubGroupSize)
	case p.MinSubGroups != nil && *p.MinSubGroups < 0:
		return out, fmt.Errorf("minSubGroups: %d is not legal; legal: an integer ≥ 0", *p.MinSubGroups)
	}
	if p.SubGroupSize != nil {
		out.Size = int(*p.SubGroupSize)
	}
	if p.MinSubGroups != nil {
		out.Least = int(*p.MinSubGroups)
	}
	if p.LabelSelector != nil {
		if out.Selects, err = metav1.LabelSelectorAsSelector(p.LabelSelector); err != nil {
			return out, fmt.Errorf("labelSelector: %w", err)
		}
	}
	if err := tierWords(&unstructured.Unstructured{Object: object}, func(key, value string) { out.Says[key] = value }, "networkTopology"); err != nil {
		return out, fmt.Errorf("networkTopology: %w", err)
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
