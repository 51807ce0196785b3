package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/manifests"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// existingEnv names a kubeconfig of a cluster that is there already.
const existingEnv = "E2E_KUBECONFIG"

// cluster is an API server and what is needed to talk to it.
type cluster struct {
	local      *localcluster.Cluster // nil for a cluster that was there before
	kubeconfig string
	audit      string // where the API server writes down what it is asked; "" is nowhere
	client     kubernetes.Interface
	dynamic    dynamic.Interface
}

// sharedCluster returns the cluster of a harness, which its scripts use one after the other.
func (h *harness) sharedCluster(t *testing.T, args []string) *cluster {
	if kubeconfig := os.Getenv(existingEnv); kubeconfig != "" {
		c, err := openCluster(absolute(t, kubeconfig))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(c.clear(context.Background()), c.unclaim()); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	c, err := newCluster(t, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.local.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// kubectlBinary builds kubectl if need be.
func kubectlBinary(t *testing.T) string {
	programs, err := localcluster.Binaries(t.Context(), t.Output(), "", localcluster.Kubectl)
	if err != nil {
		t.Fatal(err)
	}
	return programs[localcluster.Kubectl]
}

// versionEnv names the Kubernetes version of control planes; without it that is the newest.
const versionEnv = "E2E_KUBERNETES_VERSION"

// newCluster starts a control plane without CRDs. Its pods leave at once: scripts say
// which ones must not ("hold"). Most scripts want no controllers: they make pods and the
// status of budgets themselves. With "-controllers" they have them, with "-gangs" the API server has
// Kubernetes' own PodGroups, or Workloads if it is of 1.35.
func newCluster(t *testing.T, args []string) (*cluster, error) {
	options := localcluster.Options{
		Progress: t.Output(), Kubernetes: os.Getenv(versionEnv), Controllers: slices.Contains(args, "-controllers"),
	}
	if slices.Contains(args, "-gangs") {
		options.APIFeatureGates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true," +
			"DRAWorkloadResourceClaims=true"
		options.RuntimeConfig = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
		if old, err := condition("kubernetes:1.35"); old {
			options.APIFeatureGates, options.RuntimeConfig = "GenericWorkload=true,GangScheduling=true", "scheduling.k8s.io/v1alpha1=true"
		} else if err != nil {
			return nil, err
		}
	}
	emulated, _, err := option(args, "-emulates")
	if err != nil {
		return nil, err
	}
	if emulated != "" {
		options.APIServerArgs = append(options.APIServerArgs, "--emulated-version="+emulated)
	}
	audit := ""
	if slices.Contains(args, "-audit") {
		var flags []string
		if audit, flags, err = auditLog(t.TempDir()); err != nil {
			return nil, err
		}
		options.APIServerArgs = append(options.APIServerArgs, flags...)
	}
	local, err := localcluster.Start(t.Context(), options)
	if err != nil {
		return nil, err
	}
	c, err := openCluster(local.Kubeconfig())
	if err != nil {
		return nil, errors.Join(err, local.Stop())
	}
	c.local, c.audit = local, audit
	return c, nil
}

func openCluster(kubeconfig string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	c := &cluster{kubeconfig: kubeconfig}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	c.dynamic, err = dynamic.NewForConfig(config)
	return c, err
}

// claimName is a ConfigMap by which a later run sees that it may clear the cluster.
const claimName = "muster-e2e"

// claim refuses a cluster that holds what is not ours.
func (c *cluster) claim(ctx context.Context) error {
	maps := c.client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if _, err := maps.Get(ctx, claimName, metav1.GetOptions{}); err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	found, err := c.leftovers(ctx)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("these tests clear namespace default and fake nodes, and the cluster of %s has %s: use one that has none",
			existingEnv, strings.Join(found, ", "))
	}
	_, err = maps.Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: claimName}}, metav1.CreateOptions{})
	return err
}

func (c *cluster) unclaim() error {
	return c.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Delete(context.Background(), claimName, metav1.DeleteOptions{})
}

// A kind of objects that a script may leave behind.
type kind struct {
	resource  schema.GroupVersionResource
	namespace string
	keep      func(*unstructured.Unstructured) bool // what is not the scripts'; nil means nothing
}

