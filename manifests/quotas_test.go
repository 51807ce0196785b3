package manifests_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// TestQuotaAdmission: which ElasticQuotas are rejected when they are applied.
func TestQuotaAdmission(t *testing.T) {
	read := func(text string) *unstructured.Unstructured {
		data, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err, text)
		u := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal(data, &u.Object))
		return u
	}
	d := newDoor(t)
	for name, c := range map[string]struct{ labels, spec, refused string }{
		"nothing":           {"", "{}", ""},
		"legal":             {"", "{min: {cpu: 8, memory: 64Gi}, max: {cpu: 16, memory: 128Gi, nvidia.com/gpu: 8}}", ""},
		"equal":             {"", "{min: {cpu: 8000m}, max: {cpu: '8'}}", ""},
		"min is not in max": {"", "{min: {cpu: 8}, max: {memory: 1Gi}}", ""},
		"min above max":     {"", "{min: {cpu: 8, memory: 2Gi}, max: {cpu: 8, memory: 1Gi}}", "spec.min: of memory it is above max"},
		"negative min":      {"", "{min: {cpu: -8}}", `spec.min.cpu: "-8" is invalid; supported values: a quantity ≥ 0, such as 8 or 64Gi`},
		"negative max": {
			"", "{max: {cpu: '-8'}}", `spec.max.cpu: "-8" is invalid; supported values: a quantity ≥ 0, such as 8 or 64Gi`,
		},
		"no quantity": {
			"", "{max: {cpu: many}}", `spec.max.cpu: "many" is invalid; supported values: a quantity ≥ 0, such as 8 or 64Gi`,
		},
		"a parent": {"quota.scheduling.koordinator.sh/parent: p", "{max: {cpu: 8}}", ""},
		"above itself": {
			"quota.scheduling.koordinator.sh/parent: a", "{max: {cpu: 8}}",
			"metadata.labels[quota.scheduling.koordinator.sh/parent]: a quota cannot be above itself",
		},
		"Koordinator's own root": {"", "{min: {cpu: 0}, max: {cpu: '4611686018427387'}}", ""},
	} {
		for _, group := range []string{"scheduling.sigs.k8s.io", "scheduling.x-k8s.io"} {
			u := read("{apiVersion: " + group + "/v1alpha1, kind: ElasticQuota, metadata: {namespace: default, name: a, labels: {" + c.labels +
				"}}, spec: " + c.spec + "}")
			require.Equal(t, said{c.refused, ""}, d.enter(u, nil), name)
			written := u.DeepCopy()
			written.Object["status"] = map[string]any{"used": map[string]any{"cpu": "1"}}
			require.Equal(t, said{}, d.enter(written, u), "what was there before can be written into")
		}
	}
}
