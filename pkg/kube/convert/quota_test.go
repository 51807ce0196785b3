package convert_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// TestQuotaWithInvalidSpec: a quota whose spec, min or max is no map is invalid. Without them it has no limits.
func TestQuotaWithInvalidSpec(t *testing.T) {
	for name, c := range map[string]struct {
		spec any
		want string
	}{
		"no spec":           {nil, ""},
		"null min":          {map[string]any{"min": nil}, ""},
		"spec is text":      {"min", "spec: min is invalid; write min and max"},
		"spec is a list":    {[]any{"cpu"}, "spec: [cpu] is invalid; write min and max"},
		"max is no map":     {map[string]any{"max": "8"}, "spec.max: 8 is invalid; write amounts by resource, such as cpu: 8"},
		"a negative amount": {map[string]any{"max": map[string]any{"cpu": "-1"}}, "spec.max.cpu: -1 is invalid; supported values: a quantity ≥ 0, such as 8 or 64Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{}
			if c.spec != nil {
				object["spec"] = c.spec
			}
			require.Equal(t, c.want, convert.ReadQuota(&unstructured.Unstructured{Object: object}).Invalid)
			require.Equal(t, c.want, convert.ReadQuotaX(&unstructured.Unstructured{Object: object}, "").Invalid)
		})
	}
}
