// Package localcluster runs a real control plane as child processes: etcd, kube-apiserver, optionally
// kube-controller-manager, and KWOK in place of kubelets. The demo and the end-to-end tests run on it.
//
// It builds, starts and stops these programs, and adds nodes. A scheduler is one more program to Launch.
//
// Without kube-controller-manager there are no pods of Deployments and Jobs, no garbage collection, no
// namespace deletion, and no status of PodDisruptionBudgets.
package localcluster

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	startTimeout = time.Minute // for the start of each program; the machine may be busy with builds
	pollEvery    = 50 * time.Millisecond
)

//go:embed kwok/config.yaml
var kwokConfig string

// Options are the options of a cluster; the zero value starts one without controllers and CRDs.
type Options struct {
	// Progress receives the progress of slow steps; nil discards it.
	Progress io.Writer
	// Kubernetes is one of KubernetesVersions; "" is the newest.
	Kubernetes string
	// APIFeatureGates is kube-apiserver's --feature-gates, such as "GenericWorkload=true".
	APIFeatureGates string
	// RuntimeConfig is kube-apiserver's --runtime-config, such as "scheduling.k8s.io/v1alpha1=true".
	RuntimeConfig string
	// APIServerArgs are more arguments of kube-apiserver, each "--name=value".
	APIServerArgs []string
	// Controllers says whether kube-controller-manager runs. KWOK alone handles nodes.
	Controllers bool
	// PodLeaveDelay is how long a deleted pod is Terminating.
	PodLeaveDelay time.Duration
	// CRDs is searched for *.yaml files, which are applied before Start returns.
	CRDs fs.FS
}

// A Cluster is running from Start until Stop.
type Cluster struct {
	version    string
	folder     *folder
	plane      envtest.ControlPlane
	config     *rest.Config
	kubeconfig string
	kubectl    string
	kwok       *Process
	logs       []*os.File // of the control plane

	controllers     *Process // nil without Options.Controllers
	controllersPort int

	mu        sync.Mutex // guards the fields below
	stopping  bool
	processes []*Process // oldest first
}

// Start builds missing programs and starts a cluster without nodes. If ctx ends before Start returns, Start returns an error. After that
// only Stop, or the end of this process, ends the cluster.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	components := []Component{Etcd, APIServer, Kubectl, KWOK}
	if options.Controllers {
		components = append(components, ControllerManager)
	}
	programs, err := Binaries(ctx, options.Progress, options.Kubernetes, components...)
	if err != nil {
		return nil, err
	}
	folder, err := newFolder("", "muster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{folder: folder, kubectl: programs[Kubectl]}
	if c.version, err = KubernetesVersion(options.Kubernetes); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	// A start that waits for the programs ends when they are killed.
	keep := context.AfterFunc(ctx, func() { _ = folder.Close() })
	err = newReporter(options.Progress).during("starting the control plane", func() error {
		err := c.start(ctx, programs, options)
		return errors.Join(ctx.Err(), err)
	})
	switch {
	case !keep():
		return nil, errors.Join(ctx.Err(), c.Stop(), folder.sweep())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Stop())
	}
	return c, nil
}

// start starts the programs one after the other. It returns when the API server has the default namespace, and kube-controller-manager, if
// started, is healthy. It does not wait for KWOK. After an error, the caller stops the programs.
func (c *Cluster) start(ctx context.Context, programs map[Component]string, options Options) error {
	if err := c.startPlane(programs, options); err != nil {
		return err
	}
	var err error
	if c.kubeconfig, err = c.AddUser("admin", "system:masters"); err != nil {
		return err
	}
	if c.config, err = loadConfig(c.kubeconfig); err != nil {
		return err
	}
	if err := c.waitForNamespace(ctx); err != nil {
		return err
	}
	if options.Controllers {
		if err := c.startControllers(programs[ControllerManager], options); err != nil {
			return err
		}
	}
	if err := c.startKWOK(programs[KWOK], options.PodLeaveDelay); err != nil {
		return err
	}
	if options.CRDs != nil {
		if err := c.ApplyCRDs(ctx, options.CRDs); err != nil {
			return err
		}
	}
	if options.Controllers {
		return c.awaitControllers(ctx, programs[ControllerManager], options)
	}
	return nil
}

