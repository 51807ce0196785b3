package backend_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// TestPictures runs the files in testdata. The commands:
//
//	config    the configuration of the backends, from now on
//	write     what a backend makes of an object: to= is the backend, native= the version of scheduling.k8s.io. Labels and
//	          owners, which all objects have alike, are left out
//	prepare   what a backend makes of a pod; one of a JobSet comes behind it
//
// The topology has a SpineLayer of example.com/spine, and a BlockLayer of example.com/block below it.
func TestPictures(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			config := &backend.Config{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd == "config" {
					var err error
					if config, err = backend.ReadConfig([]byte(d.Input)); err != nil {
						return err.Error() + "\n"
					}
					return "ok\n"
				}
				return do(t, d, config)
			})
		})
	}
}

func do(t *testing.T, d *datadriven.TestData, config *backend.Config) string {
	all, err := config.Translators()
	require.NoError(t, err)
	var to, native string
	d.ScanArgs(t, "to", &to)
	d.MaybeScanArgs(t, "native", &native)
	cluster := backend.Cluster{
		Native: native,
		Topology: podgang.Topology{
			Layers: []podgang.Layer{
				{Name: "SpineLayer", Keys: []string{"example.com/spine"}}, {Name: "BlockLayer", Keys: []string{"example.com/block"}},
			},
		},
	}
	for _, b := range all {
		if b.Name() != to {
			continue
		}
		owner, pod, owned := strings.Cut(d.Input, "\n---\n")
		u := object(t, owner)
		if d.Cmd == "prepare" {
			key := podgang.PodKey{}
			if owned {
				infos := build(t, u)
				u = object(t, pod)
				var ok bool
				if key, ok = podgang.KeyAmong(infos, u); !ok {
					return "no gang\n"
				}
			}
			if err := b.PreparePod(u, key, cluster); err != nil {
				return "error: " + err.Error() + "\n"
			}
			return text(t, u)
		}
		return write(t, b, u, cluster)
	}
	t.Fatalf("there is no backend %s", to)
	return ""
}

func write(t *testing.T, b backend.Translator, u *unstructured.Unstructured, cluster backend.Cluster) string {
	out := ""
	for _, info := range build(t, u) {
		objects, notes, err := b.Objects(info, cluster)
		for _, n := range notes {
			out += n.Reason + ": " + n.Message + "\n"
		}
		if err != nil {
			out += "error: " + err.Error() + "\n"
		}
		for _, o := range objects {
			require.Equal(t, backend.ManagedBy, o.GetLabels()[backend.LabelManagedBy])
			require.Equal(t, info.Owner.UID, o.GetOwnerReferences()[0].UID)
			unstructured.RemoveNestedField(o.Object, "metadata", "ownerReferences")
			unstructured.RemoveNestedField(o.Object, "metadata", "labels")
			unstructured.RemoveNestedField(o.Object, "metadata", "namespace")
			out += "---\n" + text(t, o.Unstructured)
		}
	}
	return out
}

func build(t *testing.T, u *unstructured.Unstructured) (out []*podgang.PodGangInfo) {
	var err error
	switch u.GetKind() {
	case "LeaderWorkerSet":
		out, err = podgang.FromLeaderWorkerSet(u, "r", nil)
	case "PodCliqueSet":
		out, err = podgang.FromPodCliqueSet(u, podgang.Domains{"": {"spine": "example.com/spine", "block": "example.com/block"}}, nil)
	case "JobSet":
		out, err = podgang.FromJobSet(u, nil)
	case "PodGroup":
		out = make([]*podgang.PodGangInfo, 1)
		out[0], err = podgang.FromVolcanoPodGroup(u, nil)
	default:
		out = make([]*podgang.PodGangInfo, 1)
		out[0], err = podgang.FromPodGang(u)
	}
	require.NoError(t, err)
	return out
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	u := &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(t, utiljson.Unmarshal(asJSON, &u.Object))
	u.SetNamespace("default")
	u.SetUID("u1")
	return u
}

func text(t *testing.T, u *unstructured.Unstructured) string {
	data, err := yaml.Marshal(u.Object)
	require.NoError(t, err)
	return string(data)
}
