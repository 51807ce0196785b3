package localcluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKubernetesVersion(t *testing.T) {
	for name, want := range map[string]string{
		"": "1.37.0", "1.34": "1.34.4", "v1.34": "1.34.4", "1.35.4": "1.35.4", "v1.36.3": "1.36.3", "1.37.0": "1.37.0",
	} {
		version, err := KubernetesVersion(name)
		require.NoError(t, err)
		require.Equal(t, want, version, name)
	}
	for _, bad := range []string{"1.33", "1.34.5", "1", "latest", "1.3"} {
		_, err := KubernetesVersion(bad)
		require.EqualError(t, err,
			`there is no Kubernetes "`+bad+`" to run; supported values: 1.34.4, 1.35.4, 1.36.3, 1.37.0, or a minor version such as 1.37`)
	}
}

// The API server and its controllers are of one version; clients are the newest. What they are built
// from is embedded, and is of the version that is said.
func TestSourcesOfVersions(t *testing.T) {
	for _, version := range KubernetesVersions {
		for _, c := range []Component{APIServer, ControllerManager, Scheduler} {
			s := sources[c].forVersion(c, version)
			require.Equal(t, "v"+version, s.version(), c)
			require.NotEmpty(t, s.file(".sum"))
			require.Contains(t, s.ldflags(), "gitVersion=v"+version+" ")
		}
		require.Equal(t, "v1.37.0", sources[Kubectl].forVersion(Kubectl, version).version())
		require.Equal(t, sources[Etcd].version(), sources[Etcd].forVersion(Etcd, version).version())
	}
}

func TestStartRefusesAVersion(t *testing.T) {
	_, err := Start(t.Context(), Options{Kubernetes: "1.12"})
	require.ErrorContains(t, err, `there is no Kubernetes "1.12" to run`)
}
