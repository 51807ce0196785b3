package config_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2/ktesting"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	kubeconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/muster-scheduler/muster/pkg/apis/config"
)

func TestMain(m *testing.M) {
	config.InstallDefaults()
	metrics.Register()
	os.Exit(m.Run())
}

func TestDefaultsWithoutFile(t *testing.T) {
	cfg, err := latest.Default()
	require.NoError(t, err)
	require.NoError(t, asError(cfg))
	require.Equal(t, "muster-scheduler", cfg.LeaderElection.ResourceName)
	require.Equal(t, "kube-system", cfg.LeaderElection.ResourceNamespace)
	require.EqualValues(t, 5000, cfg.ClientConnection.QPS)
	require.EqualValues(t, 10000, cfg.ClientConnection.Burst)
	require.Len(t, cfg.Profiles, 1)
	require.Equal(t, "muster-scheduler", cfg.Profiles[0].SchedulerName)
	requireOrder(t, cfg, "", "")
}

func TestDefaultsKeepWhatIsSaid(t *testing.T) {
	cfg := load(t, `
leaderElection: {resourceName: mine, resourceNamespace: here}
clientConnection: {qps: 7, burst: 9}
profiles:
- schedulerName: only
`)
	require.Equal(t, "mine", cfg.LeaderElection.ResourceName)
	require.Equal(t, "here", cfg.LeaderElection.ResourceNamespace)
	require.EqualValues(t, 7, cfg.ClientConnection.QPS)
	require.EqualValues(t, 9, cfg.ClientConnection.Burst)
	require.Len(t, cfg.Profiles, 1)
	require.Equal(t, "only", cfg.Profiles[0].SchedulerName)
}

// Koordinator's configuration, word for word, serves both scheduler names.
func TestDefaultsDropIn(t *testing.T) {
	cfg := load(t, `
profiles:
- pluginConfig:
  - name: Coscheduling
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: CoschedulingArgs
      awareNetworkTopology: true
      enablePreemption: false
`)
	require.Len(t, cfg.Profiles, 2)
	require.Equal(t, "muster-scheduler", cfg.Profiles[0].SchedulerName)
	require.Equal(t, "koord-scheduler", cfg.Profiles[1].SchedulerName)
	for i := range cfg.Profiles {
		args, err := config.Decode(pluginArgs(&cfg.Profiles[i]))
		require.NoError(t, err)
		require.False(t, args.EnablePreemption)
	}
	requireOrder(t, cfg, "", "")
}

