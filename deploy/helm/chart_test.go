package helm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/deploy/monitoring"
	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/apis/config"
)

const deployment = "Deployment muster-system/muster-scheduler"

var charts = []string{"muster", "muster-controller", "muster-crds"}

func TestLint(t *testing.T) {
	for _, chart := range charts {
		out, errs, err := helm(t, append([]string{"lint", "--strict", "--kube-version=1.34.0", chart}, needed[chart]...)...)
		require.NoError(t, err, out+errs)
	}
}

// text is for differences that can be read.
func (o object) text(t *testing.T) string {
	t.Helper()
	out, err := yaml.Marshal(o)
	require.NoError(t, err)
	return string(out)
}

// hash is what kustomize adds to the name of a ConfigMap, so that another configuration means other
// pods; the chart writes a checksum into the pods.
var hash = regexp.MustCompile(`(muster-scheduler-config|muster-controller-backends)-[a-z0-9]{10}\b`)

// withoutStandard removes the labels that only Helm's objects have.
func (o object) withoutStandard() object {
	for _, path := range [][]string{
		{"metadata"}, {"spec", "template", "metadata"}, {"spec", "selector", "matchLabels"}, {"spec", "podSelector", "matchLabels"},
	} {
		of, _ := o.at(path...).(map[string]any)
		labels := of
		if path[len(path)-1] == "metadata" {
			labels, _ = of["labels"].(map[string]any)
		}
		for _, l := range []string{"instance", "managed-by", "part-of", "version"} {
			delete(labels, "app.kubernetes.io/"+l)
		}
		delete(labels, "helm.sh/chart")
		if path[0] == "metadata" { // the others are selectors, or selected
			delete(labels, "app.kubernetes.io/name")
			if len(labels) == 0 {
				delete(of, "labels")
			}
		}
	}
	if spec, ok := o["spec"].(map[string]any); ok && o["kind"] == "Deployment" {
		delete(spec, "revisionHistoryLimit") // the chart has Kubernetes' default as a value
		spread := o.at("spec", "template", "spec", "topologySpreadConstraints").([]any)[0].(map[string]any)
		delete(object(spread).at("labelSelector", "matchLabels").(map[string]any), "app.kubernetes.io/instance")
		container := o.at("spec", "template", "spec", "containers").([]any)[0].(map[string]any)
		var flags []string
		for _, arg := range container["args"].([]any) {
			flags = append(flags, arg.(string))
		}
		slices.Sort(flags)
		container["args"] = withoutDefaults(flags)
	}
	if selector, ok := o.at("spec", "selector").(map[string]any); ok && o["kind"] == "Service" {
		delete(selector, "app.kubernetes.io/instance")
	}
	if o["kind"] == "ConfigMap" && strings.HasPrefix(o.at("metadata", "name").(string), "muster-controller") {
		var backends object
		if yaml.Unmarshal([]byte(o.at("data", "backends.yaml").(string)), &backends) == nil {
			o["data"] = backends // in the file of manifests there are comments, too
		}
	}
	return o
}

// noImage is the tag of the image in deploy/, which no registry will ever have.
const noImage = "set-an-image--see-docs-admins-install"

// TestSameAsKustomize: object by object.
func TestSameAsKustomize(t *testing.T) {
	for folder, values := range map[string]string{
		"base":                       "schedulerNames={muster-scheduler}",
		"overlays/drop-in":           "schedulerNames={muster-scheduler,koord-scheduler}",
		"overlays/scheduler-plugins": "schedulerNames={muster-scheduler,scheduler-plugins-scheduler}",
	} {
		t.Run(folder, func(t *testing.T) { sameAsKustomize(t, "muster", deployment, folder, values) })
	}
}

// sameAsKustomize compares a chart with what kustomize makes of a folder of deploy, object by object. The chart has one more: its test.
func sameAsKustomize(t *testing.T, chart, deployment, folder, values string) {
	t.Helper()
	ours := render(t, chart, "--set=image.tag="+noImage+","+values)
	annotations := ours[deployment].at("spec", "template", "metadata").(map[string]any)
	require.Len(t, annotations["annotations"].(map[string]any)["checksum/config"], 64)
	delete(annotations, "annotations")

	out, err := yaml.Marshal(kustomizeList(t, "../"+folder))
	require.NoError(t, err)
	require.Len(t, hash.FindAll(out, -1), 2)
	var theirs []object
	require.NoError(t, yaml.Unmarshal(hash.ReplaceAll(out, []byte("$1")), &theirs))
	for _, want := range theirs {
		if want["kind"] == "Namespace" {
			continue // a release is in a namespace that is there already
		}
		got, ok := ours[want.name()]
		require.True(t, ok, "the chart lacks %s", want.name())
		require.Equal(t, want.withoutStandard().text(t), got.withoutStandard().text(t), want.name())
		delete(ours, want.name())
	}
	require.Equal(t, []string{strings.Replace(deployment, "Deployment", "Pod", 1) + "-test"}, keys(ours), "the chart has more")
}

