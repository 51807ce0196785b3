package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/config"
)

func current(t *testing.T) (root, text string) {
	t.Helper()
	root, err := rootFolder()
	require.NoError(t, err)
	text, err = page(root)
	require.NoError(t, err)
	return root, text
}

// TestTheReferenceIsCurrent: both pages say what the source says.
func TestTheReferenceIsCurrent(t *testing.T) {
	root, _ := current(t)
	for file, text := range pages {
		want, err := text(root)
		require.NoError(t, err)
		is, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		require.Equal(t, want, string(is), "run make generate")
	}
}

// TestTables: no row has an empty cell, and each has as many as its head.
func TestTables(t *testing.T) {
	root, text := current(t)
	reasons, err := reasonsPage(root)
	require.NoError(t, err)
	text += reasons
	cells, rows := 0, 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if cells == 0 {
			cells = n
		}
		require.Equal(t, cells, n, line)
		require.NotContains(t, line, "|  |")
		rows++
	}
	require.Greater(t, rows, 80)
}

// TestEveryMetric: each name of a metric in the source is in the reference.
func TestEveryMetric(t *testing.T) {
	root, text := current(t)
	name, found := regexp.MustCompile(`"(muster_[a-z_]+)"`), 0
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "pkg"), func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		source, err := os.ReadFile(file)
		for _, m := range name.FindAllStringSubmatch(string(source), -1) {
			found++
			require.Contains(t, text, "| `"+m[1]+"` |", file)
		}
		return err
	}))
	require.NotZero(t, found)
}

// TestTheArgumentsDecode: the example of all arguments is what holds without them.
func TestTheArgumentsDecode(t *testing.T) {
	_, text := current(t)
	_, rest, _ := strings.Cut(text, "```yaml\n")
	block, _, ok := strings.Cut(rest, "```\n")
	require.True(t, ok)
	var example struct {
		PluginConfig []struct{ Args map[string]any }
	}
	require.NoError(t, yaml.Unmarshal([]byte(block), &example))
	got, err := decode(example.PluginConfig[0].Args)
	require.NoError(t, err)
	want, err := config.Decode(nil)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestOneShape: both kinds of PodGroup have the same descriptions, except for a time of 0.
func TestOneShape(t *testing.T) {
	root, _ := current(t)
	var schemas []map[string]apiextensions.JSONSchemaProps
	for _, group := range []string{"sigs.", "x-"} {
		var crd apiextensions.CustomResourceDefinition
		require.NoError(t, readYAML(filepath.Join(root, "manifests/crd/scheduling."+group+"k8s.io_podgroups.yaml"), &crd))
		schemas = append(schemas, crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties)
	}
	const timeout = "scheduleTimeoutSeconds"
	sigs, x := schemas[0]["spec"], schemas[1]["spec"]
	require.EqualValues(t, 1, *sigs.Properties[timeout].Minimum)
	require.EqualValues(t, 0, *x.Properties[timeout].Minimum)
	x.Properties[timeout] = sigs.Properties[timeout]
	require.Equal(t, sigs.Properties, x.Properties)
	require.Equal(t, schemas[0]["status"], schemas[1]["status"])
}

// TestFieldsMustBeDescribed: a field without a default in its comment, or that its example
// leaves out, is named.
func TestFieldsMustBeDescribed(t *testing.T) {
	of := func(description string) apiextensions.JSONSchemaProps {
		return apiextensions.JSONSchemaProps{
			Properties: map[string]apiextensions.JSONSchemaProps{"a": {Type: "string", Description: description}},
		}
	}
	rows, err := specRows("spec", of("a is a thing. Default: none."), false, map[string]any{"a": "x"})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"`spec.a`", "a thing", "a string", "none", "`\"x\"`"}}, rows)
	_, err = specRows("spec", of("a is a thing."), false, map[string]any{"a": "x"})
	require.ErrorContains(t, err, "spec.a")
	_, err = specRows("spec", of("a is a thing. Default: none."), false, map[string]any{})
	require.ErrorContains(t, err, "spec.a")
}
