package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// await looks until it sees what it wants, and tells what it saw last. It gives up when a scheduler has ended that the
// script did not stop.
func (s *script) await(ctx context.Context, look func() (seen string, ok bool, err error)) error {
	return s.awaitFor(ctx, patience, look)
}

func (s *script) awaitFor(ctx context.Context, limit time.Duration, look func() (seen string, ok bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began, last := time.Now(), ""
	err := poll(ctx, func() (bool, error) {
		seen, ok, err := look()
		if err != nil || ok {
			last = seen
			return ok, err
		}
		last = seen
		for _, p := range s.schedulers {
			select {
			case <-p.done:
				if !p.ending {
					return false, fmt.Errorf("%s has ended: %v", p.name, p.wait())
				}
			default:
			}
		}
		return false, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not within %v", limit)
	}
	if err != nil {
		return fmt.Errorf("%w; last seen: %s", err, last)
	}
	s.ts.Logf("%s (%.1fs)", last, time.Since(began).Seconds())
	return nil
}

func (s *script) pods() corev1.PodInterface {
	return s.cluster.client.CoreV1().Pods(metav1.NamespaceDefault)
}

// inNamespace takes the namespace off a name: NAME is in the default one, NAMESPACE/NAME
// in another.
func inNamespace(name string) (namespace, rest string) {
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		return namespace, rest
	}
	return metav1.NamespaceDefault, name
}

func (s *script) pod(ctx context.Context, name string) (*v1.Pod, error) {
	namespace, name := inNamespace(name)
	return s.cluster.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

// awaitPods waits for something that each of some pods must show. Each argument is a
// pod's name, and what is wanted of it after a "=" or as the next argument.
func (s *script) awaitPods(
	ctx context.Context, args []string, look func(pod *v1.Pod, want string) (seen string, ok bool, err error),
) error {
	return s.await(ctx, func() (string, bool, error) {
		all, seen := true, []string{}
		for _, arg := range args {
			name, want, _ := strings.Cut(arg, "=")
			pod, err := s.pod(ctx, name)
			if apierrors.IsNotFound(err) {
				pod, err = nil, nil
			}
			if err != nil {
				return "", false, err
			}
			saw, ok, err := look(pod, want)
			if err != nil {
				return "", false, fmt.Errorf("%s: %w", name, err)
			}
			all = all && ok
			seen = append(seen, name+": "+saw)
		}
		return strings.Join(seen, ", "), all, nil
	})
}

func (s *script) waitBound(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return usage("wait-bound POD=NODE|POD...")
	}
	return s.awaitPods(ctx, args, func(pod *v1.Pod, want string) (string, bool, error) {
		switch node := nodeOf(pod); {
		case node == "":
			return "not bound " + message(pod), false, nil
		case want != "" && node != want:
			return "", false, fmt.Errorf("bound to %s, not to %s", node, want) // for good
		default:
			return node, true, nil
		}
	})
}

func nodeOf(pod *v1.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.Spec.NodeName
}

func (s *script) waitNominated(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return usage("wait-nominated POD=[NODE]...")
	}
	return s.awaitPods(ctx, args, func(pod *v1.Pod, want string) (string, bool, error) {
		if pod == nil {
			return "does not exist", false, nil
		}
		node := pod.Status.NominatedNodeName
		return cmp.Or(node, "none"), node == want, nil
	})
}

func (s *script) waitMessage(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return usage("wait-message POD TEXT")
	}
	return s.awaitPods(ctx, args[:1], func(pod *v1.Pod, _ string) (string, bool, error) {
		return message(pod), strings.Contains(message(pod), args[1]), nil
	})
}

// message is the message of a pod's condition PodScheduled.
func message(pod *v1.Pod) string {
	if pod != nil {
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodScheduled {
				return c.Message
			}
		}
	}
	return ""
}

func (s *script) waitWaiting(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return usage("wait-waiting N SELECTOR TEXT")
	}
	return s.await(ctx, func() (string, bool, error) {
		list, err := s.pods().List(ctx, metav1.ListOptions{LabelSelector: args[1]})
		if err != nil {
			return "", false, err
		}
		seen, told, all := []string{}, false, strconv.Itoa(len(list.Items)) == args[0]
		for i := range list.Items {
			pod := &list.Items[i]
			seen = append(seen, fmt.Sprintf("%s on %q: %s", pod.Name, pod.Spec.NodeName, message(pod)))
			told = told || strings.Contains(message(pod), args[2])
			all = all && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil
		}
		return strings.Join(seen, "; "), told && all, nil
	})
}

