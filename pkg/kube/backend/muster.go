package backend

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// muster writes PodGroups for this project's scheduler, which makes gangs of PodGangs, LeaderWorkerSets and Volcano's
// PodGroups itself: this is for those who want to see them as objects. Groups may gather each by a rule of its own
// within that of all.
type muster struct{ podGroups }

// Gate is that of pods whose gang is not written yet.
func (m *muster) Gate() string { return "muster.sh/podgang" }

// Objects are the PodGroups. Volcano's PodGroup is read as it is.
func (m *muster) Objects(info *podgang.PodGangInfo, c Cluster) ([]Object, []podgang.Note, error) {
	if info.Kind == podgang.VolcanoPodGroup {
		return nil, nil, nil
	}
	layerOf := func(key string) (string, bool) {
		if layer, ok := m.mappings[key]; ok {
			return layer, true
		}
		return c.Topology.LayerOf(key)
	}
	return m.objects(info, c.Topology, layerOf, musterSpec)
}

// musterSpec is the rule of all, and then the group's own, which is about its members by themselves.
func musterSpec(r rules, groups int) string {
	out := &scheduling.GatherSpec{}
	if r.all != nil {
		out.Rules = slices.Clone(r.all.Rules)
	}
	if r.own == nil {
		return podgang.SpecJSON(out)
	}
	for _, rule := range r.own.Rules {
		if rule.Scope = scheduling.ScopePodGroup; groups == 1 {
			rule.Scope = scheduling.ScopeGangGroup
		}
		if !slices.ContainsFunc(out.Rules, func(o scheduling.GatherRule) bool { return o.Layer == rule.Layer && o.Scope == rule.Scope }) {
			out.Rules = append(out.Rules, rule)
		}
	}
	return podgang.SpecJSON(out)
}

// PreparePod leaves pods of Volcano's PodGroups to name that.
func (m *muster) PreparePod(pod *unstructured.Unstructured, key podgang.PodKey, c Cluster) error {
	key, err := keyOf(pod, key, m.exact[0])
	if err == nil && key.Kind == podgang.VolcanoPodGroup {
		m.give(pod)
		return nil
	}
	return m.podGroups.PreparePod(pod, key, c)
}

// Validate refuses PodCliqueSets whose rules PodGroups cannot say.
func (m *muster) Validate(object, old *unstructured.Unstructured) podgang.Verdict {
	return podgang.ValidatePodCliqueSet(object, old, podgang.CliqueSetRules{Backend: m.exact[0], NoScalingGroups: true})
}
