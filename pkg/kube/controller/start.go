package controller

import (
	"context"
	"maps"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-scheduler/muster/pkg/kube/backend"
)

// starter starts a source when the kind of its objects is served, and follows other kinds from when they are.
type starter struct {
	manager   manager.Manager
	served    func(schema.GroupVersionKind) (bool, error) // as cluster has it: what is followed is known to be there
	permitted func(context.Context, schema.GroupVersionResource) (bool, error)
	// What the backends write depends on what is served, now.
	translators []backend.Translator
	cluster     func(context.Context) (backend.Cluster, error)
	running     []*running
	every       time.Duration
	workers     int
	told        map[string]bool
	indexed     *sync.Map // the kinds that have an index by owner
}

// running is one source, and what of it is watched.
type running struct {
	reconciler *Reconciler
	controller controller.TypedController[Request] // nil until its kind is served
	watched    map[schema.GroupVersionKind]bool
}

// NeedLeaderElection: who does not lead writes nothing.
func (s *starter) NeedLeaderElection() bool { return true }

// Start looks until all that may be watched is.
func (s *starter) Start(ctx context.Context) error {
	s.told = map[string]bool{}
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		for _, r := range s.running {
			if err := s.look(ctx, r); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look starts what can be started of one source.
func (s *starter) look(ctx context.Context, r *running) error {
	of := &r.reconciler.Source
	cluster, err := s.cluster(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot say how the cluster is")
		return nil // at the next look
	}
	if err := s.index(ctx, cluster); err != nil {
		return err
	}
	if r.controller == nil {
		if !s.ready(ctx, of.Object, "source "+of.Name) {
			return nil
		}
		if err := s.start(r); err != nil {
			return err
		}
		log.FromContext(ctx).Info("source has started", "source", of.Name)
	}
	for _, t := range s.translators {
		for _, kind := range t.Kinds(cluster) {
			if err := s.watch(ctx, r, kind, "backend "+t.Name(), ownedBy(of.Object)); err != nil {
				return err
			}
		}
	}
	for _, kind := range of.Depends {
		if err := s.watch(ctx, r, kind, "source "+of.Name, r.everything); err != nil {
			return err
		}
	}
	return s.watch(ctx, r, topologies, "the network's layers", r.everything)
}

// index has what backends write be found by its owner, before a source starts if the kind is served by then: each gang is
// looked at by itself, and there may be thousands in a namespace.
func (s *starter) index(ctx context.Context, cluster backend.Cluster) error {
	for _, t := range s.translators {
		for _, kind := range t.Kinds(cluster) {
			if _, is := s.indexed.Load(kind); is || !s.ready(ctx, kind, "backend "+t.Name()) {
				continue
			}
			if err := s.manager.GetFieldIndexer().IndexField(ctx, object(kind), backend.IndexOwner, backend.OwnerUID); err != nil {
				return err
			}
			s.indexed.Store(kind, true)
		}
	}
	return nil
}

// start makes the controller of a source, with what it cannot do without.
func (s *starter) start(r *running) error {
	of := &r.reconciler.Source
	again := true // in one process, in tests
	c, err := controller.NewTypedUnmanaged(of.Name, controller.TypedOptions[Request]{
		Reconciler:              r.reconciler,
		MaxConcurrentReconciles: s.workers,
		SkipNameValidation:      &again,
		Logger:                  s.manager.GetLogger(),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[Request](100*time.Millisecond, time.Minute),
		// Reads wait for a kind that may not be read.
		ReconciliationTimeout: time.Minute,
	})
	if err != nil {
		return err
	}
	r.controller, r.watched = c, map[schema.GroupVersionKind]bool{of.Object: true}
	if err := c.Watch(s.kind(object(of.Object), itself)); err != nil {
		return err
	}
	if of.Pods != nil {
		pods := client.Object(metadataOf(corev1.SchemeGroupVersion.WithKind("Pod")))
		if of.Whole || r.reconciler.Gates && of.OwnsPods {
			pods = &corev1.Pod{}
		}
		if err := c.Watch(s.kind(pods, r.named(of.Pods), predicate.Funcs{UpdateFunc: moved})); err != nil {
			return err
		}
	}
	for _, other := range of.Others {
		if err := c.Watch(s.kind(metadataOf(other.Object), r.named(other.Of), predicate.LabelChangedPredicate{})); err != nil {
			return err
		}
	}
	return s.manager.Add(c)
}

// watch follows one more kind, if it is not followed yet and can be.
func (s *starter) watch(ctx context.Context, r *running, kind schema.GroupVersionKind, what string, requests requestsFor) error {
	if r.watched[kind] || !s.ready(ctx, kind, what) {
		return nil
	}
	r.watched[kind] = true
	return r.controller.Watch(s.kind(object(kind), requests))
}

// ready says whether a kind is served, and may be read. What is not permitted is said once.
func (s *starter) ready(ctx context.Context, kind schema.GroupVersionKind, what string) bool {
	logger := log.FromContext(ctx).WithValues("kind", kind.String(), "for", what)
	ok, err := s.served(kind)
	if err != nil {
		logger.Error(err, "cannot say whether it is served")
		return false
	}
	if !ok {
		s.once("unserved "+kind.String(), func() { logger.Info("is not served yet") })
		return false
	}
	mapping, err := s.manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return !meta.IsNoMatchError(err) && s.failed(logger.Error, err)
	}
	if ok, err = s.permitted(ctx, mapping.Resource); err != nil {
		return s.failed(logger.Error, err)
	}
	if !ok {
		s.once("forbidden "+kind.String(), func() {
			logger.Info("permission is missing: list and watch " + mapping.Resource.GroupResource().String() + "; apply its file of manifests/controller/components")
		})
	}
	return ok
}

func (s *starter) failed(say func(error, string, ...any), err error) bool {
	say(err, "cannot ask the API server")
	return false
}

func (s *starter) once(key string, say func()) {
	if !s.told[key] {
		s.told[key] = true
		say()
	}
}

// permitted asks whether this account may follow a resource.
func permitted(reviews authorization.AuthorizationV1Interface) func(context.Context, schema.GroupVersionResource) (bool, error) {
	return func(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
		for _, verb := range []string{"list", "watch"} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: resource.Group, Resource: resource.Resource},
			}}
			review, err := reviews.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil || !review.Status.Allowed {
				return false, err
			}
		}
		return true, nil
	}
}