const (
	ownNamespace   = "muster-system"
	otherNamespace = "muster-e2e" // for gangs that are not all in one
)

// kinds are in the order in which they are deleted.
var kinds = []kind{
	{
		schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
		"", isNotOurs,
	},
	{
		schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
		"",
		isNotOurs,
	},
	{v1.SchemeGroupVersion.WithResource("pods"), metav1.NamespaceDefault, nil},
	{v1.SchemeGroupVersion.WithResource("pods"), otherNamespace, nil},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, ownNamespace, nil},
	{v1.SchemeGroupVersion.WithResource("configmaps"), ownNamespace, isNotOurs},
	{schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}, metav1.NamespaceDefault, nil},
	{schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}, ownNamespace, nil},
	{sigs.PodGroups, metav1.NamespaceDefault, nil},
	{sigs.PodGroups, otherNamespace, nil},
	{source.PodGroupsX, metav1.NamespaceDefault, nil},
	{koordinator.ClusterNetworkTopologies, "", nil},
	{v1.SchemeGroupVersion.WithResource("nodes"), "", func(u *unstructured.Unstructured) bool {
		return u.GetAnnotations()["kwok.x-k8s.io/node"] != "fake"
	}},
	{schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}, "", isSystems},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, "", isNotOurs},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "", isNotOurs},
	{schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, ownNamespace, nil},
	{schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, metav1.NamespaceSystem, isNotOurs},
	{schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}, metav1.NamespaceDefault, nil},
}

// ownKinds are deleted before the others on control planes that tests have started: an existing cluster may need its own.
var ownKinds = []kind{
	{crdResource, "", func(u *unstructured.Unstructured) bool { return oursCRDs()[u.GetName()] }},
	{schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}, metav1.NamespaceDefault, nil},
	{schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaimtemplates"}, metav1.NamespaceDefault, nil},
	{schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"}, "", nil},
	{schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"}, "", nil},
}

// oursCRDs are the names of Muster's CRDs, which stay. The file of a CRD is named GROUP_RESOURCE.yaml.
func oursCRDs() map[string]bool {
	files, _ := fs.Glob(manifests.CRDs, "crd/*.yaml")
	ours := map[string]bool{}
	for _, file := range files {
		group, resource, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "_")
		ours[resource+"."+group] = true
	}
	return ours
}

func isSystems(u *unstructured.Unstructured) bool { return strings.HasPrefix(u.GetName(), "system-") }

func isNotOurs(u *unstructured.Unstructured) bool { return !strings.HasPrefix(u.GetName(), "muster") }

func (c *cluster) resource(k kind) dynamic.ResourceInterface {
	if k.namespace == "" {
		return c.dynamic.Resource(k.resource)
	}
	return c.dynamic.Resource(k.resource).Namespace(k.namespace)
}

// leftovers names the objects that clear would delete; events do not count.
func (c *cluster) leftovers(ctx context.Context) (names []string, err error) {
	for _, k := range kinds {
		if k.resource.Resource == "events" {
			continue
		}
		found, err := c.list(ctx, k)
		if err != nil {
			return nil, err
		}
		for _, u := range found {
			names = append(names, k.resource.Resource+"/"+u.GetName())
		}
	}
	return names, nil
}

func (c *cluster) list(ctx context.Context, k kind) (found []unstructured.Unstructured, err error) {
	list, err := c.resource(k).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // the kind is not installed
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", k.resource.Resource, err)
	}
	return slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool { return k.keep != nil && k.keep(&u) }), nil
}

// clear deletes what scripts have left, each kind before the next.
func (c *cluster) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all := kinds
	if c.local != nil {
		all = slices.Concat(ownKinds, kinds)
	}
	for _, k := range all {
		if err := c.clearKind(ctx, k); err != nil {
			return fmt.Errorf("clear %s: %w", k.resource.Resource, err)
		}
	}
	return nil
}

