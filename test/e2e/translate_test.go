package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// translator is what the controller is called among the processes of a script.
const translator = "muster-controller"

// controllerBinary is $MUSTER_CONTROLLER_BIN, else it is built when it is first used.
func (h *harness) controllerBinary(ctx context.Context) (string, error) {
	if h.controllerProgram == "" {
		if path := os.Getenv("MUSTER_CONTROLLER_BIN"); path != "" {
			h.controllerProgram = path
			return path, nil
		}
		path := filepath.Join(h.home, "muster-controller")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "../../cmd/muster-controller").CombinedOutput(); err != nil {
			return "", fmt.Errorf("build muster-controller: %w\n%s", err, out)
		}
		h.controllerProgram = path
	}
	return h.controllerProgram, nil
}

// translate starts and ends the controller: muster-controller start|run|stop|kill [-kubeconfig FILE] FLAG...
func (s *script) translate(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return usage("muster-controller start|run|stop|kill [-kubeconfig FILE] FLAG...")
	}
	switch args[0] {
	case "start", "run":
		p, err := s.startTranslator(ctx, args[1:])
		if err != nil {
			return brokenError{err}
		}
		if args[0] == "run" {
			return s.outcome(p)
		}
		return nil
	case "stop", "kill":
		p, err := s.running(translator)
		if err != nil {
			return brokenError{err}
		}
		p.ending = true
		if args[0] == "kill" {
			p.kill()
		} else {
			p.stop()
		}
		return nil
	}
	return usage("muster-controller start|run|stop|kill [-kubeconfig FILE] FLAG...")
}

func (s *script) startTranslator(ctx context.Context, args []string) (*scheduler, error) {
	kubeconfig, args, err := option(args, "-kubeconfig")
	if err != nil {
		return nil, err
	}
	if kubeconfig = s.ts.MkAbs(kubeconfig); kubeconfig == s.ts.MkAbs("") {
		kubeconfig = s.cluster.kubeconfig
	}
	binary, err := s.controllerBinary(ctx)
	if err != nil {
		return nil, err
	}
	metrics, err := localcluster.FreePort()
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		if file, ok := strings.CutPrefix(arg, "--backend-config="); ok {
			args[i] = "--backend-config=" + s.ts.MkAbs(file)
		}
	}
	args = append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--v=2", "--health-probe-bind-address=0", "--discovery-interval=1s",
		"--metrics-secure=false", "--metrics-bind-address=" + at(metrics),
	}, args...)
	program := s.ts.MkAbs(fmt.Sprintf("%s-%s-%d", s.ts.Name(), translator, len(s.schedulers)))
	if err := os.Symlink(binary, program); err != nil {
		return nil, err
	}
	process, err := s.cluster.local.Launch(context.Background(), program, args...)
	if err != nil {
		return nil, err
	}
	p := &scheduler{
		name: translator, address: at(metrics), log: process.Log(), done: process.Done(),
		wait: process.Wait, stop: process.Stop, kill: process.Kill, group: process.Group(),
	}
	s.schedulers = append(s.schedulers, p)
	return p, nil
}

// waitIdle waits until the controller has read all objects that it knows of: wait-idle SOURCE...
func (s *script) waitIdle(ctx context.Context, args []string) error {
	p, err := s.running(translator)
	if err != nil {
		return err
	}
	return s.await(ctx, func() (string, bool, error) {
		metrics, err := scrape(ctx, p.address)
		if err != nil {
			return err.Error(), false, nil // it has to start yet
		}
		var seen []string
		idle := true
		for _, source := range args {
			depth, known := metrics[fmt.Sprintf(`workqueue_depth{controller=%q,name=%q`, source, source)]
			busy := metrics[fmt.Sprintf(`controller_runtime_active_workers{controller=%q`, source)]
			done := metrics[fmt.Sprintf(`controller_runtime_reconcile_total{controller=%q`, source)]
			idle = idle && known && depth == 0 && busy == 0 && done > 0
			seen = append(seen, fmt.Sprintf("%s: %v waiting, %v at work, %v done", source, depth, busy, done))
		}
		return strings.Join(seen, "; "), idle, nil
	})
}

// scrape reads metrics: sums of the series that begin with the name and the first labels of the key, such as a{b="c".
func scrape(ctx context.Context, address string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		number, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || strings.HasPrefix(line, "#") {
			continue
		}
		for i, c := range name { // every beginning that ends before a comma or the brace
			if c == ',' || c == '}' {
				out[name[:i]] += number
			}
		}
		out[name] += number
	}
	return out, nil
}

