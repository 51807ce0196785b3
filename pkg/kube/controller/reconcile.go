package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Request names one object of a source. By the UID of a deleted object, the objects written for it are found, also after a restart.
type Request struct {
	types.NamespacedName
	UID types.UID
}

// Reconciler updates the objects that backends write for one object of a source: Build, For, Sync.
type Reconciler struct {
	Source  Source
	Adapter *backend.Adapter
	// Client reads from a cache; Live reads from the API server, before a deletion.
	Client client.Client
	Live   client.Reader
	Teller *Events
	// Gates says that pods lose their backend's gate when their gang is ready.
	Gates bool
	// Prepare says that pods which the webhook missed are prepared.
	Prepare bool
	settled settledPods
}

// unreadyInterval is how soon a gang with gated pods is checked again, for changes that are not watched.
const unreadyInterval = 30 * time.Second

// staleWatchTime is how long, at most, an API server sends watchers objects without a field that was just added to the CRD. Unless the
// object changes again, watchers never see the field.
const staleWatchTime = 10 * time.Second

// Reconcile handles a changed object: it updates what backends wrote for it, prepares its pods, and removes gates.
func (r *Reconciler) Reconcile(ctx context.Context, req Request) (reconcile.Result, error) {
	object, err := r.get(ctx, r.Client, req)
	again := r.recheckDelay(object)
	if err == nil && (object == nil || again != 0) {
		// The cache may be behind the cache of the written objects, or lack a field.
		object, err = r.get(ctx, r.Live, req)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if object == nil {
		r.Teller.Forget(req.UID)
		r.settled.replace(req.UID, nil)
		return reconcile.Result{}, r.Adapter.Delete(ctx, req.Namespace, r.owner(req))
	}
	if object.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil // its pods run until it is gone
	}
	infos, err := r.Source.Build(ctx, r.Client, object)
	if err != nil {
		return reconcile.Result{}, r.reportFailure(ctx, req, err)
	}
	// Pods do not wait for siblings that cannot be written.
	written, notWritten := r.Adapter.Sync(ctx, req.Namespace, r.owner(req), infos)
	soon, notPrepared := r.prepare(ctx, r.owner(req), written)
	later, notOpened := r.ungate(ctx, written)
	if err := errors.Join(notWritten, notPrepared, notOpened); err != nil {
		return reconcile.Result{}, r.reportFailure(ctx, req, err)
	}
	return reconcile.Result{RequeueAfter: earliest(soon, later, again)}, nil
}

// recheckDelay returns after how long to read an object again that watchers may see without a field (see staleWatchTime). It is
// negative if that time has just passed, and 0 for other objects. Unless it is 0, only the API server's object is complete.
func (r *Reconciler) recheckDelay(object *unstructured.Unstructured) time.Duration {
	if object == nil || !r.Source.Amended {
		return 0
	}
	age := time.Since(object.GetCreationTimestamp().Time)
	if age > 2*staleWatchTime {
		return 0
	}
	return cmp.Or(staleWatchTime-age, -1)
}

// earliest returns the smallest positive duration; 0 if there is none.
func earliest(durations ...time.Duration) (first time.Duration) {
	for _, d := range durations {
		if d > 0 && (first == 0 || d < first) {
			first = d
		}
	}
	return first
}

// get returns the requested object; nil if it is gone or recreated.
func (r *Reconciler) get(ctx context.Context, reader client.Reader, req Request) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(r.Source.Object)
	if err := reader.Get(ctx, req.NamespacedName, object); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if object.GetUID() != req.UID {
		return nil, nil
	}
	return object, nil
}

// owner returns the object of a request as the owner of gangs.
func (r *Reconciler) owner(req Request) podgang.Owner {
	version, kind := r.Source.Object.ToAPIVersionAndKind()
	return podgang.Owner{APIVersion: version, Kind: kind, Name: req.Name, UID: req.UID}
}

// reportFailure writes events for the parts of err that users can fix, and returns the error for controller-runtime: terminal if a
// retry cannot help.
func (r *Reconciler) reportFailure(ctx context.Context, req Request, err error) error {
	retry := false
	for _, e := range flatten(err) {
		var problem *podgang.Error
		if errors.As(e, &problem) {
			r.Teller.Write(req.Namespace, r.owner(req), podgang.Note{Reason: problem.Reason, Message: problem.Message})
		} else if rejected(e) {
			r.Teller.Write(req.Namespace, r.owner(req), podgang.Note{Reason: reasons.NotWritten, Message: e.Error()})
		}
		retry = retry || problem == nil || problem.Reason != reasons.NoBackend
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).V(1).Info("changed meanwhile", "object", req.String(), "error", err)
	}
	err = fmt.Errorf("%s %s: %w", r.Source.Object.Kind, req.NamespacedName, err)
	if !retry {
		return reconcile.TerminalError(err) // retrying helps only after the object or the configuration has changed
	}
	return err
}

// rejected says whether the API server rejected a write that only a user's change makes valid: a quota, permission, webhook or limit.
func rejected(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// flatten returns the errors that err joins, recursively; err alone if it joins none.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}

// ungate removes the backend's gate from pods of ready gangs, if this controller gates them. again is when to call it again; 0 is never.
func (r *Reconciler) ungate(ctx context.Context, infos []*podgang.PodGangInfo) (again time.Duration, err error) {
	if !r.Gates || !r.Source.OwnsPods {
		return 0, nil
	}
	var errs []error
	for _, info := range infos {
		next, err := r.ungateOne(ctx, info)
		errs = append(errs, err)
		if next > 0 && (again == 0 || next < again) {
			again = next
		}
	}
	return again, errors.Join(errs...)
}

// ungateOne removes the backend's gate from the gang's pods if the gang is ready. again is as for ungate.
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
		return unreadyInterval, err
	}
	var errs []error
	for i := range gated {
		err := r.removeGate(ctx, &gated[i], b.GetSchedulingGateName())
		if apierrors.IsConflict(err) {
			again = changedMeanwhile
			continue
		}
		errs = append(errs, err)
	}
	return again, errors.Join(errs...)
}

// gated returns the pods of a gang that have a gate.
func (r *Reconciler) gated(ctx context.Context, info *podgang.PodGangInfo, gate string) (out []corev1.Pod, err error) {
	isGate := func(g corev1.PodSchedulingGate) bool { return g.Name == gate }
	for _, group := range info.PodGroups {
		if len(group.Selector) == 0 {
			continue
		}
		var pods corev1.PodList
		if err := r.Client.List(ctx, &pods, client.InNamespace(info.Namespace), client.MatchingLabels(group.Selector)); err != nil {
			return nil, err
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Spec.SchedulingGates, isGate) {
				out = append(out, *pod)
			}
		}
	}
	return out, nil
}

// removeGate removes a gate from the pod of this UID and version. A recreated pod of its name keeps its gate.
func (r *Reconciler) removeGate(ctx context.Context, pod *corev1.Pod, gate string) error {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"schedulingGates":[{"$patch":"delete","name":%q}]}}`, pod.UID,
		pod.ResourceVersion, gate)
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return client.IgnoreNotFound(r.Client.Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, []byte(patch)),
		client.FieldOwner(backend.FieldManager)))
}
