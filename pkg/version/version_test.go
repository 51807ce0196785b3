package version

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrom(t *testing.T) {
	kubernetes := []*debug.Module{{Path: "k8s.io/kubernetesque", Version: "v9"}, {Path: "k8s.io/kubernetes", Version: "v1.37.0"}}
	vcs := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}
	dirty := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}
	for name, c := range map[string]struct {
		version, commit                         string
		built                                   debug.BuildInfo
		wantVersion, wantCommit, wantKubernetes string
	}{
		"linker":        {"v1", "def", debug.BuildInfo{Deps: kubernetes, Settings: vcs}, "v1", "def", "v1.37.0"},
		"go build":      {"", "", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs}, "devel", "abc", "unknown"},
		"changed":       {"", "", debug.BuildInfo{Settings: dirty}, "devel", "abc-dirty", "unknown"},
		"go install":    {"", "", debug.BuildInfo{Main: debug.Module{Version: "v2"}}, "v2", "unknown", "unknown"},
		"no build info": {"", "", debug.BuildInfo{}, "devel", "unknown", "unknown"},
	} {
		got := from(c.version, c.commit, &c.built)
		require.Equal(t, Info{c.wantVersion, c.wantCommit, c.wantKubernetes, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}, got, name)
	}
}

func TestString(t *testing.T) {
	i := Info{"v1", "abc", "v1.37.0", "go1.26.0", "linux/amd64"}
	require.Equal(t, "Muster v1 (commit abc, go1.26.0, linux/amd64)\nKubernetes v1.37.0", i.String())
}
