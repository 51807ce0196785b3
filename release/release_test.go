package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// made is a release in the root folder.
func made(t *testing.T) (*release, []program) {
	t.Helper()
	t.Chdir("..")
	r := &release{
		version: "v1.2.3", commit: "abc", image: "r.example/m:v1.2.3", arches: []string{"amd64", "arm64"},
		out: t.TempDir(), made: time.Unix(1_700_000_000, 0).UTC(),
	}
	return r, []program{
		{"muster-scheduler", "amd64", []byte("a program")},
		{"musterctl", "amd64", []byte("ctl")},
		{"muster-scheduler", "arm64", []byte("another")},
		{"musterctl", "arm64", []byte("ctl")},
	}
}

// unpack reads a tar, or a tar.gz, and what its heads say.
func unpack(t *testing.T, data []byte) (files map[string][]byte, heads []*tar.Header) {
	t.Helper()
	var in io.Reader = bytes.NewReader(data)
	if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		in = z
	}
	files = map[string][]byte{}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF { //nolint:errorlint // as tar returns it
			return files, heads
		}
		require.NoError(t, err)
		files[h.Name], err = io.ReadAll(r)
		require.NoError(t, err)
		heads = append(heads, h)
	}
}

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	require.NoError(t, err)
	return data
}

func decode[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&v))
	return v
}

// TestPack: an archive does not depend on the user or on the order of its files.
func TestPack(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	a, b := entry{"a", []byte("1"), 0o755}, entry{"b/c", []byte("22"), 0o644}
	one, err := pack([]entry{a, b}, at)
	require.NoError(t, err)
	other, err := pack([]entry{b, a}, at)
	require.NoError(t, err)
	require.Equal(t, one, other)
	files, heads := unpack(t, one)
	require.Equal(t, map[string][]byte{"a": []byte("1"), "b/c": []byte("22")}, files)
	for i, e := range []entry{a, b} {
		h := heads[i]
		require.Equal(t, e.mode, h.Mode)
		require.True(t, at.Equal(h.ModTime))
		require.Zero(t, h.Uid+h.Gid)
		require.Empty(t, h.Uname+h.Gname)
	}
	_, err = pack([]entry{a, a}, at)
	require.EqualError(t, err, "a twice")
}

// TestImage follows an image from its index to the file in it, as a container runtime does.
func TestImage(t *testing.T) {
	r, programs := made(t)
	require.NoError(t, r.writeImages(programs))
	file := func(suffix string) (map[string][]byte, []byte) {
		data := read(t, r.out, "muster-scheduler-v1.2.3-image"+suffix+".tar")
		files, _ := unpack(t, data)
		for name, blob := range files {
			if strings.HasPrefix(name, "blobs/") {
				require.Equal(t, blobPath(digest(blob)), name)
			}
		}
		return files, data
	}
	all, first := file("")
	require.JSONEq(t, `{"imageLayoutVersion":"1.0.0"}`, string(all["oci-layout"]))
	top := decode[index](t, all["index.json"])
	require.Len(t, top.Manifests, 1)
	require.Equal(t, map[string]string{"io.containerd.image.name": "r.example/m:v1.2.3", "org.opencontainers.image.ref.name": "v1.2.3"},
		top.Manifests[0].Annotations)
	platforms := decode[index](t, all[blobPath(top.Manifests[0].Digest)])
	require.Len(t, platforms.Manifests, 2)
	for i, arch := range r.arches {
		d := platforms.Manifests[i]
		require.Equal(t, &platform{arch, "linux"}, d.Platform)
		m := decode[manifest](t, all[blobPath(d.Digest)])
		require.Len(t, all[blobPath(d.Digest)], d.Size)
		c := decode[imageConfig](t, all[blobPath(m.Config.Digest)])
		require.Equal(t, arch, c.Architecture)
		require.Equal(t, "65532:65532", c.Config.User, "not root, by number")
		require.Equal(t, []string{"/muster-scheduler"}, c.Config.Entrypoint)
		require.Equal(t, "v1.2.3", c.Config.Labels["org.opencontainers.image.version"])
		require.Equal(t, "abc", c.Config.Labels["org.opencontainers.image.revision"])
		require.Equal(t, "2023-11-14T22:13:20Z", c.Config.Labels["org.opencontainers.image.created"])
		require.Len(t, m.Layers, 1)
		files, heads := unpack(t, all[blobPath(m.Layers[0].Digest)])
		require.Len(t, files, 1, "from scratch")
		require.Equal(t, of(programs, "muster-scheduler")[i].data, files["muster-scheduler"])
		require.EqualValues(t, 0o755, heads[0].Mode)
		z, err := gzip.NewReader(bytes.NewReader(all[blobPath(m.Layers[0].Digest)]))
		require.NoError(t, err)
		layer, err := io.ReadAll(z)
		require.NoError(t, err)
		require.Equal(t, []string{digest(layer)}, c.RootFS.DiffIDs)

		one, _ := file("-linux-" + arch)
		require.Equal(t, d.Digest, decode[index](t, one["index.json"]).Manifests[0].Digest, "one and the same")
		docker := decode[[]struct {
			Config           string
			RepoTags, Layers []string
		}](t, one["manifest.json"])
		require.Equal(t, []string{"r.example/m:v1.2.3"}, docker[0].RepoTags)
		require.Contains(t, one, docker[0].Config)
		require.Contains(t, one, docker[0].Layers[0])
	}

	r.out = t.TempDir()
	require.NoError(t, r.writeImages(programs))
	_, second := file("")
	require.Equal(t, digest(first), digest(second), "written twice it is the same")
	r.made = r.made.Add(time.Second)
	require.NoError(t, r.writeImages(programs))
	_, third := file("")
	require.NotEqual(t, digest(first), digest(third))
}

