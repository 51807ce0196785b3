package main

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	versionLine    = regexp.MustCompile(`(?m)^version: .*$`)
	appVersionLine = regexp.MustCompile(`(?m)^appVersion: .*$`)
	semantic       = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+([-+].*)?)$`)
)

// chartVersion is what Helm takes for a version: three numbers, and no v.
func chartVersion(version string) string {
	if m := semantic.FindStringSubmatch(version); m != nil {
		return m[1]
	}
	return "0.0.0-g" + version
}

// writeChart packages a chart as "helm package" does, but for the times in it. The image's tag is
// the chart's appVersion.
func (r *release) writeChart(name string) error {
	entries, err := readTree("", "deploy/helm/"+name)
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		e.name = strings.TrimPrefix(e.name, "deploy/helm/")
		switch e.name {
		case name + "/Chart.yaml":
			e.data = versionLine.ReplaceAll(e.data, []byte("version: "+chartVersion(r.version)))
			e.data = appVersionLine.ReplaceAll(e.data, fmt.Appendf(nil, "appVersion: %q", r.image[strings.LastIndex(r.image, ":")+1:]))
		case path.Join(name, "values.yaml"):
			repository := r.image[:strings.LastIndex(r.image, ":")]
			e.data = bytes.Replace(e.data, []byte("  repository: \"\"\n"), []byte("  repository: "+repository+"\n"), 1)
		}
	}
	return r.packed(fmt.Sprintf("%s-%s.tgz", name, chartVersion(r.version)), entries)
}
