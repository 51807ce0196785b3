package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// topologies are ClusterNetworkTopologies, of which the one called default counts.
var topologies = schema.GroupVersionKind{Group: "scheduling.koordinator.sh", Version: "v1alpha1", Kind: "ClusterNetworkTopology"}

// native are the versions of scheduling.k8s.io that may have Workloads, the newest first.
var native = []string{"v1beta1", "v1alpha2", "v1alpha1"}

// network is what translation depends on beside the gang. What the API server serves is asked once in a while.
type network struct {
	reader    client.Reader
	discovery discovery.DiscoveryInterface
	nodeTier  int32

	every time.Duration

	lock  sync.Mutex
	since time.Time
	known map[schema.GroupVersionKind]bool // whether it is served
}

func newNetwork(reader client.Reader, d discovery.DiscoveryInterface, o Options) *network {
	return &network{reader: reader, discovery: d, nodeTier: o.Config.NodeTier, every: o.Look}
}

// now is how the cluster is.
func (n *network) now(ctx context.Context) (backend.Cluster, error) {
	topology, err := n.topology(ctx)
	if err != nil {
		return backend.Cluster{}, err
	}
	version, err := n.nativeVersion()
	return backend.Cluster{Topology: topology, Native: version}, err
}

func (n *network) topology(ctx context.Context) (podgang.Topology, error) {
	is, err := n.serves(topologies)
	if err != nil {
		return podgang.Topology{}, err
	}
	var object *unstructured.Unstructured
	if is {
		object = &unstructured.Unstructured{}
		object.SetGroupVersionKind(topologies)
		if err := n.reader.Get(ctx, client.ObjectKey{Name: "default"}, object); apierrors.IsNotFound(err) {
			object = nil
		} else if err != nil {
			return podgang.Topology{}, err
		}
	}
	topology, err := podgang.TopologyFrom(object)
	topology.NodeTier, topology.NotLegal = n.nodeTier, err
	return topology, nil
}

// nativeVersion is the version of scheduling.k8s.io in which the API server has Workloads; "" if there is none.
func (n *network) nativeVersion() (string, error) {
	for _, version := range native {
		is, err := n.serves(schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: version, Kind: "Workload"})
		if err != nil {
			return "", err
		}
		if is {
			return version, nil
		}
	}
	return "", nil
}

// serves says whether the API server has a kind.
func (n *network) serves(kind schema.GroupVersionKind) (bool, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if now := time.Now(); now.Sub(n.since) >= n.every {
		n.since, n.known = now, map[schema.GroupVersionKind]bool{}
	}
	is, known := n.known[kind]
	if known {
		return is, nil
	}
	is, err := served(n.discovery, kind)
	if err == nil {
		n.known[kind] = is
	}
	return is, err
}

// served asks the API server for one kind.
func served(d discovery.DiscoveryInterface, kind schema.GroupVersionKind) (bool, error) {
	list, err := d.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	for i := range list.APIResources {
		if list.APIResources[i].Kind == kind.Kind && slices.Contains(list.APIResources[i].Verbs, "list") {
			return true, nil
		}
	}
	return false, nil
}
