package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// auditPolicy logs the account, the request, and the rule that permitted it, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// auditLog returns where a kube-apiserver with these arguments writes it.
func auditLog(folder string) (log string, args []string, err error) {
	log, policy := filepath.Join(folder, "audit.log"), filepath.Join(folder, "policy.yaml")
	return log, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-maxsize=10000"}, os.WriteFile(policy,
		[]byte(auditPolicy), 0o600)
}

// request is what one line of an audit log says.
type request struct {
	Verb             string
	RequestURI       string
	ImpersonatedUser struct{ Username string }
	ObjectRef        struct{ Resource, Subresource, APIGroup, Name string }
	ResponseStatus   struct{ Code int }
	Annotations      map[string]string
}

// uses are the permissions that a request needs: "group/resource verb role". A watch that begins with
// the objects that are there is a list, too: where the API server does not know such a watch, client-go
// asks for a list.
func (r request) uses() (out []string) {
	// RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "b" to …
	_, role, found := strings.Cut(r.Annotations["authorization.k8s.io/reason"], `Role "`)
	if role, _, _ = strings.Cut(role, `"`); !found || r.ResponseStatus.Code == 403 {
		return nil
	}
	verbs := []string{r.Verb}
	if r.Verb == "watch" && strings.Contains(r.RequestURI, "sendInitialEvents=true") {
		verbs = append(verbs, "list")
	}
	for _, verb := range verbs {
		out = append(out, grant(role, r.ObjectRef.APIGroup, strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/"), verb))
	}
	return out
}

func grant(role, group, resource, verb string) string {
	return fmt.Sprintf("%s: %s %s.%s", role, verb, resource, group)
}

// inAnyRole is a permission without the role that gives it.
func inAnyRole(grant string) string {
	_, what, _ := strings.Cut(grant, ": ")
	return what
}

// used are the permissions that an account has used.
func used(log, account string) (map[string]bool, error) {
	out := map[string]bool{}
	return out, eachRequest(log, func(r request) {
		if r.ImpersonatedUser.Username == account {
			for _, use := range r.uses() {
				out[use] = true
			}
		}
	})
}

// eachRequest reads an audit log.
func eachRequest(log string, do func(request)) error {
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // what it has of the last line is not all
			return nil
		}
		if err != nil {
			return err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		do(r)
	}
}

// granted lists the permissions that the roles of a file give. It leaves out permissions that kube-scheduler has in
// every cluster, which manifests compares.
func granted(file string) (out []string, err error) {
	stock := map[string]bool{}
	for _, r := range bootstrappolicy.ClusterRoles() {
		if r.Name == "system:kube-scheduler" || r.Name == "system:volume-scheduler" {
			for _, g := range grants("", r.Rules) {
				stock[g] = true
			}
		}
	}
	content, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	decoder := utilyaml.NewYAMLOrJSONDecoder(content, 4096)
	for {
		var role rbacv1.ClusterRole // a Role has its rules at the same place
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		plain := grants("", role.Rules)
		for i, g := range grants(role.Name, role.Rules) {
			if role.Kind == "Role" || !stock[plain[i]] {
				out = append(out, g)
			}
		}
	}
}

func grants(role string, rules []rbacv1.PolicyRule) (out []string) {
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out = append(out, grant(role, group, resource, verb))
				}
			}
		}
	}
	return out
}

func (s *script) waitUsed(ctx context.Context, args []string) error {
	beside, args, err := option(args, "-beside")
	if err != nil {
		return err
	}
	if len(args) < 2 || s.cluster.audit == "" {
		return usage("wait-used [-beside FILE] ACCOUNT FILE..., after cluster new -audit")
	}
	var others []string // of several roles that allow a request the API server names any one
	if beside != "" {
		if others, err = granted(s.ts.MkAbs(beside)); err != nil {
			return err
		}
	}
	var want []string
	for _, file := range args[1:] {
		more, err := granted(s.ts.MkAbs(file))
		if err != nil {
			return err
		}
		want = append(want, more...)
	}
	if len(want) == 0 {
		return usage("the files must have rules")
	}
	slices.Sort(want)
	fmt.Fprintln(s.ts.Stdout(), strings.Join(want, "\n"))
	return s.await(ctx, func() (string, bool, error) {
		is, err := used(s.cluster.audit, args[0])
		if err != nil {
			return "", false, err
		}
		missing := slices.DeleteFunc(slices.Clone(want), func(g string) bool {
			return is[g] || slices.ContainsFunc(others, func(o string) bool { return is[o] && inAnyRole(o) == inAnyRole(g) })
		})
		return "nobody has used\n" + strings.Join(missing, "\n"), len(missing) == 0, nil
	})
}

// crdsOfSources are for the kinds of other projects, without their fields.
func (s *script) crdsOfSources(ctx context.Context, args []string) error {
	var all strings.Builder
	for _, p := range source.Permissions() {
		if p.Optional && strings.Contains(p.Verbs, "list") && p.Group != "batch" && p.Group != "scheduling.k8s.io" {
			sub := "" // if nothing writes the status
			if slices.ContainsFunc(source.Permissions(),
				func(o source.Permission) bool { return o.Group == p.Group && o.Resource == p.Resource+"/status" }) {
				sub = "subresources: {status: {}}, "
			}
			fmt.Fprintf(&all, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s, annotations: {api-approved.kubernetes.io: "unapproved, for tests"}}
spec:
  group: %[2]s
  scope: Namespaced
  names: {plural: %[1]s, kind: A%[1]s}
  versions: [{name: %[3]s, served: true, storage: true, %[4]sschema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, p.Resource, p.Group, p.Version, sub)
		}
	}
	fmt.Fprintf(&all, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: devices.scheduling.koordinator.sh, annotations: {api-approved.kubernetes.io: "unapproved, for tests"}}
spec:
  group: scheduling.koordinator.sh
  scope: Cluster
  names: {plural: devices, kind: Device}
  versions: [{name: %s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, convert.Devices.Version)
	for _, r := range []schema.GroupVersionResource{convert.ElasticQuotas, convert.ElasticQuotasX} {
		sub := "" // Koordinator's own has none
		if r == convert.ElasticQuotasX {
			sub = "subresources: {status: {}}, "
		}
		fmt.Fprintf(&all, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.%s, annotations: {api-approved.kubernetes.io: "unapproved, for tests"}}
spec:
  group: %[2]s
  scope: Namespaced
  names: {plural: %[1]s, kind: ElasticQuota}
  versions: [{name: %[3]s, served: true, storage: true, %[4]sschema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, r.Resource, r.Group, r.Version, sub)
	}
	file := s.ts.MkAbs("crds-of-sources.yaml")
	if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
		return err
	}
	return s.kubectlCommand(ctx, []string{"apply", "-f", file})
}
