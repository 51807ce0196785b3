// Package controller calls the backends. It watches the objects that declare gangs, and the objects that backends write for them.
// source.go lists the kinds of objects, reconcile.go handles one object, start.go watches a kind once it is served. The package
// makes no decision about gangs or node assignments.
//
//	PodGang, LeaderWorkerSet, … --event--> Request --> Build --> Adapter.Sync --> objects of one scheduler
//	                                          ^                                        |
//	                                          '----------------event-------------------'
package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Options configure the controller.
type Options struct {
	Sources []Source
	Config  *backend.Config
	// Gates says that this controller gates pods until their gang is ready. It gates only pods of sources with OwnsPods.
	Gates bool
	// Prepare says that pods which the webhook missed are prepared later.
	Prepare bool
	// Workers is the number of objects handled at a time.
	Workers int
	// DiscoveryInterval is the interval at which unserved kinds are looked up again.
	DiscoveryInterval time.Duration
}

// Name is the program's name, in what it writes and in its Lease.
const Name = backend.FieldManager

// ManagerOptions returns o with the client and cache options that the controller needs: reads see its own writes, and pods are trimmed.
func ManagerOptions(o manager.Options) manager.Options {
	consistent := true
	o.Client.Cache = &client.CacheOptions{Unstructured: true, EnableReadYourWritesConsistency: &consistent}
	o.Cache.ByObject = map[client.Object]ctrlcache.ByObject{&corev1.Pod{}: {Transform: trimPod}}
	return o
}

// trimPod returns the object for the cache. Of a pod it keeps metadata, scheduler, node, scheduling gates and phase.
func trimPod(object any) (any, error) {
	if pod, ok := object.(*metav1.PartialObjectMetadata); ok {
		pod.ManagedFields = nil
		return pod, nil
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	meta := pod.ObjectMeta
	meta.ManagedFields = nil
	return &corev1.Pod{
		TypeMeta:   pod.TypeMeta,
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			SchedulerName: pod.Spec.SchedulerName, NodeName: pod.Spec.NodeName, SchedulingGates: pod.Spec.SchedulingGates,
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}, nil
}

// Controller is the part of the running controller that admission uses.
type Controller struct {
	// Registry holds the backends.
	Registry *backend.Registry
	// Cluster returns the cluster state that translation depends on.
	Cluster func(context.Context) (backend.Cluster, error)
	// Sources are the enabled sources.
	Sources []Source
	Gates   bool
	// Client reads from a cache, Live from the API server.
	Client, Live client.Reader
}

// Add adds the controller to m, whose options must be from ManagerOptions. It starts each source once the kind is served and may be
// read. The returned Controller is for admission. The error is an invalid configuration, or one of the manager.
func Add(m manager.Manager, o Options) (*Controller, error) {
	set, err := kubernetes.NewForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	teller := NewTeller(m.GetEventRecorder(Name))
	clusterState := newNetwork(m.GetClient(), set.Discovery(), o)
	tell := func(info *podgang.PodGangInfo, note podgang.Note) { teller.Write(info.Namespace, info.Owner, note) }
	indexed := &sync.Map{} // the kinds that the cache indexes by owner: the starter adds them, and backends read them with byOwner
	byOwner := func(kind schema.GroupVersionKind) bool {
		_, indexedKind := indexed.Load(kind)
		return indexedKind
	}
	registry, translators, err := Backends(o.Config,
		backend.Options{Client: m.GetClient(), Cluster: clusterState.current, Tell: tell, ByOwner: byOwner})
	if err != nil {
		return nil, err
	}
	s := &starter{
		manager: m, served: clusterState.serves, permitted: permitted(set.AuthorizationV1()),
		translators: translators, cluster: clusterState.current, interval: o.DiscoveryInterval, workers: o.Workers, indexed: indexed,
	}
	for _, source := range o.Sources {
		s.sources = append(s.sources, &sourceState{reconciler: &Reconciler{
			Source: source, Adapter: &backend.Adapter{Registry: registry, Tell: tell},
			Client: m.GetClient(), Live: m.GetAPIReader(), Teller: teller, Gates: o.Gates, Prepare: o.Prepare,
		}})
	}
	if err := m.Add(s); err != nil {
		return nil, err
	}
	return &Controller{
		Registry: registry, Cluster: clusterState.current, Sources: o.Sources, Gates: o.Gates, Client: m.GetClient(), Live: m.GetAPIReader(),
	}, nil
}

// Backends returns the registry of a configuration's backends, and their translators.
func Backends(config *backend.Config, o backend.Options) (*backend.Registry, []backend.Translator, error) {
	translators, err := config.Translators()
	if err != nil {
		return nil, nil, err
	}
	var all []backend.Backend
	for _, t := range translators {
		all = append(all, backend.New(t, o))
	}
	registry, err := backend.NewRegistry(all...)
	if err != nil {
		return nil, nil, err
	}
	if config.Default != "" {
		if err := registry.SetDefault(config.Default); err != nil {
			return nil, nil, fmt.Errorf("default: %w", err)
		}
	}
	return registry, translators, nil
}

// QuietConfig returns a copy of config with this rate limit, and Name as user agent. (The API server has its own flow control.)
func QuietConfig(config *rest.Config, qps float32, burst int) *rest.Config {
	out := rest.CopyConfig(config)
	out.QPS, out.Burst = qps, burst
	out.UserAgent = Name
	return out
}