// TestBill: what SPDX 2.3 requires of a document is there, and what the program is made of. It is one
// that is there anyway: kustomize.
func TestBill(t *testing.T) {
	r, programs := made(t)
	programs[0].data = read(t, strings.TrimSpace(tool(t, "-n", "kustomize")))
	require.NoError(t, r.writeBills(programs[:1]))
	data := read(t, r.out, "muster-scheduler-v1.2.3-linux-amd64.spdx.json")
	var fields map[string]any
	require.NoError(t, json.Unmarshal(data, &fields))
	for _, name := range []string{
		"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "relationships",
	} {
		require.NotEmpty(t, fields[name], name)
	}
	require.Equal(t, map[string]any{"created": "2023-11-14T22:13:20Z", "creators": []any{"Tool: muster-release-v1.2.3"}},
		fields["creationInfo"])
	b := decode[bill](t, data)
	ids := map[string]bool{b.SPDXID: true}
	var names []string
	for _, p := range b.Packages {
		require.Regexp(t, regexp.MustCompile(`^SPDXRef-[a-zA-Z0-9.-]+$`), p.SPDXID)
		require.False(t, ids[p.SPDXID], "%s twice", p.SPDXID)
		ids[p.SPDXID] = true
		names = append(names, p.Name)
		for _, must := range []string{p.Name, p.VersionInfo, p.DownloadLocation, p.LicenseConcluded, p.LicenseDeclared, p.CopyrightText} {
			require.NotEmpty(t, must, p.Name)
		}
		require.Regexp(t, `^pkg:golang/[^@]+@[^@]+$`, p.ExternalRefs[0].Locator)
	}
	require.Equal(t, "muster-scheduler", names[0])
	require.Equal(t, strings.TrimPrefix(digest(programs[0].data), "sha256:"), b.Packages[0].Checksums[0].Value)
	require.Equal(t, "std", names[1])
	require.Contains(t, names, "sigs.k8s.io/kustomize/api")
	require.Len(t, b.Relationships, len(b.Packages), "what the document describes, and all that it needs")
	for _, rel := range b.Relationships {
		require.True(t, ids[rel.Element] && ids[rel.Related], rel)
	}
	require.ErrorContains(t, r.writeBills(programs), "musterctl for amd64: unrecognized file format")
}

// TestArchives: what is unpacked can be used.
func TestArchives(t *testing.T) {
	r, programs := made(t)
	require.NoError(t, r.writeArchives(programs, entry{licencesFile, []byte("terms"), 0o644}))
	files, heads := unpack(t, read(t, r.out, "muster-v1.2.3-linux-arm64.tar.gz"))
	folder := "muster-v1.2.3-linux-arm64/"
	require.Len(t, files, 6)
	require.Equal(t, "terms", string(files[folder+licencesFile]))
	require.Equal(t, programs[2].data, files[folder+"muster-scheduler"])
	require.Contains(t, string(files[folder+"LICENSE"]), "Apache License")
	for _, h := range heads {
		require.Equal(t, strings.HasPrefix(filepath.Base(h.Name), "muster"), h.Mode == 0o755, h.Name)
	}
}

