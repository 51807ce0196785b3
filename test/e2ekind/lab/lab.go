// Package lab makes a cluster of kind: real kubelets and containers, in Docker, without any registry. Its node image has
// two forms. KIND_NODE=build, the default, combines Debian's packages with programs that are built from source.
// KIND_NODE=kindest is kind's own image, which Docker fetches. No suite has run with kind's own so far: what kind is
// asked for is tested, the cluster that it makes is not. It knows no scheduler.
//
// Whatever happens to the process, nothing stays behind: see guard.sh.
package lab

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

//go:embed guard.sh
var guardScript string

//go:embed docker.sh
var dockerShim string

// kindest is the image that kind's version was tested with.
const kindest = "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5"

// Programs of this project that are built for every lab, by the package below test/e2ekind.
const (
	pause  localcluster.Component = "pause"
	Member localcluster.Component = "member"
)

// A Lab is a folder, a name that everything in Docker has, and a guard that removes both.
type Lab struct {
	name     string
	folder   string
	cache    string
	progress io.Writer
	tools    map[localcluster.Component]string // for this machine
	built    map[localcluster.Component]string // for nodes
	path     string                            // PATH for kind
	workers  int
	own      bool // the node image is built here
	guard    *exec.Cmd
	pipe     io.Closer
	bury     func()
}

