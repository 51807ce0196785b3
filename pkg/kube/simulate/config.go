package simulate

import (
	"errors"
	"fmt"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/apis/config"
)

// ConfigError says what is wrong with a KubeSchedulerConfiguration.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return "scheduler configuration: " + e.Err.Error() }

func (e *ConfigError) Unwrap() error { return e.Err }

// readConfig reads a KubeSchedulerConfiguration as kube-scheduler does; nil stands for the drop-in configuration.
func readConfig(data []byte) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	config.InstallDefaults()
	if data == nil {
		var err error
		if data, err = manifests.SchedulerConfigs.ReadFile("scheduler-config/drop-in.yaml"); err != nil {
			return nil, err
		}
	}
	if err := config.OneDocument(data); err != nil {
		return nil, &ConfigError{err}
	}
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, &ConfigError{err}
	}
	cfg, ok := obj.(*schedulerconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, &ConfigError{fmt.Errorf("it is a %s", gvk.Kind)}
	}
	cfg.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, &ConfigError{err}
	}
	if len(cfg.Extenders) > 0 {
		return nil, &ConfigError{errors.New("extenders: a simulation calls no other process")}
	}
	return cfg, nil
}
