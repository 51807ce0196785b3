// Package connect checks, before a scheduler starts, which resources the API server serves and permits, and returns the source of the
// cluster's objects. It decides nothing about gangs.
package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorization "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// need is a permission. verbs are separated by spaces.
type need struct{ group, resource, verbs string }

// needs are the permissions that the scheduler needs in addition to the integrations' permissions. Without one of these it would wait
// for its first list forever, or fail at the first pod.
var needs = []need{
	{"", "pods", "list watch delete"},
	{"", "pods/binding", "create"},
	{"", "pods/status", "patch"},
	{"", "nodes", "list watch"},
	{"", "namespaces", "list watch"},
	{"", "persistentvolumes", "list watch"},
	{"", "persistentvolumeclaims", "list watch"},
	{"", "services", "list watch"},
	{"", "replicationcontrollers", "list watch"},
	{"apps", "replicasets", "list watch"},
	{"apps", "statefulsets", "list watch"},
	{"policy", "poddisruptionbudgets", "list watch"},
	{"storage.k8s.io", "storageclasses", "list watch"},
	{"storage.k8s.io", "csinodes", "list watch"},
	{"storage.k8s.io", "csidrivers", "list watch"},
	{"storage.k8s.io", "csistoragecapacities", "list watch"},
	{"scheduling.koordinator.sh", "clusternetworktopologies", "list watch"},
	{"scheduling.koordinator.sh", "clusternetworktopologies/status", "patch"},
}

// permissionTimeout bounds the whole check.
const permissionTimeout = 15 * time.Second

// CheckPermissions checks all needs with the API server, and returns an error that names the missing ones. If the review itself
// is not permitted, it returns nil: the answer is unknown.
func CheckPermissions(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, permissionTimeout)
	defer cancel()
	var errs []error
	permissions := slices.Clone(needs)
	for _, p := range source.Permissions() {
		if !p.Optional {
			permissions = append(permissions, need{p.Group, p.Resource, p.Verbs})
		}
	}
	for _, n := range permissions {
		for verb := range strings.FieldsSeq(n.verbs) {
			ok, err := hasPermission(ctx, client, n.group, n.resource, verb)
			if err != nil {
				if apierrors.IsForbidden(err) {
					klog.FromContext(ctx).Error(err, "Cannot check the scheduler's own permissions (create selfsubjectaccessreviews)")
					return nil
				}
				return fmt.Errorf("asking the API server for the scheduler's permissions: %w", err)
			}
			if !ok {
				errs = append(errs, fmt.Errorf("permission is missing: %s %s (API group %q)", verb, n.resource, n.group))
			}
		}
	}
	if len(errs) > 0 {
		errs = append(errs, errors.New("apply manifests/rbac, or grant these to the scheduler's user"))
	}
	return errors.Join(errs...)
}

// CheckReading is CheckPermissions for a program that only reads gangs. If reviews are not permitted, it tries to list the objects.
func CheckReading(ctx context.Context, client kubernetes.Interface, custom dynamic.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, permissionTimeout)
	defer cancel()
	resources := []schema.GroupVersionResource{
		v1.SchemeGroupVersion.WithResource("pods"), v1.SchemeGroupVersion.WithResource("nodes"), v1.SchemeGroupVersion.WithResource("namespaces"),
		koordinator.ClusterNetworkTopologies,
	}
	for _, p := range source.Permissions() {
		if !p.Optional && strings.Contains(p.Verbs, "list") {
			resources = append(resources, schema.GroupVersionResource{Group: p.Group, Version: p.Version, Resource: p.Resource})
		}
	}
	var errs []error
	for _, r := range resources {
		for _, verb := range []string{"list", "watch"} {
			ok, err := hasPermission(ctx, client, r.Group, r.Resource, verb)
			if apierrors.IsForbidden(err) {
				ok, err = canList(ctx, custom, r)
			}
			if err != nil {
				return fmt.Errorf("asking the API server what may be read: %w", err)
			}
			if !ok {
				errs = append(errs, fmt.Errorf("permission is missing: %s %s (API group %q) in the whole cluster", verb, r.Resource, r.Group))
			}
		}
	}
	if len(errs) > 0 {
		errs = append(errs,
			errors.New("without them it is not known which gangs there are: grant these permissions, or use --as with a user that has them"))
	}
	return errors.Join(errs...)
}

// canList says whether objects may be listed, by listing one. Resources that are not served count as permitted.
func canList(ctx context.Context, custom dynamic.Interface, r schema.GroupVersionResource) (bool, error) {
	_, err := custom.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsForbidden(err):
		return false, nil
	case apierrors.IsNotFound(err):
		return true, nil
	}
	return true, err
}

// hasPermission says whether the client may use verb on a resource, which may be "RESOURCE/SUBRESOURCE".
func hasPermission(ctx context.Context, client kubernetes.Interface, group, resource, verb string) (bool, error) {
	resource, subresource, _ := strings.Cut(resource, "/")
	review := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorization.ResourceAttributes{Group: group, Resource: resource, Subresource: subresource, Verb: verb},
	}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}
