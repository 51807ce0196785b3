package manifests_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/apis/config"
)

// TestSchedulerConfigs loads the configurations as kube-scheduler --config does, strictly.
func TestSchedulerConfigs(t *testing.T) {
	config.InstallDefaults()
	standard, err := config.Decode(nil)
	require.NoError(t, err)
	for name, serves := range map[string][]string{
		"native.yaml":            {"muster-scheduler"},
		"drop-in.yaml":           {"muster-scheduler", "koord-scheduler"},
		"scheduler-plugins.yaml": {"muster-scheduler", "scheduler-plugins-scheduler"},
	} {
		data, err := manifests.SchedulerConfigs.ReadFile("scheduler-config/" + name)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, data, 0o600))
		logger, _ := ktesting.NewTestContext(t)
		cfg, err := options.LoadConfigFromFile(logger, file)
		require.NoError(t, err)
		require.Nil(t, validation.ValidateKubeSchedulerConfiguration(cfg))
		var names []string
		for _, p := range cfg.Profiles {
			names = append(names, p.SchedulerName)
			for _, c := range p.PluginConfig {
				if c.Name == config.PluginName {
					args, err := config.Decode(c.Args)
					require.NoError(t, err)
					require.Equal(t, standard, args, "%s shows the defaults", name)
				}
			}
		}
		require.Equal(t, serves, names)
	}
}