// TestDefaultsOrder builds the frameworks and reads their plugins. Each case has profiles, the extension points
// without Muster's plugin (without), and the points at which it should be first but is not (behind).
func TestDefaultsOrder(t *testing.T) {
	const all = "PreEnqueue QueueSort PreFilter Filter PostFilter PreScore Score Reserve Permit PostBind"
	for name, c := range map[string]struct{ profiles, without, behind string }{
		"nothing":      {`[{schedulerName: a}]`, "", ""},
		"two profiles": {`[{schedulerName: a}, {schedulerName: b}]`, "", ""},
		"other plugins": {
			`[{schedulerName: a, plugins: {postFilter: {enabled: [{name: DefaultPreemption}]}, filter: {enabled: [{name: NodeName}]}}}]`, "", "",
		},
		"others off":    {`[{schedulerName: a, plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]`, "", ""},
		"at MultiPoint": {`[{schedulerName: a, plugins: {multiPoint: {enabled: [{name: Coscheduling, weight: 3}]}}}]`, "", ""},
		"at MultiPoint last": {
			`[{schedulerName: a, plugins: {multiPoint: {enabled: [{name: NodeName}, {name: Coscheduling}]}, postFilter: {enabled: [{name: ` +
				`DefaultPreemption}, {name: Coscheduling}]}}}]`,
			"", "",
		},
		"at one point":       {`[{schedulerName: a, plugins: {postFilter: {enabled: [{name: Coscheduling}]}}}]`, "", ""},
		"alone at one point": {`[{schedulerName: a, plugins: {postFilter: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}}}]`, "", ""},
		"off at one point":   {`[{schedulerName: a, plugins: {permit: {disabled: [{name: Coscheduling}]}}}]`, "Permit", ""},
		"all off at a point": {`[{schedulerName: a, plugins: {postFilter: {disabled: [{name: "*"}]}}}]`, "PostFilter", ""},
		"replaced at a point": {
			`[{schedulerName: a, plugins: {postFilter: {disabled: [{name: "*"}], enabled: [{name: DefaultPreemption}]}}}]`, "PostFilter", "",
		},
		"off": {`[{schedulerName: a, plugins: {multiPoint: {disabled: [{name: Coscheduling}]}}}]`, all, ""},
		"off in one": {
			`[{schedulerName: a, plugins: {multiPoint: {disabled: [{name: Coscheduling}]}}}, {schedulerName: b}]`,
			"a:PreEnqueue a:PreFilter a:Filter a:PostFilter a:PreScore a:Score a:Reserve a:Permit a:PostBind", "",
		},
		"off, but at a point": {
			`[{schedulerName: a, plugins: {multiPoint: {disabled: [{name: Coscheduling}]}, permit: {enabled: [{name: Coscheduling}]}}}]`,
			"PreEnqueue QueueSort PreFilter Filter PostFilter PreScore Score Reserve PostBind", "",
		},
		"everything by hand": {
			`[{schedulerName: a, plugins: {multiPoint: {disabled: [{name: "*"}]}, queueSort: {enabled: [{name: PrioritySort}]}, bind: {enabled: ` +
				`[{name: DefaultBinder}]}, postFilter: {enabled: [{name: DefaultPreemption}, {name: Coscheduling}]}}}]`,
			"PreEnqueue QueueSort PreFilter Filter PreScore Score Reserve Permit PostBind", "PostFilter",
		},
		"queue sorted by ours":  {`[{schedulerName: a, plugins: {queueSort: {enabled: [{name: Coscheduling}]}}}]`, "", ""},
		"queue not by priority": {`[{schedulerName: a, plugins: {queueSort: {disabled: [{name: PrioritySort}]}}}]`, "", ""},
		"queue by priority":     {`[{schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}]`, "QueueSort", ""},
		"queue not by ours":     {`[{schedulerName: a, plugins: {queueSort: {disabled: [{name: Coscheduling}]}}}]`, "QueueSort", ""},
		"queue by priority in one": {
			`[{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort}], disabled: [{name: "*"}]}}}]`,
			"QueueSort", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, "profiles: "+c.profiles)
			requireOrder(t, cfg, c.without, c.behind)
		})
	}
}

// TestDefaultsWeight: the weight of our Score is one that no other plugins outweigh, or
// what the profile says; 0 is that it does not run.
func TestDefaultsWeight(t *testing.T) {
	for name, c := range map[string]struct {
		profile string
		weight  int32
	}{
		"nothing":            {`{}`, 2000},
		"weighed":            {`{multiPoint: {enabled: [{name: Coscheduling, weight: 3}]}}`, 3},
		"named, not weighed": {`{multiPoint: {enabled: [{name: Coscheduling}]}}`, 2000},
		"weighed at Score":   {`{score: {enabled: [{name: Coscheduling, weight: 4}]}}`, 4},
		"named at Score":     {`{score: {enabled: [{name: Coscheduling}]}}`, 2000},
		"weighed at both": {
			`{multiPoint: {enabled: [{name: Coscheduling, weight: 3}]}, score: {enabled: [{name: Coscheduling, weight: 4}]}}`, 4,
		},
		"off at Score":          {`{score: {disabled: [{name: Coscheduling}]}}`, 0},
		"all off at Score":      {`{score: {disabled: [{name: "*"}]}}`, 0},
		"off":                   {`{multiPoint: {disabled: [{name: Coscheduling}]}}`, 0},
		"off, but not at Score": {`{multiPoint: {disabled: [{name: Coscheduling}]}, score: {enabled: [{name: Coscheduling}]}}`, 2000},
		"another weighs more":   {`{score: {enabled: [{name: NodeResourcesFit, weight: 5000}], disabled: [{name: NodeResourcesFit}]}}`, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, `profiles: [{schedulerName: a, plugins: `+c.profile+`}]`)
			var weight, others int32
			for _, p := range build(t, cfg.Profiles[0]).Score.Enabled {
				if p.Name == config.PluginName {
					weight = p.Weight
				} else {
					others += p.Weight
				}
			}
			require.Equal(t, c.weight, weight)
			if name == "nothing" {
				require.Greater(t, weight, others*int32(fwk.MaxScore), "one point of ours outweighs all the others")
			}
		})
	}
}

