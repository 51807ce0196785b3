package helm

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/deploy/monitoring"
	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
)

const controllerDeployment = "Deployment muster-system/muster-controller"

// everySource enables all sources.
const everySource = "sources.grove=true,sources.grove-podcliqueset=true,sources.jobset=true,sources.leaderworkerset=true,sources.volcano=true"

func controllerContainer(all map[string]object) object {
	return all[controllerDeployment].at("spec", "template", "spec", "containers").([]any)[0].(map[string]any)
}

func flagsOf(all map[string]object) (flags []string) {
	for _, arg := range controllerContainer(all)["args"].([]any) {
		flags = append(flags, arg.(string))
	}
	return flags
}

// TestControllerSameAsKustomize: object by object. The chart's flags name the objects of the release; without a release name they
// are the defaults.
func TestControllerSameAsKustomize(t *testing.T) {
	for folder, values := range map[string]string{
		"controller/overlays/grove-koordinator":           "sources.grove=true",
		"controller/overlays/leaderworkerset-koordinator": "sources.grove=false,sources.leaderworkerset=true",
	} {
		t.Run(folder, func(t *testing.T) { sameAsKustomize(t, "muster-controller", controllerDeployment, folder, values) })
	}
}

// TestControllerComponents: each component of manifests/controller is in the chart, and its flag.
func TestControllerComponents(t *testing.T) {
	base := kustomize(t, "../controller/base")
	var wantFlags []string
	for _, arg := range controllerContainer(base)["args"].([]any) {
		wantFlags = append(wantFlags, arg.(string))
	}
	everything := render(t, "muster-controller", "--set=gatePods=true,policies.podcliquesets=true,backendConfig.backends=null,"+everySource)
	flag := regexp.MustCompile(`value: (--\S+)`)
	files, err := filepath.Glob("../../manifests/controller/components/*/*.yaml")
	require.NoError(t, err)
	components := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if filepath.Base(file) == "kustomization.yaml" {
			components++
			for _, m := range flag.FindAllStringSubmatch(string(text), -1) {
				wantFlags = append(wantFlags, m[1])
			}
			continue
		}
		for name := range objects(t, string(text)) {
			require.Contains(t, everything, name, file)
		}
	}
	require.Greater(t, components, 10)
	require.ElementsMatch(t, wantFlags, withoutDefaults(flagsOf(everything)))
	folders, err := manifests.Controller.ReadDir("controller/components")
	require.NoError(t, err)
	require.Len(t, folders, components)
}

// withoutDefaults removes the flags by which the chart repeats a default.
func withoutDefaults(flags []string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(flag string) bool {
		return slices.Contains([]string{
			"--leader-elect-resource-name=muster-controller", "--webhook-secret=muster-controller-webhook", "--webhook-configuration=muster-controller",
			"--webhook-names=muster-controller.$(NAMESPACE).svc,muster-controller.$(NAMESPACE).svc.cluster.local,muster-controller.$(NAMESPACE)",
		}, flag)
	})
}

