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

// topologies is the kind of ClusterNetworkTopologies; the one called default is used.
var topologies = schema.GroupVersionKind{Group: "scheduling.koordinator.sh", Version: "v1alpha1", Kind: "ClusterNetworkTopology"}

// native are the versions of scheduling.k8s.io that may have Workloads, newest first.
var native = []string{"v1beta1", "v1alpha2", "v1alpha1"}

// network reads the cluster state that translation depends on. It caches discovery for interval.
type network struct {
	reader    client.Reader
	discovery discovery.DiscoveryInterface
	nodeTier  int32

	interval time.Duration

	lock       sync.Mutex
	lastLookup time.Time
	kinds      map[schema.GroupVersionKind]bool // whether it is served
}

func newNetwork(reader client.Reader, d discovery.DiscoveryInterface, o Options) *network {
	return &network{reader: reader, discovery: d, nodeTier: o.Config.NodeTier, interval: o.DiscoveryInterval}
}

// current returns the current state of the cluster.
func (n *network) current(ctx context.Context) (backend.Cluster, error) {
	topology, err := n.topology(ctx)
	if err != nil {
		return backend.Cluster{}, err
	}
	version, err := n.nativeVersion()
	return backend.Cluster{Topology: topology, Native: version}, err
}

// topology returns the layers of ClusterNetworkTopology default. An invalid object is in the result's NotLegal, not an error.
func (n *network) topology(ctx context.Context) (podgang.Topology, error) {
	isServed, err := n.serves(topologies)
	if err != nil {
		return podgang.Topology{}, err
	}
	var object *unstructured.Unstructured
	if isServed {
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

// nativeVersion returns the newest served version of scheduling.k8s.io that has Workloads; "" for none.
func (n *network) nativeVersion() (string, error) {
	for _, version := range native {
		isServed, err := n.serves(schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: version, Kind: "Workload"})
		if err != nil {
			return "", err
		}
		if isServed {
			return version, nil
		}
	}
	return "", nil
}

// serves says whether the API server serves a kind, from the cache.
func (n *network) serves(kind schema.GroupVersionKind) (bool, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if now := time.Now(); now.Sub(n.lastLookup) >= n.interval {
		n.lastLookup, n.kinds = now, map[schema.GroupVersionKind]bool{}
	}
	isServed, known := n.kinds[kind]
	if known {
		return isServed, nil
	}
	isServed, err := served(n.discovery, kind)
	if err == nil {
		n.kinds[kind] = isServed
	}
	return isServed, err
}

// served says whether the API server serves a kind that can be listed. It sends a request.
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
