// Package workloads runs the YAML of the docs.
package workloads

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/test/extend"
)

const root = "../.."

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// blocks returns the YAML blocks of a page, then the objects that its commands apply from standard input.
func blocks(t *testing.T, page string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, ended := strings.Cut(block, "```")
		require.True(t, ended, "%s: a block that does not end", page)
		all = append(all, block)
	}
	for _, m := range regexp.MustCompile(`(?s)<<END\n(.+?\n)END\n`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

// controllersOnly matches objects that users write and only another project's controller reads. The page then has what that
// controller makes, too.
var controllersOnly = regexp.MustCompile(`(?m)^apiVersion: (batch\.volcano\.sh|grove\.io|trainer\.kubeflow\.org)/v1alpha1$`)

// TestUserPages: the YAML of each page for users runs as it stands on the nodes of the documents. Its gangs are whole, and no
// line of it is unknown.
func TestUserPages(t *testing.T) {
	cluster := make([]string, 2)
	for i, name := range []string{"example-nodes.yaml", "clusternetworktopology.yaml"} {
		data, err := examples.FS.ReadFile(name)
		require.NoError(t, err)
		cluster[i] = string(data)
	}
	members := map[string]int{
		"leaderworkerset": 8, "jobset": 4, "job": 6, "kubeflow-and-kuberay": 2, "volcano": 2, "statefulset": 3,
		"kubernetes-podgroup": 3, "grove": 2, "kueue": 4, "podgroup": 4, "several-gangs": 3, "resourceclaims": 2, "start-time": 4,
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/users/*.md"))
	require.NoError(t, err)
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		found := blocks(t, "docs/users/"+name+".md")
		if len(found) == 0 || name == "devices" { // TestDeviceExamplesRun
			continue
		}
		t.Run(name, func(t *testing.T) {
			set := &simulate.Set{}
			for _, text := range append(cluster, found...) {
				if !controllersOnly.MatchString(text) {
					require.NoError(t, set.Add(page, []byte(text)))
				}
			}
			require.Empty(t, set.Notes(), "nothing is skipped or unknown")
			r, err := simulate.Run(t.Context(), simulate.Options{}, set)
			require.NoError(t, err)
			require.Empty(t, r.Warnings)
			require.Len(t, r.Pods, members[name])
			for _, p := range r.Pods {
				require.Equal(t, simulate.Bound, p.State, p.Name+": "+p.Message)
			}
			require.NotEmpty(t, r.Gangs)
			for _, g := range r.Gangs {
				require.Equal(t, simulate.Scheduled, g.State)
			}
		})
		delete(members, name)
	}
	require.Empty(t, members, "no such page")
}

// TestYAML: the reader of each YAML block of the docs takes it: objects, a configuration of the scheduler or of the
// controller, or a kustomization. The chart's tests read its values.
func TestYAML(t *testing.T) {
	var pages []string
	for _, glob := range []string{"README*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, glob))
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	read := 0
	for _, page := range pages {
		page, err := filepath.Rel(root, page)
		require.NoError(t, err)
		if strings.HasPrefix(page, "docs/decisions/") {
			continue
		}
		for i, block := range blocks(t, page) {
			read++
			t.Run(fmt.Sprint(page, " ", i+1), func(t *testing.T) { decode(t, block) })
		}
	}
	require.Greater(t, read, 30)
}

// decode fails if the reader of a block would not take it.
func decode(t *testing.T, block string) {
	t.Helper()
	if strings.HasPrefix(block, "pluginConfig:") {
		block = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: muster-scheduler\n  " +
			strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n  ")
	}
	kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(block)
	switch {
	case controllersOnly.MatchString(block):
		var object map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(block), &object))
	case kind == nil:
		if strings.Contains(block, "\nbackends:") { // of muster-controller
			_, err := backend.ReadConfig([]byte(block))
			require.NoError(t, err)
			return
		}
		var values map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(block), &values))
	case kind[1] == "Kustomization":
		kustomization(t, block)
	case kind[1] == "KubeSchedulerConfiguration":
		_, err := simulate.Run(t.Context(), simulate.Options{Config: []byte(block), Plugins: extend.Plugins()}, &simulate.Set{})
		require.NoError(t, err)
	case kind[1] == "Cluster": // of kind
		var cluster struct {
			Kind, APIVersion string
			Nodes            []struct{ Role string }
		}
		require.NoError(t, yaml.UnmarshalStrict([]byte(block), &cluster))
	default:
		set := &simulate.Set{}
		require.NoError(t, set.Add("block.yaml", []byte(block)))
		require.Empty(t, set.Notes(), "nothing is skipped or unknown")
	}
}

// kustomization fails if a folder that a block names does not exist.
func kustomization(t *testing.T, block string) {
	t.Helper()
	var k struct {
		APIVersion, Kind      string
		Resources, Components []string
		Images                []struct{ Name, NewName, NewTag string }
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(block), &k))
	require.NotEmpty(t, k.Resources)
	for _, folder := range append(k.Resources, k.Components...) {
		require.DirExists(t, filepath.Join(root, strings.TrimPrefix(folder, "../")))
	}
}

// TestTranslations: commands and YAML of a translated page are the English page's.
func TestTranslations(t *testing.T) {
	pages := map[string]string{"README.zh-CN.md": "README.md"}
	english, err := filepath.Glob(filepath.Join(root, "docs/getting-started/*.md"))
	require.NoError(t, err)
	for _, page := range english {
		name := "getting-started/" + filepath.Base(page)
		pages["docs/zh-CN/"+name] = "docs/" + name
	}
	require.Greater(t, len(pages), 3)
	fenced := func(page string) (blocks []string, headings int) {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for i, part := range strings.Split(string(text), "```") {
			if i%2 == 1 {
				blocks = append(blocks, part)
			} else {
				headings += strings.Count(part, "\n## ")
			}
		}
		return blocks, headings
	}
	for translated, original := range pages {
		want, sections := fenced(original)
		is, headings := fenced(translated)
		require.Equal(t, want, is, translated)
		require.Equal(t, sections, headings, "%s: sections", translated)
	}
}
