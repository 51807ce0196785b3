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
	if _, ok := d.Tasks[taskOf(pod)]; ok {
		return taskOf(pod), -1
	}
	return "", -1
}

// readSubGroups reads a list of policies.
func readSubGroups(u *unstructured.Unstructured, path ...string) (out []SubGroups, err error) {
	all, err := objectsIn(u.Object, path...)
	for i, object := range all {
		s, err := readPolicy(object)
		if err == nil && slices.ContainsFunc(out, func(o SubGroups) bool { return o.Name == s.Name }) {
			err = fmt.Errorf("name: %q is there twice", s.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", strings.Join(path, "."), i, err)
		}
		out = append(out, s)
	}
	return out, err
}

func readPolicy(object map[string]any) (out SubGroups, err error) {
	out = SubGroups{Says: map[string]string{}, Selects: labelsets.Everything()}
	if out.Name, err = text(object, "name"); err == nil && out.Name == "" {
		err = errors.New(`name: "" is not legal; legal: a name`)
	}
	if err != nil {
		return out, err
	}
	if out.Size, err = countIn(object, 1, 1, "subGroupSize"); err != nil {
		return out, err
	}
	if out.Least, err = countIn(object, 0, 0, "minSubGroups"); err != nil {
		return out, err
	}
	if out.Keys, err = textsIn(object, "matchLabelKeys"); err != nil {
		return out, err
	}
	if out.Selects, err = selector(object, "labelSelector"); err != nil {
		return out, err
	}
	return out, tierWords(&unstructured.Unstructured{Object: object}, func(key, value string) { out.Says[key] = value }, "networkTopology")
}

// selector is a selector of labels in a field; that of everything if there is none.
func selector(object map[string]any, in string) (labelsets.Selector, error) {
	says, err := objectIn(object, in)
	if says == nil || err != nil {
		return labelsets.Everything(), err
	}
	var selects metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(says, &selects); err != nil {
		return nil, fmt.Errorf("%s: %s is not legal (%w); legal: matchLabels, matchExpressions", in, quoted(says), err)
	}
	out, err := metav1.LabelSelectorAsSelector(&selects)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in, err)
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