func (c *cluster) clearKind(ctx context.Context, k kind) error {
	now := int64(0)
	return poll(ctx, func() (bool, error) {
		found, err := c.list(ctx, k)
		if err != nil || len(found) == 0 {
			return err == nil, err
		}
		for _, u := range found {
			if len(u.GetFinalizers()) > 0 {
				_, err := c.resource(k).Patch(ctx, u.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return false, err
				}
			}
			err := c.resource(k).Delete(ctx, u.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now})
			if err != nil && !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return false, nil
	})
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// createTopology makes the documents' ClusterNetworkTopology.
func (c *cluster) createTopology(ctx context.Context) error {
	content, err := examples.FS.ReadFile("clusternetworktopology.yaml")
	if err != nil {
		return err
	}
	topology := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &topology.Object); err != nil {
		return err
	}
	_, err = c.dynamic.Resource(koordinator.ClusterNetworkTopologies).Create(ctx, topology, metav1.CreateOptions{})
	return err
}

// applyCRDs installs the CRDs, or what they were before the API server could check more
// than their schema, and waits until they are in force.
func (c *cluster) applyCRDs(ctx context.Context, rules bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	files, err := fs.Glob(manifests.CRDs, "crd/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := manifests.CRDs.ReadFile(file)
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &crd.Object); err != nil {
			return err
		}
		if !rules {
			dropRules(crd.Object)
		}
		options := metav1.ApplyOptions{FieldManager: "muster-e2e", Force: true}
		if _, err := c.dynamic.Resource(crdResource).Apply(ctx, crd.GetName(), crd, options); err != nil {
			return err
		}
	}
	for _, gvr := range []schema.GroupVersionResource{sigs.PodGroups, source.PodGroupsX} {
		served := func() (bool, error) {
			_, err := c.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
			return err == nil, ignoreNotFound(err)
		}
		if err := poll(ctx, served); err != nil {
			return fmt.Errorf("%s is not served: %w", gvr.GroupResource(), err)
		}
	}
	return poll(ctx, func() (bool, error) { return c.rulesInForce(ctx, rules) })
}

// rulesInForce tries a ClusterNetworkTopology that only a rule refuses.
func (c *cluster) rulesInForce(ctx context.Context, want bool) (bool, error) {
	broken := &koordinator.ClusterNetworkTopology{}
	broken.APIVersion, broken.Kind, broken.Name = koordinator.GroupVersion.String(), "ClusterNetworkTopology", "probe"
	broken.Spec.NetworkTopologySpec = []koordinator.NetworkTopologyLayer{{TopologyLayer: "Probe", LabelKey: []string{"probe"}}}
	content, err := yaml.Marshal(broken)
	if err != nil {
		return false, err
	}
	probe := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &probe.Object); err != nil {
		return false, err
	}
	unstructured.RemoveNestedField(probe.Object, "status")
	_, err = c.dynamic.Resource(koordinator.ClusterNetworkTopologies).Create(ctx, probe,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return !want, nil
	case apierrors.IsInvalid(err):
		return want, nil
	}
	return false, ignoreNotFound(err)
}

func dropRules(node any) {
	switch n := node.(type) {
	case map[string]any:
		delete(n, "x-kubernetes-validations")
		for _, child := range n {
			dropRules(child)
		}
	case []any:
		for _, child := range n {
			dropRules(child)
		}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

const (
	patience  = time.Minute
	pollEvery = 50 * time.Millisecond
)

// poll calls look until it is content, fails, or ctx ends.
func poll(ctx context.Context, look func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ok, err := look(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// identity writes a kubeconfig for another user; the administrator impersonates that user.
func (c *cluster) identity(file, user string) error {
	config, err := clientcmd.LoadFromFile(c.kubeconfig)
	if err != nil {
		return err
	}
	groups := []string{"system:authenticated"}
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(account, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	for _, who := range config.AuthInfos {
		who.Impersonate, who.ImpersonateGroups = user, groups
	}
	return clientcmd.WriteToFile(*config, file)
}

// run runs kubectl.
func (c *cluster) run(ctx context.Context, h *harness, dir string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience+patience/2)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.kubectl, append([]string{"--kubeconfig", c.kubeconfig}, args...)...)
	var out, errs strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), "HOME="+h.home)
	err = cmd.Run()
	return out.String(), errs.String(), err
}
