package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// fieldManager is the field manager of Apply's writes.
const fieldManager = "muster-localcluster"

// Apply creates or changes the objects of a YAML or JSON stream, in its order, by server-side apply. It also writes their status. After a
// CustomResourceDefinition it waits until objects of that kind can be applied. An object without a namespace gets "default".
func (c *Cluster) Apply(ctx context.Context, stream io.Reader) error {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return err
	}
	a := applier{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))}
	docs := yaml.NewYAMLOrJSONDecoder(stream, 4096)
	for i := 1; ; i++ {
		obj := &unstructured.Unstructured{}
		switch err := docs.Decode(&obj.Object); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("object %d: %w", i, err)
		case len(obj.Object) == 0:
			continue
		}
		if err := a.applyAll(ctx, obj); err != nil {
			return err
		}
	}
}

// applier applies objects; its mapper caches the kinds that the API server serves.
type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// applyAll applies an object or the items of a List.
func (a applier) applyAll(ctx context.Context, obj *unstructured.Unstructured) error {
	if obj.IsList() {
		return obj.EachListItem(func(item runtime.Object) error {
			return a.applyAll(ctx, item.(*unstructured.Unstructured))
		})
	}
	if err := a.apply(ctx, obj); err != nil {
		return fmt.Errorf("apply %s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

// apply creates or changes one object and its status. After a CRD it waits until that kind can be applied.
func (a applier) apply(ctx context.Context, obj *unstructured.Unstructured) error {
	mapping, err := a.mapping(obj)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := obj.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		resource = a.client.Resource(mapping.Resource).Namespace(namespace)
	}
	if obj.GetName() == "" { // server-side apply needs a name, and generateName has none yet
		_, err := resource.Create(ctx, obj, metav1.CreateOptions{FieldManager: fieldManager})
		return err
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := resource.Apply(ctx, obj.GetName(), obj, options); err != nil {
		return err
	}
	if crd := mapping.Resource.GroupResource().String(); crd == "customresourcedefinitions.apiextensions.k8s.io" {
		return a.established(ctx, resource, obj.GetName())
	}
	if _, ok := obj.Object["status"]; !ok {
		return nil
	}
	_, err = resource.ApplyStatus(ctx, obj.GetName(), obj, options)
	if apierrors.IsNotFound(err) {
		return nil // no status subresource: the first request has written it
	}
	return err
}

// mapping returns the resource of an object's kind. It refreshes the cache once for a kind that the cache lacks.
func (a applier) mapping(obj *unstructured.Unstructured) (*meta.RESTMapping, error) {
	kind := obj.GroupVersionKind()
	if kind.Kind == "" || kind.Version == "" {
		return nil, errors.New("apiVersion or kind is missing")
	}
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		a.mapper.Reset()
		mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	return mapping, err
}

// established waits until the kind that a CRD defines can be found and applied.
func (a applier) established(ctx context.Context, crds dynamic.ResourceInterface, name string) error {
	return wait.PollUntilContextTimeout(ctx, pollEvery, startTimeout, true, func(ctx context.Context) (bool, error) {
		obj, err := crds.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		var crd apiextensions.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &crd); err != nil {
			return false, err
		}
		established := false
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensions.NamesAccepted && c.Status == apiextensions.ConditionFalse {
				return false, fmt.Errorf("names not accepted: %s", c.Message)
			}
			established = established || c.Type == apiextensions.Established && c.Status == apiextensions.ConditionTrue
		}
		if !established {
			return false, nil
		}
		a.mapper.Reset()
		_, err = a.mapper.RESTMapping(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind})
		if meta.IsNoMatchError(err) {
			return false, nil // discovery lags behind
		}
		return err == nil, err
	})
}
