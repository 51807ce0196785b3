package demo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

const schedulerProgram = "muster-scheduler"

// findScheduler returns the path of muster-scheduler: beside this program, else on PATH.
func findScheduler() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(self); err == nil {
		self = resolved // kubectl-muster may be a link
	}
	if found, err := exec.LookPath(filepath.Join(filepath.Dir(self), schedulerProgram)); err == nil {
		return found, nil
	}
	if found, err := exec.LookPath(schedulerProgram); err == nil {
		return found, nil
	}
	return "", fmt.Errorf(`there is no %[1]s beside %[2]s or on PATH. In the repository, either of
  make build
  go build -o %[3]s ./cmd/%[1]s
builds it; --scheduler PATH names another place`, schedulerProgram, self, filepath.Join(filepath.Dir(self), schedulerProgram))
}

// Limits of the scheduler's start.
const (
	schedulerPorts = 3 // attempts
	schedulerStart = time.Minute
)

// startScheduler starts muster-scheduler with the profiles of drop-in.yaml on a free port, and waits until it is ready. If another
// process takes the port first, it retries with another port.
func startScheduler(ctx context.Context, c *localcluster.Cluster, program string) (*localcluster.Process, error) {
	config, err := fs.ReadFile(manifests.SchedulerConfigs, "scheduler-config/drop-in.yaml")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.Dir(), "drop-in.yaml")
	if err := os.WriteFile(path, connectTo(config, c.Kubeconfig()), 0o644); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		port, err := localcluster.FreePort()
		if err != nil {
			return nil, err
		}
		p, err := c.Launch(ctx, program, "--config="+path, "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port), "-v=2")
		if err != nil {
			return nil, err
		}
		err = waitForScheduler(ctx, p, port)
		if err == nil {
			return p, nil
		}
		p.Stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		log, _ := os.ReadFile(p.Log())
		if attempt == schedulerPorts || !strings.Contains(string(log), "address already in use") {
			return nil, fmt.Errorf("%s: %w\n%s", program, err, lastLines(log, 20))
		}
	}
}

// connectTo adds the kubeconfig to a scheduler's configuration: with --config the flag --kubeconfig has no effect.
func connectTo(config []byte, kubeconfig string) []byte {
	return fmt.Appendf(config, "clientConnection:\n  kubeconfig: %q\n", kubeconfig)
}

// waitForScheduler waits until the scheduler reports that it is ready.
func waitForScheduler(ctx context.Context, p *localcluster.Process, port int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, schedulerStart, fmt.Errorf("not ready after %s", schedulerStart))
	defer cancel()
	client := &http.Client{
		Timeout: 5 * time.Second,
		// The scheduler signs its own certificate, and the request holds no secret.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	url := fmt.Sprintf("https://127.0.0.1:%d/readyz", port)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if schedulerReady(ctx, client, url) {
			return nil
		}
		select {
		case <-p.Done():
			return errors.Join(errors.New("ended before it was ready"), p.Wait())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func schedulerReady(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