// Arguments of one profile apply to all profiles.
func TestDefaultsShareArgs(t *testing.T) {
	cfg := load(t, `
profiles:
- schedulerName: a
- schedulerName: b
  pluginConfig: [{name: Coscheduling, args: {controllerWorkers: 3}}]
`)
	for i := range cfg.Profiles {
		args, err := config.Decode(pluginArgs(&cfg.Profiles[i]))
		require.NoError(t, err)
		require.Equal(t, 3, args.ControllerWorkers)
	}
}

func TestDefaultsRefused(t *testing.T) {
	for profiles, want := range map[string]string{
		`[{schedulerName: a, pluginConfig: [{name: Coscheduling, args: {controllerWorkers: 2}}]}, {schedulerName: b, pluginConfig: [{name: ` +
			`Coscheduling, args: {controllerWorkers: 3}}]}]`: `queueSort must be the same for all profiles`,
		`[{schedulerName: a, plugins: {queueSort: {enabled: [{name: Coscheduling}]}}}, {schedulerName: b, plugins: {queueSort: {enabled: ` +
			`[{name: PrioritySort}]}}}]`: `must be the same for all profiles`,
		`[{schedulerName: a}, {}]`: `profiles[1].schedulerName: Required value`,
	} {
		_, err := tryLoad(t, "profiles: "+profiles)
		require.ErrorContains(t, err, want)
	}
}

// A configuration that was written out in full, as --write-config-to does, means the same
// when it is read again.
func TestDefaultsTwice(t *testing.T) {
	first := load(t, `profiles: [{plugins: {postFilter: {enabled: [{name: DefaultPreemption}]}}}]`)
	file := filepath.Join(t.TempDir(), "written.yaml")
	require.NoError(t, os.WriteFile(file, written(t, first), 0o600))
	logger, _ := ktesting.NewTestContext(t)
	second, err := options.LoadConfigFromFile(logger, file)
	require.NoError(t, err)
	require.Equal(t, first.Profiles, second.Profiles)
}

func load(t *testing.T, yaml string) *kubeconfig.KubeSchedulerConfiguration {
	t.Helper()
	cfg, err := tryLoad(t, yaml)
	require.NoError(t, err)
	return cfg
}

// tryLoad reads a configuration as kube-scheduler --config does.
func tryLoad(t *testing.T, yaml string) (*kubeconfig.KubeSchedulerConfiguration, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	head := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	require.NoError(t, os.WriteFile(file, []byte(head+yaml), 0o600))
	logger, _ := ktesting.NewTestContext(t)
	cfg, err := options.LoadConfigFromFile(logger, file)
	require.NoError(t, err)
	return cfg, asError(cfg)
}

func asError(cfg *kubeconfig.KubeSchedulerConfiguration) error {
	if errs := validation.ValidateKubeSchedulerConfiguration(cfg); errs != nil {
		return errs
	}
	return nil
}

func pluginArgs(p *kubeconfig.KubeSchedulerProfile) runtime.Object {
	for _, c := range p.PluginConfig {
		if c.Name == config.PluginName {
			return c.Args
		}
	}
	return nil
}

