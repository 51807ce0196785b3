package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// scheduler is one process of the binary under test.
type scheduler struct {
	name    string
	address string // of its secure port
	log     string // path
	done    <-chan struct{}
	wait    func() error
	stop    func() // SIGTERM, and returns when it has ended
	kill    func() // SIGKILL, likewise
	ending  bool   // it has been told to end
	group   int    // of its process, where that is asked for

	config, kubeconfig string // paths of what it was started with; "" is none
}

// standard is what a scheduler is called that the script does not name.
const standard = "scheduler"

// mustSay is how long a scheduler that cannot work may take to say so, and to end if it
// ends for that.
const mustSay = 30 * time.Second

func (s *script) scheduler(ctx context.Context, args []string) error {
	text := "scheduler start|run|configure|stop|kill [-as NAME] [-config FILE] [-kubeconfig FILE] FLAG..."
	if len(args) == 0 {
		return usage(text)
	}
	verb := args[0]
	name, args, err := option(args[1:], "-as")
	if err != nil {
		return err
	}
	name = cmp.Or(name, standard)
	switch verb {
	case "start", "run":
		p, err := s.launch(name, args)
		if err != nil {
			return brokenError{err}
		}
		s.schedulers = append(s.schedulers, p)
		if verb == "run" {
			return s.outcome(p)
		}
		return nil
	case "configure":
		return s.configure(name, args)
	case "stop", "kill":
		p, err := s.running(name)
		if err != nil {
			return brokenError{err}
		}
		p.ending = true
		if verb == "kill" {
			p.kill()
		} else {
			p.stop()
		}
		return nil
	}
	return usage(text)
}

// outcome waits for the end of a scheduler; what it has said becomes stderr.
func (s *script) outcome(p *scheduler) error {
	p.ending = true
	select {
	case <-p.done:
	case <-time.After(mustSay):
		return brokenError{fmt.Errorf("the scheduler still runs after %v:\n%s", mustSay, p.tail(20))}
	}
	lines, err := p.said()
	if err != nil {
		return brokenError{err}
	}
	fmt.Fprintln(s.ts.Stderr(), strings.Join(lines, "\n"))
	return p.wait()
}

// running returns the scheduler of that name which was started last.
func (s *script) running(name string) (*scheduler, error) {
	for i := len(s.schedulers) - 1; i >= 0; i-- {
		if s.schedulers[i].name == name {
			return s.schedulers[i], nil
		}
	}
	return nil, fmt.Errorf("no scheduler %q was started", name)
}

// launch starts the binary. Flags that the script gives come last and win.
func (s *script) launch(name string, args []string) (*scheduler, error) {
	kubeconfig, args, err := option(args, "-kubeconfig")
	if err != nil {
		return nil, err
	}
	if kubeconfig == "" {
		kubeconfig = s.cluster.kubeconfig
	} else {
		kubeconfig = s.ts.MkAbs(kubeconfig)
	}
	config, args, err := option(args, "-config")
	if err != nil {
		return nil, err
	}
	connection := "--kubeconfig=" + kubeconfig
	if config != "" {
		if config, err = s.connected(config, kubeconfig); err != nil {
			return nil, err
		}
		connection = "--config=" + config
	}
	program := s.ts.MkAbs(fmt.Sprintf("%s-%s-%d", s.ts.Name(), name, len(s.schedulers)))
	p, err := s.harness.launch(s.cluster, program, kubeconfig, append([]string{connection}, args...))
	if err != nil {
		return nil, err
	}
	p.name, p.config, p.kubeconfig = name, config, kubeconfig
	return p, nil
}

// configure writes another configuration where a scheduler reads its own: scheduler configure FILE.
func (s *script) configure(name string, args []string) error {
	if len(args) != 1 {
		return usage("scheduler configure [-as NAME] FILE")
	}
	p, err := s.running(name)
	if err != nil {
		return brokenError{err}
	}
	content, err := s.connect(args[0], p.kubeconfig)
	if err != nil {
		return err
	}
	return os.WriteFile(p.config, content, 0o600)
}

