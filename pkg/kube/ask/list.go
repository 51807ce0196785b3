package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// needed are the kinds that List must be able to read.
var needed = []string{"Node", "Pod", "Namespace"}

// List returns the objects of a live cluster that a scheduler reads. It sends one list request for each served kind, which the API
// server answers from its watch cache. A kind that may not be listed counts as empty, and the notes name it.
func List(ctx context.Context, config *rest.Config) (set *simulate.Set, notes []string, err error) {
	served, err := servedKinds(config)
	if err != nil {
		return nil, nil, err
	}
	set = &simulate.Set{}
	custom, err := connect.Custom(config)
	if err != nil {
		return nil, nil, err
	}
	seen := map[schema.GroupResource]bool{}
	for _, kind := range simulate.Kinds() {
		resource := kind.Resource
		for _, version := range kind.OtherVersions {
			if other := resource.GroupResource().WithVersion(version); !served[resource] && served[other] {
				resource = other
			}
		}
		if !served[resource] || seen[resource.GroupResource()] {
			continue
		}
		seen[resource.GroupResource()] = true
		take := func(o runtime.Object) error { return set.AddListed(kind, o, "the cluster") }
		if kind.Custom {
			var list *unstructured.UnstructuredList
			if list, err = custom.Resource(resource).List(ctx, fromMemory); err == nil {
				err = list.EachListItem(take)
			}
		} else {
			err = listTyped(ctx, config, kind, take)
		}
		switch {
		case err == nil:
		case apierrors.IsForbidden(err) && !slices.Contains(needed, kind.Kind):
			set.MarkUnlisted(resource.GroupResource().String())
			notes = append(notes, simulate.UnlistedNote(resource.GroupResource().String()))
		case apierrors.IsForbidden(err):
			return nil, nil, fmt.Errorf("%s must be readable in the whole cluster: %w", resource.Resource, err)
		default:
			return nil, nil, err
		}
	}
	return set, notes, nil
}

// fromMemory makes the API server answer a list request from its watch cache.
var fromMemory = metav1.ListOptions{ResourceVersion: "0"}

// servedKinds returns the resources that the API server serves.
func servedKinds(config *rest.Config) (map[schema.GroupVersionResource]bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	_, lists, err := client.ServerGroupsAndResources()
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return nil, fmt.Errorf("you have no permission to read what the API server serves: %w", err)
	}
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("the API server does not answer: %w", err)
	}
	served := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			served[version.WithResource(r.Name)] = true
		}
	}
	return served, nil
}

// listTyped lists the objects of a kind of Kubernetes' own API, as protobuf, and calls take for each.
func listTyped(ctx context.Context, config *rest.Config, kind simulate.Readable, take func(runtime.Object) error) error {
	own := rest.CopyConfig(config)
	version := kind.Resource.GroupVersion()
	own.GroupVersion, own.NegotiatedSerializer = &version, scheme.Codecs.WithoutConversion()
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	own.APIPath = "/apis"
	if version.Group == "" {
		own.APIPath = "/api"
	}
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return err
	}
	list, err := scheme.Scheme.New(version.WithKind(kind.Kind + "List"))
	if err != nil {
		return err
	}
	request := client.Get().Resource(kind.Resource.Resource).VersionedParams(&fromMemory, scheme.ParameterCodec)
	if err := request.Do(ctx).Into(list); err != nil {
		return err
	}
	return meta.EachListItem(list, take)
}
