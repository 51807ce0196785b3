package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// bench is one control plane with its nodes, and the watchers of its pods.
type bench struct {
	cluster *localcluster.Cluster
	own     *ledger // what client and dynamic have written
	client  kubernetes.Interface
	binder  kubernetes.Interface // for what the bench does in a contender's place
	dynamic dynamic.Interface
	stock   string           // path of kube-scheduler
	muster  string           // path of muster-scheduler
	before  string           // path of another build of it
	foreign map[string]built // by contender
	quotas  int              // how many there are while a contender has some
	nodes   int
	spines  map[string]string // by node
	timeout time.Duration
	every   time.Duration // how often something changes in a churn
	vain    bool
	unlike  bool
	drains  int
}

// built is another project's program, and its CRDs.
type built struct {
	program string
	crds    fs.FS
}

// clients is how many requests the bench has under way when it makes things.
const clients = 32

// start brings up a control plane that serves what every contender needs.
func start(ctx context.Context, o options, count int) (*bench, error) {
	programs, err := localcluster.Binaries(ctx, os.Stderr, "", localcluster.Scheduler)
	if err != nil {
		return nil, err
	}
	foreign, err := buildForeign(ctx, o.contenders)
	if err != nil {
		return nil, err
	}
	cluster, err := localcluster.Start(ctx, localcluster.Options{
		Progress:        os.Stderr,
		APIFeatureGates: topologyGates,
		RuntimeConfig:   "scheduling.k8s.io/v1beta1=true",
		APIServerArgs:   []string{"--max-requests-inflight=0", "--max-mutating-requests-inflight=0", "--enable-priority-and-fairness=false"},
		CRDs:            manifests.CRDs,
	})
	if err != nil {
		return nil, err
	}
	b := &bench{
		cluster: cluster, stock: programs[localcluster.Scheduler], muster: o.muster, before: o.before, foreign: foreign, quotas: o.quotas,
		nodes: count,
		own:   newLedger(), spines: map[string]string{}, timeout: o.timeout, every: o.every, vain: o.vain, unlike: o.unlike,
	}
	if err := b.prepare(ctx, o); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return b, nil
}

// buildForeign builds the programs of other projects that take part.
func buildForeign(ctx context.Context, names []string) (map[string]built, error) {
	all := map[string]built{}
	for _, c := range contenders {
		if c.foreign == nil || !slices.Contains(names, c.name) {
			continue
		}
		program, crds, err := c.foreign.build(ctx, os.Stderr)
		if err != nil {
			return nil, err
		}
		all[c.name] = built{program, crds}
	}
	return all, nil
}

func (b *bench) prepare(ctx context.Context, o options) error {
	if err := b.connect(); err != nil {
		return err
	}
	topology, err := os.Open(filepath.Join(o.root, "docs/examples/clusternetworktopology.yaml"))
	if err != nil {
		return err
	}
	defer topology.Close()
	if err := b.cluster.Apply(ctx, topology); err != nil {
		return err
	}
	if b.quotas > 0 {
		if err := b.serveQuotas(ctx); err != nil {
			return err
		}
	}
	all := nodes(b.nodes)
	for _, n := range all {
		b.spines[n.Name] = n.Labels[localcluster.SpineLabel]
	}
	began := time.Now()
	if err := b.cluster.AddNodes(ctx, all); err != nil {
		return err
	}
	if err := b.offerDevices(ctx, o.shapes, all); err != nil {
		return err
	}
	progress("%d nodes in %d spines, %s", len(all), len(all)/nodesPerSpine, time.Since(began).Round(time.Second))
	// From here on the API server serves the contender alone: no heartbeats, no pods that
	// begin to run.
	return b.cluster.KWOK().Pause()
}

// connect makes clients that are not slowed down.
func (b *bench) connect() (err error) {
	config := b.cluster.Config()
	config.QPS, config.Burst = -1, 0
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	if b.binder, err = kubernetes.NewForConfig(protobuf); err != nil {
		return err
	}
	config.Wrap(b.own.wrap)
	protobuf.Wrap(b.own.wrap)
	if b.client, err = kubernetes.NewForConfig(protobuf); err != nil {
		return err
	}
	b.dynamic, err = dynamic.NewForConfig(config)
	return err
}

// inform watches pods as a scheduler does that decides nothing.
func (b *bench) inform(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(b.binder, 0)
	pods := factory.Core().V1().Pods().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		cancel()
		return nil, ctx.Err()
	}
	return func() { cancel(); factory.Shutdown() }, nil
}

// create makes the gangs' objects and then all pods.
func (b *bench) create(ctx context.Context, c contender, s Shape, gangs []string, pods []*v1.Pod) error {
	if c.group != nil {
		if err := inParallel(ctx, len(gangs), func(i int) error { return b.createGroup(ctx, c.group(gangs[i], s)) }); err != nil {
			return err
		}
	}
	return inParallel(ctx, len(pods), func(i int) error {
		p := pods[i]
		p.Spec.SchedulerName = c.profile
		if c.profile == "" {
			p.Spec.SchedulerName = "nobody"
		}
		if c.dress != nil {
			c.dress(p, i, s)
		}
		if c.quotas {
			p.Labels[quotaLabel] = quotaName(i / s.Pods % b.quotas)
		}
		made, err := b.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
		if err != nil || !s.Claims {
			return err
		}
		return b.createClaim(ctx, made, s)
	})
}

func (b *bench) createGroup(ctx context.Context, group runtime.Object) error {
	switch g := group.(type) {
	case *schedulingv1beta1.PodGroup:
		_, err := b.client.SchedulingV1beta1().PodGroups(g.Namespace).Create(ctx, g, metav1.CreateOptions{})
		return err
	case *unstructured.Unstructured:
		_, err := b.dynamic.Resource(sigsGroups).Namespace(g.GetNamespace()).Create(ctx, g, metav1.CreateOptions{})
		return err
	}
	return fmt.Errorf("cannot create a %T", group)
}

// clean removes what a drain made, and returns when the pods are gone.
func (b *bench) clean(ctx context.Context, c contender, s Shape, drain string) error {
	err := b.deletePods(ctx, perfLabel+"="+drain)
	if err == nil && s.Claims {
		err = b.deleteClaims(ctx, drain)
	}
	if err != nil || c.group == nil {
		return err
	}
	return b.dynamic.Resource(c.groups).Namespace(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// deletePods deletes the pods that a label selector selects.
func (b *bench) deletePods(ctx context.Context, selector string) error {
	list, err := b.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	return inParallel(ctx, len(list.Items), func(i int) error { return b.delete(ctx, list.Items[i].Name) })
}

// delete removes a pod at once. It may have gone already.
func (b *bench) delete(ctx context.Context, pod string) error {
	now := int64(0)
	err := b.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// inParallel does n things and returns the first error.
func inParallel(ctx context.Context, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first error
	var once sync.Once
	workqueue.ParallelizeUntil(ctx, clients, n, func(i int) {
		if err := do(i); err != nil {
			once.Do(func() { first = err; cancel() })
		}
	})
	if first != nil {
		return first
	}
	return ctx.Err()
}