func (s *script) waitEvicted(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return usage("wait-evicted POD...")
	}
	return s.awaitPods(ctx, args, func(pod *v1.Pod, _ string) (string, bool, error) {
		if pod == nil {
			return "", false, errors.New("is gone; hold it first")
		}
		asked, leaves := evicted(pod), pod.DeletionTimestamp != nil
		return fmt.Sprintf("DisruptionTarget %v, Terminating %v", asked, leaves), asked && leaves, nil
	})
}

func (s *script) waitGone(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return usage("wait-gone POD...")
	}
	return s.awaitPods(ctx, args, func(pod *v1.Pod, _ string) (string, bool, error) {
		if pod == nil {
			return "gone", true, nil
		}
		return "exists", false, nil
	})
}

// resources are the kinds of objects that have conditions.
var resources = map[string]schema.GroupVersionResource{
	"podgroup":   sigs.PodGroups,
	"podgroup.x": source.PodGroupsX,
	"topology":   koordinator.ClusterNetworkTopologies,
}

// object gets KIND/NAME.
func (s *script) object(ctx context.Context, what string) (*unstructured.Unstructured, error) {
	kind, name, _ := strings.Cut(what, "/")
	gvr, ok := resources[kind]
	if !ok || name == "" {
		return nil, usage("KIND/NAME: KIND is podgroup, podgroup.x or topology")
	}
	if gvr == koordinator.ClusterNetworkTopologies {
		return s.cluster.dynamic.Resource(gvr).Get(ctx, name, metav1.GetOptions{})
	}
	namespace, name := inNamespace(name)
	return s.cluster.dynamic.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (s *script) waitCondition(ctx context.Context, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return usage("wait-condition KIND/NAME TYPE=STATUS/REASON [TEXT]")
	}
	text := strings.Join(args[2:], "")
	return s.await(ctx, func() (string, bool, error) {
		object, err := s.object(ctx, args[0])
		if err != nil {
			return "", false, err
		}
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		if err != nil {
			return "", false, err
		}
		var seen []string
		for _, c := range conditions {
			c, _ := c.(map[string]any)
			what, message := fmt.Sprintf("%v=%v/%v", c["type"], c["status"], c["reason"]), fmt.Sprint(c["message"])
			seen = append(seen, what+" "+message)
			if what == args[1] && strings.Contains(message, text) {
				return what + " " + message, true, nil
			}
		}
		return strings.Join(seen, "; "), false, nil
	})
}

func (s *script) waitEvent(ctx context.Context, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return usage("wait-event KIND/NAME REASON [TEXT]")
	}
	kind, name, _ := strings.Cut(args[0], "/")
	kinds := map[string]string{
		"podgroup": "PodGroup", "podgroup.x": "PodGroup", "topology": "ClusterNetworkTopology", "elasticquota": "ElasticQuota",
		"pod": "Pod", "lease": "Lease", "podgang": "PodGang", "leaderworkerset": "LeaderWorkerSet", "podcliqueset": "PodCliqueSet",
		"jobset": "JobSet", "node": "Node",
	}
	text := strings.Join(args[2:], "")
	return s.await(ctx, func() (string, bool, error) {
		events, err := s.cluster.client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", false, err
		}
		var seen []string
		for _, e := range events.Items {
			if e.Regarding.Kind != kinds[kind] || e.Regarding.Name != name {
				continue
			}
			seen = append(seen, e.Reason+": "+e.Note)
			if e.Reason == args[1] && strings.Contains(e.Note, text) {
				return e.Reason + ": " + e.Note, true, nil
			}
		}
		return strings.Join(seen, "; "), false, nil
	})
}

// waitStatus compares the status of the ClusterNetworkTopology with a file as text, in
// the form that "kubectl get -o yaml" gives it.
func (s *script) waitStatus(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return usage("wait-status FILE")
	}
	want, err := os.ReadFile(s.ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	return s.await(ctx, func() (string, bool, error) {
		out, stderr, err := s.cluster.run(ctx, s.harness, ".", "get", "clusternetworktopology", "default", "-o", "yaml")
		if err != nil {
			return "", false, fmt.Errorf("%w: %s", err, stderr)
		}
		var object struct {
			Status map[string]any `json:"status"`
		}
		if err := yaml.Unmarshal([]byte(out), &object); err != nil {
			return "", false, err
		}
		delete(object.Status, "conditions")
		is, err := yaml.Marshal(object)
		if err != nil {
			return "", false, err
		}
		if unlike := diff.Diff("status", is, args[0], want); unlike != nil {
			return string(unlike), false, nil
		}
		return "the status is that of " + args[0], true, nil
	})
}

