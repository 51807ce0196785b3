package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
)

// QuotaName is the name of the plugin that admits pods by their ElasticQuotas.
const QuotaName = "ElasticQuota"

const quotaKind = QuotaName + "Args"

// QuotaArgs is ElasticQuotaArgs after decoding: valid and with defaults. All fields of Koordinator's plugin are accepted.
//
//	field                           default             supported values
//	quotaGroupNamespace             koordinator-system  a namespace; without effect: built-in quotas are known by name
//	defaultQuotaGroupMax            none: no limit      amounts by resource
//	systemQuotaGroupMax             none: no limit      amounts by resource
//	enableRuntimeQuota              true                true, false
//	enableMinQuotaScale             true                true, false
//	disableDefaultQuotaPreemption   true                true, false
//	monitorAllQuotas                false               true, false
//	delayEvictTime                  120s                a duration ≥ 0
//	revokePodInterval               1s                  a duration > 0
//	reclaimPolicy                   Any                 Any, LowerPriority, Never
//	enableCheckParentQuota          true                true, false; without effect: it is always checked
//	quotaSnapshotUpdateInterval     120s                a duration > 0; without effect
//	enableQueueHint                 true                true, false; without effect
//	hookPlugins                     none                a list; without effect
type QuotaArgs struct {
	// Namespace is the namespace of the built-in quotas.
	Namespace string
	// DefaultMax and SystemMax are the max of the default quota and of the system quota.
	DefaultMax, SystemMax map[string]resource.Quantity
	// Runtime says that a quota is limited to its fair share. Otherwise it is limited to its max.
	Runtime bool
	// ScaleMin says that mins are reduced in proportion if their sum exceeds the capacity.
	ScaleMin bool
	// SpareDefault says that pods of the default quota are not evicted.
	SpareDefault bool
	// Revoke says that gangs of a quota that has exceeded its fair share for Delay are evicted, if other quotas need their fair share.
	// The check runs every Every.
	Revoke       bool
	Delay, Every time.Duration
	// Reclaim says which gangs of other quotas may be evicted.
	Reclaim string
	// Idle are the fields that the user has set and that have no effect, in the order above.
	Idle []string
}

// DecodeQuota is Decode for ElasticQuotaArgs.
func DecodeQuota(raw runtime.Object) (QuotaArgs, error) {
	a := QuotaArgs{
		Namespace: "koordinator-system", Runtime: true, ScaleMin: true, SpareDefault: true, Delay: 120 * time.Second,
		Every: time.Second, Reclaim: "Any",
	}
	if raw == nil {
		return a, nil
	}
	unknown, ok := raw.(*runtime.Unknown)
	if !ok {
		return QuotaArgs{}, fmt.Errorf("%s: got %T; supported values: arguments as JSON", quotaKind, raw)
	}
	const flag, positive, amounts = "true, false", "a duration > 0, such as 120s", "amounts by resource"
	kind, apiVersion := quotaKind, argsAPIVersion
	delay := metav1.Duration{Duration: a.Delay}
	every := metav1.Duration{Duration: a.Every}
	snapshot := metav1.Duration{Duration: 1}
	parent, hint := true, true
	var hooks, def, system json.RawMessage
	policies := []string{"Any", "LowerPriority", "Never"}
	err := strictjson.Object(quotaKind, unknown.Raw,
		strictjson.Field{
			Name: "apiVersion", Into: &apiVersion, Legal: argsAPIVersion, Check: func() bool { return apiVersion == argsAPIVersion },
		},
		strictjson.Field{Name: "kind", Into: &kind, Legal: quotaKind, Check: func() bool { return kind == quotaKind }},
		strictjson.Field{Name: "quotaGroupNamespace", Into: &a.Namespace, Legal: "a namespace", Check: func() bool { return a.Namespace != "" }},
		strictjson.Field{Name: "defaultQuotaGroupMax", Into: &def, Legal: amounts},
		strictjson.Field{Name: "systemQuotaGroupMax", Into: &system, Legal: amounts},
		strictjson.Field{Name: "enableRuntimeQuota", Into: &a.Runtime, Legal: flag},
		strictjson.Field{Name: "enableMinQuotaScale", Into: &a.ScaleMin, Legal: flag},
		strictjson.Field{Name: "disableDefaultQuotaPreemption", Into: &a.SpareDefault, Legal: flag},
		strictjson.Field{Name: "monitorAllQuotas", Into: &a.Revoke, Legal: flag},
		strictjson.Field{
			Name: "delayEvictTime", Into: &delay, Legal: "a duration ≥ 0, such as 120s", Check: func() bool { return delay.Duration >= 0 },
		},
		strictjson.Field{Name: "revokePodInterval", Into: &every, Legal: positive, Check: func() bool { return every.Duration > 0 }},
		strictjson.Field{
			Name: "reclaimPolicy", Into: &a.Reclaim, Legal: "Any, LowerPriority, Never",
			Check: func() bool { return slices.Contains(policies, a.Reclaim) },
		},
		strictjson.Field{Name: "enableCheckParentQuota", Into: &parent, Legal: flag},
		strictjson.Field{
			Name: "quotaSnapshotUpdateInterval", Into: &snapshot, Legal: positive, Check: func() bool { return snapshot.Duration > 0 },
		},
		strictjson.Field{Name: "enableQueueHint", Into: &hint, Legal: flag},
		strictjson.Field{Name: "hookPlugins", Into: &hooks, Legal: "a list"},
	)
	var wrong [2]error
	a.DefaultMax, wrong[0] = decodeAmounts("defaultQuotaGroupMax", def)
	a.SystemMax, wrong[1] = decodeAmounts("systemQuotaGroupMax", system)
	if err = errors.Join(err, wrong[0], wrong[1]); err != nil {
		return QuotaArgs{}, err
	}
	a.Delay, a.Every = delay.Duration, every.Duration
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"enableCheckParentQuota: false", !parent},
		{"quotaSnapshotUpdateInterval", snapshot.Duration != 1},
		{"enableQueueHint: false", !hint},
		{"hookPlugins", hooks != nil},
	} {
		if f.given {
			a.Idle = append(a.Idle, f.name)
		}
	}
	return a, nil
}

// decodeAmounts parses amounts by resource; nil data is none.
func decodeAmounts(field string, data json.RawMessage) (map[string]resource.Quantity, error) {
	if data == nil {
		return nil, nil
	}
	var all map[string]resource.Quantity
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s.%s: %s is invalid; supported values: amounts by resource, such as {\"cpu\":\"16\"}", quotaKind, field, data)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if n := all[name]; n.Sign() < 0 {
			return nil, fmt.Errorf("%s.%s.%s: %s is invalid; supported values: a quantity ≥ 0", quotaKind, field, name, n.String())
		}
	}
	return all, nil
}
