package main

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/muster-scheduler/muster/release/checks"
)

const (
	notesFile = "NOTES.md"
	project   = "https://github.com/muster-scheduler/muster"
)

var dated = regexp.MustCompile(`^## \[v[0-9.]+\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$`)

// core is the version without what follows the three numbers: v0.1.0 for v0.1.0-rc.1.
func (r *release) core() string {
	version, _, _ := strings.Cut(r.version, "-")
	return version
}

// changes returns the version's section of CHANGELOG.md, with its heading; "" if there is none.
func (r *release) changes() (string, error) {
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return "", err
	}
	_, section, found := strings.Cut(string(text), "\n## ["+r.core()+"]")
	if !found {
		return "", nil
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return "## [" + r.core() + "]" + strings.TrimRight(section, "\n"), nil
}

// writeNotes writes the text of the release's page. It is not among the checksums: it says what ran on one machine.
func (r *release) writeNotes() error {
	changes, err := r.changes()
	if err != nil {
		return err
	}
	_, changes, _ = strings.Cut(changes, "\n")
	var out strings.Builder
	fmt.Fprintf(&out, "# Muster %s\n", r.version)
	if len(r.lacks) > 0 {
		fmt.Fprintf(&out, "\n**Unchecked.** This release was made without what a release needs:\n\n* %s\n", strings.Join(r.lacks, "\n* "))
	}
	fmt.Fprintf(&out, "\n%s\n", strings.TrimSpace(changes))
	repository := r.image[:strings.LastIndex(r.image, ":")]
	charts := "oci://" + path.Join(path.Dir(repository), "charts")
	fmt.Fprintf(&out, `
## Install

The image is %[1]s@%[2]s, for %[3]s. Both programs are in it.

    helm install muster-crds %[4]s/muster-crds --version %[5]s
    helm install muster %[4]s/muster --version %[5]s --namespace muster-system --create-namespace
    kubectl krew install --manifest-url %[6]s/releases/download/%[7]s/%[8]s

muster-%[7]s-manifests.tar.gz has the same for kustomize. SHA256SUMS has the checksum of each file. The same commit and the same
version of Go give the same files.

## What ran on the files of commit %[9]s

Pages may have changed after the runs. Another file has not.

| command | green parts | the last ended |
|---|---|---|
`, r.image, r.digest, strings.Join(r.arches, " and "), charts, chartVersion(r.version), project, r.version, krewFile, r.commit)
	for _, check := range checks.Names {
		g := r.green[check]
		fmt.Fprintf(&out, "| make %s | %d of %d | %s |\n", check, g.parts, g.of, cmp.Or(g.last, "did not run"))
	}
	return os.WriteFile(filepath.Join(r.out, notesFile), []byte(out.String()), 0o644)
}
