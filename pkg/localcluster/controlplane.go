package localcluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startPlane starts etcd and kube-apiserver on free ports. If another process takes a port first, it retries with other ports.
func (c *Cluster) startPlane(programs map[Component]string, options Options) error {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		plane, err := c.newPlane(programs, options, attempt)
		if err != nil {
			return err
		}
		c.plane = *plane
		if err = c.plane.Start(); err == nil {
			return nil
		}
		log := c.planeLog()
		if attempt == attempts || !strings.Contains(log, "address already in use") {
			return fmt.Errorf("%w\n%s", err, log)
		}
	}
}

// newPlane returns a control plane that is not started, with empty data folders for this attempt.
func (c *Cluster) newPlane(programs map[Component]string, options Options, attempt int) (*envtest.ControlPlane, error) {
	etcd := &envtest.Etcd{
		DataDir:      c.folder.join(fmt.Sprintf("etcd-%d", attempt)),
		StartTimeout: startTimeout,
	}
	api := &envtest.APIServer{
		CertDir:      c.folder.join(fmt.Sprintf("apiserver-%d", attempt)),
		StartTimeout: startTimeout,
		StopTimeout:  startTimeout,
	}
	if err := errors.Join(os.Mkdir(etcd.DataDir, 0o700), os.Mkdir(api.CertDir, 0o700)); err != nil {
		return nil, err
	}
	etcd.Configure().Set("unsafe-no-fsync", "true") // the data does not outlive the process

	// TaintNodesByCondition taints new nodes as not ready, and only the node controller, which does not run here, removes the taint.
	// ServiceAccount, which envtest disables, needs accounts in every namespace, which kube-controller-manager creates.
	api.Configure().
		Append("disable-admission-plugins", "TaintNodesByCondition").
		Set("max-requests-inflight", "3000").
		Set("max-mutating-requests-inflight", "1500").
		Set("shutdown-watch-termination-grace-period", "1s") // otherwise StopAPIServer takes a minute
	if options.APIFeatureGates != "" {
		api.Configure().Set("feature-gates", options.APIFeatureGates)
	}
	if options.RuntimeConfig != "" {
		api.Configure().Set("runtime-config", options.RuntimeConfig)
	}
	for _, arg := range options.APIServerArgs {
		name, value, ok := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !ok || !strings.HasPrefix(arg, "--") {
			return nil, fmt.Errorf("kube-apiserver argument %q: want --name=value", arg)
		}
		api.Configure().Append(name, value)
	}

	var err error
	if etcd.Path, etcd.Out, err = c.program(programs[Etcd]); err != nil {
		return nil, err
	}
	if api.Path, api.Out, err = c.program(programs[APIServer]); err != nil {
		return nil, err
	}
	etcd.Err, api.Err = etcd.Out, api.Out
	return &envtest.ControlPlane{Etcd: etcd, APIServer: api, KubectlPath: c.kubectl}, nil
}

// program returns the link to the program at path (folder.program) and its log file, which Stop closes.
func (c *Cluster) program(path string) (link string, log io.Writer, err error) {
	if link, err = c.folder.program(path); err != nil {
		return "", nil, err
	}
	file, err := c.folder.logFile(path)
	if err != nil {
		return "", nil, err
	}
	c.logs = append(c.logs, file)
	return link, file, nil
}

// planeLog returns the end of the log of the last started program, which explains a failed start.
func (c *Cluster) planeLog() string {
	for _, name := range []Component{APIServer, Etcd} {
		content, err := os.ReadFile(c.folder.join("logs", string(name)+".log"))
		if err == nil && len(content) > 0 {
			return fmt.Sprintf("end of %s.log:\n%s", name, tail(content))
		}
	}
	return "no log"
}

// StopAPIServer stops only kube-apiserver. All other programs continue.
func (c *Cluster) StopAPIServer() error { return c.plane.APIServer.Stop() }

// StartAPIServer starts kube-apiserver again with the same address, data and users.
func (c *Cluster) StartAPIServer() error {
	if err := c.plane.APIServer.Start(); err != nil {
		return fmt.Errorf("%w\n%s", err, c.planeLog())
	}
	return nil
}

func loadConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit on this side
	return config, nil
}