// waitDenied waits until the API server would not take a file: policies hold a little
// after they were applied.
func (s *script) waitDenied(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return usage("wait-denied FILE TEXT")
	}
	return s.await(ctx, func() (string, bool, error) {
		_, stderr, err := s.cluster.run(ctx, s.harness, s.ts.MkAbs("."), "apply", "--dry-run=server", "-f", args[0])
		if err == nil {
			return "it is taken", false, nil
		}
		return stderr, strings.Contains(stderr, args[1]), nil
	})
}

// waitWarned waits until the API server takes a file in a dry run and warns with the text.
func (s *script) waitWarned(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return usage("wait-warned FILE TEXT")
	}
	return s.await(ctx, func() (string, bool, error) {
		_, stderr, err := s.cluster.run(ctx, s.harness, s.ts.MkAbs("."), "apply", "--dry-run=server", "-f", args[0])
		return stderr, err == nil && strings.Contains(stderr, args[1]), nil
	})
}

// waitApplied applies a file as soon as the API server takes it.
func (s *script) waitApplied(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return usage("wait-applied FILE")
	}
	return s.await(ctx, func() (string, bool, error) {
		stdout, stderr, err := s.cluster.run(ctx, s.harness, s.ts.MkAbs("."), "apply", "-f", args[0])
		return stdout + stderr, err == nil, nil
	})
}

func (s *script) waitLog(ctx context.Context, args []string) error {
	name, args, err := option(args, "-as")
	if err != nil || len(args) != 1 {
		return usage("wait-log [-as NAME] TEXT")
	}
	p, err := s.running(cmp.Or(name, standard))
	if err != nil {
		return err
	}
	return s.awaitFor(ctx, mustSay, func() (string, bool, error) {
		found, err := p.saying(args[0])
		return strings.Join(found[:min(1, len(found))], ""), len(found) > 0, err
	})
}

func (s *script) waitMetric(ctx context.Context, args []string) error {
	name, args, err := option(args, "-as")
	if err != nil || len(args) != 1 {
		return usage("wait-metric [-as NAME] TEXT")
	}
	p, err := s.running(cmp.Or(name, standard))
	if err != nil {
		return err
	}
	return s.await(ctx, func() (string, bool, error) {
		body, err := s.cluster.ask(ctx, p, "/metrics")
		if err != nil {
			return err.Error(), false, nil // it may have to start yet
		}
		metric, _, _ := strings.Cut(args[0], "{")
		var seen []string
		for line := range strings.Lines(body) {
			if strings.Contains(line, args[0]) {
				return strings.TrimSpace(line), true, nil
			}
			if strings.HasPrefix(line, metric) {
				seen = append(seen, strings.TrimSpace(line))
			}
		}
		return strings.Join(seen, "; "), false, nil
	})
}

func ready(node *v1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

// describe writes down what the cluster looks like, for the reader of a failure.
func (s *script) describe() {
	ctx := context.Background()
	s.ts.Logf("\n== pods")
	if list, err := s.pods().List(ctx, metav1.ListOptions{}); err != nil {
		s.ts.Logf("%v", err)
	} else {
		for _, p := range list.Items {
			s.ts.Logf("%s group=%q node=%q nominated=%q leaving=%v evicted=%v gates=%v %s", p.Name, p.Labels[scheduling.LabelPodGroup],
				p.Spec.NodeName, p.Status.NominatedNodeName,
				p.DeletionTimestamp != nil, evicted(&p), len(p.Spec.SchedulingGates), message(&p))
		}
	}
	for name, gvr := range resources {
		list, err := s.cluster.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			s.ts.Logf("== %s: %v", name, err)
			continue
		}
		for _, u := range list.Items {
			conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
			s.ts.Logf("== %s %s: %s %v", name, u.GetName(), phase, conditions)
		}
	}
	if list, err := s.cluster.client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{}); err == nil {
		s.ts.Logf("== events")
		for _, e := range list.Items {
			s.ts.Logf("%s %s/%s: %s: %s", e.CreationTimestamp.Format(time.TimeOnly), e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note)
		}
	}
	for _, p := range s.schedulers {
		s.ts.Logf("== log of %s, its last lines\n%s", p.name, p.tail(40))
	}
}
