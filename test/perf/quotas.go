package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	quotaLabel    = "quota.scheduling.koordinator.sh/name"
	quotasAParent = 20
)

var elasticQuotas = schema.GroupVersionResource{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Resource: "elasticquotas"}

// quotasServed is what Koordinator would install.
const quotasServed = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: elasticquotas.scheduling.sigs.k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, for a benchmark"}}
spec:
  group: scheduling.sigs.k8s.io
  scope: Namespaced
  names: {plural: elasticquotas, kind: ElasticQuota, singular: elasticquota, listKind: ElasticQuotaList}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

func quotaName(i int) string { return fmt.Sprintf("q%d", i) }

// elasticQuota is one of the tree: its part of all GPUs is guaranteed, and it may use all of them.
func elasticQuota(name, parent string, inner bool, least, most int) *unstructured.Unstructured {
	labels := map[string]any{"quota.scheduling.koordinator.sh/is-parent": fmt.Sprint(inner)}
	if parent != "" {
		labels["quota.scheduling.koordinator.sh/parent"] = parent
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": elasticQuotas.GroupVersion().String(), "kind": "ElasticQuota",
		"metadata": map[string]any{"namespace": metav1.NamespaceDefault, "name": name, "labels": labels},
		"spec":     map[string]any{"min": map[string]any{string(gpu): fmt.Sprint(least)}, "max": map[string]any{string(gpu): fmt.Sprint(most)}},
	}}
}

// serveQuotas has the API server know of quotas, for all contenders.
func (b *bench) serveQuotas(ctx context.Context) error {
	if err := b.cluster.Apply(ctx, strings.NewReader(quotasServed)); err != nil {
		return err
	}
	for {
		_, err := b.dynamic.Resource(elasticQuotas).List(ctx, metav1.ListOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// makeQuotas makes parents of twenty quotas each.
func (b *bench) makeQuotas(ctx context.Context) error {
	all, parents := b.nodes*gpusPerNode, (b.quotas+quotasAParent-1)/quotasAParent
	var tree []*unstructured.Unstructured
	for i := range parents {
		tree = append(tree, elasticQuota(fmt.Sprintf("parent-%d", i), "", true, all/parents, all))
	}
	for i := range b.quotas {
		tree = append(tree, elasticQuota(quotaName(i), fmt.Sprintf("parent-%d", i%parents), false, all/b.quotas, all))
	}
	return inParallel(ctx, len(tree), func(i int) error {
		_, err := b.dynamic.Resource(elasticQuotas).Namespace(metav1.NamespaceDefault).Create(ctx, tree[i], metav1.CreateOptions{})
		return err
	})
}

func (b *bench) dropQuotas(ctx context.Context) error {
	return b.dynamic.Resource(elasticQuotas).Namespace(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{})
}
