package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Request is one object of a source. One that is made again under its name is another: what was written for the first
// is found by its UID, also by a controller that has never seen it.
type Request struct {
	types.NamespacedName
	UID types.UID
}

// Reconciler has what is written for one object be what it should be: Build, For, Sync.
type Reconciler struct {
	Source  Source
	Adapter *backend.Adapter
	// Client reads from a cache; Live asks the API server, before something is deleted for good.
	Client client.Client
	Live   client.Reader
	Teller *Teller
	// Gates says that pods lose the gate of their backend when their gang is ready.
	Gates bool
	// Prepare says that pods are prepared which the webhook has missed.
	Prepare bool
	settled settled
}

// unready is how long a gang whose pods are gated waits to be looked at again. What it waits for is watched; this is
// for what is not.
const unready = 30 * time.Second

// young is for how long the API server may send an object to those who watch its kind without a field that its CRD has just
// been given, and more. They hear of it again when it changes, which may be never.
const young = 10 * time.Second

// Reconcile is called for what has changed, and at the start for all there is.
func (r *Reconciler) Reconcile(ctx context.Context, req Request) (reconcile.Result, error) {
	object, err := r.get(ctx, r.Client, req)
	again := r.looksAgain(object)
	if err == nil && (object == nil || again != 0) {
		// Its cache may be behind that of what was written for it, or miss a field.
		object, err = r.get(ctx, r.Live, req)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if object == nil {
		r.Teller.Forget(req.UID)
		r.settled.keep(req.UID, nil)
		return reconcile.Result{}, r.Adapter.Delete(ctx, req.Namespace, r.owner(req))
	}
	if object.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil // its pods run until it has gone
	}
	infos, err := r.Source.Build(ctx, r.Client, object)
	if err != nil {
		return reconcile.Result{}, r.failed(ctx, req, err)
	}
	// A gang of which nothing can be written is no reason for the pods of its siblings to wait.
	written, notWritten := r.Adapter.Sync(ctx, req.Namespace, r.owner(req), infos)
	soon, notPrepared := r.prepare(ctx, r.owner(req), written)
	later, notOpened := r.ungate(ctx, written)
	if err := errors.Join(notWritten, notPrepared, notOpened); err != nil {
		return reconcile.Result{}, r.failed(ctx, req, err)
	}
	return reconcile.Result{RequeueAfter: earliest(soon, later, again)}, nil
}

// looksAgain says when an object is to be looked at once more since what watchers see of it may lack a field; 0 is never, and
// negative that it was due a moment ago. As long as it is not 0 only the API server knows the object.
func (r *Reconciler) looksAgain(object *unstructured.Unstructured) time.Duration {
	if object == nil || !r.Source.Amended {
		return 0
	}
	age := time.Since(object.GetCreationTimestamp().Time)
	if age > 2*young {
		return 0
	}
	return cmp.Or(young-age, -1)
}

// earliest is the first time of some that is to come; 0 if none is.
func earliest(some ...time.Duration) (first time.Duration) {
	for _, d := range some {
		if d > 0 && (first == 0 || d < first) {
			first = d
		}
	}
	return first
}

// get is the object that is meant; nil if there is none, or another one of its name.
func (r *Reconciler) get(ctx context.Context, from client.Reader, req Request) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(r.Source.Object)
	if err := from.Get(ctx, req.NamespacedName, object); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if object.GetUID() != req.UID {
		return nil, nil
	}
	return object, nil
}

func (r *Reconciler) owner(req Request) podgang.Owner {
	version, kind := r.Source.Object.ToAPIVersionAndKind()
	return podgang.Owner{APIVersion: version, Kind: kind, Name: req.Name, UID: req.UID}
}

// failed tells of what people can cure, and leaves the rest to the log.
func (r *Reconciler) failed(ctx context.Context, req Request, err error) error {
	again := false
	for _, e := range flatten(err) {
		var says *podgang.Error
		if errors.As(e, &says) {
			r.Teller.Tell(req.Namespace, r.owner(req), podgang.Note{Reason: says.Reason, Message: says.Message})
		} else if refused(e) {
			r.Teller.Tell(req.Namespace, r.owner(req), podgang.Note{Reason: podgang.ReasonNotWritten, Message: e.Error()})
		}
		again = again || says == nil || says.Reason != podgang.ReasonNoBackend
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).V(1).Info("changed meanwhile", "object", req.String(), "error", err)
	}
	err = fmt.Errorf("%s %s: %w", r.Source.Object.Kind, req.NamespacedName, err)
	if !again {
		return reconcile.TerminalError(err) // only another object, or another configuration, changes that
	}
	return err
}

// refused says whether the API server would not have something, as it says no for the same reason until somebody cures it:
// a quota, a right, a webhook, a limit.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// flatten are the errors of which one is made.
func flatten(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}

// ungate lets pods go whose gang is ready. Only pods that this controller owns are touched, and only the backend's own
// gate. It asks to be called again after some time, 0 if it need not be.
func (r *Reconciler) ungate(ctx context.Context, infos []*podgang.PodGangInfo) (again time.Duration, err error) {
	if !r.Gates || !r.Source.OwnsPods {
		return 0, nil
	}
	var errs []error
	for _, info := range infos {
		after, err := r.ungateOne(ctx, info)
		errs = append(errs, err)
		if after > 0 && (again == 0 || after < again) {
			again = after
		}
	}
	return again, errors.Join(errs...)
}

// ungateOne is for one gang.
func (r *Reconciler) ungateOne(ctx context.Context, info *podgang.PodGangInfo) (again time.Duration, err error) {
	b, err := r.Adapter.Registry.For(info.SchedulerName)
	if err != nil {
		return 0, err
	}
	gated, err := r.gated(ctx, info, b.GetSchedulingGateName())
	if err != nil || len(gated) == 0 {
		return 0, err
	}
	if ready, _, err := b.CheckGangReady(ctx, info); err != nil || !ready {
		return unready, err
	}
	var errs []error
	for i := range gated {
		err := r.open(ctx, &gated[i], b.GetSchedulingGateName())
		if apierrors.IsConflict(err) {
			again = changedMeanwhile
			continue
		}
		errs = append(errs, err)
	}
	return again, errors.Join(errs...)
}

// gated are the pods of a gang that have a gate.
func (r *Reconciler) gated(ctx context.Context, info *podgang.PodGangInfo, gate string) (out []corev1.Pod, err error) {
	for _, group := range info.PodGroups {
		if len(group.Selector) == 0 {
			continue
		}
		var pods corev1.PodList
		if err := r.Client.List(ctx, &pods, client.InNamespace(info.Namespace), client.MatchingLabels(group.Selector)); err != nil {
			return nil, err
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; hasGate(pod, gate) && pod.DeletionTimestamp == nil {
				out = append(out, *pod)
			}
		}
	}
	return out, nil
}

func hasGate(pod *corev1.Pod, gate string) bool {
	for _, g := range pod.Spec.SchedulingGates {
		if g.Name == gate {
			return true
		}
	}
	return false
}

// open takes one gate from just this pod as it is: another one of its name has a gang of its own to wait for.
func (r *Reconciler) open(ctx context.Context, pod *corev1.Pod, gate string) error {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"schedulingGates":[{"$patch":"delete","name":%q}]}}`, pod.UID, pod.ResourceVersion, gate)
	who := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return client.IgnoreNotFound(r.Client.Patch(ctx, who, client.RawPatch(types.StrategicMergePatchType, []byte(patch)),
		client.FieldOwner(backend.FieldManager)))
}
