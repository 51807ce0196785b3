package manifests_test

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json" // which tells integers from others
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
)

// TestCRDs asks the API server's own code whether it would take the CRDs: schema, the
// estimated cost of every rule, and the approval that groups below k8s.io need.
func TestCRDs(t *testing.T) {
	files, err := fs.Glob(manifests.CRDs, "crd/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			errs := crdvalidation.ValidateCustomResourceDefinition(t.Context(), readCRD(t, f))
			require.Empty(t, errs)
		})
	}
}

// TestKustomizations: an installation gets every file of rbac/ and admission/, and the CRDs, which stay
// when it goes, by themselves.
func TestKustomizations(t *testing.T) {
	resources := func(file string) []string {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var k struct{ Resources []string }
		require.NoError(t, yaml.Unmarshal(data, &k))
		return k.Resources
	}
	files, err := filepath.Glob("*/*.yaml")
	require.NoError(t, err)
	more, err := filepath.Glob("rbac/sources/*.yaml")
	require.NoError(t, err)
	want := slices.DeleteFunc(append(files, more...), func(f string) bool {
		return !slices.Contains([]string{"rbac", "rbac/sources", "admission"}, filepath.Dir(f))
	})
	require.ElementsMatch(t, want, resources("kustomization.yaml"))

	crds, err := fs.Glob(manifests.CRDs, "crd/*")
	require.NoError(t, err)
	for i, f := range crds {
		crds[i] = filepath.Base(f)
	}
	require.ElementsMatch(t, crds, resources("crd/Kustomization"), "nor is a kustomization among what is embedded")
}

// TestCRDAccepts applies each object of testdata to its CRD, as the API server would. The CRD must reject an object that
// opens with "# error:" or "# schema:", with these words.
func TestCRDAccepts(t *testing.T) {
	for dir, crds := range map[string][]string{
		"clusternetworktopology": {"crd/scheduling.koordinator.sh_clusternetworktopologies.yaml"},
		"podgroup":               {"crd/scheduling.sigs.k8s.io_podgroups.yaml", "crd/scheduling.x-k8s.io_podgroups.yaml"},
		"podgroup-x":             {"crd/scheduling.x-k8s.io_podgroups.yaml"},
		"podgroup-sigs":          {"crd/scheduling.sigs.k8s.io_podgroups.yaml"},
	} {
		files, err := filepath.Glob("../pkg/apis/scheduling/testdata/" + dir + "/*.yaml")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, crd := range crds {
			apply := applier(t, crd)
			for _, f := range files {
				t.Run(crd+"/"+filepath.Base(f), func(t *testing.T) {
					data, err := os.ReadFile(f)
					require.NoError(t, err)
					want, errs := wantErrors(data), apply(t, data)
					if len(want) == 0 {
						require.Empty(t, errs)
					}
					for _, w := range want {
						require.ErrorContains(t, errs.ToAggregate(), w)
					}
				})
			}
		}
	}
}

// TestCRDAgreesWithGo draws any layers at all: the CRD takes exactly what OrderLayers takes.
func TestCRDAgreesWithGo(t *testing.T) {
	apply := applier(t, "crd/scheduling.koordinator.sh_clusternetworktopologies.yaml")
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"A", "B", "C", "NodeTopologyLayer", "ClusterTopologyLayer"}
		cnt := v1alpha1.ClusterNetworkTopology{}
		for range rapid.IntRange(1, 5).Draw(rt, "layers") {
			cnt.Spec.NetworkTopologySpec = append(cnt.Spec.NetworkTopologySpec, v1alpha1.NetworkTopologyLayer{
				TopologyLayer:       rapid.SampledFrom(names).Draw(rt, "name"),
				ParentTopologyLayer: rapid.SampledFrom(append(names, "X", "")).Draw(rt, "parent"),
				LabelKey:            []string{"key"}[:rapid.SampledFrom([]int{1, 1, 1, 0}).Draw(rt, "keys")],
			})
		}
		data, err := yaml.Marshal(cnt)
		require.NoError(t, err)
		byCRD := apply(t, data).ToAggregate()
		_, byGo := v1alpha1.OrderLayers(cnt.Spec)
		if (byCRD == nil) != (byGo == nil) {
			rt.Fatalf("%+v\nCRD: %v\nGo: %v", cnt.Spec, byCRD, byGo)
		}
	})
}

// applier returns what the API server does to a new object: schema, then rules.
func applier(t *testing.T, crd string) func(*testing.T, []byte) field.ErrorList {
	// The schema is the same for every version; conversion has moved it up from the only one.
	schema := readCRD(t, crd).Spec.Validation.OpenAPIV3Schema
	structural, err := structuralschema.NewStructural(schema)
	require.NoError(t, err)
	bySchema, _, err := validation.NewSchemaValidator(schema)
	require.NoError(t, err)
	byRule := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	return func(t *testing.T, data []byte) field.ErrorList {
		asJSON, err := yaml.YAMLToJSON(data)
		require.NoError(t, err)
		var obj map[string]any
		require.NoError(t, json.Unmarshal(asJSON, &obj))
		errs := validation.ValidateCustomResource(nil, obj, bySchema)
		if byRule != nil {
			ruleErrs, _ := byRule.Validate(t.Context(), nil, structural, obj, nil, celconfig.RuntimeCELCostBudget)
			errs = append(errs, ruleErrs...)
		}
		return errs
	}
}

func readCRD(t *testing.T, file string) *apiextensions.CustomResourceDefinition {
	data, err := manifests.CRDs.ReadFile(file)
	require.NoError(t, err)
	var v1 apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(data, &v1))
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&v1)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&v1.Spec)
	v1.Status.StoredVersions = []string{v1.Spec.Versions[0].Name} // the API server fills this in
	var crd apiextensions.CustomResourceDefinition
	require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&v1, &crd, nil))
	return &crd
}

// wantErrors reads the comment lines that a test object opens with.
func wantErrors(data []byte) (want []string) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		_, w, comment := strings.Cut(lines.Text(), ": ")
		if !comment || !strings.HasPrefix(lines.Text(), "# ") {
			break
		}
		want = append(want, w)
	}
	return want
}