func kustomizeList(t *testing.T, folder string) (all []object) {
	for _, o := range kustomize(t, folder) {
		all = append(all, o)
	}
	return all
}

// TestCRDsApart: what installs the scheduler has no CRD, so that what removes it leaves them.
func TestCRDsApart(t *testing.T) {
	for _, folder := range []string{"../base", "../overlays/drop-in", "../overlays/scheduler-plugins"} {
		for name := range kustomize(t, folder) {
			require.NotContains(t, name, "CustomResourceDefinition", folder)
		}
	}
	want := kustomize(t, "../crds")
	require.Len(t, want, 3)
	got := render(t, "muster-crds")
	require.Len(t, got, 3)
	for name, crd := range got {
		annotations := crd.at("metadata", "annotations").(map[string]any)
		require.Equal(t, "keep", annotations["helm.sh/resource-policy"], name)
		delete(annotations, "helm.sh/resource-policy")
		require.Equal(t, want[name].text(t), crd.text(t), name)
	}
	for key, crd := range map[string]string{
		"clusterNetworkTopologies": "clusternetworktopologies.scheduling.koordinator.sh",
		"podGroups":                "podgroups.scheduling.sigs.k8s.io",
		"podGroupsX":               "podgroups.scheduling.x-k8s.io",
	} {
		left := render(t, "muster-crds", "--set=crds."+key+"=never")
		require.Len(t, left, 2)
		require.NotContains(t, left, "CustomResourceDefinition /"+crd)
	}
}

