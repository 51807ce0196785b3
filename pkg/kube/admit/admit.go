// Package admit serves the admission webhooks. Pods of gangs get the labels and annotations by which their scheduler finds the gang.
// Invalid objects are rejected when they are written. Packages podgang and backend decide what is valid.
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

// Paths of the webhooks.
const (
	PodsPath     = "/mutate-pods"
	ValidatePath = "/validate"
)

// Admission has the handlers of the webhooks.
type Admission struct {
	Registry *backend.Registry
	// Cluster returns the network, for topology constraints.
	Cluster func(context.Context) (backend.Cluster, error)
	// Ask returns the gang of a pod whose labels do not name it (controller.Ask); ok is false for other pods. It may be nil.
	Ask func(ctx context.Context, pod *unstructured.Unstructured) (key podgang.PodKey, ok bool, err error)
	// Kinds are the kinds of gangs whose pods are prepared. Pods of the kinds in Gated are gated too.
	Kinds, Gated []podgang.Kind
}

// Register registers the webhooks with a server.
func (a *Admission) Register(server webhook.Server) {
	server.Register(PodsPath, &webhook.Admission{Handler: admission.HandlerFunc(a.Pod)})
	server.Register(ValidatePath, &webhook.Admission{Handler: admission.HandlerFunc(a.Validate)})
}

// Pod adds to a created pod what its scheduler needs to find its gang. If that fails, it admits the pod with a warning. It rejects only
// a request that cannot be decoded.
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
		log.FromContext(ctx).Info("The webhook cannot write the gang of a pod", "pod", req.Namespace+"/"+pod.GetName(), "error", err.Error())
		return admission.Allowed("").WithWarnings(fmt.Sprintf("muster-controller: %v", err))
	}
	original, err := before.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	patched, err := pod.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(original, patched)
}

// keyOf returns the gang and group of a pod.
func (a *Admission) keyOf(ctx context.Context, pod *unstructured.Unstructured) (key podgang.PodKey, ok bool, err error) {
	if a.Ask != nil {
		if key, ok, err = a.Ask(ctx, pod); ok || err != nil {
			return key, ok, err
		}
	}
	return podgang.KeyOf(pod)
}

// prepare changes a pod with the backend of its scheduler name, and adds the gate if its kind is in Gated.
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
		return nil // a default must not take a pod from its scheduler
	}
	if node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName"); node != "" {
		return nil // no scheduler reads it, and a gate would make it invalid
	}
	if err := b.PreparePod(ctx, pod, key); err != nil {
		return err
	}
	if slices.Contains(a.Gated, key.Kind) && b.GetSchedulingGateName() != "" {
		backend.Gate(pod, b.GetSchedulingGateName())
	}
	return nil
}

// Validate answers the request to write an object: it denies an object that cannot be translated.
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
	verdict, err := a.verdict(ctx, object, old)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err) // failurePolicy decides what that means
	}
	answer := admission.Allowed("")
	if err := verdict.Errors.ToAggregate(); err != nil {
		answer = admission.Denied(err.Error())
	}
	return answer.WithWarnings(verdict.Warnings...)
}

// verdict returns the errors and warnings on an object. old is its former version; nil at creation.
func (a *Admission) verdict(ctx context.Context, object, old *unstructured.Unstructured) (podgang.Verdict, error) {
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

// podCliqueSet returns the verdicts of the backends for the scheduler names of a PodCliqueSet. It accepts names without a backend.
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
