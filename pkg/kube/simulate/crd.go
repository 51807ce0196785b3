package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/manifests"
)

// crd validates objects as an API server with the project's CRD does.
type crd struct {
	structural *structuralschema.Structural
	bySchema   validation.SchemaValidator
	byRule     *cel.Validator // nil if there are no rules
}

// validate returns the error with which an API server would reject the object.
func (c *crd) validate(gvk schema.GroupVersionKind, raw []byte) error {
	var object map[string]any
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return err
	}
	delete(object, "status") // users do not write the status
	defaulting.PruneNonNullableNullsWithoutDefaults(object, c.structural)
	errs := validation.ValidateCustomResource(nil, object, c.bySchema)
	if c.byRule != nil && len(errs) == 0 {
		var rules field.ErrorList
		rules, _ = c.byRule.Validate(context.Background(), nil, c.structural, object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, rules...)
	}
	if len(errs) == 0 {
		return nil
	}
	var head struct{ Metadata metav1.ObjectMeta }
	_ = json.Unmarshal(raw, &head) // mistakes in metadata are reported when the object is decoded
	return apierrors.NewInvalid(gvk.GroupKind(), head.Metadata.Name, errs)
}

// readCRD returns a function that returns the CRD in a file of manifests/crd. It reads the file only at the first call.
func readCRD(file string) func() (*crd, error) {
	return sync.OnceValues(func() (*crd, error) {
		data, err := manifests.CRDs.ReadFile("crd/" + file)
		if err != nil {
			return nil, err
		}
		var all apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &all); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
			all.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		c := &crd{}
		if c.structural, err = structuralschema.NewStructural(&props); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if c.bySchema, _, err = validation.NewSchemaValidator(&props); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		c.byRule = cel.NewValidator(c.structural, true, celconfig.PerCallLimit)
		return c, nil
	})
}
