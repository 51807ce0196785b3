package badinput

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/manifests"
)

// refuser returns what says why an API server with one of our CRDs would not take an
// object: schema, then rules.
func refuser(t *testing.T, file string) func(t *testing.T, object string) string {
	t.Helper()
	data, err := manifests.CRDs.ReadFile("crd/" + file)
	require.NoError(t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(data, &crd))
	var props apiextensions.JSONSchemaProps
	require.NoError(t,
		apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil))
	structural, err := structuralschema.NewStructural(&props)
	require.NoError(t, err)
	bySchema, _, err := validation.NewSchemaValidator(&props)
	require.NoError(t, err)
	byRule := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	return func(t *testing.T, object string) string {
		t.Helper()
		raw, err := yaml.YAMLToJSON([]byte(object))
		require.NoError(t, err)
		var o map[string]any
		require.NoError(t, json.Unmarshal(raw, &o))
		errs := validation.ValidateCustomResource(nil, o, bySchema)
		if len(errs) == 0 {
			errs, _ = byRule.Validate(t.Context(), nil, structural, o, nil, celconfig.RuntimeCELCostBudget)
		}
		if len(errs) == 0 {
			return ""
		}
		return errs.ToAggregate().Error()
	}
}