// TestLicences: of every module and of Go itself; the same text once.
func TestLicences(t *testing.T) {
	data, err := licencesOf(t.Context(), []string{"k8s.io/api", "k8s.io/kube-scheduler", "github.com/spf13/pflag"})
	require.NoError(t, err)
	text := string(data)
	require.Contains(t, text, "Copyright 2009 The Go Authors")
	require.Contains(t, text, "Copyright (c) 2012 Alex Ogier")
	require.Regexp(t, `=\nk8s\.io/api v0\.[0-9]+\.[0-9]+\nk8s\.io/kube-scheduler v0\.[1-9][0-9]*\.[0-9]+\n\n *Apache License`, text)
	_, err = licencesOf(t.Context(), []string{"example.com/nowhere"})
	require.ErrorContains(t, err, "example.com/nowhere")

	for name, ok := range map[string]bool{
		"LICENSE": true, "LICENCE.md": true, "License.txt": true, "NOTICE": true, "COPYING": true, "LICENSE-APACHE": true,
		"licenses.go": false, "README.md": false,
	} {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("be kind\n"), 0o600))
		text, err := terms(folder)
		if ok {
			require.NoError(t, err, name)
			require.Equal(t, "be kind", text)
		} else {
			require.EqualError(t, err, "it has no licence", name)
		}
	}
}

// tool runs one of tools/deploy.
func tool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"tool", "-modfile=tools/deploy/go.mod"}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	return string(out)
}

// TestManifests: they name the image of the release.
func TestManifests(t *testing.T) {
	r, _ := made(t)
	require.NoError(t, r.writeManifests())
	files, _ := unpack(t, read(t, r.out, "muster-v1.2.3-manifests.tar.gz"))
	there := t.TempDir()
	for name, data := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(there, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(there, name), data, 0o600))
	}
	for _, overlay := range []string{"base", "overlays/drop-in", "overlays/scheduler-plugins", "controller/overlays/grove-koordinator"} {
		text := tool(t, "kustomize", "build", there+"/muster-v1.2.3-manifests/deploy/"+overlay)
		require.Contains(t, text, "image: r.example/m:v1.2.3\n")
		require.NotContains(t, text, "set-an-image")
	}
	require.Contains(t, tool(t, "kustomize", "build", there+"/muster-v1.2.3-manifests/deploy/monitoring"), "kind: PrometheusRule")
	require.Contains(t, tool(t, "kustomize", "build", there+"/muster-v1.2.3-manifests/deploy/crds"), "kind: CustomResourceDefinition")
}

// TestCharts: Helm takes them, and they name the image of the release.
func TestCharts(t *testing.T) {
	r, _ := made(t)
	require.NoError(t, r.writeCharts())
	for _, chart := range []string{"muster", "muster-controller", "muster-crds"} {
		file := filepath.Join(r.out, chart+"-1.2.3.tgz")
		lint := []string{"helm", "lint", "--strict", "--kube-version=1.37.0", file}
		if chart == "muster-controller" {
			lint = append(lint, "--set=sources.grove=true")
		}
		tool(t, lint...)
		about := tool(t, "helm", "show", "chart", file)
		require.Contains(t, about, "\nversion: 1.2.3\n")
		require.Contains(t, about, "appVersion: v1.2.3\n")
		chartLayout(t, r, chart, read(t, file))
	}
	for _, chart := range []string{"muster", "muster-controller"} {
		file := filepath.Join(r.out, chart+"-1.2.3.tgz")
		require.Contains(t, tool(t, "helm", "template", "--kube-version=1.37.0", "--set=sources.grove=true", "m", file), `image: "r.example/m:v1.2.3"`)
		for _, page := range []string{"readme", "values"} {
			text := tool(t, "helm", "show", page, file)
			require.Contains(t, text, "r.example/m")
			require.NotContains(t, text, "No registry")
		}
	}
}