// TestValues: what a value changes, and nothing else of the same kind.
func TestValues(t *testing.T) {
	container := func(all map[string]object) object {
		return all[deployment].at("spec", "template", "spec", "containers").([]any)[0].(map[string]any)
	}
	memory := func(all map[string]object) any { return container(all).at("resources", "requests", "memory") }
	standard := len(render(t, "muster"))
	for _, c := range []struct {
		values string
		shows  func(all map[string]object) any
		want   any
	}{
		{"image.repository=r/m,image.tag=v1", func(all map[string]object) any { return container(all)["image"] }, "r/m:v1"},
		{
			"image.tag=v1,image.digest=sha256:" + strings.Repeat("a", 64),
			func(all map[string]object) any { return container(all)["image"] }, "muster-scheduler@sha256:" + strings.Repeat("a", 64),
		},
		{"extraArgs={--v=3}", func(all map[string]object) any { return container(all)["args"].([]any)[4] }, "--v=3"},
		{"logLevel=4", func(all map[string]object) any { return container(all)["args"].([]any)[4] }, "--v=4"},
		{"extraEnv[0].name=A", func(all map[string]object) any { return container(all)["env"].([]any)[1] }, map[string]any{"name": "A"}},
		{"extraVolumes[0].name=a", func(all map[string]object) any {
			return all[deployment].at("spec", "template", "spec", "volumes").([]any)[1]
		}, map[string]any{"name": "a"}},
		{"extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=/a", func(all map[string]object) any {
			return container(all)["volumeMounts"].([]any)[1]
		}, map[string]any{"name": "a", "mountPath": "/a"}},
		{"readinessProbe.periodSeconds=9", func(all map[string]object) any { return container(all).at("readinessProbe", "periodSeconds") }, 9.0},
		{"livenessProbe.periodSeconds=9", func(all map[string]object) any { return container(all).at("livenessProbe", "periodSeconds") }, 9.0},
		{"revisionHistoryLimit=3", func(all map[string]object) any { return all[deployment].at("spec", "revisionHistoryLimit") }, 3.0},
		{ // OpenShift's restricted-v2 assigns both
			"podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null",
			func(all map[string]object) any {
				return all[deployment].at("spec", "template", "spec", "securityContext")
			},
			map[string]any{"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
		},
		{"securityContext.privileged=false", func(all map[string]object) any { return container(all).at("securityContext", "privileged") }, false},
		{"serviceAccount.create=false", func(all map[string]object) any { return standard - len(all) }, 1},
		{
			"serviceAccount.create=false", func(all map[string]object) any {
				return all["ClusterRoleBinding /muster-scheduler"].at("subjects").([]any)[0].(map[string]any)["name"]
			}, "default",
		},
		{
			"serviceAccount.name=mine", func(all map[string]object) any {
				return all[deployment].at("spec", "template", "spec", "serviceAccountName").(string) + " " +
					all["ServiceAccount muster-system/mine"].at("metadata", "name").(string)
			}, "mine mine",
		},
		{"rbac.create=false", func(all map[string]object) any { return strings.Contains(strings.Join(keys(all), " "), "Role") }, false},
		{
			"serviceMonitor.enabled=true,serviceMonitor.authorization.credentials.name=s", func(all map[string]object) any {
				endpoint := all["ServiceMonitor muster-system/muster-scheduler"].at("spec", "endpoints").([]any)[0].(map[string]any)
				return []any{endpoint["bearerTokenFile"], endpoint["authorization"]}
			}, []any{nil, map[string]any{"credentials": map[string]any{"name": "s"}}},
		},
		{
			"prometheusRule.enabled=true,prometheusRule.thresholds.MusterGangWaits=7200,prometheusRule.runbookURL=https://r", func(all map[string]object) any {
				rule := all["PrometheusRule muster-system/muster-scheduler"].at("spec", "groups").([]any)[0].(map[string]any)["rules"].([]any)[0]
				return object(rule.(map[string]any)).at("annotations", "runbook_url").(string) + " " +
					regexp.MustCompile(`> .*`).FindString(rule.(map[string]any)["expr"].(string))
			}, "https://r#mustergangwaits > 7200",
		},
		{"schedulerNames={a}", func(all map[string]object) any {
			return all["Pod muster-system/muster-scheduler-test"].at("spec", "schedulerName")
		}, "a"},
		{"resources.requests.memory=1Gi", memory, "1Gi"},
		{
			"resources.limits.memory=2Gi", func(all map[string]object) any { return container(all).at("resources", "limits") },
			map[string]any{"memory": "2Gi"},
		},
		{"tolerations=null", func(all map[string]object) any { return all[deployment].at("spec", "template", "spec", "tolerations") }, nil},
		{
			"tolerations[0].key=a", func(all map[string]object) any { return all[deployment].at("spec", "template", "spec", "tolerations") },
			[]any{map[string]any{"key": "a"}},
		},
		{"priorityClassName=p", func(all map[string]object) any {
			return all[deployment].at("spec", "template", "spec", "priorityClassName")
		}, "p"},
		{
			"nodeSelector.a=b", func(all map[string]object) any { return all[deployment].at("spec", "template", "spec", "nodeSelector") },
			map[string]any{"a": "b"},
		},
		{"podLabels.a=b", func(all map[string]object) any {
			return all[deployment].at("spec", "template", "metadata", "labels", "a")
		}, "b"},
		{"podLabels.a=b", func(all map[string]object) any { return all[deployment].at("spec", "selector", "matchLabels", "a") }, nil},
		{"podAnnotations.a=b", func(all map[string]object) any {
			return all[deployment].at("spec", "template", "metadata", "annotations", "a")
		}, "b"},
		{"replicaCount=1", func(all map[string]object) any { return all["PodDisruptionBudget muster-system/muster-scheduler"] }, object(nil)},
		{"policies.keys=false", func(all map[string]object) any { return standard - len(all) }, 2},
		{"sources.grove=false", func(all map[string]object) any { return standard - len(all) }, 2},
		{"networkPolicy.enabled=false", func(all map[string]object) any { return standard - len(all) }, 1},
		{"podDisruptionBudget.enabled=false", func(all map[string]object) any { return standard - len(all) }, 1},
		{"serviceMonitor.enabled=true", func(all map[string]object) any { return len(all) - standard }, 2},
		{"prometheusRule.enabled=true,dashboard.enabled=true", func(all map[string]object) any { return len(all) - standard }, 2},
		{
			"prometheusRule.enabled=true,prometheusRule.labels.release=p",
			func(all map[string]object) any {
				return all["PrometheusRule muster-system/muster-scheduler"].at("metadata", "labels", "release")
			}, "p",
		},
		{
			"dashboard.enabled=true",
			func(all map[string]object) any {
				return all["ConfigMap muster-system/muster-dashboard"].at("metadata", "labels", "grafana_dashboard")
			}, "1",
		},
		{
			"serviceMonitor.enabled=true,serviceMonitor.labels.release=p",
			func(all map[string]object) any {
				return all["ServiceMonitor muster-system/muster-scheduler"].at("metadata", "labels", "release")
			}, "p",
		},
		{
			"topology.layers[0].topologyLayer=NodeTopologyLayer",
			func(all map[string]object) any {
				return all["ClusterNetworkTopology /default"].at("spec", "networkTopologySpec")
			},
			[]any{map[string]any{"topologyLayer": "NodeTopologyLayer"}},
		},
	} {
		require.Equal(t, c.want, c.shows(render(t, "muster", "--set="+c.values)), c.values)
	}
}

// TestTwoReleases: no object of a second release has the name of one of the first release, and each refers to its own.
func TestTwoReleases(t *testing.T) {
	everything := "--set=image.repository=muster-scheduler,serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true"
	first := render(t, "muster", everything)
	for _, release := range []struct{ name, values, full string }{
		{"canary", "schedulerNames={canary}", "canary-muster-scheduler"},
		{"my-muster-scheduler", "schedulerNames={canary}", "my-muster-scheduler"},
		{"canary", "schedulerNames={canary},nameOverride=gangs", "canary-gangs"},
		{"canary", "schedulerNames={canary},fullnameOverride=gangs", "gangs"},
	} {
		out, errs, err := helm(t, "template", release.name, "muster", "--namespace=muster-system", "--kube-version=1.34.0", everything,
			"--set="+release.values)
		require.NoError(t, err, errs)
		second := objects(t, out)
		require.Len(t, second, len(first))
		for name, o := range second {
			require.NotContains(t, first, name)
			require.True(t, strings.HasPrefix(o.at("metadata", "name").(string), release.full), name)
			for _, ref := range [][]string{{"roleRef", "name"}, {"spec", "policyName"}} {
				if to, ok := o.at(ref...).(string); ok && to != "extension-apiserver-authentication-reader" {
					require.True(t, strings.HasPrefix(to, release.full), "%s refers to %s", name, to)
				}
			}
			require.Equal(t, release.name, o.at("metadata", "labels", "app.kubernetes.io/instance"), name)
		}
		pods := second["Deployment muster-system/"+release.full]
		require.Equal(t, release.full, pods.at("spec", "template", "spec", "serviceAccountName"))
		require.Equal(t, release.name, pods.at("spec", "selector", "matchLabels", "app.kubernetes.io/instance"))
		require.Contains(t, out, "--leader-elect-resource-name="+release.full+"\n")
		require.Contains(t, out, "  resourceNames:\n  - "+release.full+"\n", "the Lease that it may write")
	}
}

// TestImageIsNeeded: no registry has an image, so one must be named. Kustomize cannot fail; there the image's tag says it.
func TestImageIsNeeded(t *testing.T) {
	const says = "image.repository: no registry has an image of Muster yet: build one with \"make image IMAGE=REGISTRY/muster-scheduler:TAG\""
	for _, chart := range []string{"muster", "muster-controller"} {
		_, errs, err := helm(t, "template", "muster", chart, "--kube-version=1.34.0", "--set=sources.grove=true")
		require.Error(t, err, chart)
		require.Contains(t, errs, says, chart)
	}
	image := regexp.MustCompile(`(?m)^ *(?:- )?image: (.*)$`)
	for _, folder := range []string{"base", "overlays/drop-in", "overlays/scheduler-plugins", "controller/base", "controller/overlays/grove-koordinator"} {
		all, err := yaml.Marshal(kustomizeList(t, "../"+folder))
		require.NoError(t, err)
		found := image.FindAllStringSubmatch(string(all), -1)
		require.Len(t, found, 1, folder)
		require.Equal(t, "muster-scheduler:"+noImage, found[0][1], folder)
	}
	page, err := os.ReadFile("../../docs/admins/install.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "`muster-scheduler:"+noImage+"`")
}

// TestMakeManifests: "make manifests" is kustomize with an image, and fails without one as the charts do.
func TestMakeManifests(t *testing.T) {
	t.Setenv("MAKEFLAGS", "")
	kustomize := "KUSTOMIZE=" + tool(t, "kustomize") + " build"
	for _, folder := range []string{"deploy/base", "deploy/overlays/drop-in", "deploy/controller/overlays/leaderworkerset-koordinator"} {
		out, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "--no-print-directory", "manifests", kustomize,
			"FROM="+folder, "IMAGE=registry.example:5000/a/m:v1").Output()
		require.NoError(t, err, stderr(err))
		require.Len(t, regexp.MustCompile(`(?m)^ *(?:- )?image: registry\.example:5000/a/m:v1$`).FindAll(out, -1), 1)
		require.NotContains(t, string(out), noImage)
		require.Greater(t, len(objects(t, string(out))), 5)
	}
	cmd := exec.CommandContext(t.Context(), "make", "-C", "../..", "manifests", kustomize)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "IMAGE=") })
	out, err := cmd.Output()
	require.Error(t, err)
	require.NotContains(t, string(out), "apiVersion")
	require.Contains(t, stderr(err), `IMAGE: no registry has an image of Muster yet: build one with "make image IMAGE=REGISTRY/muster-scheduler:TAG"`)
	cmd = exec.CommandContext(t.Context(), "make", "-C", "../..", "manifests", "IMAGE=a:b", "KUSTOMIZE=false")
	require.Error(t, cmd.Run(), "a failed kustomize is a failure")
}

