package koord

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestConfig: a program of another release of Kubernetes reads the configuration, so only its form is tested here. Its
// gangs need Coscheduling at every extension point, and no other plugin may evict for them.
func TestConfig(t *testing.T) {
	var config struct {
		ClientConnection struct {
			Kubeconfig string `json:"kubeconfig"`
		} `json:"clientConnection"`
		Profiles []struct {
			SchedulerName string `json:"schedulerName"`
			Plugins       map[string]struct {
				Enabled  []struct{ Name string } `json:"enabled"`
				Disabled []struct{ Name string } `json:"disabled"`
			} `json:"plugins"`
		} `json:"profiles"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(Config(`/a "b"/c`)), &config))
	require.Equal(t, `/a "b"/c`, config.ClientConnection.Kubeconfig)
	require.Len(t, config.Profiles, 1)
	require.Equal(t, Profile, config.Profiles[0].SchedulerName)
	require.Len(t, config.Profiles[0].Plugins, 9)
	for point, set := range config.Profiles[0].Plugins {
		require.Equal(t, []struct{ Name string }{{"Coscheduling"}}, set.Enabled, point)
	}
	require.Equal(t, []struct{ Name string }{{"*"}}, config.Profiles[0].Plugins["postFilter"].Disabled)
}