// requestsFor says what is to be looked at after something has happened to an object.
type requestsFor func(context.Context, client.Object) []Request

func (s *starter) kind(of client.Object, requests requestsFor, which ...predicate.Predicate) source.TypedSyncingSource[Request] {
	return source.TypedKind(s.manager.GetCache(), of, handler.TypedEnqueueRequestsFromMapFunc(handler.TypedMapFunc[client.Object, Request](requests)), which...)
}

// moved says whether a change of a pod may change its gang: that it runs by now does not.
func moved(e event.UpdateEvent) bool {
	return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
		!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
}

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(kind)
	return m
}

func object(kind schema.GroupVersionKind) client.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// itself is for the objects of a source.
func itself(_ context.Context, o client.Object) []Request {
	return []Request{{client.ObjectKeyFromObject(o), o.GetUID()}}
}

// ownedBy is for what was written for objects of a kind: also for one that is gone, so that nobody must have seen it go.
func ownedBy(kind schema.GroupVersionKind) requestsFor {
	return func(_ context.Context, o client.Object) []Request {
		owner := metav1.GetControllerOf(o)
		if owner == nil || owner.Kind != kind.Kind || o.GetLabels()[labelManagedBy] != Name {
			return nil
		}
		if group, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || group.Group != kind.Group {
			return nil
		}
		return []Request{{types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}, owner.UID}}
	}
}

const labelManagedBy = "app.kubernetes.io/managed-by"

// named is for objects that name the one of which they are part.
func (r *running) named(name func(client.Object) string) requestsFor {
	return func(ctx context.Context, o client.Object) []Request {
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: name(o)}
		if key.Name == "" {
			return nil
		}
		whole := object(r.reconciler.Source.Object)
		if err := r.reconciler.Client.Get(ctx, key, whole); err != nil {
			return nil // its own event comes when it does
		}
		return []Request{{key, whole.GetUID()}}
	}
}

// everything is for what all gangs depend on.
func (r *running) everything(ctx context.Context, _ client.Object) (all []Request) {
	list := &unstructured.UnstructuredList{}
	kind := r.reconciler.Source.Object
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := r.reconciler.Client.List(ctx, list); err != nil {
		log.FromContext(ctx).Error(err, "cannot list", "kind", kind.String())
		return nil
	}
	for i := range list.Items {
		all = append(all, Request{client.ObjectKeyFromObject(&list.Items[i]), list.Items[i].GetUID()})
	}
	return all
}
