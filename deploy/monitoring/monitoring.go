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

// Controller holds controller/prometheusrule.yaml, the alerts of muster-controller.
//
//go:embed controller/prometheusrule.yaml
var Controller embed.FS

// Rules returns the scheduler's rules as Prometheus itself reads them: the object's spec.
func Rules() ([]byte, error) { return spec(Files, "prometheusrule.yaml") }

// ControllerRules returns the controller's rules.
func ControllerRules() ([]byte, error) { return spec(Controller, "controller/prometheusrule.yaml") }

func spec(files embed.FS, name string) ([]byte, error) {
	content, err := files.ReadFile(name)
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
		return nil, fmt.Errorf("%s has no spec", name)
	}
	return yaml.Marshal(object.Spec)
}