// written is cfg as kube-scheduler --write-config-to writes it.
func written(t *testing.T, cfg *kubeconfig.KubeSchedulerConfiguration) []byte {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	require.True(t, ok)
	data, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion), cfg)
	require.NoError(t, err)
	return data
}

// requireOrder builds the framework of each profile, with the stock plugins and a stand-in
// for ours. without and behind list extension points, or profile:point.
func requireOrder(t *testing.T, cfg *kubeconfig.KubeSchedulerConfiguration, without, behind string) {
	t.Helper()
	for _, profile := range cfg.Profiles {
		runs := build(t, profile)
		listed := func(points, point string) bool {
			words := strings.Fields(points)
			return slices.Contains(words, point) || slices.Contains(words, profile.SchedulerName+":"+point)
		}
		for point, set := range map[string]kubeconfig.PluginSet{
			"PreEnqueue": runs.PreEnqueue, "QueueSort": runs.QueueSort, "PreFilter": runs.PreFilter, "Filter": runs.Filter,
			"PostFilter": runs.PostFilter, "PreScore": runs.PreScore, "Score": runs.Score, "Reserve": runs.Reserve, "Permit": runs.Permit,
			"PostBind": runs.PostBind,
		} {
			at := slices.IndexFunc(set.Enabled, func(p kubeconfig.Plugin) bool { return p.Name == config.PluginName })
			require.Equal(t, listed(without, point), at < 0, "%s of %s: %v", point, profile.SchedulerName, set.Enabled)
			if strings.HasSuffix(point, "Filter") && at >= 0 {
				require.Equal(t, listed(behind, point), at > 0, "%s of %s: %v", point, profile.SchedulerName, set.Enabled)
			}
		}
		require.Len(t, runs.QueueSort.Enabled, 1)
	}
}

func build(t *testing.T, profile kubeconfig.KubeSchedulerProfile) *kubeconfig.Plugins {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	registry := plugins.NewInTreeRegistry()
	require.NoError(t, registry.Register(config.PluginName, func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return standIn{}, nil
	}))
	require.NoError(t, registry.Register(config.GateName, func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return standInGate{}, nil
	}))
	require.NoError(t, registry.Register(config.DevicesName, func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return standInDevices{}, nil
	}))
	require.NoError(t, registry.Register(config.QuotaName, func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return standInQuota{}, nil
	}))
	client := fake.NewClientset()
	f, err := frameworkruntime.NewFramework(ctx, registry, &profile,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithSnapshotSharedLister(cache.NewEmptySnapshot()),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)))
	require.NoError(t, err)
	return f.ListPlugins()
}

// standIn is a plugin with our extension points.
type standIn struct {
	fwk.PreEnqueuePlugin
	fwk.QueueSortPlugin
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PostFilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
	fwk.ReservePlugin
	fwk.PermitPlugin
	fwk.PostBindPlugin
}

func (standIn) Name() string { return config.PluginName }

type standInGate struct{ fwk.PreEnqueuePlugin }

func (standInGate) Name() string { return config.GateName }

// standInDevices is a plugin with the extension points at which Koordinator's configurations name it, and Bind.
type standInDevices struct {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.ScorePlugin
	fwk.ReservePlugin
	fwk.PreBindPlugin
	fwk.BindPlugin
}

func (standInDevices) Name() string { return config.DevicesName }

// standInQuota is a plugin with the extension points at which Koordinator's configurations name it.
type standInQuota struct {
	fwk.PreFilterPlugin
	fwk.PostFilterPlugin
	fwk.ReservePlugin
}

func (standInQuota) Name() string { return config.QuotaName }

