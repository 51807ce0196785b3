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

// starter starts a source once its kind is served, and watches further kinds once they are served.
type starter struct {
	manager   manager.Manager
	served    func(schema.GroupVersionKind) (bool, error) // from the discovery that cluster uses
	permitted func(context.Context, schema.GroupVersionResource) (bool, error)
	// The kinds that backends write depend on the cluster.
	translators []backend.Translator
	cluster     func(context.Context) (backend.Cluster, error)
	sources     []*sourceState
	interval    time.Duration
	workers     int
	logged      map[string]bool
	indexed     *sync.Map // the kinds with an index by owner
}

// sourceState is a source, and its watched kinds.
type sourceState struct {
	reconciler *Reconciler
	controller controller.TypedController[Request] // nil until its kind is served
	watched    map[schema.GroupVersionKind]bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader writes.
func (s *starter) NeedLeaderElection() bool { return true }

// Start starts sources and watches as their kinds are served, until ctx ends.
func (s *starter) Start(ctx context.Context) error {
	s.logged = map[string]bool{}
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		for _, r := range s.sources {
			if err := s.startServed(ctx, r); err != nil {
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

// startServed starts the controller of one source if its kind is served, and watches the further kinds that are served.
func (s *starter) startServed(ctx context.Context, r *sourceState) error {
	src := &r.reconciler.Source
	cluster, err := s.cluster(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot read the state of the cluster")
		return nil // the next tick retries
	}
	if err := s.index(ctx, cluster); err != nil {
		return err
	}
	if r.controller == nil {
		if !s.ready(ctx, src.Object, "source "+src.Name) {
			return nil
		}
		if err := s.start(r); err != nil {
			return err
		}
		log.FromContext(ctx).Info("source has started", "source", src.Name)
	}
	for _, t := range s.translators {
		for _, kind := range t.Kinds(cluster) {
			if err := s.watch(ctx, r, kind, "backend "+t.Name(), ownedBy(src.Object)); err != nil {
				return err
			}
		}
	}
	for _, kind := range src.Depends {
		if err := s.watch(ctx, r, kind, "source "+src.Name, r.allRequests); err != nil {
			return err
		}
	}
	return s.watch(ctx, r, topologies, "the network's layers", r.allRequests)
}

// index adds an index by owner to the cache, for each served kind that backends write. It runs before a source starts: each gang is
// looked up by its owner, and a namespace may have thousands.
func (s *starter) index(ctx context.Context, cluster backend.Cluster) error {
	for _, t := range s.translators {
		for _, kind := range t.Kinds(cluster) {
			if _, indexed := s.indexed.Load(kind); indexed || !s.ready(ctx, kind, "backend "+t.Name()) {
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

// start creates the controller of a source, with the watches that it needs.
func (s *starter) start(r *sourceState) error {
	src := &r.reconciler.Source
	skipNameValidation := true // names repeat in tests, which run several controllers in one process
	c, err := controller.NewTypedUnmanaged(src.Name, controller.TypedOptions[Request]{
		Reconciler:              r.reconciler,
		MaxConcurrentReconciles: s.workers,
		SkipNameValidation:      &skipNameValidation,
		Logger:                  s.manager.GetLogger(),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[Request](100*time.Millisecond, time.Minute),
		// A read blocks for a kind that may not be read.
		ReconciliationTimeout: time.Minute,
	})
	if err != nil {
		return err
	}
	r.controller, r.watched = c, map[schema.GroupVersionKind]bool{src.Object: true}
	if err := c.Watch(s.kind(object(src.Object), requestForObject)); err != nil {
		return err
	}
	if src.Pods != nil {
		pods := client.Object(metadataOf(corev1.SchemeGroupVersion.WithKind("Pod")))
		if src.ReadsPodSpecs || r.reconciler.Gates && src.OwnsPods {
			pods = &corev1.Pod{}
		}
		if err := c.Watch(s.kind(pods, r.requestByName(src.Pods), predicate.Funcs{UpdateFunc: gangChanged})); err != nil {
			return err
		}
	}
	for _, other := range src.Others {
		if err := c.Watch(s.kind(metadataOf(other.Object), r.requestByName(other.Of), predicate.LabelChangedPredicate{})); err != nil {
			return err
		}
	}
	return s.manager.Add(c)
}

// watch watches a kind for a source, unless it is watched already or not ready.
func (s *starter) watch(ctx context.Context, r *sourceState, kind schema.GroupVersionKind, what string, requests requestsFor) error {
	if r.watched[kind] || !s.ready(ctx, kind, what) {
		return nil
	}
	r.watched[kind] = true
	return r.controller.Watch(s.kind(object(kind), requests))
}

// ready says whether a kind is served and may be read. If not, it logs the reason; what names the user of the kind in the log.
func (s *starter) ready(ctx context.Context, kind schema.GroupVersionKind, what string) bool {
	logger := log.FromContext(ctx).WithValues("kind", kind.String(), "for", what)
	ok, err := s.served(kind)
	if err != nil {
		logger.Error(err, "Cannot find out whether the API server serves the kind")
		return false
	}
	if !ok {
		s.logOnce("unserved "+kind.String(), func() { logger.Info("The API server does not serve the kind yet") })
		return false
	}
	mapping, err := s.manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return !meta.IsNoMatchError(err) && s.logFailure(logger.Error, err)
	}
	if ok, err = s.permitted(ctx, mapping.Resource); err != nil {
		return s.logFailure(logger.Error, err)
	}
	if !ok {
		s.logOnce("forbidden "+kind.String(), func() {
			logger.Info("permission is missing: list and watch " + mapping.Resource.GroupResource().String() +
				"; apply its file of manifests/controller/components")
		})
	}
	return ok
}

// logFailure logs err with report, and returns false.
func (s *starter) logFailure(report func(error, string, ...any), err error) bool {
	report(err, "cannot ask the API server")
	return false
}

// logOnce calls report at the first call for key.
func (s *starter) logOnce(key string, report func()) {
	if !s.logged[key] {
		s.logged[key] = true
		report()
	}
}

// permitted returns a function that says whether this account may list and watch a resource.
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

// requestsFor returns the objects to reconcile after an event on an object.
type requestsFor func(context.Context, client.Object) []Request

// kind returns a source of events on the objects of one kind, as requests.
func (s *starter) kind(object client.Object, requests requestsFor, predicates ...predicate.Predicate) source.TypedSyncingSource[Request] {
	return source.TypedKind(s.manager.GetCache(), object,
		handler.TypedEnqueueRequestsFromMapFunc(handler.TypedMapFunc[client.Object, Request](requests)), predicates...)
}

// gangChanged says whether an update of a pod may change its gang. Status updates do not.
func gangChanged(e event.UpdateEvent) bool {
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

// requestForObject returns the request for an object of a source.
func requestForObject(_ context.Context, o client.Object) []Request {
	return []Request{{client.ObjectKeyFromObject(o), o.GetUID()}}
}

// ownedBy returns a function that returns the request for the owner, of this kind, of an object that Muster wrote; the owner may be gone.
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

// requestByName returns a function that returns the request for the source's object that an object names (name).
func (r *sourceState) requestByName(name func(client.Object) string) requestsFor {
	return func(ctx context.Context, o client.Object) []Request {
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: name(o)}
		if key.Name == "" {
			return nil
		}
		object := object(r.reconciler.Source.Object)
		if err := r.reconciler.Client.Get(ctx, key, object); err != nil {
			return nil // the event of the object follows
		}
		return []Request{{key, object.GetUID()}}
	}
}

// allRequests returns requests for all objects of the source.
func (r *sourceState) allRequests(ctx context.Context, _ client.Object) (all []Request) {
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
