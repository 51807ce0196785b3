package backend

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// koordinator writes what GREP-537 specifies for Grove and Koordinator, with these differences:
//
//   - names are podgang.GroupName's: Grove's own names would be repeated, and longer than a label may be;
//   - priorityClassName is an annotation: PodGroups have no such field;
//   - a group that is satisfied "once" is recreated when all of its pods are; else they would not be a gang (Object.Rearm);
//   - a pod keeps its own koordinator.sh/qosClass, and a scheduler name that contains koord;
//   - a group without a minimum (minReplicas 0, and never more) is not listed with the other groups;
//   - networkTopology and network-topology-spec of LeaderWorkerSets are translated by the layers that exist.
type koordinator struct{ podGroups }

// koordinatorKeys are the label keys of GREP-537, which match exactly.
var koordinatorKeys = map[string]string{
	podgang.LabelHostname:          "hostLayer",
	"topology.kubernetes.io/rack":  "rackLayer",
	"topology.kubernetes.io/block": "blockLayer",
}

// Gate returns the gate's name, as in GREP-537.
func (k *koordinator) Gate() string { return "scheduling.koordinator.sh/gang" }

// layerOf returns the layer of a label key: a user's mapping takes precedence over the table.
func (k *koordinator) layerOf(key string) (string, bool) {
	if layer, ok := k.mappings[key]; ok {
		return layer, true
	}
	layer, ok := koordinatorKeys[key]
	return layer, ok
}

// Objects returns the PodGroups. A group's own constraint takes precedence over the gang's.
func (k *koordinator) Objects(info *podgang.PodGangInfo, c Cluster) ([]Object, []podgang.Note, error) {
	if all := info.TopologyConstraintGroupConfigs; len(all) > 0 {
		return nil, nil, unsupported(reasons.TopologyGroupConfigUnsupported, k.name, "topologyConstraintGroupConfigs (%q)", all[0].Name)
	}
	specs := map[string]bool{}
	out, notes, err := k.objects(info, c.Topology, k.layerOf, func(r rules, _ int) string {
		spec := podgang.SpecJSON(r.all)
		if r.own != nil {
			spec = podgang.SpecJSON(r.own)
		}
		specs[spec] = true
		return spec
	})
	if len(specs) > 1 {
		notes = append(notes, podgang.Note{
			Reason: reasons.TwoTopologyRules,
			Message: "groups of one gang have different topology constraints: Koordinator uses the constraints of the first group for all of " +
				"them; Muster refuses such a gang, and obeys both as backend muster writes them (scope PodGroup)",
		})
	}
	for i := range out {
		out[i].Rearm = k.matchPolicy == string(scheduling.MatchOnceSatisfied)
	}
	return out, notes, err
}

// Validate returns errors for a PodCliqueSet with constraints that Koordinator does not support.
func (k *koordinator) Validate(object, old *unstructured.Unstructured) podgang.Verdict {
	return podgang.ValidatePodCliqueSet(object, old, podgang.CliqueSetRules{Backend: k.exact[0], NoMNNVL: true, NoScalingGroups: true})
}
