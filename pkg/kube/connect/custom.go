package connect

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
)

// Custom returns a client for custom resources, which protobuf does not support.
func Custom(config *rest.Config) (dynamic.Interface, error) {
	jsonConfig := *config
	jsonConfig.ContentType, jsonConfig.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return dynamic.NewForConfig(&jsonConfig)
}

// Served returns a function that says whether the API server serves a resource. Each call is a request.
func Served(d discovery.DiscoveryInterface) func(schema.GroupVersionResource) (bool, error) {
	return func(gvr schema.GroupVersionResource) (bool, error) {
		list, err := d.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
		if err != nil {
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				return false, nil
			}
			return false, err
		}
		for _, r := range list.APIResources {
			if r.Name == gvr.Resource {
				return true, nil
			}
		}
		return false, nil
	}
}

// Ours returns a function that returns true for the resources of Muster's own manifests and the ones in optional, without a request.
func Ours(optional ...schema.GroupVersionResource) func(schema.GroupVersionResource) (bool, error) {
	return func(r schema.GroupVersionResource) (bool, error) {
		return !isForeign(r) || slices.Contains(optional, r), nil
	}
}

// isForeign says whether a resource belongs to another project: clusters may lack it.
func isForeign(r schema.GroupVersionResource) bool { return convert.Beside(r) || source.Foreign(r) }

// unreadableEffect returns the effect of a resource that may not be read, and the remedy.
func unreadableEffect(r schema.GroupVersionResource) string {
	if r == convert.ElasticQuotas || r == convert.ElasticQuotasX {
		return "no quota of its objects is kept; apply manifests/rbac/clusterrole.yaml"
	}
	if r == convert.Devices {
		return "no node takes pods with devices of its objects; apply manifests/rbac/clusterrole.yaml"
	}
	return "what its objects declare for gangs has no effect; " + source.Permit(r)
}

// Readable returns a function that says whether the API server serves a resource. If it does and the client may not read the resource
// of another project, the error is a watch.ErrNoPermission.
func Readable(ctx context.Context, client kubernetes.Interface) func(schema.GroupVersionResource) (bool, error) {
	return withPermission(ctx, client, Served(client.Discovery()))
}

// withPermission returns isServed, extended with the check of Readable. It is an error, since declarations would be ignored.
func withPermission(
	ctx context.Context, client kubernetes.Interface, isServed func(schema.GroupVersionResource) (bool, error),
) func(schema.GroupVersionResource) (bool, error) {
	return func(r schema.GroupVersionResource) (bool, error) {
		ok, err := isServed(r)
		if !ok || err != nil || !isForeign(r) {
			return ok, err
		}
		for _, verb := range []string{"list", "watch"} {
			if ok, err := hasPermission(ctx, client, r.Group, r.Resource, verb); err == nil && !ok {
				return false, fmt.Errorf("%w: %s %s (API group %q): %s", watch.ErrNoPermission, verb, r.Resource, r.Group, unreadableEffect(r))
			}
		}
		return true, nil
	}
}
