// Command sync copies what the charts have in common with manifests/ and monitoring/ into their folders, where
// Helm packages it: a link would not be. It also writes the charts' README files. Run it with "make generate".
//
// It knows which folder belongs to which chart, and nothing of what the files say.
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/muster-scheduler/muster/deploy/monitoring"
	"github.com/muster-scheduler/muster/manifests"
)

// common has the templates of both charts. Helm reads a name that begins with _ as definitions only.
//
//go:embed common/_common.tpl common/*.yaml
var common embed.FS

// copies are the folders of a chart's files, and what they are copies of. Below the first * of a glob, folders stay.
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
	{common, "common/*", "muster/templates/common"},
	{manifests.CRDs, "crd/*.yaml", "muster-crds/files"},
	{manifests.Controller, "controller/*.yaml", "muster-controller/files/base"},
	{manifests.Controller, "controller/rbac/*.yaml", "muster-controller/files/rbac"},
	{manifests.Controller, "controller/components/*/*.yaml", "muster-controller/files/components"},
	{monitoring.Controller, "controller/*", "muster-controller/files/monitoring"},
	{common, "common/*", "muster-controller/templates/common"},
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
		fixed, _, _ := strings.Cut(c.glob, "*")
		for _, file := range files {
			if path.Base(file) == "kustomization.yaml" {
				continue
			}
			data, err := fs.ReadFile(c.from, file)
			if err != nil {
				return err
			}
			to := filepath.Join(folder, strings.TrimPrefix(file, fixed))
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o644)); err != nil {
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
