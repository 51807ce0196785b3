package lab

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// listed is what is in a tar: name, mode, and content or where a link leads.
func listed(t *testing.T, content []byte) (lines []string) {
	in := tar.NewReader(bytes.NewReader(content))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		require.NoError(t, err)
		require.Zero(t, h.Uid)
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		line := h.FileInfo().Mode().String() + " " + h.Name
		if h.Linkname != "" {
			line += " -> " + h.Linkname
		}
		if len(text) > 0 && len(text) < 20 {
			line += " = " + string(text)
		}
		lines = append(lines, line)
	}
}

func write(t *testing.T, name, content string) string {
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// An archive is what "docker save" writes, and equal files make equal archives.
func TestArchive(t *testing.T) {
	image := Image{
		Name: "localhost/a:dev", Entry: "/bin/a", User: "7:7",
		Files: map[string]string{"/bin/a": write(t, "a", "program"), "/lib/b": write(t, "b", "library")},
	}
	var first, second bytes.Buffer
	require.NoError(t, image.archive(&first, t.TempDir()))
	require.NoError(t, image.archive(&second, t.TempDir()))
	require.Equal(t, first.Bytes(), second.Bytes())
	files := listed(t, first.Bytes())
	require.Len(t, files, 3)
	require.Equal(t, "-rw-r--r-- manifest.json", files[0])
	require.Equal(t, "-rw-r--r-- layer.tar", files[2])
	require.Contains(t, first.String(), `"RepoTags":["localhost/a:dev"]`)
	require.Contains(t, first.String(), `"Entrypoint":["/bin/a"]`)

	var layer bytes.Buffer
	require.NoError(t, image.layer(&layer))
	require.Equal(t, []string{"drwxr-xr-x bin/", "-rwxr-xr-x bin/a = program", "drwxr-xr-x lib/", "-rwxr-xr-x lib/b = library"},
		listed(t, layer.Bytes()))

	image.Files["/c"] = "/nowhere"
	require.ErrorContains(t, image.archive(io.Discard, t.TempDir()), "image localhost/a:dev: open /nowhere")
}

// TestNodeImage: a node is Debian without the files of a machine, and our files replace Debian's.
func TestNodeImage(t *testing.T) {
	debian := filepath.Join(t.TempDir(), "debian.tar")
	file, err := os.Create(debian)
	require.NoError(t, err)
	out := newTape(file)
	for _, name := range []string{
		"./dev/null", "./etc/motd", "./etc/passwd", "./etc/systemd/system/timers.target.wants/fstrim.timer",
		"./usr/lib/sysctl.d/50-pid-max.conf", "./usr/lib/systemd/system/dbus.service",
		"./usr/lib/systemd/system/sockets.target.wants/dbus.socket",
		"./usr/lib/systemd/system/sockets.target.wants/systemd-initctl.socket", "./usr/lib/systemd/system/multi-user.target.wants/getty.target",
	} {
		out.header(&tar.Header{Name: name, Mode: 0o644})
	}
	require.NoError(t, out.close())
	require.NoError(t, file.Close())

	var node bytes.Buffer
	require.NoError(t, lay(&node, debian, map[string]nodeFile{
		"etc/motd":               {content: []byte("hello"), mode: 0o644},
		"usr/bin/kubelet":        {path: write(t, "kubelet", "program"), mode: 0o755},
		"etc/systemd/off.socket": {link: "/dev/null"},
	}))
	require.Equal(t, []string{
		"-rw-r--r-- ./etc/passwd", "-rw-r--r-- ./usr/lib/systemd/system/dbus.service",
		"-rw-r--r-- ./usr/lib/systemd/system/sockets.target.wants/dbus.socket",
		"drwxr-xr-x etc/", "-rw-r--r-- etc/motd = hello",
		"drwxr-xr-x etc/systemd/", "Lrwxrwxrwx etc/systemd/off.socket -> /dev/null",
		"drwxr-xr-x usr/", "drwxr-xr-x usr/bin/", "-rwxr-xr-x usr/bin/kubelet = program",
	}, listed(t, node.Bytes()))
	require.ErrorContains(t, lay(io.Discard, debian, map[string]nodeFile{"a": {path: "/nowhere"}}), "/nowhere")
}

// What is embedded is there, and scripts may be run.
func TestOwnFiles(t *testing.T) {
	files := map[string]nodeFile{}
	require.NoError(t, collect(files, os.DirFS(own)))
	require.EqualValues(t, 0o755, files["usr/local/bin/entrypoint-unprivileged"].mode)
	require.EqualValues(t, 0o755, files["kind/bin/load-images.sh"].mode)
	require.EqualValues(t, 0o644, files["etc/systemd/system/kind-images.service"].mode)
}

// Kind's own node brings its network and its patches; ours does not.
func TestConfig(t *testing.T) {
	theirs, ours := (&Lab{workers: 2}).config(), (&Lab{workers: 2, own: true}).config()
	require.Equal(t, 2, strings.Count(theirs, "- role: worker\n"))
	require.NotContains(t, theirs, "disableDefaultCNI")
	require.Contains(t, ours, "disableDefaultCNI: true")
	require.True(t, strings.HasSuffix(ours, "nodes:\n- role: control-plane\n- role: worker\n- role: worker\n"))
}

// TestKindest: with KIND_NODE=kindest the lab asks kind for its node image by the digest, in a network of the lab's. The
// lab does not do kindnetd's work on the nodes. A program in kind's place writes down what it is asked.
func TestKindest(t *testing.T) {
	folder := t.TempDir()
	asked := filepath.Join(folder, "asked")
	fake := filepath.Join(folder, "kind")
	script := "#!/bin/sh\necho \"$@\" >" + asked + "\nenv | grep ^KIND_EXPERIMENTAL >>" + asked + "\ncat " + folder + "/kind.yaml >>" + asked +
		"\n"
	require.NoError(t, os.WriteFile(fake, []byte(script), 0o700))
	l := &Lab{
		name: "a-lab", folder: folder, workers: 2, path: os.Getenv("PATH"),
		tools: map[localcluster.Component]string{localcluster.Kind: fake},
	}
	require.NoError(t, l.create(t.Context(), l.image()))
	require.NoError(t, l.Connect(t.Context()), "it would ask kubectl, which is not there")
	is, err := os.ReadFile(asked)
	require.NoError(t, err)
	require.Equal(t, "create cluster --name a-lab --image "+kindest+" --config "+folder+"/kind.yaml --kubeconfig "+folder+"/kubeconfig --retain --verbosity 1\n"+
		"KIND_EXPERIMENTAL_DOCKER_NETWORK=a-lab\n"+
		"kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n- role: worker\n- role: worker\n", string(is))

	l.own = true
	require.NoError(t, l.create(t.Context(), l.image()))
	is, err = os.ReadFile(asked)
	require.NoError(t, err)
	require.Contains(t, string(is), "--image a-lab/node:"+kubernetes)
	require.Contains(t, string(is), "SNAPSHOTTER=overlayfs")
	require.True(t, strings.HasPrefix(kindest, "kindest/node:"+kubernetes+"@sha256:"), "one version, whichever image")
}

func TestNodeIsChosen(t *testing.T) {
	t.Setenv("KIND_NODE", "other")
	_, err := Start(t.Context(), io.Discard, 1)
	require.EqualError(t, err, "KIND_NODE=other: supported values: build and kindest")
}
