// Command sync copies what the charts have in common with manifests/ and monitoring/ into their folders, where
// Helm packages it: a link would not be. It also writes the charts' README files. Run it with "make generate".
//
// It knows which folder belongs to which chart, and nothing of what the files say.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/muster-scheduler/muster/deploy/monitoring"
	"github.com/muster-scheduler/muster/manifests"
)

// copies are the folders of a chart's files, and what they are copies of.
var copies = []struct {
	from fs.FS
	glob string
	to   string
}{
	{manifests.RBAC, "rbac/*.yaml", "muster/files/rbac"},
	{manifests.SourceRBAC, "rbac/sources/*.yaml", "muster/files/sources"},
	{manifests.Admission, "admission/*.yaml", "muster/files/admission"},
	{manifests.SchedulerConfigs, "scheduler-config/*.yaml", "muster/files/scheduler-config"},
	{manifests.Topologies, "topologies/*.yaml", "muster/files/topologies"},
	{monitoring.Files, "*", "muster/files/monitoring"},
	{manifests.CRDs, "crd/*.yaml", "muster-crds/files"},
}

func main() {
	charts := flag.String("o", "deploy/helm", "`FOLDER` of the charts")
	flag.Parse()
	if err := errors.Join(sync(*charts), writeReadmes(*charts)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sync writes the copies, and removes what is no copy.
func sync(charts string) error {
	for _, c := range copies {
		folder := filepath.Join(charts, c.to)
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		files, err := fs.Glob(c.from, c.glob)
		if err != nil {
			return err
		}
		for _, file := range files {
			data, err := fs.ReadFile(c.from, file)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(folder, path.Base(file)), data, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeReadmes writes the README.md of each chart.
func writeReadmes(charts string) error {
	for chart := range readmes {
		text, err := readme(filepath.Join(charts, chart))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(charts, chart, "README.md"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
