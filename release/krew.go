package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const krewFile = "muster.yaml"

// writeKrew writes the manifest by which krew installs musterctl as "kubectl muster". The archives exist already.
func (r *release) writeKrew() error {
	var out strings.Builder
	fmt.Fprintf(&out, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: muster
spec:
  version: %s
  homepage: %s
  shortDescription: Ask why a gang of pods does not start
  description: |
    Shows the gangs that wait and the reason of each, the free capacity of each
    domain of the network, and the quotas. Simulates a job, a change or a drain
    on the objects of the cluster, without touching it. The answers are those
    of the scheduler Muster.
  platforms:
`, r.version, project)
	for _, arch := range r.arches {
		folder := fmt.Sprintf("muster-%s-linux-%s", r.version, arch)
		data, err := os.ReadFile(filepath.Join(r.out, folder+".tar.gz"))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, `  - selector:
      matchLabels: {os: linux, arch: %[1]s}
    uri: %[2]s/releases/download/%[3]s/%[4]s.tar.gz
    sha256: %[5]x
    files:
    - {from: %[4]s/musterctl, to: .}
    - {from: %[4]s/LICENSE, to: .}
    bin: musterctl
`, arch, project, r.version, folder, sha256.Sum256(data))
	}
	return os.WriteFile(filepath.Join(r.out, krewFile), []byte(out.String()), 0o644)
}