// chartLayout follows a chart from the index of its OCI archive to the packaged chart, as Helm does in a registry.
func chartLayout(t *testing.T, r *release, chart string, packaged []byte) {
	t.Helper()
	files, _ := unpack(t, read(t, r.out, chart+"-1.2.3.oci.tar"))
	top := decode[index](t, files["index.json"]).Manifests
	require.Len(t, top, 1)
	require.Equal(t, map[string]string{"org.opencontainers.image.ref.name": "1.2.3"}, top[0].Annotations)
	m := decode[manifest](t, files[blobPath(top[0].Digest)])
	require.Equal(t, "application/vnd.cncf.helm.config.v1+json", m.Config.MediaType)
	about := decode[map[string]any](t, files[blobPath(m.Config.Digest)])
	require.Equal(t, []any{chart, "1.2.3", "v1.2.3"}, []any{about["name"], about["version"], about["appVersion"]})
	require.Len(t, m.Layers, 1)
	require.Equal(t, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", m.Layers[0].MediaType)
	require.Equal(t, packaged, files[blobPath(m.Layers[0].Digest)])
	require.Equal(t, "1.2.3", m.Annotations["org.opencontainers.image.version"])
	require.Equal(t, chart, m.Annotations["org.opencontainers.image.title"])
}

func TestChartVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1", "v0.1.0-5-g0123abc-dirty": "0.1.0-5-g0123abc-dirty",
		"0123abc": "0.0.0-g0123abc", "dev": "0.0.0-gdev",
	} {
		require.Equal(t, want, chartVersion(version))
	}
}

// TestSums: as sha256sum --check reads them.
func TestSums(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(folder+"/a", nil, 0o600))
	require.NoError(t, os.WriteFile(folder+"/b", []byte("x"), 0o600))
	require.NoError(t, writeSums(folder))
	require.Equal(t, fmt.Sprintf("%s  a\n%s  b\n", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"), string(read(t, folder, sumsFile)))
}

// TestClear: what this program did not write stays.
func TestClear(t *testing.T) {
	r := &release{out: t.TempDir()}
	require.NoError(t, r.clear())
	require.NoError(t, os.WriteFile(r.out+"/thesis.txt", nil, 0o600))
	require.ErrorContains(t, r.clear(), "is not empty, and has no SHA256SUMS: remove it first")
	require.FileExists(t, r.out+"/thesis.txt")
	require.NoError(t, writeSums(r.out))
	require.NoError(t, r.clear())
	require.NoFileExists(t, r.out+"/thesis.txt")
}

func TestBadFlags(t *testing.T) {
	legal := []string{"-version=v1.2.3", "-commit=a", "-epoch=1"}
	for _, c := range []struct{ flag, want string }{
		{"-epoch=today", `-epoch "today": must be seconds since 1970`},
		{"-epoch=-1", `-epoch "-1": must be seconds since 1970`},
		{"-version=", "-version and -commit must be given"},
		{"-image=r:5000/m", "-image r:5000/m: must be NAME:TAG"},
		{"-image=m@sha256:a", "-image m@sha256:a: must be NAME:TAG"},
		{"-version=v1", "VERSION=v1; supported values: v and three numbers, such as v0.1.0 or v0.1.0-rc.1"},
		{"-version=0123abc-dirty", "VERSION=0123abc-dirty; supported values: v and three numbers, such as v0.1.0 or v0.1.0-rc.1"},
		{"-image=r/m:dev", "RELEASE_IMAGE=r/m:dev; supported values: an image with the tag v1.2.3, which is the version"},
	} {
		_, _, err := parse(append(legal, c.flag))
		require.EqualError(t, err, c.want)
	}
	r, imageOnly, err := parse(append(legal, "-image=r:5000/m:t", "-image-only"))
	require.NoError(t, err)
	require.True(t, imageOnly)
	require.Equal(t, "r:5000/m:t", r.image)
	r, _, err = parse(legal)
	require.NoError(t, err)
	require.Equal(t, "muster-scheduler:v1.2.3", r.image)
}

// TestWholeName: containerd, which "kind load image-archive" gives an archive to, takes a name as it is, and
// kubelets look for the whole one.
func TestWholeName(t *testing.T) {
	for name, want := range map[string]string{
		"muster-scheduler:dev":            "docker.io/library/muster-scheduler:dev",
		"me/muster-scheduler:v1":          "docker.io/me/muster-scheduler:v1",
		"docker.io/library/muster:v1":     "docker.io/library/muster:v1",
		"registry.example/muster:v1":      "registry.example/muster:v1",
		"registry:5000/muster:v1":         "registry:5000/muster:v1",
		"localhost/muster-e2e/member:dev": "localhost/muster-e2e/member:dev",
	} {
		require.Equal(t, want, wholeName(name))
	}
}