// writes says how much an account has written since the last time that it was asked: writes ACCOUNT N|-. Leases and
// events do not count.
func (s *script) writesBy(ctx context.Context, args []string) error {
	if s.cluster.audit == "" || len(args) != 2 {
		return usage("writes ACCOUNT N|-, after cluster new -audit")
	}
	var found []string
	read := func() error {
		all, err := written(s.cluster.audit, args[0])
		found = all[min(s.wrote, len(all)):]
		return err
	}
	if err := read(); err != nil {
		return err
	}
	s.wrote += len(found)
	s.ts.Logf("%d writes: %s", len(found), strings.Join(found, "; "))
	if args[1] != "-" && args[1] != strconv.Itoa(len(found)) {
		return fmt.Errorf("%d writes: %s", len(found), strings.Join(found, "\n"))
	}
	return nil
}

// written are the requests of an account that change something.
func written(log, account string) (all []string, err error) {
	return all, eachRequest(log, func(r request) {
		switch {
		case r.ImpersonatedUser.Username != account || slices.Contains([]string{"get", "list", "watch"}, r.Verb):
		case slices.Contains([]string{"leases", "events", "selfsubjectaccessreviews"}, r.ObjectRef.Resource):
		default:
			all = append(all, fmt.Sprintf("%s %s %s: %d", r.Verb, r.ObjectRef.Resource, r.ObjectRef.Name, r.ResponseStatus.Code))
		}
	})
}

// waitWritten waits until the objects of a resource equal the objects of a file: wait-written RESOURCE FILE. {rev} in
// the file is the revision of a LeaderWorkerSet, whatever that is.
func (s *script) waitWritten(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return usage("wait-written RESOURCE.VERSION.GROUP FILE")
	}
	resource, _ := schema.ParseResourceArg(args[0])
	if resource == nil {
		return usage("wait-written RESOURCE.VERSION.GROUP FILE")
	}
	want := s.ts.ReadFile(args[1])
	got := ""
	limit := patience
	if os.Getenv(rewriteEnv) != "" {
		limit = 8 * time.Second
	}
	err := s.awaitFor(ctx, limit, func() (string, bool, error) {
		list, err := s.cluster.dynamic.Resource(*resource).Namespace(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error(), false, nil
		}
		got = draw(list.Items)
		return fmt.Sprintf("%d objects", len(list.Items)), got == want, nil
	})
	if err != nil && os.Getenv(rewriteEnv) != "" {
		fmt.Fprintf(s.t.Output(), "-- %s --\n%s", args[1], got)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, diff.Diff(args[1], []byte(want), "is", []byte(got)))
	}
	return nil
}

// rewriteEnv has wait-written print what there is after a while, and go on.
const rewriteEnv = "E2E_REWRITE"

var aUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// draw writes objects as a few lines each.
func draw(objects []unstructured.Unstructured) string {
	slices.SortFunc(objects, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	var out strings.Builder
	for i := range objects {
		o := &objects[i]
		rev := o.GetLabels()["leaderworkerset.sigs.k8s.io/template-revision-hash"]
		var text strings.Builder
		fmt.Fprintf(&text, "%s\n", o.GetName())
		if owner := metav1.GetControllerOf(o); owner != nil {
			fmt.Fprintf(&text, "  owner %s/%s\n", owner.Kind, owner.Name)
		}
		for _, part := range []struct {
			word   string
			values map[string]string
		}{{"label", o.GetLabels()}, {"annotation", o.GetAnnotations()}} {
			keys := make([]string, 0, len(part.values))
			for key := range part.values {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			for _, key := range keys {
				value := part.values[key]
				if aUID.MatchString(value) {
					value = "{uid}"
				}
				fmt.Fprintf(&text, "  %s %s: %s\n", part.word, key, value)
			}
		}
		spec, _ := json.Marshal(o.Object["spec"]) // it came as JSON
		fmt.Fprintf(&text, "  spec %s\n", spec)
		drawn := text.String()
		if rev != "" {
			drawn = strings.ReplaceAll(drawn, rev, "{rev}")
		}
		out.WriteString(drawn)
	}
	return out.String()
}

// webhooksOf has the API server call the webhooks of a file at a port of this machine. The server of the webhooks writes
// its own certificate's authority: webhooks PORT FILE.
func (s *script) webhooksOf(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return usage("webhooks PORT FILE")
	}
	content, err := os.ReadFile(s.ts.MkAbs(args[1]))
	if err != nil {
		return err
	}
	path := regexp.MustCompile(`service: \{namespace: muster-system, name: muster-controller, path: (/[a-z-]+)\}`)
	moved := path.ReplaceAll(content, []byte(`url: "https://127.0.0.1:`+args[0]+`$1"`))
	file := s.ts.MkAbs("webhooks-here.yaml")
	if err := os.WriteFile(file, moved, 0o644); err != nil {
		return err
	}
	return s.kubectlCommand(ctx, []string{"apply", "--server-side", "-f", file})
}

// freePort sets a variable to a free port: free-port NAME.
func (s *script) freePort(_ context.Context, args []string) error {
	if len(args) != 1 {
		return usage("free-port NAME")
	}
	port, err := localcluster.FreePort()
	s.ts.Setenv(args[0], strconv.Itoa(port))
	return err
}
