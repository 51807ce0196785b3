package localcluster

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A Component is a program of the cluster, by the name of its binary.
type Component string

// The programs that this package can build.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Kubectl           Component = "kubectl"
	Scheduler         Component = "kube-scheduler"
	KWOK              Component = "kwok"

	// Controllers of other projects, which no cluster starts by itself.
	LeaderWorkerSet Component = "lws"
	JobSet          Component = "jobset"
	Trainer         Component = "trainer"
	MPIOperator     Component = "mpi-operator"
	Kueue           Component = "kueue"
	KoordScheduler  Component = "koord-scheduler" // another scheduler of gangs, with which this one is compared

	// The programs of a kind node, and kind itself: see StaticBinaries.
	Kind           Component = "kind"
	Kubeadm        Component = "kubeadm"
	Kubelet        Component = "kubelet"
	KubeProxy      Component = "kube-proxy"
	CoreDNS        Component = "coredns"
	Containerd     Component = "containerd"
	ContainerdShim Component = "containerd-shim-runc-v2"
	ContainerdCtl  Component = "ctr"
	CNIHostLocal   Component = "host-local"
	CNILoopback    Component = "loopback"
	CNIPointToPt   Component = "ptp"
	CNIPortMap     Component = "portmap"
)

// source says how a component is built.
type source struct {
	module string   // build/<module>.mod and .sum
	pkg    string   // the main package
	takes  string   // the duration of the build on two cores, with an empty build cache
	keeps  []string // folders of its module that are kept beside the binary: see Kept
}

