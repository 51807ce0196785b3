package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/release/checks"
)

const changelog = "# Changelog\n\n## [v1.2.3] - 2026-11-30\n\n### Added\n\n* Gangs.\n\n## [v1.2.2] - 2026-01-01\n\n* Old.\n"

// repository is a git repository with a commit, in the current folder: the files, and what git ignores in Muster's.
func repository(t *testing.T, files map[string]string) (commit string) {
	t.Helper()
	ignored, err := os.ReadFile("../.gitignore")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for _, variable := range []string{"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(variable, "a@example.com")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	for name, text := range files {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	require.NoError(t, os.WriteFile(".gitignore", ignored, 0o644))
	sh(t, "git init -q && git add . && git commit -qm one")
	return strings.TrimSpace(sh(t, "git rev-parse HEAD"))
}

func sh(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "-ec", script).CombinedOutput()
	require.NoError(t, err, "%s: %s", script, out)
	return string(out)
}

// record returns the lines that say that all parts of a check were green for the files of the commit.
func record(t *testing.T, check string) (lines string) {
	t.Helper()
	tree, err := checks.ReadTree(t.Context())
	require.NoError(t, err)
	for _, p := range checks.Of(check) {
		lines += strings.Join([]string{check, p.Name, tree.Fingerprint, tree.Head, "2026-11-29T08:00:00Z", "9m0s", "-"}, " ") + "\n"
	}
	return lines
}

// TestReleaseNeedsRecords: a release is rejected with a line for each thing that is missing, and the command that makes it. With all of
// them it is not. The records are a file of the commit of the release.
func TestReleaseNeedsRecords(t *testing.T) {
	commit := repository(t, map[string]string{"CHANGELOG.md": strings.ReplaceAll(changelog, "2026-11-30", "Unreleased"), "a.go": "package a\n"})
	r := &release{version: "v1.2.3"}
	all := record(t, "e2e-kind")
	_, mutants, _ := strings.Cut(record(t, "mutants"), "\n") // all but one
	require.NoError(t, os.Mkdir("release", 0o755))
	require.NoError(t, os.WriteFile(checks.File, []byte(all+mutants), 0o644))
	require.EqualError(t, r.check(t.Context(), checks.File), fmt.Sprintf(`release v1.2.3 is rejected:
  the folder has changes that are not committed: git status
  commit `+commit[:12]+` has no tag v1.2.3: git tag -a v1.2.3 `+commit[:12]+`
  CHANGELOG.md has no section of v1.2.3 with a date: write the date of the release into its heading
  %[1]d of %[1]d parts of nightly have no record for the files of this commit: make nightly
  %[2]d of %[2]d parts of e2e-controllers have no record for the files of this commit: make e2e-controllers
  1 of %[3]d parts of mutants have no record for the files of this commit: make mutants
  %[4]d of %[4]d parts of race-all have no record for the files of this commit: make race-all
RELEASE_UNCHECKED=1 makes it all the same, and its notes say what is missing`,
		len(checks.Of("nightly")), len(checks.Of("e2e-controllers")), len(checks.Of("mutants")), len(checks.Of("race-all"))))

	for _, check := range checks.Names {
		all += record(t, check)
	}
	require.NoError(t, os.WriteFile(checks.File, []byte(all), 0o644))
	require.NoError(t, os.WriteFile("CHANGELOG.md", []byte(changelog), 0o644))
	sh(t, "git add . && git commit -qm two && git tag v1.2.3")
	require.NoError(t, r.check(t.Context(), checks.File))
	require.Empty(t, r.lacks)

	require.NoError(t, os.WriteFile("CHANGELOG.md", []byte(changelog+"\n"), 0o644))
	require.ErrorContains(t, r.check(t.Context(), checks.File), "not committed: git status\n", "the tag would name another page")
	sh(t, "git checkout -q . && echo >> a.go && git commit -qam three && git tag -f v1.2.3")
	err := r.check(t.Context(), checks.File)
	for _, check := range checks.Names {
		require.ErrorContains(t, err, ": make "+check+"\n")
	}
}

