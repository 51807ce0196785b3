package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
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

// Media types of https://helm.sh/docs/topics/registries.
const (
	chartConfigType = "application/vnd.cncf.helm.config.v1+json"
	chartType       = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// unpublished is what a chart says of the image, and its README file: in a release it is not true.
var unpublished = regexp.MustCompile(`[.:] No registry has one yet, so there is no default: build one .* and name it here\.`)

func (r *release) writeCharts() error {
	for _, chart := range []string{"muster", "muster-controller", "muster-crds"} {
		if err := r.writeChart(chart); err != nil {
			return err
		}
	}
	return nil
}

// writeChart packages a chart as "helm package" does, but for the times in it: as a file, and as the OCI archive that registries
// take. The image's tag is the chart's appVersion.
func (r *release) writeChart(name string) error {
	entries, err := readTree("", "deploy/helm/"+name)
	if err != nil {
		return err
	}
	repository, tag := r.image[:strings.LastIndex(r.image, ":")], r.image[strings.LastIndex(r.image, ":")+1:]
	var about []byte
	for i := range entries {
		e := &entries[i]
		e.name = strings.TrimPrefix(e.name, "deploy/helm/")
		switch e.name {
		case name + "/Chart.yaml":
			e.data = versionLine.ReplaceAll(e.data, []byte("version: "+chartVersion(r.version)))
			e.data = appVersionLine.ReplaceAll(e.data, fmt.Appendf(nil, "appVersion: %q", tag))
			about = e.data
		case name + "/values.yaml":
			e.data = unpublished.ReplaceAll(e.data, []byte("."))
			e.data = bytes.Replace(e.data, []byte("  repository: \"\"\n"), []byte("  repository: "+repository+"\n"), 1)
		case name + "/README.md":
			e.data = unpublished.ReplaceAll(e.data, []byte("."))
			e.data = bytes.Replace(e.data, []byte("| `image.repository` | `\"\"` |"), []byte("| `image.repository` | `\""+repository+"\"` |"), 1)
		}
	}
	file := fmt.Sprintf("%s-%s.tgz", name, chartVersion(r.version))
	if err := r.packed(file, entries); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(r.out, file))
	if err != nil {
		return err
	}
	return r.writeChartLayout(name, about, data)
}

// writeChartLayout writes a packaged chart as an OCI archive, with what Chart.yaml says as its configuration.
func (r *release) writeChartLayout(name string, about, data []byte) error {
	about, err := yaml.YAMLToJSON(about)
	if err != nil {
		return err
	}
	l := layout{}
	m := manifest{2, manifestType, l.add(chartConfigType, about), []descriptor{l.add(chartType, data)}, r.labels()}
	m.Annotations["org.opencontainers.image.title"] = name
	m.Annotations["org.opencontainers.image.version"] = chartVersion(r.version)
	d, err := l.addJSON(manifestType, m)
	if err != nil {
		return err
	}
	// A tag cannot have a +, and Helm writes _ for it.
	d.Annotations = map[string]string{refName: strings.ReplaceAll(chartVersion(r.version), "+", "_")}
	return r.writeOCI(fmt.Sprintf("%s-%s.oci.tar", name, chartVersion(r.version)), l, d)
}