var sources = map[Component]source{
	Etcd:              {"etcd", "go.etcd.io/etcd/server/v3", "half a minute", nil},
	APIServer:         {"kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "5 minutes", nil},
	ControllerManager: {"kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", "2 minutes", nil},
	Kubectl:           {"kubernetes", "k8s.io/kubernetes/cmd/kubectl", "1 minute", nil},
	Scheduler:         {"kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", "1 minute", nil},
	KWOK:              {"kwok", "sigs.k8s.io/kwok/cmd/kwok", "1 minute", nil},

	LeaderWorkerSet: {"lws", "sigs.k8s.io/lws/cmd", "2 minutes", []string{"config", "docs/examples/sample"}},
	JobSet:          {"jobset", "sigs.k8s.io/jobset", "2 minutes", []string{"config"}},
	Trainer:         {"trainer", "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager", "2 minutes", []string{"manifests"}},
	MPIOperator: {
		"mpi-operator", "github.com/kubeflow/mpi-operator/cmd/mpi-operator", "2 minutes", []string{"manifests", "examples/v2beta1/pi"},
	},
	Kueue:          {"kueue", "sigs.k8s.io/kueue/cmd/kueue", "4 minutes", []string{"config"}},
	KoordScheduler: {"koordinator", "github.com/koordinator-sh/koordinator/cmd/koord-scheduler", "4 minutes", []string{"config/crd/bases"}},

	Kind:           {"kind", "sigs.k8s.io/kind", "half a minute", []string{"images/base/files"}},
	Kubeadm:        {"kubernetes", "k8s.io/kubernetes/cmd/kubeadm", "1 minute", nil},
	Kubelet:        {"kubernetes", "k8s.io/kubernetes/cmd/kubelet", "2 minutes", nil},
	KubeProxy:      {"kubernetes", "k8s.io/kubernetes/cmd/kube-proxy", "1 minute", nil},
	CoreDNS:        {"coredns", "github.com/coredns/coredns", "3 minutes", nil},
	Containerd:     {"containerd", "github.com/containerd/containerd/v2/cmd/containerd", "2 minutes", nil},
	ContainerdShim: {"containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", "half a minute", nil},
	ContainerdCtl:  {"containerd", "github.com/containerd/containerd/v2/cmd/ctr", "half a minute", nil},
	CNIHostLocal:   {"cni", "github.com/containernetworking/plugins/plugins/ipam/host-local", "10 seconds", nil},
	CNILoopback:    {"cni", "github.com/containernetworking/plugins/plugins/main/loopback", "10 seconds", nil},
	CNIPointToPt:   {"cni", "github.com/containernetworking/plugins/plugins/main/ptp", "10 seconds", nil},
	CNIPortMap:     {"cni", "github.com/containernetworking/plugins/plugins/meta/portmap", "10 seconds", nil},
}

// buildFiles has a go.mod and a go.sum for each module, since "go install pkg@version" rejects the replace directives of k8s.io/kubernetes.
//
//go:embed build
var buildFiles embed.FS

// Binaries returns the paths of the components' binaries, and first builds the ones that are not in the cache (CacheDir). progress
// receives the names of builds. kubernetes is one of KubernetesVersions, for kube-apiserver, kube-controller-manager and kube-scheduler; ""
// is the newest.
func Binaries(ctx context.Context, progress io.Writer, kubernetes string, components ...Component) (map[Component]string, error) {
	return build(ctx, progress, kubernetes, linkedAsUsual, components)
}

// StaticBinaries is Binaries with statically linked programs: for images FROM scratch, and for nodes with another system.
func StaticBinaries(ctx context.Context, progress io.Writer, components ...Component) (map[Component]string, error) {
	return build(ctx, progress, "", linkedStatically, components)
}

// linking is a way to link a program: a suffix of its folder's name, and linker flags.
type linking struct{ suffix, flags string }

var (
	linkedAsUsual    = linking{}
	linkedStatically = linking{"-static", " -linkmode=external -extldflags=-static"}
)

// build returns the components' paths, and builds the ones that are not in the cache. release is the argument kubernetes of Binaries.
func build(ctx context.Context, progress io.Writer, release string, linked linking, components []Component) (map[Component]string, error) {
	version, err := KubernetesVersion(release)
	if err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	paths := map[Component]string{}
	for _, c := range components {
		s, ok := sources[c]
		if !ok {
			return nil, fmt.Errorf("unknown component %q", c)
		}
		b := builder{c, s.forVersion(c, version), linked, cache, newReporter(progress)}
		if paths[c], err = b.ensure(ctx); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// CacheDir returns the folder of built programs: $MUSTER_CACHE, else "muster" in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv("MUSTER_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for built programs, set MUSTER_CACHE: %w", err)
	}
	return filepath.Join(dir, "muster"), nil
}

// builder builds one component into the cache.
type builder struct {
	component Component
	source    source
	linked    linking
	cache     string
	report    reporter
}

// ensure returns the path of the binary. If several processes need one binary, one builds it and the other processes wait.
func (b builder) ensure(ctx context.Context) (string, error) {
	path := filepath.Join(b.cache, "bin", b.source.module+"-"+b.source.version()+b.linked.suffix, string(b.component))
	if exists(path) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	unlock, err := b.lock(ctx, path+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(path) {
		return path, nil
	}
	what := fmt.Sprintf("building %s %s from source (about %s, once)", b.component, b.source.version(), b.source.takes)
	if err := b.report.during(what, func() error { return b.build(ctx, path) }); err != nil {
		return "", fmt.Errorf("build %s %s: %w", b.component, b.source.version(), err)
	}
	return path, nil
}

// build compiles the component in a temporary folder, and renames the binary to path last: an interrupted build leaves nothing behind.
func (b builder) build(ctx context.Context, path string) error {
	goTool, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("needs Go 1.26 or later, and there is no \"go\" on PATH (https://go.dev/dl); or put the binary at %s", path)
	}
	work, err := newFolder(b.cache, "build-")
	if err != nil {
		return err
	}
	defer work.Close()
	for _, ext := range []string{".mod", ".sum"} {
		content := b.source.file(ext)
		if err := os.WriteFile(work.join("go"+ext), content, 0o644); err != nil {
			return err
		}
	}
	if err := os.Mkdir(work.join("tmp"), 0o755); err != nil {
		return err
	}
	out := work.join(string(b.component))
	flags := b.source.ldflags() + b.linked.flags
	if _, err := b.run(ctx, work, goTool, "build", "-o", out, "-ldflags", flags, "-tags", b.source.tags(), b.source.pkg); err != nil {
		return err
	}
	if err := b.keep(ctx, work, goTool, path); err != nil {
		return err
	}
	return os.Rename(out, path)
}

// run runs Go in the work folder and returns its output.
func (b builder) run(ctx context.Context, work *folder, goTool string, args ...string) (string, error) {
	cmd, err := work.command(ctx, goTool, args...)
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	temp := work.join("tmp") // a build that is killed leaves its temporary files
	cmd.Dir, cmd.Env = work.path, append(buildEnv(os.Environ()), "TMPDIR="+temp, "GOTMPDIR="+temp)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, tail(append(stdout.Bytes(), stderr.Bytes()...)))
	}
	return stdout.String(), nil
}

