package backend

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// koordinator writes what GREP-537 has Grove write for Koordinator. What differs from it, and why:
//
//   - names are those of podgang.GroupName: Grove's own names would be repeated, and longer than a label may be;
//   - priorityClassName is an annotation: PodGroups have no such field;
//   - a group that is satisfied "once" is made again when all of its pods are, or nobody would be a gang again
//     (Object.Rearm);
//   - a pod's own koordinator.sh/qosClass stays, and so does a scheduler name that contains koord;
//   - a group that needs nobody (minReplicas 0, and never more) is not listed with the others;
//   - networkTopology and network-topology-spec of LeaderWorkerSets are translated by the layers that there are.
type koordinator struct{ podGroups }

// koordinatorKeys are the label keys of GREP-537, which match exactly.
var koordinatorKeys = map[string]string{
	podgang.LabelHostname:          "hostLayer",
	"topology.kubernetes.io/rack":  "rackLayer",
	"topology.kubernetes.io/block": "blockLayer",
}

// Gate is that of the framework's document.
func (k *koordinator) Gate() string { return "scheduling.koordinator.sh/gang" }

// layerOf is the layer of a label key: a user's mapping counts before the table.
func (k *koordinator) layerOf(key string) (string, bool) {
	if layer, ok := k.mappings[key]; ok {
		return layer, true
	}
	layer, ok := koordinatorKeys[key]
	return layer, ok
}

// Objects are the PodGroups. A group's own rule counts, else that of the gang.
func (k *koordinator) Objects(info *podgang.PodGangInfo, c Cluster) ([]Object, []podgang.Note, error) {
	if all := info.TopologyConstraintGroupConfigs; len(all) > 0 {
		return nil, nil, unsupported(podgang.ReasonGroupConfig, k.name, "topologyConstraintGroupConfigs (%q)", all[0].Name)
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
		notes = append(notes, podgang.Note{Reason: podgang.ReasonTwoRules, Message: "groups of one gang have different topology constraints: Koordinator uses the constraints of the first group for all of them; Muster refuses such a gang, and obeys both as backend muster writes them (scope PodGroup)"})
	}
	for i := range out {
		out[i].Rearm = k.matchPolicy == string(scheduling.MatchOnceSatisfied)
	}
	return out, notes, err
}

// Validate refuses PodCliqueSets that ask for what Koordinator cannot do.
func (k *koordinator) Validate(object, old *unstructured.Unstructured) podgang.Verdict {
	return podgang.ValidatePodCliqueSet(object, old, podgang.CliqueSetRules{Backend: k.exact[0], NoMNNVL: true, NoScalingGroups: true})
}
