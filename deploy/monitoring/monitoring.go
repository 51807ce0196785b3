// Package monitoring holds Muster's files for Prometheus and Grafana: rules for alerts, and a dashboard. The chart has
// copies of both.
package monitoring

import (
	"embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Files are prometheusrule.yaml, for the Prometheus Operator, and dashboard.json.
//
//go:embed prometheusrule.yaml dashboard.json
var Files embed.FS

// Rules returns the rules as Prometheus itself reads them: the object's spec.
func Rules() ([]byte, error) {
	content, err := Files.ReadFile("prometheusrule.yaml")
	if err != nil {
		return nil, err
	}
	var object struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &object); err != nil {
		return nil, err
	}
	if len(object.Spec) == 0 {
		return nil, fmt.Errorf("prometheusrule.yaml has no spec")
	}
	return yaml.Marshal(object.Spec)
}
