package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// disabledControllers are the controllers that are not needed, or that would treat simulated nodes as broken. All others run.
var disabledControllers = []string{
	"node-lifecycle-controller", // taints nodes without a lease, as KWOK's nodes are
	"node-ipam-controller",
	"ttl-controller",                               // writes to every node what only kubelets read
	"persistentvolume-attach-detach-controller",    // waits for drivers that report for their nodes
	"certificatesigningrequest-signing-controller", // has no key to sign with
}

// startControllers starts kube-controller-manager. awaitControllers waits for its health.
func (c *Cluster) startControllers(program string, options Options) error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	c.controllersPort = port
	args := controllerArgs(c.kubeconfig, c.plane.APIServer.CertDir, port, options.APIFeatureGates)
	c.controllers, err = c.LaunchWith(context.Background(), nil, program, args...)
	return err
}

func controllerArgs(kubeconfig, certificates string, port int, gates string) []string {
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + filepath.Join(certificates, "apiserver.crt"), // the certificate names 127.0.0.1
		"--tls-private-key-file=" + filepath.Join(certificates, "apiserver.key"),
		"--service-account-private-key-file=" + filepath.Join(certificates, "sa-signer.key"),
		"--leader-elect=false",
		"--controllers=*,-" + strings.Join(disabledControllers, ",-"),
		// As fast as the API server: 20 requests a second are for shared clusters.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
	if gates != "" {
		args = append(args, "--feature-gates="+gates)
	}
	return args
}

// awaitControllers waits until kube-controller-manager is healthy. If another process took its port first, it starts it again.
func (c *Cluster) awaitControllers(ctx context.Context, program string, options Options) error {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		err := c.awaitHealth(ctx)
		if err == nil || attempt == attempts || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
		if err := c.startControllers(program, options); err != nil {
			return err
		}
	}
}

// awaitHealth waits until kube-controller-manager reports that it is healthy.
func (c *Cluster) awaitHealth(ctx context.Context) error {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return err
	}
	client.Timeout = time.Second // of one request
	defer client.CloseIdleConnections()
	url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(c.controllersPort)) + "/healthz"
	var last error
	err = wait.PollUntilContextTimeout(ctx, pollEvery, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-c.controllers.Done():
			return false, c.controllers.failure()
		default:
		}
		last = get(ctx, client, url)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", ControllerManager, errors.Join(err, last))
	}
	return nil
}

// get sends a request that must return OK.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}