// launch starts the binary under the name of a program, which is also what its log is
// called.
func (h *harness) launch(c *cluster, program, kubeconfig string, args []string) (*scheduler, error) {
	port, err := localcluster.FreePort()
	if err != nil {
		return nil, err
	}
	args = append([]string{
		"--leader-elect=false", "--v=2",
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
	}, args...)
	p := &scheduler{name: filepath.Base(program), address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if err := os.Symlink(h.scheduler, program); err != nil {
		return nil, err
	}
	if c.local == nil {
		return p, p.start(program, args)
	}
	process, err := c.local.Launch(context.Background(), program, args...)
	if err != nil {
		return nil, err
	}
	p.log, p.done, p.wait, p.stop, p.kill = process.Log(), process.Done(), process.Wait, process.Stop, process.Kill
	return p, nil
}

// start starts a program outside of a local cluster.
func (p *scheduler) start(program string, args []string) error {
	p.log = program + ".log"
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	var ended error
	go func() {
		ended = cmd.Wait()
		close(done)
	}()
	end := func(signal os.Signal) {
		_ = cmd.Process.Signal(signal) // it may have ended
		select {
		case <-done:
		case <-time.After(mustSay):
			_ = cmd.Process.Kill()
			<-done
		}
	}
	p.done, p.wait = done, func() error { <-done; return ended }
	p.stop, p.kill = func() { end(syscall.SIGTERM) }, func() { end(syscall.SIGKILL) }
	return nil
}

// connected returns a copy of a KubeSchedulerConfiguration that says where the API server is, which the flag
// --kubeconfig does not beside --config. In a cluster no user has to say it, so the configurations to be tested do not.
func (s *script) connected(config, kubeconfig string) (string, error) {
	content, err := s.connect(config, kubeconfig)
	if err != nil {
		return "", err
	}
	out := s.ts.MkAbs("connected-" + filepath.Base(config))
	return out, os.WriteFile(out, content, 0o600)
}

// connect is the configuration of a file with a kubeconfig.
func (s *script) connect(config, kubeconfig string) ([]byte, error) {
	content, err := os.ReadFile(s.ts.MkAbs(config))
	if err != nil {
		return nil, err
	}
	if bytes.Contains(content, []byte("clientConnection:")) {
		return nil, fmt.Errorf("%s has a clientConnection", config)
	}
	return fmt.Appendf(content, "\nclientConnection: {kubeconfig: %q}\n", kubeconfig), nil
}

func (s *script) get(ctx context.Context, args []string) error {
	name, args, err := option(args, "-as")
	if err != nil || len(args) != 1 {
		return usage("get [-as NAME] PATH")
	}
	p, err := s.running(cmp.Or(name, standard))
	if err != nil {
		return err
	}
	var body string
	err = s.await(ctx, func() (string, bool, error) {
		body, err = s.cluster.ask(ctx, p, args[0])
		return fmt.Sprintf("%s: %v", args[0], err), err == nil, nil
	})
	fmt.Fprintln(s.ts.Stdout(), body)
	return err
}

// ask sends a request to a scheduler's secure port, as the cluster's administrator.
func (c *cluster) ask(ctx context.Context, p *scheduler, path string) (string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return "", err
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return "", err
	}
	// Its certificate is its own.
	tlsConfig = &tls.Config{
		GetClientCertificate: tlsConfig.GetClientCertificate, Certificates: tlsConfig.Certificates, InsecureSkipVerify: true,
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}}
	scheme := "https://"
	if p.name == translator {
		scheme = "http://" // it knows no client certificates
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+p.address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

func (s *script) log(_ context.Context, args []string) error {
	name, args, err := option(args, "-as")
	if err != nil || len(args) != 1 {
		return usage("log [-as NAME] TEXT")
	}
	p, err := s.running(cmp.Or(name, standard))
	if err != nil {
		return brokenError{err}
	}
	found, err := p.saying(args[0])
	if err != nil {
		return brokenError{err}
	}
	if len(found) == 0 {
		return fmt.Errorf("not in the log of %s: %s", p.name, args[0])
	}
	s.ts.Logf("%s", found[0])
	return nil
}

// noise is what every scheduler says at length: its flags, what it has listed, and that
// a local control plane has no proxy in front of it.
var noise = []string{"] FLAG: --", `"Caches populated"`, `"Added node to NodeTree"`, "requestheader-client-ca-file"}

// said returns the lines of a scheduler's log without the noise.
func (p *scheduler) said() ([]string, error) {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return slices.DeleteFunc(lines, func(line string) bool {
		return slices.ContainsFunc(noise, func(n string) bool { return strings.Contains(line, n) })
	}), nil
}

// saying returns the lines that contain the text.
func (p *scheduler) saying(text string) ([]string, error) {
	lines, err := p.said()
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, text) }), err
}

// tail returns the last of them.
func (p *scheduler) tail(n int) string {
	lines, err := p.said()
	if err != nil {
		return err.Error()
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