// Start makes a cluster with so many workers. It prints its progress in lines.
func Start(ctx context.Context, progress io.Writer, workers int) (*Lab, error) {
	l := &Lab{name: fmt.Sprintf("muster-e2e-%d", os.Getpid()), progress: progress, workers: workers, path: os.Getenv("PATH")}
	switch node := os.Getenv("KIND_NODE"); node {
	case "", "build":
		l.own = true
	case "kindest":
	default:
		return nil, fmt.Errorf("KIND_NODE=%s: supported values: build and kindest", node)
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	if _, err := l.mmdebstrap(); l.own && err != nil { // before minutes are spent on what does not need it
		l.Close()
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// open makes the folder and starts the guard.
func (l *Lab) open() error {
	cache, err := localcluster.CacheDir()
	if err != nil {
		return err
	}
	l.cache = filepath.Join(cache, "kind")
	if err := os.MkdirAll(l.cache, 0o755); err != nil {
		return err
	}
	// In the cache, so that what was made is in place by a rename.
	if l.folder, err = os.MkdirTemp(l.cache, "lab-"); err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	l.pipe = write
	l.guard = exec.Command("/bin/sh", "-c", guardScript, "guard.sh", l.name, l.folder)
	l.guard.Stdin, l.guard.SysProcAttr = read, &syscall.SysProcAttr{Setsid: true}
	l.bury = sync.OnceFunc(func() {
		l.pipe.Close()
		_ = l.guard.Wait()
	})
	return l.guard.Start()
}

// Close removes everything, and returns when it is gone.
func (l *Lab) Close() {
	_ = l.step("removing the cluster", func() error { l.bury(); return nil })
}

func (l *Lab) start(ctx context.Context) error {
	var err error
	if l.tools, err = localcluster.Binaries(ctx, l.progress, "", localcluster.Kind, localcluster.Kubectl, localcluster.KWOK); err != nil {
		return err
	}
	if err := l.build(ctx); err != nil {
		return err
	}
	if l.own {
		if err := l.step("building the node image", func() error { return l.buildNode(ctx) }); err != nil {
			return err
		}
		if err := l.shim(ctx); err != nil {
			return err
		}
	}
	if err := l.step(fmt.Sprintf("creating a control plane and %d workers", l.workers),
		func() error { return l.create(ctx, l.image()) }); err != nil {
		return err
	}
	return l.step("waiting for the nodes", func() error {
		if err := l.Connect(ctx); err != nil {
			return err
		}
		_, err := l.Kubectl(ctx, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
		return err
	})
}

// build builds what runs in containers.
func (l *Lab) build(ctx context.Context) error {
	l.built = map[localcluster.Component]string{}
	if l.own {
		var err error
		if l.built, err = localcluster.StaticBinaries(ctx, l.progress, programs...); err != nil {
			return err
		}
	}
	for _, c := range []localcluster.Component{pause, Member} {
		to := filepath.Join(l.folder, string(c))
		if _, err := l.run(ctx, []string{"CGO_ENABLED=0"}, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", to,
			"github.com/muster-scheduler/muster/test/e2ekind/"+string(c)); err != nil {
			return err
		}
		l.built[c] = to
	}
	return nil
}

func (l *Lab) nodeImage() string { return l.name + "/node:" + kubernetes }

// image is that of the nodes.
func (l *Lab) image() string {
	if l.own {
		return l.nodeImage()
	}
	return kindest
}

// buildNode lays the node's files together and gives them to Docker in one stream.
func (l *Lab) buildNode(ctx context.Context) error {
	debian, err := l.debian(ctx)
	if err != nil {
		return err
	}
	image := nodeImage{
		debian, filepath.Join(localcluster.Kept(l.tools[localcluster.Kind]), "images/base/files"), l.built,
		filepath.Join(l.folder, "images"),
	}
	if err := os.Mkdir(image.work, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(image.work)
	read, write := io.Pipe()
	go func() { write.CloseWithError(image.write(ctx, l, write)) }()
	_, err = l.runWith(ctx, read, nil, "docker", "import",
		"--change", `ENTRYPOINT ["/usr/local/bin/entrypoint-unprivileged","/sbin/init"]`, "--change", "ENV container=docker", "-", l.nodeImage())
	read.CloseWithError(errors.New("docker import has ended"))
	return err
}

// shim puts a docker on kind's PATH that asks for less, where the engine cannot give all that
// "--privileged" means.
func (l *Lab) shim(ctx context.Context) error {
	_, err := l.run(ctx, nil, "docker", "run", "--rm", "--network=none", "--privileged", "--entrypoint=/bin/true", "--label",
		"io.x-k8s.kind.cluster="+l.name, l.nodeImage())
	if err == nil {
		return nil
	}
	if !strings.Contains(err.Error(), "operation not permitted") {
		return err
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		return err
	}
	folder := filepath.Join(l.folder, "shim")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	l.path = folder + ":" + l.path
	fmt.Fprintln(l.progress, "Docker cannot give all that --privileged means here; nodes ask for the rest")
	return os.WriteFile(filepath.Join(folder, "docker"), []byte(strings.ReplaceAll(dockerShim, "REAL_DOCKER", docker)), 0o755)
}

// create runs kind. Docker's network is the lab's own, so that it can go with it.
func (l *Lab) create(ctx context.Context, image string) error {
	config := filepath.Join(l.folder, "kind.yaml")
	if err := os.WriteFile(config, []byte(l.config()), 0o644); err != nil {
		return err
	}
	env := []string{"PATH=" + l.path, "KIND_EXPERIMENTAL_DOCKER_NETWORK=" + l.name}
	if l.own {
		env = append(env, "KIND_EXPERIMENTAL_CONTAINERD_SNAPSHOTTER=overlayfs")
	}
	_, err := l.run(ctx, env, l.tools[localcluster.Kind], "create", "cluster", "--name", l.name, "--image", image, "--config", config,
		"--kubeconfig", l.Kubeconfig(), "--retain", "--verbosity", "1")
	return err
}

// config is kind's.
func (l *Lab) config() string {
	config := "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n"
	if l.own {
		config += ownNode
	}
	config += "nodes:\n- role: control-plane\n"
	return config + strings.Repeat("- role: worker\n", l.workers)
}

// ownNode is what our own node image asks for: it has no kindnetd (see Connect), and is to run
// where there are control groups of version 1 only.
const ownNode = `networking:
  disableDefaultCNI: true
  kubeProxyMode: nftables
kubeadmConfigPatches:
- |
  kind: InitConfiguration
  skipPhases: [preflight]
- |
  kind: KubeletConfiguration
  failCgroupV1: false
`

// Name is the cluster's.
func (l *Lab) Name() string { return l.name }

// Folder is for files of a test; it goes with the lab.
func (l *Lab) Folder() string { return l.folder }

// Kubeconfig is the path of one that may do everything.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.folder, "kubeconfig") }

// Built is the path of a program that nodes can run.
func (l *Lab) Built(c localcluster.Component) string { return l.built[c] }

// Tool is the path of a program for this machine: kind, kubectl or kwok.
func (l *Lab) Tool(c localcluster.Component) string { return l.tools[c] }

// Path is the PATH with which kind finds the docker that it can work with here.
func (l *Lab) Path() string { return l.path }

// Kubectl runs kubectl and returns what it prints.
func (l *Lab) Kubectl(ctx context.Context, args ...string) (string, error) {
	return l.KubectlWith(ctx, "", args...)
}

// KubectlWith is Kubectl with an input.
func (l *Lab) KubectlWith(ctx context.Context, input string, args ...string) (string, error) {
	return l.runWith(ctx, strings.NewReader(input), nil, l.tools[localcluster.Kubectl],
		append([]string{"--kubeconfig=" + l.Kubeconfig()}, args...)...)
}

// Docker runs docker and returns what it prints.
func (l *Lab) Docker(ctx context.Context, args ...string) (string, error) {
	return l.run(ctx, nil, "docker", args...)
}

// step tells what is being done, and how long it took.
func (l *Lab) step(what string, do func() error) error {
	start := time.Now()
	fmt.Fprintf(l.progress, "%s …\n", what)
	err := do()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(l.progress, "%s: %.0f s\n", what, time.Since(start).Seconds())
	return nil
}

func (l *Lab) run(ctx context.Context, env []string, program string, args ...string) (string, error) {
	return l.runWith(ctx, nil, env, program, args...)
}

// runWith runs a program with an input and returns what it prints.
func (l *Lab) runWith(ctx context.Context, input io.Reader, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Stdin = append(os.Environ(), env...), input
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err,
			tail(stdout.String()+stderr.String()))
	}
	return stdout.String(), nil
}

// tail is the end of what a program has printed.
func tail(printed string) string {
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
