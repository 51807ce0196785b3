package manifests_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// TestNetworkTopologyAdmission: what the policy rejects when an object is applied, and what it warns of (integrations
// cases S000-04 to 06, VOL-02).
func TestNetworkTopologyAdmission(t *testing.T) {
	read := func(text string) *unstructured.Unstructured {
		data, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err, text)
		u := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal(data, &u.Object))
		return u
	}
	d := newDoor(t)
	const both = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously."
	for name, c := range map[string]struct {
		annotations, topology string
		want                  said
	}{
		"nothing":      {"", "", said{}},
		"legal":        {"", "{mode: hard, highestTierAllowed: 2}", said{}},
		"soft by name": {"", "{mode: soft, highestTierName: rack}", said{}},
		"S000-04 a node": {
			"", "{mode: hard, highestTierAllowed: 0}",
			said{"", "spec.networkTopology.highestTierAllowed is 0: all pods of a group must run on the same node"},
		},
		"S000-05 a bad mode": {
			"", "{mode: strict, highestTierAllowed: 1}",
			said{`spec.networkTopology.mode: Unsupported value: "strict": supported values: "hard", "soft"`, ""},
		},
		"S000-06 a negative tier": {
			"", "{mode: hard, highestTierAllowed: -1}",
			said{"spec.networkTopology.highestTierAllowed: Invalid value: -1: must be greater than or equal to 0", ""},
		},
		"VOL-02 number and name": {"", "{mode: hard, highestTierAllowed: 1, highestTierName: rack}", said{both, ""}},
		"legal annotations":      {"volcano.sh/network-topology-mode: soft, volcano.sh/network-topology-highest-tier: '2'", "", said{}},
		"annotations: a bad mode": {
			"volcano.sh/network-topology-mode: none", "",
			said{`volcano.sh/network-topology-mode: Unsupported value: "none": supported values: "hard", "soft"`, ""},
		},
		"annotations: a bad tier": {
			"volcano.sh/network-topology-highest-tier: rack", "",
			said{`volcano.sh/network-topology-highest-tier: Invalid value: "rack": must be an integer greater than or equal to 0`, ""},
		},
		"annotations: the nodes": {
			"volcano.sh/network-topology-highest-tier: '0'", "",
			said{"", "volcano.sh/network-topology-highest-tier is 0: all pods of a group must run on the same node"},
		},
		"others are not looked at": {"team: x", "", said{}},
	} {
		for _, kind := range []string{
			"apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet", "apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup",
		} {
			text := "{" + kind + ", metadata: {namespace: default, name: a, annotations: {" + c.annotations + "}}, spec: {"
			if c.topology != "" {
				text += "networkTopology: " + c.topology
			}
			u := read(text + "}}")
			require.Equal(t, c.want, d.enter(u, nil), name+", "+kind)
			changed := u.DeepCopy()
			changed.SetLabels(map[string]string{"a": "b"})
			require.Equal(t, said{}, d.enter(changed, u), "what was there before can be changed otherwise")
		}
	}
}
