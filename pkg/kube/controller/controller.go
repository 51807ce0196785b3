// Package controller drives the backends: it watches the objects of which gangs are built, and what was written for
// them. Which objects those are is in source.go, how one is handled in reconcile.go, when one is first watched in
// start.go. It decides nothing about gangs, and nothing about places.
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

// Options are those of the controller.
type Options struct {
	Sources []Source
	Config  *backend.Config
	// Gates says that pods are gated until their gang is ready, where no other controller does that.
	Gates bool
	// Prepare says that pods are prepared which the webhook has missed.
	Prepare bool
	// Workers is how many objects are handled at a time.
	Workers int
	// Look is how often it looks whether a kind is served by now that was not.
	Look time.Duration
}

// Name is that of the program, in what it writes and in its Lease.
const Name = backend.FieldManager

// ManagerOptions completes those of a manager whose client and cache the controller can use: what it has written it
// reads, and of pods it keeps only what it needs.
func ManagerOptions(o manager.Options) manager.Options {
	consistent := true
	o.Client.Cache = &client.CacheOptions{Unstructured: true, EnableReadYourWritesConsistency: &consistent}
	o.Cache.ByObject = map[client.Object]ctrlcache.ByObject{&corev1.Pod{}: {Transform: trimPod}}
	return o
}

// trimPod keeps of a pod who it is, whose it is, and what holds it.
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

// Controller is what runs in a manager.
type Controller struct {
	// Registry has the backends, for admission.
	Registry *backend.Registry
	// Cluster is what they depend on.
	Cluster func(context.Context) (backend.Cluster, error)
	// Sources are those that are enabled.
	Sources []Source
	Gates   bool
	// Client reads from a cache, Live asks the API server.
	Client, Live client.Reader
}

// Add makes the controller and adds it to a manager of ManagerOptions.
func Add(m manager.Manager, o Options) (*Controller, error) {
	set, err := kubernetes.NewForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	teller := NewTeller(m.GetEventRecorder(Name))
	look := newNetwork(m.GetClient(), set.Discovery(), o)
	tell := func(info *podgang.PodGangInfo, note podgang.Note) { teller.Tell(info.Namespace, info.Owner, note) }
	indexed := &sync.Map{}
	byOwner := func(kind schema.GroupVersionKind) bool {
		_, is := indexed.Load(kind)
		return is
	}
	registry, translators, err := Backends(o.Config, backend.Options{Client: m.GetClient(), Cluster: look.now, Tell: tell, ByOwner: byOwner})
	if err != nil {
		return nil, err
	}
	s := &starter{
		manager: m, served: look.serves, permitted: permitted(set.AuthorizationV1()),
		translators: translators, cluster: look.now, every: o.Look, workers: o.Workers, indexed: indexed,
	}
	for _, source := range o.Sources {
		s.running = append(s.running, &running{reconciler: &Reconciler{
			Source: source, Adapter: &backend.Adapter{Registry: registry, Tell: tell},
			Client: m.GetClient(), Live: m.GetAPIReader(), Teller: teller, Gates: o.Gates, Prepare: o.Prepare,
		}})
	}
	if err := m.Add(s); err != nil {
		return nil, err
	}
	return &Controller{
		Registry: registry, Cluster: look.now, Sources: o.Sources, Gates: o.Gates, Client: m.GetClient(), Live: m.GetAPIReader(),
	}, nil
}

// Backends makes those of a configuration.
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

// QuietConfig has a client ask as often as it wants to: the API server says when that is too often.
func QuietConfig(config *rest.Config, qps float32, burst int) *rest.Config {
	out := rest.CopyConfig(config)
	out.QPS, out.Burst = qps, burst
	out.UserAgent = Name
	return out
}