// TestUncheckedSaysSo: RELEASE_UNCHECKED=1 goes on, and the notes of the release list what is missing.
func TestUncheckedSaysSo(t *testing.T) {
	commit := repository(t, map[string]string{"CHANGELOG.md": changelog})
	r := &release{
		version: "v1.2.3", commit: commit, image: "r.example/a/m:v1.2.3", digest: "sha256:0123", arches: []string{"amd64", "arm64"},
		out: t.TempDir(), unchecked: true,
	}
	require.NoError(t, os.MkdirAll("release", 0o755))
	require.NoError(t, os.WriteFile(checks.File, []byte(record(t, "mutants")), 0o644))
	sh(t, "git add . && git commit -qm two")
	commit = strings.TrimSpace(sh(t, "git rev-parse HEAD"))
	require.NoError(t, r.check(t.Context(), checks.File))
	require.NoError(t, r.writeNotes())
	notes := string(read(t, r.out, notesFile))
	require.Contains(t, notes, "**Unchecked.** This release was made without what a release needs:\n\n* commit "+commit[:12]+" has no tag v1.2.3")
	require.Contains(t, notes, " parts of nightly have no record for the files of this commit: make nightly\n")
	require.Contains(t, notes, fmt.Sprintf("| make nightly | 0 of %d | did not run |\n", len(checks.Of("nightly"))))
	require.Contains(t, notes, fmt.Sprintf("| make mutants | %[1]d of %[1]d | 2026-11-29T08:00:00Z |\n", len(checks.Of("mutants"))))
	require.Contains(t, notes, "\n### Added\n\n* Gangs.\n")
	require.NotContains(t, notes, "Old")
	require.Contains(t, notes, "r.example/a/m:v1.2.3@sha256:0123")
	require.Contains(t, notes, "helm install muster oci://r.example/a/charts/muster --version 1.2.3")

	r.lacks = nil
	require.NoError(t, r.writeNotes())
	require.NotContains(t, string(read(t, r.out, notesFile)), "Unchecked")
}

// TestMakeRelease: the target of the Makefile rejects a commit without records before it builds anything. The version is the same in
// all that it passes on.
func TestMakeRelease(t *testing.T) {
	t.Chdir("..")
	t.Setenv("RELEASE_UNCHECKED", "")
	t.Setenv("MAKEFLAGS", "")
	folder := filepath.Join(t.TempDir(), "dist")
	out, err := exec.CommandContext(t.Context(), "make", "release", "VERSION=v1.2.3", "CHECKS="+folder+"/none").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "release v1.2.3 is rejected:\n")
	for _, check := range checks.Names {
		require.Contains(t, string(out), ": make "+check+"\n")
	}
	require.NotContains(t, string(out), "building")

	unchecked := sh(t, "make -n release VERSION=v1.2.3 RELEASE_UNCHECKED=1")
	require.Contains(t, unchecked, " -unchecked ")
	require.Contains(t, unchecked, "-version 'v1.2.3'")
	require.Contains(t, unchecked, "version.version=v1.2.3 ")
	require.Contains(t, unchecked, "/muster-scheduler:v1.2.3'")
	require.NotRegexp(t, saysDev, strings.ReplaceAll(unchecked, "-dirty", ""))
	require.NotContains(t, sh(t, "make -n release VERSION=v1.2.3 RELEASE_UNCHECKED=0"), "-unchecked")
}

// TestMakeRunsParts: each target of make that a release needs runs the parts of its check, and release-checks lists them.
func TestMakeRunsParts(t *testing.T) {
	t.Chdir("..")
	t.Setenv("MAKEFLAGS", "")
	for _, check := range checks.Names {
		printed := sh(t, "make -n "+check+" PART='a|b'")
		require.Contains(t, printed, "go run ./release/run -records '"+checks.File+"' -part 'a|b' "+check+"\n")
	}
	require.Regexp(t, `go run ./release/run -records 'bin/new' -part '' *\n`, sh(t, "make -n release-checks CHECKS=bin/new"))
	require.NotContains(t, sh(t, "make -n e2e-kind STEPS=drain"), "release/run", "steps are not recorded")
}

// TestKrew: the manifest has what krew demands, and names the archives of the release by their checksums.
func TestKrew(t *testing.T) {
	r, programs := made(t)
	require.NoError(t, r.writeArchives(programs, entry{licencesFile, []byte("terms"), 0o644}))
	require.NoError(t, r.writeKrew())
	require.NoError(t, writeSums(r.out))
	sums := string(read(t, r.out, sumsFile))
	var plugin struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, Sha256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	require.NoError(t, yaml.UnmarshalStrict(read(t, r.out, krewFile), &plugin))
	require.Equal(t, "krew.googlecontainertools.github.com/v1alpha2 Plugin muster v1.2.3",
		strings.Join([]string{plugin.APIVersion, plugin.Kind, plugin.Metadata.Name, plugin.Spec.Version}, " "))
	require.LessOrEqual(t, len(plugin.Spec.ShortDescription), 50)
	require.Len(t, plugin.Spec.Platforms, 2)
	for i, p := range plugin.Spec.Platforms {
		require.Equal(t, map[string]string{"os": "linux", "arch": r.arches[i]}, p.Selector.MatchLabels)
		_, archive, found := strings.Cut(p.URI, "/releases/download/v1.2.3/")
		require.True(t, found, p.URI)
		require.Contains(t, sums, p.Sha256+"  "+archive+"\n")
		files, _ := unpack(t, read(t, r.out, archive))
		for _, f := range p.Files {
			require.Contains(t, files, f.From)
		}
		require.Equal(t, p.Bin, filepath.Base(p.Files[0].From))
	}
}