// TestThresholds: the values are the limits of the rules that Prometheus tests.
func TestThresholds(t *testing.T) {
	for chart, read := range map[string]func() ([]byte, error){"muster": monitoring.Rules, "muster-controller": monitoring.ControllerRules} {
		rules, err := read()
		require.NoError(t, err)
		var spec struct {
			Groups []struct {
				Rules []struct {
					Alert, Expr string
					Annotations map[string]string
				}
			}
		}
		require.NoError(t, yaml.Unmarshal(rules, &spec))
		limit := regexp.MustCompile(`> ([0-9.]+)$`)
		want := map[string]string{}
		for _, rule := range spec.Groups[0].Rules {
			require.Contains(t, rule.Annotations["runbook_url"], "#"+strings.ToLower(rule.Alert))
			if m := limit.FindStringSubmatch(rule.Expr); m != nil {
				want[rule.Alert] = m[1]
			}
		}
		var values struct {
			PrometheusRule struct{ Thresholds map[string]json.Number }
		}
		data, err := os.ReadFile(chart + "/values.yaml")
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(data, &values))
		got := map[string]string{}
		for alert, number := range values.PrometheusRule.Thresholds {
			got[alert] = number.String()
		}
		require.Equal(t, want, got)
	}
}

// TestMemory: the table of docs/admins/sizing.md is what the chart asks for.
func TestMemory(t *testing.T) {
	text, err := os.ReadFile("../../docs/admins/sizing.md")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| ([0-9,]+) \| ([0-9,]+) \| ([0-9]+Mi) \|`).FindAllStringSubmatch(string(text), -1)
	require.GreaterOrEqual(t, len(rows), 5)
	for _, row := range rows {
		nodes, pods := strings.ReplaceAll(row[1], ",", ""), strings.ReplaceAll(row[2], ",", "")
		out, errs, err := template(t, "muster", "--show-only=templates/deployment.yaml", "--set=size.nodes="+nodes+",size.pods="+pods)
		require.NoError(t, err, errs)
		require.Contains(t, out, "memory: "+row[3]+"\n", row[0])
	}
}

// TestPageValues: the chart takes the values that the pages for administrators and the README print.
func TestPageValues(t *testing.T) {
	pages, err := filepath.Glob("../../docs/admins/*.md")
	require.NoError(t, err)
	rendered := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			chart := "muster"
			if filepath.Base(page) == "controller.md" {
				chart = "muster-controller"
			}
			if strings.Contains(block, "kind: ") || strings.HasPrefix(block, "default: ") { // the file of --backend-config
				continue
			}
			rendered++
			file := filepath.Join(t.TempDir(), "values.yaml")
			require.NoError(t, os.WriteFile(file, []byte(block), 0o600))
			_, errs, err := template(t, chart, "--values="+file)
			require.NoError(t, err, "%s: %s", page, errs)
		}
	}
	require.GreaterOrEqual(t, rendered, 4)

	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	m := regexp.MustCompile(`helm install muster deploy/helm/muster .*(--set \S+)\n`).FindStringSubmatch(string(readme))
	require.NotNil(t, m)
	out, errs, err := template(t, "muster", strings.Fields(m[1])...)
	require.NoError(t, err, errs)
	require.Contains(t, out, "registry.example/muster-scheduler:v0.1.0")
}

// TestLabelsAndNamespace: of every object; nothing is left of the namespace that manifests/ names.
func TestLabelsAndNamespace(t *testing.T) {
	out, errs, err := template(t, "muster", "--namespace=elsewhere", "--set=labels.team=a,labels.app\\.kubernetes\\.io/name=mine,serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true,topology.preset=gke")
	require.NoError(t, err, errs)
	require.NotContains(t, out, "muster-system")
	for name, o := range objects(t, out) {
		require.Equal(t, "a", o.at("metadata", "labels", "team"), name)
	}
	require.Contains(t, out, "namespace: kube-system", "the role for reading how clients prove who they are is there")
	pods := objects(t, out)["Deployment elsewhere/muster-scheduler"].at("spec", "template", "metadata", "labels")
	require.Equal(t, "muster-scheduler", pods.(map[string]any)["app.kubernetes.io/name"], "the selector must hold")
}

// TestMonitoring: the chart's rules and dashboard equal the files of deploy/monitoring. Helm does not expand the
// templates of Prometheus and Grafana in them.
func TestMonitoring(t *testing.T) {
	all := render(t, "muster", "--set=prometheusRule.enabled=true,dashboard.enabled=true")
	rules, err := monitoring.Rules()
	require.NoError(t, err)
	var want any
	require.NoError(t, yaml.Unmarshal(rules, &want))
	require.Equal(t, want, all["PrometheusRule muster-system/muster-scheduler"].at("spec"))
	board, err := monitoring.Files.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.JSONEq(t, string(board), all["ConfigMap muster-system/muster-dashboard"].at("data", "muster.json").(string))
}

// TestPresets: each is the file of manifests/topologies.
func TestPresets(t *testing.T) {
	files, err := manifests.Topologies.ReadDir("topologies")
	require.NoError(t, err)
	for _, f := range files {
		data, err := manifests.Topologies.ReadFile("topologies/" + f.Name())
		require.NoError(t, err)
		var want object
		require.NoError(t, yaml.Unmarshal(data, &want))
		got := render(t, "muster", "--show-only=templates/manifests.yaml", "--set=topology.preset="+strings.TrimSuffix(f.Name(), ".yaml"))
		require.Equal(t, want, got["ClusterNetworkTopology /default"].withoutStandard(), f.Name())
	}
}

// TestConfiguration loads what values make as kube-scheduler --config does, strictly.
func TestConfiguration(t *testing.T) {
	config.InstallDefaults()
	values := filepath.Join(t.TempDir(), "values.yaml")
	profiles := "profiles: [{schedulerName: a}, {schedulerName: b, pluginConfig: [{name: Coscheduling, args: {maxGrace: 2m}}]}]"
	for _, c := range []struct {
		values string
		names  []string
		grace  string
	}{
		{"schedulerNames: [koord-scheduler]", []string{"koord-scheduler"}, "5m0s"},
		{"coschedulingArgs: {maxGrace: 1m}", []string{"muster-scheduler"}, "1m0s"},
		{"{schedulerNames: [a, b, c], coschedulingArgs: {maxGrace: 1m, enablePreemption: false}}", []string{"a", "b", "c"}, "1m0s"},
		{"config: {parallelism: 32}", []string{"muster-scheduler"}, "5m0s"},
		{profiles, []string{"a", "b"}, "2m0s"},
	} {
		require.NoError(t, os.WriteFile(values, []byte(c.values), 0o600))
		all := render(t, "muster", "--values="+values)
		args := all[deployment].at("spec", "template", "spec", "containers").([]any)[0].(map[string]any)["args"].([]any)
		require.Equal(t, "--config=/etc/muster/custom.yaml", args[0])
		text := all["ConfigMap muster-system/muster-scheduler-config"].at("data", "custom.yaml").(string)
		file := filepath.Join(t.TempDir(), "custom.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))

		logger, _ := ktesting.NewTestContext(t)
		cfg, err := options.LoadConfigFromFile(logger, file)
		require.NoError(t, err, text)
		require.Nil(t, validation.ValidateKubeSchedulerConfiguration(cfg))
		var names []string
		grace := ""
		for _, p := range cfg.Profiles {
			names = append(names, p.SchedulerName)
			for _, plugin := range p.PluginConfig {
				if plugin.Name == config.PluginName {
					args, err := config.Decode(plugin.Args)
					require.NoError(t, err, text)
					grace = args.MaxGrace.String()
				}
			}
		}
		require.Equal(t, c.names, names)
		require.Equal(t, c.grace, grace, text)
		require.Equal(t, strings.Contains(c.values, "parallelism"), cfg.Parallelism == 32)
		policy := all["ValidatingAdmissionPolicy /muster-keys"].at("spec", "matchConditions").([]any)[1].(map[string]any)
		require.Contains(t, policy["expression"], "spec.schedulerName in ['"+strings.Join(names, "', '")+"']", "policies look at the same pods")
	}
}

// TestBadValues: the message names the field, and often the supported values.
func TestBadValues(t *testing.T) {
	for _, c := range []struct{ chart, values, want string }{
		{"muster", "replicaCount=two", "'/replicaCount': got string, want integer"},
		{"muster", "replicaCount=0", "'/replicaCount': minimum: got 0, want 1"},
		{"muster", "replica=2", "additional properties 'replica' not allowed"},
		{"muster", "image.name=x", "'/image': additional properties 'name' not allowed"},
		{"muster", "image.digest=sha256:12", "'/image/digest': 'sha256:12' does not match pattern"},
		{"muster", "image.pullPolicy=Sometimes", "'/image/pullPolicy': value must be one of '', 'Always', 'IfNotPresent', 'Never'"},
		{"muster", "schedulerNames={}", "'/schedulerNames/0': '' does not match pattern"},
		{"muster", "schedulerNames=null", "missing property 'schedulerNames'"},
		{"muster", "schedulerNames={a,a}", "'/schedulerNames': items at 0 and 1 are equal"},
		{"muster", "schedulerNames={a'b}", "'/schedulerNames/0': 'a\\'b' does not match pattern"},
		{"muster", "coschedulingArgs.maxGrase=1m", "'/coschedulingArgs': additional properties 'maxGrase' not allowed"},
		{"muster", "coschedulingArgs.maxGrace=60", "'/coschedulingArgs/maxGrace': got number, want string"},
		{
			"muster", "coschedulingArgs.defaultMatchPolicy=x",
			"'/coschedulingArgs/defaultMatchPolicy': value must be one of 'only-waiting', 'waiting-and-running', 'once-satisfied'",
		},
		{"muster", "config.profiles[0].schedulerName=x", "config.profiles: profiles have a value of their own"},
		{"muster", "profiles[0].schedulername=x", "'/profiles/0': missing property 'schedulerName'"},
		{
			"muster", "profiles[0].schedulerName=x,coschedulingArgs.maxGrace=1m",
			"profiles and coschedulingArgs: write the arguments into the profiles",
		},
		{"muster", "profiles[0].schedulerName=x,profiles[1].schedulerName=x", "profiles: schedulerName x twice"},
		{"muster", "profiles[0].schedulerName=x,schedulerNames={y}", "profiles and schedulerNames: profiles name their schedulers themselves"},
		{"muster", "schedulerNames={a..b}", "'/schedulerNames/0': 'a..b' does not match pattern"},
		{"muster", "size.pods=9223372036854775807", "'/size/pods': maximum"},
		{"muster", "topology.preset=gkee", "'/topology/preset': value must be one of '', 'aws-eks',"},
		{"muster", "topology.preset=gke,topology.layers[0].topologyLayer=x", "topology.preset and topology.layers: give one of them"},
		{"muster", "policies.key=false", "'/policies': additional properties 'key' not allowed"},
		{"muster", "sources.job=yes", "'/sources/job': got string, want boolean"},
		{"muster", "resources.requests.memory=1GB", "'/resources/requests/memory': '1GB' does not match pattern"},
		{"muster", "size.nodes=0", "'/size/nodes': minimum: got 0, want 1"},
		{"muster", "extraArgs={v=3}", "'/extraArgs/0': 'v=3' does not match pattern"},
		{"muster", "labels.a=1", "'/labels/a': got number, want string"},
		{"muster", "labels.a=b c", "'/labels/a': 'b c' does not match pattern"},
		{"muster", "podLabels.a=" + strings.Repeat("b", 64), "'/podLabels/a': maxLength: got 64, want 63"},
		{"muster", "podLabels.a b=c", "'/podLabels': additional properties 'a b' not allowed"},
		{"muster", "nodeSelector.a=b/c", "'/nodeSelector/a': 'b/c' does not match pattern"},
		{"muster", "serviceMonitor.labels.a=b c", "'/serviceMonitor/labels/a': 'b c' does not match pattern"},
		{"muster", "podAnnotations.a b=c", "'/podAnnotations': additional properties 'a b' not allowed"},
		{"muster", "podAnnotations.checksum/config=mine", "podAnnotations: checksum/config is the chart's own; supported values: any other key"},
		{"muster", "networkPolicy=null", "missing property 'networkPolicy'"},
		{"muster", "networkPolicy.enabled=null", "'/networkPolicy': missing property 'enabled'"},
		{"muster", "podDisruptionBudget=null", "missing property 'podDisruptionBudget'"},
		{"muster", "serviceMonitor=null", "missing property 'serviceMonitor'"},
		{"muster", "serviceMonitor.interval=null", "'/serviceMonitor': missing property 'interval'"},
		{"muster", "coschedulingArgs=null", "missing property 'coschedulingArgs'"},
		{"muster", "config=null", "missing property 'config'"},
		{"muster", "serviceAccount=null", "missing property 'serviceAccount'"},
		{"muster", "rbac.create=yes", "'/rbac/create': got string, want boolean"},
		{"muster", "fullnameOverride=A", "'/fullnameOverride': 'A' does not match pattern"},
		{"muster", "logLevel=11", "'/logLevel': maximum: got 11, want 10"},
		{"muster", "prometheusRule.thresholds.MusterGangWait=1", "'/prometheusRule/thresholds': additional properties 'MusterGangWait' not allowed"},
		{"muster", "labels=null", "missing property 'labels'"},
		{"muster", "policies.keys=null", "'/policies': missing property 'keys'"},
		{"muster", "sources.job=null", "'/sources': missing property 'job'"},
		{"muster", "image.repository=null", "'/image': missing property 'repository'"},
		{"muster", "image.repository=a b", "'/image/repository': 'a b' does not match pattern"},
		{"muster", "config.parallelism=x", "'/config/parallelism': got string, want integer"},
		{"muster", "config.parallelism=0", "'/config/parallelism': minimum: got 0, want 1"},
		{"muster", "config.paralelism=4", "'/config': additional properties 'paralelism' not allowed"},
		{"muster", "config.percentageOfNodesToScore=101", "'/config/percentageOfNodesToScore': maximum: got 101, want 100"},
		{"muster", "config.clientConnection.qps=fast", "'/config/clientConnection/qps': got string, want number"},
		{"muster", "config.extenders[0].url=http://x", "'/config/extenders/0'"},
		{
			"muster", "config.podInitialBackoffSeconds=20",
			"config.podMaxBackoffSeconds: got 10, supported values: 20 (podInitialBackoffSeconds) or more",
		},
		{"muster", "profiles[0].schedulerName=a,profiles[0].plugin=x", "'/profiles/0': additional properties 'plugin' not allowed"},
		{
			"muster", "profiles[0].schedulerName=a,profiles[0].plugins.score.enabled={x}",
			"'/profiles/0/plugins/score/enabled/0': got string, want object",
		},
		{"muster", "priorityClassName=a b", "'/priorityClassName': 'a b' does not match pattern"},
		{"muster", "extraArgs={--v 3}", "'/extraArgs/0': '--v 3' does not match pattern"},
		{"muster-crds", "crds.podGroups=yes", "'/crds/podGroups': value must be one of 'auto', 'always', 'never'"},
		{"muster-crds", "crds.podgroups=never", "'/crds': additional properties 'podgroups' not allowed"},
	} {
		_, errs, err := template(t, c.chart, "--set="+c.values)
		require.Error(t, err, c.values)
		require.Contains(t, errs, c.want, c.values)
		// What a template refuses "helm lint" only tells; what the schema refuses fails there, too.
		out, told, err := helm(t, slices.Concat([]string{"lint", "--kube-version=1.34.0", c.chart}, needed[c.chart], []string{"--set=" + c.values})...)
		require.Contains(t, out+told, c.want, c.values)
		require.Equal(t, strings.Contains(errs, "don't meet the specifications of the schema"), err != nil, c.values)
	}
	_, errs, err := helm(t, "template", "m", "muster", "--kube-version=1.33.9")
	require.Error(t, err)
	require.Contains(t, errs, "chart requires kubeVersion: >=1.34.0-0 which is incompatible with Kubernetes v1.33.9")
}

// keys returns the keys of a map, sorted.
func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
