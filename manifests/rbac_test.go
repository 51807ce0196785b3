package manifests_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/muster-scheduler/muster/manifests"
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
	for _, kind := range []string{"scheduling.koordinator.sh/clusternetworktopologies", "scheduling.sigs.k8s.io/podgroups", "scheduling.x-k8s.io/podgroups"} {
		for _, verb := range []string{" get", " list", " watch", "/status patch", "/status update"} {
			stock[kind+verb] = true
		}
	}
	stock["authorization.k8s.io/selfsubjectaccessreviews create"] = true
	require.Equal(t, sorted(stock), sorted(allowed))
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
