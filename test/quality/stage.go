package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// stage is the control plane with its nodes.
type stage struct {
	cluster *localcluster.Cluster
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

// patience is how long a contender may take for what comes at once: to start, and for the first pod. Beyond the
// trace's end it has so long for what is left.
const patience = time.Minute

// playAll plays the traces to all contenders, one contender after the other.
func playAll(ctx context.Context, o options, traces []Trace) (results []Result, err error) {
	s, err := newStage(ctx, traces[0].Cluster)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.cluster.Stop()) }()
	for _, t := range traces {
		for _, c := range contenders {
			if !slices.Contains(o.contenders, c.name) {
				continue
			}
			r, err := s.play(ctx, o, c, t)
			if err != nil {
				return results, fmt.Errorf("%s, %s, seed %d: %w", c.name, t.Kind, t.Seed, err)
			}
			results = append(results, *r)
		}
	}
	return results, nil
}

func newStage(ctx context.Context, c Cluster) (*stage, error) {
	cluster, err := localcluster.Start(ctx, localcluster.Options{
		Progress: os.Stderr, CRDs: manifests.CRDs,
		APIFeatureGates: topologyGates, RuntimeConfig: "scheduling.k8s.io/v1beta1=true",
	})
	if err != nil {
		return nil, err
	}
	s := &stage{cluster: cluster}
	if err := s.prepare(ctx, c); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return s, nil
}

func (s *stage) prepare(ctx context.Context, c Cluster) (err error) {
	config := s.cluster.Config()
	config.QPS = -1
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	topology, err := examples.FS.ReadFile("clusternetworktopology.yaml")
	if err != nil {
		return err
	}
	for i, name := range Priorities {
		topology = fmt.Appendf(topology, "\n---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %s}, value: %d}\n",
			name, 100*(i+1))
	}
	if err := s.cluster.Apply(ctx, bytes.NewReader(topology)); err != nil {
		return err
	}
	if err := localcluster.AwaitClasses(ctx, s.client); err != nil {
		return err
	}
	nodes := localcluster.Nodes(1, 1, len(c.Nodes()))
	for i, n := range c.Nodes() {
		nodes[i].Name = n.Name
		nodes[i].Labels[localcluster.BlockLabel], nodes[i].Labels[localcluster.SpineLabel] = n.Leaf, n.Spine
		nodes[i].Labels[v1.LabelHostname], nodes[i].Labels[typeLabel] = n.Name, n.Type
		nodes[i].Spec.Unschedulable = n.Broken
	}
	return s.cluster.AddNodes(ctx, nodes)
}

// play has one contender play the trace.
func (s *stage) play(ctx context.Context, o options, c contender, t Trace) (*Result, error) {
	program, crds, err := c.program(ctx, os.Stderr, o)
	if err != nil {
		return nil, err
	}
	process, metrics, err := s.launch(ctx, c, program, crds)
	if err != nil {
		return nil, err
	}
	defer process.Stop()
	if err := s.first(ctx, c); err != nil {
		return nil, fmt.Errorf("it does not bind a first pod: %w", err)
	}
	before, err := writes(ctx, metrics)
	if err != nil {
		return nil, err
	}
	p := &play{contender: c, trace: t, client: s.client, dynamic: s.dynamic}
	if err := p.perform(ctx, o.during+patience); err != nil {
		return nil, err
	}
	after, err := writes(ctx, metrics)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "%s has played %s, seed %d\n", c.name, t.Kind, t.Seed)
	if o.events != "" {
		if err := write(fileOf(o.events, t, c.name), seen{t.sum(), after - before, p.events}); err != nil {
			return nil, err
		}
	}
	return &Result{Contender: c.name, Trace: t.Kind, Seed: t.Seed, Columns: Judge(t, p.events), Requests: after - before}, s.clear(ctx, c)
}

// launch starts a contender with its own CRDs: two projects have some of the same names, and of another form.
func (s *stage) launch(ctx context.Context, c contender, program string, crds fs.FS) (*localcluster.Process, string, error) {
	if err := s.cluster.ApplyCRDs(ctx, crds); err != nil {
		return nil, "", err
	}
	file := filepath.Join(s.cluster.Dir(), c.name+".yaml")
	if err := os.WriteFile(file, []byte(c.configuration(s.cluster.Kubeconfig())), 0o600); err != nil {
		return nil, "", err
	}
	port, err := localcluster.FreePort()
	if err != nil {
		return nil, "", err
	}
	args := append([]string{
		"--config=" + file, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + filepath.Join(s.cluster.Dir(), c.name+"-certificates"), "--authorization-always-allow-paths=/healthz,/metrics",
	}, c.flags...)
	process, err := s.cluster.Launch(ctx, program, args...)
	return process, "https://127.0.0.1:" + strconv.Itoa(port) + "/metrics", err
}

// first waits until a pod of no gang was bound.
func (s *stage) first(ctx context.Context, c contender) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pods := s.client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "first"},
		Spec: v1.PodSpec{
			SchedulerName: c.profile, TerminationGracePeriodSeconds: new(int64), Containers: []v1.Container{{Name: "main", Image: "none"}},
		},
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return errors.Join(every(ctx, func() (bool, error) {
		p, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && p.Spec.NodeName != "", err
	}), s.clear(ctx, c))
}

// clear removes all pods and groups, and returns when they are gone.
func (s *stage) clear(ctx context.Context, c contender) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	pods := s.client.CoreV1().Pods(metav1.NamespaceDefault)
	if err := pods.DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		return err
	}
	if c.group != nil {
		if err := s.dynamic.Resource(c.groups).Namespace(metav1.NamespaceDefault).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
			return err
		}
	}
	return every(ctx, func() (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
}

// every looks until it sees what it wants.
func every(ctx context.Context, look func() (bool, error)) error {
	for {
		if ok, err := look(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// local trusts every certificate: it speaks only to programs that were started here.
var local = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// writes asks a scheduler how many requests that write it has made.
func writes(ctx context.Context, metrics string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metrics, nil)
	if err != nil {
		return 0, err
	}
	response, err := local.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("metrics of the scheduler: %s", response.Status)
	}
	return writesIn(response.Body)
}

var writing = regexp.MustCompile(`^rest_client_requests_total\{.*method="(POST|PUT|PATCH|DELETE)".*\} (\S+)$`)

// writesIn sums them, of the text of metrics.
func writesIn(text io.Reader) (all float64, err error) {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if found := writing.FindStringSubmatch(strings.TrimSpace(lines.Text())); found != nil {
			n, err := strconv.ParseFloat(found[2], 64)
			if err != nil {
				return 0, err
			}
			all += n
		}
	}
	return all, lines.Err()
}
