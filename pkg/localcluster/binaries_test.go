package localcluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersions(t *testing.T) {
	want := map[Component]string{
		Etcd: "v3.7.0", KWOK: "v0.8.0", APIServer: "v1.37.0", ControllerManager: "v1.37.0", Kubectl: "v1.37.0", Scheduler: "v1.37.0",
		LeaderWorkerSet: "v0.8.0", JobSet: "v0.10.1", Trainer: "v2.1.0", MPIOperator: "v0.6.0", Kueue: "v0.15.0", KoordScheduler: "v1.8.0",
		Kind: "v0.33.0", Kubeadm: "v1.37.0", Kubelet: "v1.37.0", KubeProxy: "v1.37.0", CoreDNS: "v1.14.6", Containerd: "v2.4.2",
		ContainerdShim: "v2.4.2", ContainerdCtl: "v2.4.2", CNIHostLocal: "v1.9.1", CNILoopback: "v1.9.1", CNIPointToPt: "v1.9.1",
		CNIPortMap: "v1.9.1",
	}
	for component, version := range want {
		require.Equal(t, version, sources[component].version(), component)
		require.NotEmpty(t, sources[component].file(".sum"), component)
	}
	require.Len(t, sources, len(want))
	require.Contains(t, sources[APIServer].ldflags(),
		" -X k8s.io/component-base/version.gitVersion=v1.37.0 -X k8s.io/component-base/version.gitMajor=1 -X "+
			"k8s.io/component-base/version.gitMinor=37 ")
}

// The API server must be the one that the scheduler in this repository is made for.
func TestVersionIsTheSchedulers(t *testing.T) {
	ours, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	require.Contains(t, string(ours), "\tk8s.io/kubernetes "+sources[APIServer].version()+"\n")
}

// fakeGo puts a script on PATH in place of Go. The script finds the folder of its calls in $calls, and the -o
// argument of go build in $out.
func fakeGo(t *testing.T, script string) (cache, calls string) {
	bin, calls, cache := t.TempDir(), t.TempDir(), t.TempDir()
	script = "#!/bin/sh\ncalls=" + calls + " out=$3\n" + script
	require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("MUSTER_CACHE", cache)
	return cache, calls
}

// leftIn lists what is in the cache apart from lock files.
func leftIn(t *testing.T, cache string) []string {
	left := []string{}
	require.NoError(t, filepath.WalkDir(cache, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) != ".lock" {
			left = append(left, strings.TrimPrefix(path, cache))
		}
		return err
	}))
	return left
}

func TestBuildOnce(t *testing.T) {
	cache, calls := fakeGo(t, `touch $calls/$$; env >$calls/env; cp go.mod $out`)
	t.Setenv("GOFLAGS", "-mod=vendor")
	t.Setenv("GOOS", "plan9")
	t.Setenv("GOWORK", "/elsewhere/go.work")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			paths, err := Binaries(t.Context(), nil, "", Etcd)
			if err == nil {
				_, err = os.Stat(paths[Etcd])
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, []string{"/bin/etcd-v3.7.0/etcd"}, leftIn(t, cache))
	runs, err := os.ReadDir(calls)
	require.NoError(t, err)
	require.Len(t, runs, 2, "one call, and the file env")
	env, err := os.ReadFile(filepath.Join(calls, "env"))
	require.NoError(t, err)
	require.Contains(t, string(env), "GOFLAGS=-mod=readonly -buildvcs=false\n")
	require.Contains(t, string(env), "GOWORK=off\n")
	require.NotContains(t, string(env), "plan9")
}

// Static binaries stand beside the others: what is linked for this machine is not what a node gets.
func TestBuildStatically(t *testing.T) {
	cache, calls := fakeGo(t, `echo "$*" >>$calls/args; touch $out`)
	for range 2 {
		paths, err := StaticBinaries(t.Context(), nil, Kubectl, Containerd)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(cache, "bin/kubernetes-v1.37.0-static/kubectl"), paths[Kubectl])
	}
	_, err := Binaries(t.Context(), nil, "", Kubectl)
	require.NoError(t, err)
	args, err := os.ReadFile(filepath.Join(calls, "args"))
	require.NoError(t, err)
	built := strings.Split(strings.TrimSpace(string(args)), "\n")
	require.Len(t, built, 3)
	require.Regexp(t, "-linkmode=external -extldflags=-static -tags  k8s.io/kubernetes/cmd/kubectl$", built[0])
	require.Regexp(t, "-static -tags no_btrfs.* github.com/containerd/containerd/v2/cmd/containerd$", built[1])
	require.NotContains(t, built[2], "-static")
}

func TestBuildFails(t *testing.T) {
	cache, _ := fakeGo(t, `echo half >$out; for i in $(seq 100); do echo "line $i."; done; exit 1`)
	var progress strings.Builder
	_, err := Binaries(t.Context(), &progress, "", KWOK)
	require.ErrorContains(t, err, "build kwok v0.8.0: go build: exit status 1\n…\nline 81.\n")
	require.ErrorContains(t, err, "\nline 100.")
	require.Contains(t, progress.String(), "building kwok v0.8.0 from source (about 1 minute, once)\n")
	require.Empty(t, leftIn(t, cache))
}

// A controller's CRDs come from the module that its binary is built from, and before it.
func TestBuildKeeps(t *testing.T) {
	cache, calls := fakeGo(t, `case "$*" in
list*sigs.k8s.io/jobset) touch $calls/config/crd.yaml; echo $calls;;
*) echo binary >$out; mkdir -p $calls/config $calls/docs; touch $calls/docs/other;;
esac`)
	paths, err := Binaries(t.Context(), nil, "", JobSet)
	require.NoError(t, err)
	require.Equal(t, []string{"/bin/jobset-v0.10.1/jobset", "/bin/jobset-v0.10.1/jobset.files/config/crd.yaml"}, leftIn(t, cache))
	require.FileExists(t, filepath.Join(Kept(paths[JobSet]), "config", "crd.yaml"))

	// The first folder was copied, and there is no second.
	require.NoError(t, os.RemoveAll(filepath.Join(calls, "config")))
	_, err = Binaries(t.Context(), nil, "", MPIOperator)
	require.ErrorContains(t, err, "build mpi-operator v0.6.0: keep manifests: ")
	require.NotContains(t, strings.Join(leftIn(t, cache), " "), "mpi-operator")
}

func TestBuildCancelled(t *testing.T) {
	cache, calls := fakeGo(t, `echo half >$out; touch $calls/started; sleep 3600`)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := Binaries(ctx, nil, "", KWOK)
		result <- err
	}()
	require.Eventually(t, func() bool { return exists(calls + "/started") }, waitLong, waitTick)
	cancel()
	require.ErrorIs(t, <-result, context.Canceled)
	require.Empty(t, leftIn(t, cache))
}

func TestBuildWithoutGo(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("MUSTER_CACHE", cache)
	t.Setenv("PATH", t.TempDir())
	_, err := Binaries(t.Context(), nil, "", Kubectl)
	require.EqualError(t, err, `build kubectl v1.37.0: needs Go 1.26 or later, and there is no "go" on PATH `+
		`(https://go.dev/dl); or put the binary at `+cache+`/bin/kubernetes-v1.37.0/kubectl`)
}