// startKWOK starts KWOK, which makes nodes Ready, runs bound pods and ends deleted ones.
func (c *Cluster) startKWOK(program string, leaveDelay time.Duration) error {
	config := c.folder.join("kwok.yaml")
	if err := os.WriteFile(config, []byte(lifecycle(leaveDelay)), 0o644); err != nil {
		return err
	}
	// Without a work folder of its own KWOK would read the user's ~/.kwok/kwok.yaml.
	env := []string{"KWOK_WORKDIR=" + c.folder.join("kwok")}
	var err error
	c.kwok, err = c.LaunchWith(context.Background(), env, program, "--config="+config, "--kubeconfig="+c.kubeconfig)
	return err
}

// lifecycle returns KWOK's configuration, with the time that a deleted pod is Terminating.
func lifecycle(leaveDelay time.Duration) string {
	return strings.ReplaceAll(kwokConfig, "POD_LEAVE_DELAY", strconv.FormatInt(leaveDelay.Milliseconds(), 10))
}

// KWOKBesideRealNodes returns KWOK's configuration for a cluster that also has real nodes, and a controller that needs leases of all
// nodes. KWOK handles only nodes annotated kwok.x-k8s.io/node=fake.
func KWOKBesideRealNodes() string {
	return strings.NewReplacer(
		"manageAllNodes: true", "manageAllNodes: false\n  manageNodesWithAnnotationSelector: kwok.x-k8s.io/node=fake",
		"nodeLeaseDurationSeconds: 0", "nodeLeaseDurationSeconds: 40\n  nodeLeaseParallelism: 4",
	).Replace(lifecycle(0))
}

// waitForNamespace waits for the default namespace, which the API server makes shortly after it is healthy.
func (c *Cluster) waitForNamespace(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, pollEvery, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("namespace %q: %w", metav1.NamespaceDefault, errors.Join(err, last))
	}
	return nil
}

// ApplyCRDs applies the *.yaml files below a folder.
func (c *Cluster) ApplyCRDs(ctx context.Context, crds fs.FS) error {
	return fs.WalkDir(crds, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		content, err := fs.ReadFile(crds, name)
		if err != nil {
			return err
		}
		if err := c.Apply(ctx, bytes.NewReader(content)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// Stop stops the launched programs, with SIGTERM first. When they have ended, it kills the control plane and removes the folder of the
// cluster. A second Stop does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	c.stopping = true
	processes := c.processes
	c.processes = nil
	c.mu.Unlock()
	for _, p := range processes {
		p.stop()
	}
	for _, p := range processes {
		<-p.done
	}
	err := c.folder.Close()
	for _, log := range c.logs {
		log.Close()
	}
	return err
}

// Dir returns the folder with all files of the cluster, with the logs in logs/.
func (c *Cluster) Dir() string { return c.folder.path }

// Kubernetes returns the API server's version, such as "1.37.0".
func (c *Cluster) Kubernetes() string { return c.version }

// Kubeconfig returns the path of a kubeconfig with all permissions.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Kubectl returns the path of a kubectl of the newest of KubernetesVersions.
func (c *Cluster) Kubectl() string { return c.kubectl }

// KWOK returns the process that makes nodes Ready and runs pods. While it is paused, bound pods are Pending, and nodes do not change.
func (c *Cluster) KWOK() *Process { return c.kwok }

// Certificate returns the files of a server certificate for 127.0.0.1 and its key. Clients that trust the authority of Config trust it.
func (c *Cluster) Certificate() (cert, key string) {
	dir := c.plane.APIServer.CertDir
	return filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
}

// Config returns a client configuration with all permissions and no rate limit.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// AddUser creates a user and returns the path of its kubeconfig. RBAC objects that name the user or its groups grant its permissions.
func (c *Cluster) AddUser(name string, groups ...string) (kubeconfig string, err error) {
	user, err := c.plane.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return "", err
	}
	content, err := user.KubeConfig()
	if err != nil {
		return "", err
	}
	// Escaped, because a colon separates files in $KUBECONFIG.
	kubeconfig = c.folder.join(url.QueryEscape(name) + ".kubeconfig")
	return kubeconfig, os.WriteFile(kubeconfig, content, 0o600)
}
