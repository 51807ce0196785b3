// Package helm tests the charts. A chart renders what kustomize renders, each value has its documented effect, and the
// error for an unknown value names that value.
//
// Helm and kustomize are built through the Go module proxy, once: see tools/deploy/go.mod. What the charts do in a
// cluster is tested in test/e2e.
package helm

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// readAll reads what Helm and kustomize will read: the Go tool repeats a test if a file has changed that
// the test itself has opened.
var readAll = sync.OnceValue(func() error {
	for _, folder := range []string{"..", "../../manifests", "../../Makefile"} {
		err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				_, err = os.ReadFile(file)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
})

// tool is where a tool of tools/deploy is.
var tool = func() func(t *testing.T, name string) string {
	var mu sync.Mutex
	built := map[string]string{}
	return func(t *testing.T, name string) string {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		require.NoError(t, readAll())
		if built[name] == "" {
			out, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "-modfile=../../tools/deploy/go.mod", name).Output()
			require.NoError(t, err, "%s", stderr(err))
			built[name] = strings.TrimSpace(string(out))
		}
		return built[name]
	}
}()

func stderr(err error) string {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // as Output returns it
		return string(exit.Stderr)
	}
	return ""
}

// helm runs it away from what its user has configured.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool(t, "helm"), args...)
	home := t.TempDir()
	cmd.Env = append(cmd.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+home+"/none")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// needed are the values that a chart has no default for.
var needed = map[string][]string{
	"muster":            {"--set=image.repository=muster-scheduler"},
	"muster-controller": {"--set=image.repository=muster-scheduler,sources.grove=true"},
}

// template renders a chart; the oldest Kubernetes that it is for.
func template(t *testing.T, chart string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return helm(t, slices.Concat([]string{"template", chart, chart, "--namespace=muster-system", "--kube-version=1.34.0"}, needed[chart], args)...)
}

// An object is one as YAML has it.
type object map[string]any

func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func (o object) name() string {
	ns, _ := o.at("metadata", "namespace").(string)
	return o["kind"].(string) + " " + ns + "/" + o.at("metadata", "name").(string)
}

// objects reads what a tool has written, by kind and name.
func objects(t *testing.T, text string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for _, doc := range strings.Split("\n"+text, "\n---") {
		var o object
		require.NoError(t, yaml.Unmarshal([]byte(doc), &o), doc)
		if len(o) > 0 {
			require.NotContains(t, all, o.name(), "twice")
			all[o.name()] = o
		}
	}
	return all
}

// render is a chart with values.
func render(t *testing.T, chart string, args ...string) map[string]object {
	t.Helper()
	out, errs, err := template(t, chart, args...)
	require.NoError(t, err, errs)
	return objects(t, out)
}

func kustomize(t *testing.T, folder string) map[string]object {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool(t, "kustomize"), "build", folder).Output()
	require.NoError(t, err, "%s", stderr(err))
	return objects(t, string(out))
}
