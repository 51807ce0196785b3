package connect

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// Cluster has objects come from the API server to which the scheduler is connected, by the
// scheduler's informers and a client of our own, after checking that its own gangs are off and
// that it may do what it must.
func Cluster(ctx context.Context, h fwk.Handle) (cache.Source, error) {
	if err := gangsOnce(utilfeature.DefaultFeatureGate); err != nil {
		return cache.Source{}, err
	}
	if err := CheckPermissions(ctx, h.ClientSet()); err != nil {
		return cache.Source{}, err
	}
	client, err := Custom(h.KubeConfig())
	if err != nil {
		return cache.Source{}, err
	}
	fill, err := WorkloadRefs(ctx, client, Served(h.ClientSet().Discovery()))
	if err != nil {
		return cache.Source{}, err
	}
	src, err := objects(ctx, h, client, fill)
	src.Served, src.Later = Readable(ctx, h.ClientSet()), true
	return src, err
}

// Given has custom resources come from a client, which serves those of Ours; the rest comes from
// the scheduler's informers. Nobody is asked for permissions.
func Given(client dynamic.Interface, others ...schema.GroupVersionResource) func(context.Context, fwk.Handle) (cache.Source, error) {
	return func(ctx context.Context, h fwk.Handle) (src cache.Source, err error) {
		src, err = objects(ctx, h, client, nil)
		src.Served = Ours(others...)
		return src, err
	}
}

// objects come from the scheduler's informers, custom ones from a client; fill is done with each pod
// before anybody sees it, nil is nothing.
func objects(ctx context.Context, h fwk.Handle, client dynamic.Interface, fill toolscache.TransformFunc) (src cache.Source, err error) {
	trimNodes(ctx, h.SharedInformerFactory())
	src = cache.Source{Core: h.SharedInformerFactory(), Dynamic: client}
	if err := FillPods(src.Core.Core().V1().Pods().Informer(), fill); err != nil {
		return src, err
	}
	src.Finished, err = Finished(h.ClientSet(), fill)
	return src, err
}
