package helm

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/apis/config"
)

// A schema is the little of JSON schema that these tests look at.
type schema struct {
	Properties           map[string]schema
	AdditionalProperties any
	Items                *schema
	Enum                 []string
}

func readSchema(t *testing.T, chart string) schema {
	t.Helper()
	data, err := os.ReadFile(chart + "/values.schema.json")
	require.NoError(t, err)
	var s schema
	require.NoError(t, json.Unmarshal(data, &s))
	return s
}

// TestEveryValueIsShown: values.yaml and the schema have the same fields.
func TestEveryValueIsShown(t *testing.T) {
	for _, chart := range charts {
		data, err := os.ReadFile(chart + "/values.yaml")
		require.NoError(t, err)
		var values map[string]any
		require.NoError(t, yaml.Unmarshal(data, &values))
		s := readSchema(t, chart)
		delete(s.Properties, "global") // which Helm adds
		sameFields(t, chart, s, values)
	}
}

func sameFields(t *testing.T, where string, s schema, values map[string]any) {
	t.Helper()
	require.Equal(t, false, s.AdditionalProperties, "%s: what is misspelt must be refused", where)
	if where == "muster.coschedulingArgs" || where == "muster.config" || where == "muster-controller.backendConfig" {
		return // see TestArguments, TestConfigurationIsKnown and TestBackendConfigIsKnown
	}
	require.Equal(t, keys(s.Properties), keys(values), where)
	for name, below := range s.Properties {
		if v, ok := values[name].(map[string]any); ok && len(below.Properties) > 0 {
			if name == "resources" {
				continue // requests and limits have any name
			}
			sameFields(t, where+"."+name, below, v)
		}
	}
}

// TestNamesOfFiles: presets, policies and sources are the files of manifests/.
func TestNamesOfFiles(t *testing.T) {
	files := func(from fs.FS, glob string) (names []string) {
		all, err := fs.Glob(from, glob)
		require.NoError(t, err)
		for _, f := range all {
			names = append(names, strings.TrimSuffix(path.Base(f), ".yaml"))
		}
		return names
	}
	s := readSchema(t, "muster")
	require.ElementsMatch(t, append(files(manifests.Topologies, "topologies/*"), ""), s.Properties["topology"].Properties["preset"].Enum)
	require.ElementsMatch(t, files(manifests.Admission, "admission/*"), keys(s.Properties["policies"].Properties))
	require.ElementsMatch(t, files(manifests.SourceRBAC, "rbac/sources/*"), keys(s.Properties["sources"].Properties))
}

// TestArguments compares the chart's schema with the plugin's arguments.
func TestArguments(t *testing.T) {
	var want []string
	for field := range reflect.TypeFor[config.Args]().Fields() {
		name := []rune(field.Name)
		name[0] = unicode.ToLower(name[0])
		want = append(want, string(name))
	}
	want = append(want, "starvationTimeout") // another name of backfill.promiseAfter
	require.ElementsMatch(t, want, keys(readSchema(t, "muster").Properties["coschedulingArgs"].Properties))
}

// TestConfigurationIsKnown: config and profiles have the fields of a KubeSchedulerConfiguration. Helm rejects an unknown
// field and a wrong type before a pod starts with it.
func TestConfigurationIsKnown(t *testing.T) {
	s := readSchema(t, "muster")
	configuration, profiles := s.Properties["config"], s.Properties["profiles"]
	require.Equal(t, fields(reflect.TypeFor[configv1.KubeSchedulerConfiguration]()), keys(configuration.Properties))
	require.Equal(t, fields(reflect.TypeFor[configv1.Extender]()), keys(configuration.Properties["extenders"].Items.Properties))
	require.Equal(t, fields(reflect.TypeFor[configv1.KubeSchedulerProfile]()), keys(profiles.Items.Properties))
	require.Equal(t, fields(reflect.TypeFor[configv1.Plugins]()), keys(profiles.Items.Properties["plugins"].Properties))
	client, ok := reflect.TypeFor[configv1.KubeSchedulerConfiguration]().FieldByName("ClientConnection")
	require.True(t, ok)
	require.Equal(t, fields(client.Type), keys(configuration.Properties["clientConnection"].Properties))
}

// fields returns the JSON names of a struct's fields, sorted.
func fields(of reflect.Type) (names []string) {
	for f := range of.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		} else {
			names = append(names, fields(f.Type)...)
		}
	}
	slices.Sort(names)
	return names
}
