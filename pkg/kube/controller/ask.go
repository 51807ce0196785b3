package controller

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-scheduler/muster/pkg/podgang"
)

// askTime is the timeout of Ask, for which the creation of a pod waits. Pods that time out are prepared later.
const askTime = 2 * time.Second

// Ask returns the gang of a pod whose labels do not name it, but whose owner determines it. ok is false for other pods.
func (c *Controller) Ask(ctx context.Context, pod *unstructured.Unstructured) (key podgang.PodKey, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for i := range c.Sources {
		source := &c.Sources[i]
		if source.BuildAlone == nil || source.Pods(pod) == "" {
			continue
		}
		object, err := c.object(ctx, source, client.ObjectKey{Namespace: pod.GetNamespace(), Name: source.Pods(pod)})
		if object == nil {
			return key, false, err
		}
		infos, err := source.BuildAlone(object)
		if err != nil {
			return key, false, fmt.Errorf("nothing is written for the gang: %w", err)
		}
		key, ok = podgang.KeyAmong(infos, pod)
		return key, ok, nil
	}
	return key, false, nil
}

// object returns the object key of a source; nil if it does not exist. It reads the cache, then the API server: the cache may be behind.
func (c *Controller) object(ctx context.Context, source *Source, key client.ObjectKey) (*unstructured.Unstructured, error) {
	for _, reader := range []client.Reader{c.Client, c.Live} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(source.Object)
		switch err := reader.Get(ctx, key, object); {
		case err == nil:
			return object, nil
		case meta.IsNoMatchError(err):
			return nil, nil
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("%s %s: %w", source.Object.Kind, key, err)
		}
	}
	return nil, nil
}
