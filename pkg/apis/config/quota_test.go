package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/config"
)

func quotaDefaults() config.QuotaArgs {
	return config.QuotaArgs{
		Namespace: "koordinator-system", Runtime: true, ScaleMin: true, SpareDefault: true, Delay: 120 * time.Second, Every: time.Second,
		Reclaim: "Any",
	}
}

func TestDecodeQuota(t *testing.T) {
	args, err := config.DecodeQuota(nil)
	require.NoError(t, err)
	require.Equal(t, quotaDefaults(), args)
	for raw, change := range map[string]func(*config.QuotaArgs){
		`{}`: func(*config.QuotaArgs) {},
		// Koordinator's own example.
		`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"ElasticQuotaArgs","delayEvictTime":"300s","revokePodInterval":"60s","quotaGroupNamespace":"koordinator-system",
		  "defaultQuotaGroupMax":{"cpu":"20","memory":"40Gi"},"systemQuotaGroupMax":{"cpu":"20"},"monitorAllQuotas":true,"enableCheckParentQuota":true,"enableRuntimeQuota":true}`: func(a *config.QuotaArgs) {
			a.Delay, a.Every, a.Revoke = 300*time.Second, 60*time.Second, true
			a.DefaultMax = map[string]resource.Quantity{"cpu": resource.MustParse("20"), "memory": resource.MustParse("40Gi")}
			a.SystemMax = map[string]resource.Quantity{"cpu": resource.MustParse("20")}
		},
		`{"enableRuntimeQuota":false,"enableMinQuotaScale":false,"disableDefaultQuotaPreemption":false,` +
			`"reclaimPolicy":"LowerPriority"}`: func(a *config.QuotaArgs) {
			a.Runtime, a.ScaleMin, a.SpareDefault, a.Reclaim = false, false, false, "LowerPriority"
		},
		`{"enableCheckParentQuota":false,"quotaSnapshotUpdateInterval":"60s","enableQueueHint":false,` +
			`"hookPlugins":[{"key":"x"}]}`: func(a *config.QuotaArgs) {
			a.Idle = []string{"enableCheckParentQuota: false", "quotaSnapshotUpdateInterval", "enableQueueHint: false", "hookPlugins"}
		},
	} {
		args, err := config.DecodeQuota(&runtime.Unknown{Raw: []byte(raw), ContentType: runtime.ContentTypeJSON})
		require.NoError(t, err, raw)
		want := quotaDefaults()
		change(&want)
		require.Equal(t, want, args, raw)
	}
}

func TestDecodeQuotaErrors(t *testing.T) {
	for raw, want := range map[string]string{
		`{"kind":"CoschedulingArgs"}`: `ElasticQuotaArgs.kind: "CoschedulingArgs" is invalid; supported values: ElasticQuotaArgs`,
		`{"monitorAllQuota":true}`: `ElasticQuotaArgs.monitorAllQuota: unknown field; ` +
			`supported values: apiVersion, kind, quotaGroupNamespace,`,
		`{"delayEvictTime":"-1s"}`:   `ElasticQuotaArgs.delayEvictTime: "-1s" is invalid; supported values: a duration ≥ 0, such as 120s`,
		`{"revokePodInterval":"0s"}`: `ElasticQuotaArgs.revokePodInterval: "0s" is invalid; supported values: a duration > 0, such as 120s`,
		`{"reclaimPolicy":"Lower"}`:  `ElasticQuotaArgs.reclaimPolicy: "Lower" is invalid; supported values: Any, LowerPriority, Never`,
		`{"quotaGroupNamespace":""}`: `ElasticQuotaArgs.quotaGroupNamespace: "" is invalid; supported values: a namespace`,
		`{"defaultQuotaGroupMax":{"cpu":"many"}}`: `ElasticQuotaArgs.defaultQuotaGroupMax: {"cpu":"many"} is invalid; ` +
			`supported values: amounts by resource, such as {"cpu":"16"}`,
		`{"systemQuotaGroupMax":{"cpu":"-1"}}`:     `ElasticQuotaArgs.systemQuotaGroupMax.cpu: -1 is invalid; supported values: a quantity ≥ 0`,
		`{"hookPlugins":[],"enableQueueHint":"x"}`: `ElasticQuotaArgs.enableQueueHint: "x" is invalid; supported values: true, false`,
	} {
		args, err := config.DecodeQuota(&runtime.Unknown{Raw: []byte(raw)})
		require.ErrorContains(t, err, want)
		require.Zero(t, args)
	}
	_, err := config.DecodeQuota(&metav1.Status{})
	require.EqualError(t, err, "ElasticQuotaArgs: got *v1.Status; supported values: arguments as JSON")
}
