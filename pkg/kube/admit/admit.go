// Package admit answers the API server's questions: pods of gangs get what their scheduler knows the gang by, and
// objects that cannot be translated are refused while whoever writes them looks on. What is right and wrong say
// podgang and backend; here are only requests, answers, and the certificate by which the API server knows us.
package admit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Paths at which the webhooks are served.
const (
	PodsPath     = "/mutate-pods"
	ValidatePath = "/validate"
)

// Admission has what the answers depend on.
type Admission struct {
	Registry *backend.Registry
	// Cluster is how the network looks, for rules of layers.
	Cluster func(context.Context) (backend.Cluster, error)
	// Ask says of which gang a pod is where only an object knows to which it belongs; ok is false for all other pods. nil is
	// where there are none.
	Ask func(ctx context.Context, pod *unstructured.Unstructured) (key podgang.PodKey, ok bool, err error)
	// Kinds are those whose pods are prepared, Gated those whose pods are gated, too.
	Kinds, Gated []podgang.Kind
}

// Register has a server serve the webhooks.
func (a *Admission) Register(server webhook.Server) {
	server.Register(PodsPath, &webhook.Admission{Handler: admission.HandlerFunc(a.Pod)})
	server.Register(ValidatePath, &webhook.Admission{Handler: admission.HandlerFunc(a.Validate)})
}

// Pod prepares a pod that is created. It never refuses one: what the scheduler does not hear here it finds by the
// labels of the pod's own controller.
func (a *Admission) Pod(ctx context.Context, req admission.Request) admission.Response {
	pod := &unstructured.Unstructured{}
	if err := json.Unmarshal(req.Object.Raw, &pod.Object); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if pod.GetNamespace() == "" {
		pod.SetNamespace(req.Namespace)
	}
	before := pod.DeepCopy()
	key, ok, err := a.keyOf(ctx, pod)
	if err == nil && (!ok || !slices.Contains(a.Kinds, key.Kind)) {
		return admission.Allowed("")
	}
	if err == nil {
		err = a.prepare(ctx, pod, key)
	}
	if err != nil {
		log.FromContext(ctx).Info("a pod was not prepared", "pod", req.Namespace+"/"+pod.GetName(), "error", err.Error())
		return admission.Allowed("").WithWarnings(fmt.Sprintf("muster-controller: %v", err))
	}
	was, err := before.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	is, err := pod.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(was, is)
}

// keyOf is the gang and group of a pod.
func (a *Admission) keyOf(ctx context.Context, pod *unstructured.Unstructured) (key podgang.PodKey, ok bool, err error) {
	if a.Ask != nil {
		if key, ok, err = a.Ask(ctx, pod); ok || err != nil {
			return key, ok, err
		}
	}
	return podgang.KeyOf(pod)
}

func (a *Admission) prepare(ctx context.Context, pod *unstructured.Unstructured, key podgang.PodKey) error {
	scheduler, _, err := unstructured.NestedString(pod.Object, "spec", "schedulerName")
	if err != nil {
		return err
	}
	b, err := a.Registry.For(scheduler)
	if err != nil {
		return err
	}
	if scheduler != "" && b.Matches(scheduler) == backend.None {
		return nil // a default is no reason to take a pod from its scheduler
	}
	if node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName"); node != "" {
		return nil // no scheduler looks at it, and a gate would have it refused
	}
	if err := b.PreparePod(ctx, pod, key); err != nil {
		return err
	}
	if slices.Contains(a.Gated, key.Kind) && b.GetSchedulingGateName() != "" {
		backend.Gate(pod, b.GetSchedulingGateName())
	}
	return nil
}

// Validate says of an object whether it can be translated.
func (a *Admission) Validate(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation == admissionv1.Delete || req.SubResource != "" {
		return admission.Allowed("")
	}
	object, old := &unstructured.Unstructured{}, (*unstructured.Unstructured)(nil)
	if err := json.Unmarshal(req.Object.Raw, &object.Object); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if len(req.OldObject.Raw) > 0 {
		old = &unstructured.Unstructured{}
		if err := json.Unmarshal(req.OldObject.Raw, &old.Object); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
	}
	verdict, err := a.judge(ctx, object, old)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err) // failurePolicy says what that means
	}
	answer := admission.Allowed("")
	if err := verdict.Errors.ToAggregate(); err != nil {
		answer = admission.Denied(err.Error())
	}
	return answer.WithWarnings(verdict.Warnings...)
}

func (a *Admission) judge(ctx context.Context, object, old *unstructured.Unstructured) (podgang.Verdict, error) {
	kind := object.GroupVersionKind().GroupKind()
	switch kind.String() {
	case "LeaderWorkerSet.leaderworkerset.x-k8s.io":
		return podgang.ValidateLeaderWorkerSet(object, old), nil
	case "PodCliqueSet.grove.io":
		return a.podCliqueSet(object, old)
	case "PodGroup.scheduling.volcano.sh", "Job.batch.volcano.sh":
		return podgang.ValidateVolcano(object, old), nil
	case "PodGroup.scheduling.sigs.k8s.io", "PodGroup.scheduling.x-k8s.io":
		cluster, err := a.Cluster(ctx)
		return podgang.ValidatePodGroup(object, old, cluster.Topology), err
	}
	return podgang.Verdict{}, nil
}

// podCliqueSet asks the backends of all its pods. A scheduler that has none is nothing to refuse: its PodCliqueSets
// are not ours to translate.
func (a *Admission) podCliqueSet(object, old *unstructured.Unstructured) (all podgang.Verdict, err error) {
	asked := map[string]bool{}
	for _, name := range podgang.SchedulerNames(object) {
		b, err := a.Registry.For(name)
		if err != nil || asked[b.Name()] || name != "" && b.Matches(name) == backend.None {
			continue
		}
		asked[b.Name()] = true
		v := b.Validate(object, old)
		all.Warnings, all.Errors = append(all.Warnings, v.Warnings...), append(all.Errors, v.Errors...)
	}
	return all, nil
}