// Kept returns the folder with files of a component's module, such as its CRDs, under their original names, for the path of its binary.
func Kept(binary string) string { return binary + ".files" }

// keep copies the folders source.keeps of the module to Kept(path). It must run before the binary is at path: the binary marks the
// component as complete.
func (b builder) keep(ctx context.Context, work *folder, goTool, path string) error {
	if len(b.source.keeps) == 0 {
		return nil
	}
	module, _ := b.source.required()
	dir, err := b.run(ctx, work, goTool, "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	kept := work.join("kept")
	for _, folder := range b.source.keeps {
		if err := os.CopyFS(filepath.Join(kept, folder), os.DirFS(filepath.Join(strings.TrimSpace(dir), folder))); err != nil {
			return fmt.Errorf("keep %s: %w", folder, err)
		}
	}
	// Existing files are from an interrupted build.
	return errors.Join(os.RemoveAll(Kept(path)), os.Rename(kept, Kept(path)))
}

// lock locks the file at path, waits for another process that has the lock, and returns the function that unlocks it.
func (b builder) lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	try := func() error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	err = try()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		what := fmt.Sprintf("waiting for another process that builds %s", b.component)
		err = b.report.during(what, func() error { return retry(ctx, try) })
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { file.Close() }, nil // closing unlocks
}

// retry calls try until it returns anything but EWOULDBLOCK.
func retry(ctx context.Context, try func() error) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := try(); !errors.Is(err, syscall.EWOULDBLOCK) {
				return err
			}
		}
	}
}

// buildEnv returns env with the variables replaced that the user may have set for another module or machine.
func buildEnv(env []string) []string {
	return append(env,
		"GOFLAGS=-mod=readonly -buildvcs=false",
		"GO111MODULE=on",
		"GOWORK=off",
		"GOOS="+runtime.GOOS,
		"GOARCH="+runtime.GOARCH,
	)
}

func (s source) file(ext string) []byte {
	content, err := buildFiles.ReadFile("build/" + s.module + ext)
	if err != nil {
		panic(err) // the file is embedded
	}
	return content
}

// version returns the version of the package's module, from the embedded go.mod.
func (s source) version() string {
	_, version := s.required()
	return version
}

// required returns the package's module and its version, from the embedded go.mod.
func (s source) required() (module, version string) {
	for _, m := range requirement.FindAllSubmatch(s.file(".mod"), -1) {
		if module := string(m[1]); s.pkg == module || strings.HasPrefix(s.pkg, module+"/") {
			return module, string(m[2])
		}
	}
	panic("build/" + s.module + ".mod does not require the module of " + s.pkg)
}

var requirement = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`)

// ldflags returns linker flags that omit debug information and set the version of Kubernetes' programs.
func (s source) ldflags() string {
	flags := "-s -w"
	if !strings.HasPrefix(s.module, "kubernetes") {
		return flags
	}
	version := s.version()
	part := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, x := range []string{
			"gitVersion=" + version, "gitMajor=" + part[0], "gitMinor=" + part[1],
			"gitTreeState=clean", "gitCommit=" + version,
		} {
			flags += " -X " + pkg + "." + x
		}
	}
	return flags
}

// tags returns build tags that exclude code which needs libraries that a machine may lack.
func (s source) tags() string {
	if s.module == "containerd" {
		return "no_btrfs,no_devmapper,no_zfs,urfave_cli_no_docs"
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// tail returns the last lines of a program's output.
func tail(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	const limit = 20
	if len(lines) > limit {
		lines = append([]string{"…"}, lines[len(lines)-limit:]...)
	}
	return strings.Join(lines, "\n")
}
