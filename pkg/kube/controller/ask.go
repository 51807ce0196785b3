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

// askTime is how long a pod that is created waits to be told its gang: a cache that may not be read never answers, and
// those that come too early are prepared afterwards.
const askTime = 2 * time.Second

// Ask says of which gang a pod is where its labels alone do not say it, but the object to which it belongs. ok is false for
// pods of no such object.
func (c *Controller) Ask(ctx context.Context, pod *unstructured.Unstructured) (key podgang.PodKey, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for i := range c.Sources {
		source := &c.Sources[i]
		if source.Asked == nil || source.Pods(pod) == "" {
			continue
		}
		object, err := c.object(ctx, source, client.ObjectKey{Namespace: pod.GetNamespace(), Name: source.Pods(pod)})
		if object == nil {
			return key, false, err
		}
		infos, err := source.Asked(object)
		if err != nil {
			return key, false, fmt.Errorf("nothing is written for the gang: %w", err)
		}
		key, ok = podgang.KeyAmong(infos, pod)
		return key, ok, nil
	}
	return key, false, nil
}

// object is the one of a source that is meant; nil if there is none. A cache may be behind.
func (c *Controller) object(ctx context.Context, of *Source, key client.ObjectKey) (*unstructured.Unstructured, error) {
	for _, from := range []client.Reader{c.Client, c.Live} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(of.Object)
		switch err := from.Get(ctx, key, object); {
		case err == nil:
			return object, nil
		case meta.IsNoMatchError(err):
			return nil, nil
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("%s %s: %w", of.Object.Kind, key, err)
		}
	}
	return nil, nil
}
