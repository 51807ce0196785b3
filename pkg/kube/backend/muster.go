package backend

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// muster writes PodGroups for Muster's scheduler. That scheduler reads PodGangs, LeaderWorkerSets and Volcano's PodGroups itself: the
// backend is for users that want to see PodGroups. Groups may have a topology constraint of their own within the gang's.
type muster struct{ podGroups }

// Gate returns the name of the scheduling gate of pods whose gang is not written yet.
func (m *muster) Gate() string { return "muster.sh/podgang" }

// Objects returns the PodGroups of a gang. For a gang from Volcano's PodGroup it returns none: Muster's scheduler reads that object itself.
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

// musterSpec returns the gang's constraint followed by the group's own, with scope PodGroup.
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

// PreparePod does not relabel pods of Volcano's PodGroups.
func (m *muster) PreparePod(pod *unstructured.Unstructured, key podgang.PodKey, c Cluster) error {
	key, err := keyOf(pod, key, m.exact[0])
	if err == nil && key.Kind == podgang.VolcanoPodGroup {
		m.setScheduler(pod)
		return nil
	}
	return m.podGroups.PreparePod(pod, key, c)
}

// Validate rejects PodCliqueSets with constraints that PodGroups cannot express.
func (m *muster) Validate(object, old *unstructured.Unstructured) podgang.Verdict {
	return podgang.ValidatePodCliqueSet(object, old, podgang.CliqueSetRules{Backend: m.exact[0], NoScalingGroups: true})
}
