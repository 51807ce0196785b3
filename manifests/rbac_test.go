package manifests_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestClusterRole compares ours with what the stock scheduler of the Kubernetes version
// that we are built from may do: neither less, nor more than is written here.
func TestClusterRole(t *testing.T) {
	allowed := grants(clusterRole(t).Rules)
	stock := map[string]bool{}
	for _, r := range bootstrappolicy.ClusterRoles() {
		if r.Name == "system:kube-scheduler" || r.Name == "system:volume-scheduler" {
			for g := range grants(r.Rules) {
				stock[g] = true
			}
		}
	}
	for g := range stock {
		if strings.HasPrefix(g, "coordination.k8s.io/") || strings.HasPrefix(g, "extensions/") {
			delete(stock, g) // our Lease has a Role; the group extensions is gone
		}
	}
	kinds := []string{"scheduling.koordinator.sh/clusternetworktopologies"}
	for _, s := range source.All {
		if o := s.Object; o != nil && !o.ReadOnly {
			kinds = append(kinds, o.Resource.Group+"/"+o.Resource.Resource)
		}
	}
	for _, kind := range kinds {
		for _, verb := range []string{" list", " watch", "/status patch"} {
			stock[kind+verb] = true
		}
	}
	stock["scheduling.sigs.k8s.io/podgroups patch"] = true // where it has no status subresource
	stock["authorization.k8s.io/selfsubjectaccessreviews create"] = true
	for _, kind := range []string{"scheduling.koordinator.sh/devices", "resource.k8s.io/resourceclaimtemplates"} {
		stock[kind+" list"], stock[kind+" watch"] = true, true
	}
	for _, group := range []string{"scheduling.sigs.k8s.io", "scheduling.x-k8s.io"} {
		for _, verb := range []string{" list", " watch"} {
			stock[group+"/elasticquotas"+verb] = true
		}
	}
	stock["scheduling.x-k8s.io/elasticquotas/status patch"] = true
	stock["scheduling.sigs.k8s.io/elasticquotas patch"] = true // it has no such subresource
	require.Equal(t, sorted(stock), sorted(allowed))
}

// TestSourceRoles: what the scheduler reads of other projects is permitted by one file each, and
// nothing else is; the kustomization lists them all.
func TestSourceRoles(t *testing.T) {
	needs := map[string]bool{}
	for _, p := range source.Permissions() {
		if p.Optional {
			for verb := range strings.FieldsSeq(p.Verbs) {
				needs[p.Group+"/"+p.Resource+" "+verb] = true
			}
		}
	}
	all, err := manifests.SourceRBAC.ReadDir("rbac/sources")
	require.NoError(t, err)
	kustomization, err := os.ReadFile("kustomization.yaml")
	require.NoError(t, err)
	allowed := map[string]bool{}
	for _, file := range all {
		data, err := manifests.SourceRBAC.ReadFile("rbac/sources/" + file.Name())
		require.NoError(t, err)
		require.Contains(t, string(kustomization), "- rbac/sources/"+file.Name())
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		var role rbacv1.ClusterRole
		var binding rbacv1.ClusterRoleBinding
		require.NoError(t, decoder.Decode(&role))
		require.NoError(t, decoder.Decode(&binding))
		require.Equal(t, role.Name, binding.RoleRef.Name, file.Name())
		require.Equal(t, "muster-scheduler", binding.Subjects[0].Name, file.Name())
		for g := range grants(role.Rules) {
			require.False(t, allowed[g], "%s again in %s", g, file.Name())
			allowed[g] = true
		}
	}
	require.Equal(t, sorted(needs), sorted(allowed))
}

func TestNoSecrets(t *testing.T) {
	for g := range grants(clusterRole(t).Rules) {
		require.NotContains(t, g, "secrets")
		require.NotContains(t, g, "*")
	}
}

func clusterRole(t *testing.T) rbacv1.ClusterRole {
	t.Helper()
	data, err := manifests.RBAC.ReadFile("rbac/clusterrole.yaml")
	require.NoError(t, err)
	var role rbacv1.ClusterRole
	require.NoError(t, utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096).Decode(&role))
	require.Equal(t, "ClusterRole", role.Kind)
	return role
}

// grants spells rules out as "group/resource verb".
func grants(rules []rbacv1.PolicyRule) map[string]bool {
	out := map[string]bool{}
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out[group+"/"+resource+" "+verb] = true
				}
			}
		}
	}
	return out
}

func sorted(set map[string]bool) []string {
	var out []string
	for s := range set {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}