// Quotas are kept wherever a profile names the plugin, or says nothing of it.
func TestDefaultsQuota(t *testing.T) {
	for pluginsYAML, want := range map[string]bool{
		`{}`: true,
		`{multiPoint: {disabled: [{name: ElasticQuota}]}}`: false,
		`{preFilter: {enabled: [{name: ElasticQuota}]}, postFilter: {enabled: [{name: ElasticQuota}]}, ` +
			`reserve: {enabled: [{name: ElasticQuota}]}}`: true,
		`{multiPoint: {enabled: [{name: ElasticQuota}]}}`:                                                                         true,
		`{multiPoint: {enabled: [{name: DefaultBinder}], disabled: [{name: "*"}]}, queueSort: {enabled: [{name: PrioritySort}]}}`: false,
	} {
		all := build(t, load(t, `profiles: [{schedulerName: a, plugins: `+pluginsYAML+`}]`).Profiles[0])
		named := func(p kubeconfig.Plugin) bool { return p.Name == config.QuotaName }
		require.Equal(t, want, slices.ContainsFunc(all.PreFilter.Enabled, named), pluginsYAML)
		require.Equal(t, want, slices.ContainsFunc(all.Reserve.Enabled, named), pluginsYAML)
	}
}

// The plugin DeviceShare binds before other plugins, wherever a profile names it, unless the profile disables it.
func TestDefaultsDevices(t *testing.T) {
	const devicesFirst, binder = "DeviceShare DefaultBinder", "DefaultBinder"
	for pluginsYAML, want := range map[string]string{
		`{}`: devicesFirst,
		`{multiPoint: {enabled: [{name: DeviceShare}, {name: Coscheduling}]}}`:                                                    devicesFirst,
		`{multiPoint: {enabled: [{name: DefaultBinder}, {name: DeviceShare}]}}`:                                                   devicesFirst,
		`{filter: {enabled: [{name: DeviceShare}]}, preBind: {enabled: [{name: DeviceShare}]}}`:                                   devicesFirst,
		`{bind: {enabled: [{name: DefaultBinder}]}}`:                                                                              devicesFirst,
		`{bind: {enabled: [{name: DefaultBinder}], disabled: [{name: "*"}]}}`:                                                     devicesFirst,
		`{multiPoint: {disabled: [{name: DeviceShare}]}}`:                                                                         binder,
		`{multiPoint: {enabled: [{name: DefaultBinder}], disabled: [{name: "*"}]}, queueSort: {enabled: [{name: PrioritySort}]}}`: binder,
		`{multiPoint: {enabled: [{name: DefaultBinder}, {name: DeviceShare}], disabled: [{name: Coscheduling}]}}`:                 devicesFirst,
	} {
		cfg := load(t, `profiles: [{schedulerName: a, plugins: `+pluginsYAML+`}]`)
		var names []string
		for _, p := range build(t, cfg.Profiles[0]).Bind.Enabled {
			names = append(names, p.Name)
		}
		require.Equal(t, want, strings.Join(names, " "), pluginsYAML)
	}
}

// The gate is where the plugin's PreEnqueue is.
func TestDefaultsGate(t *testing.T) {
	for pluginsYAML, want := range map[string]bool{
		`{}`: true,
		`{multiPoint: {enabled: [{name: Coscheduling}]}}`:                          true,
		`{multiPoint: {enabled: [{name: CoschedulingGate}]}}`:                      true,
		`{preEnqueue: {enabled: [{name: SchedulingGates}]}}`:                       true,
		`{multiPoint: {disabled: [{name: Coscheduling}]}}`:                         false,
		`{multiPoint: {disabled: [{name: CoschedulingGate}]}}`:                     false,
		`{preEnqueue: {disabled: [{name: Coscheduling}]}}`:                         false,
		`{preEnqueue: {disabled: [{name: "*"}]}}`:                                  false,
		`{preEnqueue: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}}`: false, // the plugin does its work
	} {
		cfg := load(t, `profiles: [{schedulerName: a, plugins: `+pluginsYAML+`}]`)
		runs := build(t, cfg.Profiles[0])
		got := slices.ContainsFunc(runs.PreEnqueue.Enabled, func(p kubeconfig.Plugin) bool { return p.Name == config.GateName })
		require.Equal(t, want, got, pluginsYAML)
	}
}