// TestControllerValues: what a value changes, and nothing else of the same kind.
func TestControllerValues(t *testing.T) {
	standard := len(render(t, "muster-controller"))
	flag := func(name string) func(all map[string]object) any {
		return func(all map[string]object) any { return slices.Contains(flagsOf(all), name) }
	}
	more := func(all map[string]object) any { return len(all) - standard }
	has := func(name string) func(all map[string]object) any {
		return func(all map[string]object) any { _, ok := all[name]; return ok }
	}
	pod := func(path ...string) func(all map[string]object) any {
		return func(all map[string]object) any {
			return all[controllerDeployment].at(append([]string{"spec", "template", "spec"}, path...)...)
		}
	}
	container := func(path ...string) func(all map[string]object) any {
		return func(all map[string]object) any { return controllerContainer(all).at(path...) }
	}
	for _, c := range []struct {
		values string
		shows  func(all map[string]object) any
		want   any
	}{
		{"image.repository=r/m,image.tag=v1", container("image"), "r/m:v1"},
		{"sources.jobset=true", flag("--enable-source=jobset"), true},
		{"sources.grove-podcliqueset=true", flag("--enable-source=podcliqueset"), true},
		{"sources.volcano=true", has("ClusterRole /muster-controller-source-volcano"), true},
		{"logLevel=4", flag("--v=4"), true},
		{"extraArgs={--workers=16}", flag("--workers=16"), true},
		{"gatePods=true", flag("--gate-pods"), true},
		{"webhook.enabled=false", flag("--webhook-port=9443"), false},
		{"webhook.enabled=false", more, -7}, // Service, two configurations, Role and ClusterRole with their bindings
		{"policies.podcliquesets=true", more, 2},
		{"backendConfig.backends[0].name=workload", has("ClusterRole /muster-controller-backend-workload"), true},
		{"backendConfig.backends[0].name=workload", has("ClusterRole /muster-controller-backend-koordinator"), false},
		{"backendConfig.backends=null", more, 6},
		{
			"backendConfig.nodeTier=1", func(all map[string]object) any {
				c, err := backend.ReadConfig([]byte(all["ConfigMap muster-system/muster-controller-backends"].at("data", "backends.yaml").(string)))
				require.NoError(t, err)
				return c.NodeTier
			}, int32(1),
		},
		{"extraEnv[0].name=A", func(all map[string]object) any { return controllerContainer(all)["env"].([]any)[1] }, map[string]any{"name": "A"}},
		{"resources.limits.memory=1Gi", container("resources", "limits"), map[string]any{"memory": "1Gi"}},
		{"readinessProbe.periodSeconds=9", container("readinessProbe", "periodSeconds"), 9.0},
		{
			"podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null", pod("securityContext"),
			map[string]any{"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
		},
		{"serviceAccount.name=mine", pod("serviceAccountName"), "mine"},
		{"priorityClassName=p", pod("priorityClassName"), "p"},
		{"nodeSelector.a=b", pod("nodeSelector"), map[string]any{"a": "b"}},
		{"rbac.create=false", func(all map[string]object) any { return strings.Contains(strings.Join(keys(all), " "), "Role") }, false},
		{"rbac.create=false", has("MutatingWebhookConfiguration /muster-controller"), true},
		{"networkPolicy.enabled=false", more, -1},
		{"podDisruptionBudget.enabled=false", more, -1},
		{"replicaCount=1", more, -1},
		{"serviceMonitor.enabled=true", more, 2},
		{"serviceMonitor.enabled=true", has("Service muster-system/muster-controller-metrics"), true},
		{"prometheusRule.enabled=true", more, 1},
		{ // the API server has no label by which a NetworkPolicy could allow it
			"networkPolicy.from[0].podSelector.matchLabels.a=b", func(all map[string]object) any {
				rules := all["NetworkPolicy muster-system/muster-controller"].at("spec", "ingress").([]any)
				require.Len(t, rules, 2)
				return rules[1]
			}, map[string]any{"ports": []any{map[string]any{"port": "webhook", "protocol": "TCP"}}},
		},
	} {
		require.Equal(t, c.want, c.shows(render(t, "muster-controller", "--set="+c.values)), c.values)
	}
}

// TestControllerErrors: an invalid value ends the rendering, and the message names it.
func TestControllerErrors(t *testing.T) {
	for values, want := range map[string]string{
		"sources.grove=false": "sources: the controller has nothing to read: set one of these to true: " +
			"grove, grove-podcliqueset, jobset, leaderworkerset, volcano",
		"sources.pods=true":                           "'/sources': additional properties 'pods' not allowed",
		"gatePods=true,webhook.enabled=false":         "gatePods: the webhook adds the gate; set webhook.enabled to true, or gatePods to false",
		"backendConfig.backends[0].name=kueue":        "'/backendConfig/backends/0/name': value must be one of 'koordinator', 'muster', 'podgang',",
		"backendConfig.backends[0].gangMode=strict":   "'/backendConfig/backends/0'",
		"backendConfig.backend=x":                     "'/backendConfig': additional properties 'backend' not allowed",
		"prometheusRule.thresholds.MusterGangWaits=1": "'/prometheusRule/thresholds': additional properties 'MusterGangWaits' not allowed",
		"schedulerNames={a}":                          "additional properties 'schedulerNames' not allowed",
		"webhook=null":                                "missing property 'webhook'",
	} {
		_, errs, err := template(t, "muster-controller", "--set="+values)
		require.Error(t, err, values)
		require.Contains(t, errs, want, values)
	}
}

// TestTwoControllers: no object of a second release has the name of one of the first release, and each refers to its own.
func TestTwoControllers(t *testing.T) {
	everything := "--set=image.repository=muster-scheduler,serviceMonitor.enabled=true,prometheusRule.enabled=true,gatePods=true," +
		"policies.podcliquesets=true,backendConfig.backends=null," + everySource
	first := render(t, "muster-controller", everything)
	out, errs, err := helm(t, "template", "canary", "muster-controller", "--namespace=elsewhere", "--kube-version=1.34.0", everything)
	require.NoError(t, err, errs)
	second := objects(t, out)
	require.Len(t, second, len(first))
	const full = "canary-muster-controller"
	for name, o := range second {
		require.NotContains(t, first, name)
		require.True(t, strings.HasPrefix(o.at("metadata", "name").(string), full), name)
		for _, ref := range [][]string{{"roleRef", "name"}, {"spec", "policyName"}} {
			if to, ok := o.at(ref...).(string); ok {
				require.True(t, strings.HasPrefix(to, full), "%s refers to %s", name, to)
			}
		}
		require.Equal(t, "canary", o.at("metadata", "labels", "app.kubernetes.io/instance"), name)
	}
	require.NotContains(t, out, "muster-system")
	require.NotContains(t, strings.ReplaceAll(out, full, ""), "- muster-controller\n", "a permission for an object of the first release")
	require.Contains(t, out, `job="canary-muster-controller-metrics"`)
	for _, flag := range []string{
		"--leader-elect-resource-name=" + full, "--webhook-secret=" + full + "-webhook", "--webhook-configuration=" + full,
		"--webhook-names=" + full + ".$(NAMESPACE).svc," + full + ".$(NAMESPACE).svc.cluster.local," + full + ".$(NAMESPACE)",
	} {
		require.Contains(t, out, "- "+flag+"\n")
	}
	for _, kind := range []string{"MutatingWebhookConfiguration /", "ValidatingWebhookConfiguration /"} {
		for _, webhook := range second[kind+full].at("webhooks").([]any) {
			service := object(webhook.(map[string]any)).at("clientConfig", "service").(map[string]any)
			require.Equal(t, full, service["name"])
			require.Equal(t, "elsewhere", service["namespace"])
		}
	}
	require.Equal(t, second["Deployment elsewhere/"+full].at("spec", "selector", "matchLabels"), second["Service elsewhere/"+full].at("spec", "selector"))
	require.Regexp(t, `resourceNames:\n  - `+full+`-webhook\n`, out, "the Secret that it may write")
}

// TestControllerMonitoring: the chart's rules are the file of deploy/monitoring, but for the job.
func TestControllerMonitoring(t *testing.T) {
	all := render(t, "muster-controller", "--set=prometheusRule.enabled=true,serviceMonitor.enabled=true")
	rules, err := monitoring.ControllerRules()
	require.NoError(t, err)
	var want any
	require.NoError(t, yaml.Unmarshal(rules, &want))
	require.Equal(t, want, all["PrometheusRule muster-system/muster-controller"].at("spec"))
	service := all["Service muster-system/muster-controller-metrics"]
	require.Contains(t, string(rules), `job="`+service.at("metadata", "name").(string)+`"`, "Prometheus calls the job as the Service")
	port := service.at("spec", "ports").([]any)[0].(map[string]any)
	require.Equal(t, all["ServiceMonitor muster-system/muster-controller"].at("spec", "endpoints").([]any)[0].(map[string]any)["port"], port["name"])
	require.Contains(t, controllerContainer(all)["ports"], map[string]any{"name": port["targetPort"], "containerPort": port["port"]})
}

// TestBackendConfigIsKnown: backendConfig has the fields of --backend-config.
func TestBackendConfigIsKnown(t *testing.T) {
	config := readSchema(t, "muster-controller").Properties["backendConfig"]
	require.Equal(t, fields(reflect.TypeFor[backend.Config]()), keys(config.Properties))
	require.Equal(t, fields(reflect.TypeFor[backend.BackendConfig]()), keys(config.Properties["backends"].Items.Properties))
	for _, name := range config.Properties["backends"].Items.Properties["name"].Enum {
		_, err := backend.ReadConfig([]byte("backends: [{name: " + name + "}]"))
		require.NoError(t, err)
	}
	standard, err := manifests.Controller.ReadFile("controller/backends.yaml")
	require.NoError(t, err)
	var want any
	require.NoError(t, yaml.Unmarshal(standard, &want))
	values, err := os.ReadFile("muster-controller/values.yaml")
	require.NoError(t, err)
	var got object
	require.NoError(t, yaml.Unmarshal(values, &got))
	require.Equal(t, want, got["backendConfig"])
}