// saysDev matches the version or the tag dev. Folders such as /dev/null do not match.
var saysDev = regexp.MustCompile(`(^|[^/\w])dev($|[^/\w])`)

// fakeGo puts a program before Go in the PATH that does not compile: each program of the release is a copy of deploy/helm/sync. Its
// other commands are Go's.
func fakeGo(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	goTool, err := exec.LookPath("go")
	require.NoError(t, err)
	sh(t, "go build -trimpath -ldflags '-s -w' -o "+folder+"/program ./deploy/helm/sync")
	script := "#!/bin/bash\nif [ \"$1\" != build ]; then exec " + goTool + " \"$@\"; fi\n" +
		"while [ $# -gt 0 ]; do if [ \"$1\" = -o ]; then cp " + folder + "/program \"$2\"; fi; shift; done\n"
	require.NoError(t, os.WriteFile(folder+"/go", []byte(script), 0o755))
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
}

// TestWholeRelease: all files of a release are there, with the version in their names. None of them has another version than the
// release's, and nothing is left to be set.
func TestWholeRelease(t *testing.T) {
	require.Regexp(t, saysDev, "muster-scheduler:dev")
	require.Regexp(t, saysDev, "version: 0.0.0-dev")
	require.NotRegexp(t, saysDev, "2>/dev/null")
	r, _ := made(t)
	fakeGo(t)
	require.NoError(t, r.build(t.Context(), false))
	var names []string
	entries, err := os.ReadDir(r.out)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{
		"NOTES.md", "SHA256SUMS",
		"muster-1.2.3.oci.tar", "muster-1.2.3.tgz", "muster-controller-1.2.3.oci.tar", "muster-controller-1.2.3.tgz",
		"muster-controller-v1.2.3-linux-amd64.spdx.json", "muster-controller-v1.2.3-linux-arm64.spdx.json",
		"muster-crds-1.2.3.oci.tar", "muster-crds-1.2.3.tgz",
		"muster-scheduler-v1.2.3-image-linux-amd64.tar", "muster-scheduler-v1.2.3-image-linux-arm64.tar", "muster-scheduler-v1.2.3-image.tar",
		"muster-scheduler-v1.2.3-linux-amd64.spdx.json", "muster-scheduler-v1.2.3-linux-arm64.spdx.json",
		"muster-v1.2.3-linux-amd64.tar.gz", "muster-v1.2.3-linux-arm64.tar.gz", "muster-v1.2.3-manifests.tar.gz",
		"muster.yaml", "musterctl-v1.2.3-linux-amd64.spdx.json", "musterctl-v1.2.3-linux-arm64.spdx.json",
	}, names)
	require.Contains(t, string(read(t, r.out, notesFile)), "r.example/m:v1.2.3@sha256:")
	sh(t, "cd "+r.out+" && sha256sum --check --quiet SHA256SUMS")

	seen, archive := 0, regexp.MustCompile(`\.(tar|tgz|tar\.gz)$`)
	var look func(name string, data []byte)
	look = func(name string, data []byte) {
		if archive.MatchString(name) || strings.Contains(name, "/blobs/") && data[0] == 0x1f {
			files, _ := unpack(t, data)
			for below, data := range files {
				look(name+"/"+below, data)
			}
			return
		}
		require.NotContains(t, name, "dev")
		if strings.HasPrefix(string(data), "\x7fELF") || strings.HasSuffix(name, "/"+licencesFile) {
			return // TestMakeRelease looks at what the linker is told; licences are of others
		}
		seen++
		for line := range strings.Lines(string(data)) {
			require.NotRegexp(t, saysDev, line, name)
			require.NotContains(t, line, "set-an-image", name)
		}
	}
	for _, name := range names {
		look(name, read(t, r.out, name))
	}
	require.Greater(t, seen, 100)
}
