package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/deploy/monitoring"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// recordEnv names a file into which "alerts" writes the series that the alerts read, as
// "promtool test rules" reads them: deploy/monitoring/testdata/demo.yaml is such a file.
const recordEnv = "E2E_RECORD"

// prometheus is a server of the script's own, which scrapes its scheduler every second.
type prometheus struct {
	address string
	began   time.Time
}

// startPrometheus has it know the alerts. A machine that does not have it skips the script.
func (s *script) startPrometheus(ctx context.Context, args []string) error {
	if !slices.Equal(args, []string{"start"}) {
		return usage("prometheus start")
	}
	program, err := exec.LookPath("prometheus")
	if err != nil {
		s.t.Skip("prometheus is not installed; Debian has it: apt-get install prometheus")
	}
	p, err := s.running(standard)
	if err != nil {
		return err
	}
	if err := s.writePrometheus(p.address); err != nil {
		return err
	}
	port, err := localcluster.FreePort()
	if err != nil {
		return err
	}
	s.prometheus = &prometheus{net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Now()}
	log, err := os.Create(s.ts.MkAbs("prometheus.log"))
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(program, "--config.file="+s.ts.MkAbs("prometheus.yaml"), "--storage.tsdb.path="+s.ts.MkAbs("prometheus-data"),
		"--web.listen-address="+s.prometheus.address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return s.waitSeries(ctx, []string{"muster_leading == 1"})
}

// writePrometheus writes its configuration: the scheduler's address, the administrator's
// certificate, and the rules without the object around them.
func (s *script) writePrometheus(address string) error {
	kubeconfig, err := clientcmd.BuildConfigFromFlags("", s.cluster.kubeconfig)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"prometheus.yaml": fmt.Appendf(nil, `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- job_name: muster-scheduler
  scheme: https
  static_configs: [{targets: [%q]}]
  tls_config: {insecure_skip_verify: true, cert_file: client.crt, key_file: client.key}
`, address),
	}
	if files["client.crt"], files["client.key"] = kubeconfig.CertData, kubeconfig.KeyData; len(kubeconfig.CertData) == 0 {
		if files["client.crt"], err = os.ReadFile(kubeconfig.CertFile); err != nil {
			return err
		}
		if files["client.key"], err = os.ReadFile(kubeconfig.KeyFile); err != nil {
			return err
		}
	}
	if files["rules.yaml"], err = monitoring.Rules(); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(s.ts.MkAbs(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// series is what Prometheus answers: labels, and values with their times.
type series struct {
	Metric map[string]string
	Values [][2]any
}

// ask asks for all values of an expression since the server was started.
func (p *prometheus) ask(ctx context.Context, expr string) (found []series, err error) {
	query := url.Values{
		"query": {expr}, "step": {"1"},
		"start": {strconv.FormatInt(p.began.Unix(), 10)}, "end": {strconv.FormatInt(time.Now().Unix(), 10)},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/v1/query_range?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []series }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, brokenError{fmt.Errorf("%s: %s", expr, answer.Error)}
	}
	return answer.Data.Result, nil
}

// waitSeries waits until an expression has had a value.
func (s *script) waitSeries(ctx context.Context, exprs []string) error {
	for _, expr := range exprs {
		if err := s.await(ctx, func() (string, bool, error) {
			found, err := s.prometheus.ask(ctx, expr)
			if _, broken := err.(brokenError); broken { //nolint:errorlint // it is not wrapped
				return "", false, err
			}
			return fmt.Sprintf("%s: %d series, %v", expr, len(found), err), len(found) > 0, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// dashboard has every query of the dashboard find something.
func (s *script) dashboard(ctx context.Context, _ []string) error {
	content, err := monitoring.Files.ReadFile("dashboard.json")
	if err != nil {
		return err
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(content, &board); err != nil {
		return err
	}
	variables := strings.NewReplacer("$__rate_interval", "10s", "$__range", "1m")
	asked := 0
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			if err := s.waitSeries(ctx, []string{variables.Replace(target.Expr)}); err != nil {
				return fmt.Errorf("panel %q: %w", panel.Title, err)
			}
			asked++
		}
	}
	s.ts.Logf("%d queries of %d panels", asked, len(board.Panels))
	if asked < 20 {
		return fmt.Errorf("the dashboard has only %d queries", asked)
	}
	return nil
}

// alerts compares which alerts have fired.
func (s *script) alerts(ctx context.Context, want []string) error {
	found, err := s.prometheus.ask(ctx, `count by (alertname) (ALERTS{alertstate="firing"})`)
	if err != nil {
		return err
	}
	var fired []string
	for _, f := range found {
		fired = append(fired, f.Metric["alertname"])
	}
	slices.Sort(fired)
	if !slices.Equal(fired, want) {
		return fmt.Errorf("alerts have fired: %v", fired)
	}
	if file := os.Getenv(recordEnv); file != "" {
		return s.record(ctx, file)
	}
	return nil
}

// record writes the series that the alerts read, a value a second.
func (s *script) record(ctx context.Context, file string) error {
	rules, err := monitoring.Rules()
	if err != nil {
		return err
	}
	names := regexp.MustCompile(`\bmuster_[a-z_]+`).FindAllString(string(rules), -1)
	slices.Sort(names)
	type input struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	var all []input
	for _, name := range slices.Compact(names) {
		found, err := s.prometheus.ask(ctx, name)
		if err != nil {
			return err
		}
		for _, f := range found {
			var labels, values []string
			for label, value := range f.Metric {
				if label != "__name__" && label != "instance" {
					labels = append(labels, fmt.Sprintf("%s=%q", label, value))
				}
			}
			slices.Sort(labels)
			for _, v := range f.Values {
				values = append(values, fmt.Sprint(v[1]))
			}
			all = append(all, input{name + "{" + strings.Join(labels, ",") + "}", strings.Join(values, " ")})
		}
	}
	content, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
