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
	return config.QuotaArgs{Namespace: "koordinator-system", Runtime: true, ScaleMin: true, SpareDefault: true, Delay: 120 * time.Second, Every: time.Second, Reclaim: "Any"}
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
		`{"enableRuntimeQuota":false,"enableMinQuotaScale":false,"disableDefaultQuotaPreemption":false,"reclaimPolicy":"LowerPriority"}`: func(a *config.QuotaArgs) {
			a.Runtime, a.ScaleMin, a.SpareDefault, a.Reclaim = false, false, false, "LowerPriority"
		},
		`{"enableCheckParentQuota":false,"quotaSnapshotUpdateInterval":"60s","enableQueueHint":false,"hookPlugins":[{"key":"x"}]}`: func(a *config.QuotaArgs) {
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
		`{"kind":"CoschedulingArgs"}`:              `ElasticQuotaArgs.kind: "CoschedulingArgs" is not legal; legal: ElasticQuotaArgs`,
		`{"monitorAllQuota":true}`:                 `ElasticQuotaArgs.monitorAllQuota: unknown field; legal: apiVersion, kind, quotaGroupNamespace,`,
		`{"delayEvictTime":"-1s"}`:                 `ElasticQuotaArgs.delayEvictTime: "-1s" is not legal; legal: a duration ≥ 0, such as 120s`,
		`{"revokePodInterval":"0s"}`:               `ElasticQuotaArgs.revokePodInterval: "0s" is not legal; legal: a duration > 0, such as 120s`,
		`{"reclaimPolicy":"Lower"}`:                `ElasticQuotaArgs.reclaimPolicy: "Lower" is not legal; legal: Any, LowerPriority, Never`,
		`{"quotaGroupNamespace":""}`:               `ElasticQuotaArgs.quotaGroupNamespace: "" is not legal; legal: a namespace`,
		`{"defaultQuotaGroupMax":{"cpu":"many"}}`:  `ElasticQuotaArgs.defaultQuotaGroupMax: {"cpu":"many"} is not legal; legal: amounts by resource, such as {"cpu":"16"}`,
		`{"systemQuotaGroupMax":{"cpu":"-1"}}`:     `ElasticQuotaArgs.systemQuotaGroupMax.cpu: -1 is not legal; legal: a quantity ≥ 0`,
		`{"hookPlugins":[],"enableQueueHint":"x"}`: `ElasticQuotaArgs.enableQueueHint: "x" is not legal; legal: true, false`,
	} {
		args, err := config.DecodeQuota(&runtime.Unknown{Raw: []byte(raw)})
		require.ErrorContains(t, err, want)
		require.Zero(t, args)
	}
	_, err := config.DecodeQuota(&metav1.Status{})
	require.EqualError(t, err, "ElasticQuotaArgs: got *v1.Status; legal: arguments as JSON")
}
