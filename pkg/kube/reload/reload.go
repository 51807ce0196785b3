// Package reload applies changes of a running scheduler's configuration file, and reports the result. Package config decides which
// arguments may change. Invariant: an invalid file changes nothing.
package reload

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/reasons"
)

// readInterval is how often the file is read. A change of a ConfigMap takes about a minute to reach the file.
const readInterval = 5 * time.Second

// File is the configuration file of a scheduler.
type File struct {
	Path  string
	Clock clock.WithTicker
	// Apply replaces a profile's arguments, and returns the changed fields that it applied and the ones that need a restart.
	Apply func(profile string, args config.Args) (changed, unchanged []string)
	// Report records the result of a change as an event of this kind (Normal or Warning).
	Report func(kind, reason, message string)

	lastContent []byte                                      // the content at the last reading
	startConfig *schedulerconfig.KubeSchedulerConfiguration // the configuration at the start
	problem     string                                      // why the content was rejected; "" if it was not
}

var (
	reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_configuration_reloads_total",
		Help: "[ALPHA] Changes of the configuration file by result: all in effect (applied), a part needs a restart (restart), " +
			"or the file is invalid and has no effect (refused).",
	}, []string{"result"})
	currentGauge = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "muster_configuration_current",
		Help: "[ALPHA] 1 if the whole configuration file is in effect, 0 if it is invalid or a part of it needs a restart.",
	})
)

const (
	resultApplied = "applied"
	resultRefused = "refused"
	resultRestart = "restart"
)

var registerOnce sync.Once

// Register exports the metrics at the process's /metrics.
func Register() {
	registerOnce.Do(func() {
		for _, result := range []string{resultApplied, resultRefused, resultRestart} {
			reloads.WithLabelValues(result)
		}
		currentGauge.Set(1)
		legacyregistry.RawMustRegister(reloads, currentGauge)
	})
}

// Watch reads the file every readInterval until ctx ends, and applies changes. The scheduler has started with the present content.
func (f *File) Watch(ctx context.Context) {
	if err := f.begin(); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot watch the configuration file; changes have no effect", "file", f.Path)
		return
	}
	ticker := f.Clock.NewTicker(readInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			f.Look()
		}
	}
}

// begin reads the configuration that the scheduler was started with.
func (f *File) begin() (err error) {
	if f.lastContent, err = os.ReadFile(f.Path); err != nil {
		return err
	}
	f.startConfig, _, err = decode(f.lastContent)
	return err
}

// Look reads the file once, and applies or rejects its changes.
func (f *File) Look() {
	data, err := os.ReadFile(f.Path)
	if err != nil {
		f.reject(fmt.Sprintf("cannot be read; the previous configuration stays in effect: %v", err))
		return
	}
	if bytes.Equal(data, f.lastContent) && f.problem == "" {
		return
	}
	f.lastContent = data
	cfg, args, err := decode(data)
	if err != nil {
		f.reject(fmt.Sprintf("is invalid; the previous configuration stays in effect: %v", err))
		return
	}
	f.problem = ""
	f.applyConfig(cfg, args)
}

// reject reports that the whole file is rejected, unless it was rejected for the same reason before.
func (f *File) reject(reason string) {
	if f.problem == reason {
		return
	}
	f.problem = reason
	reloads.WithLabelValues(resultRefused).Inc()
	currentGauge.Set(0)
	f.Report(v1.EventTypeWarning, reasons.ConfigurationRefused, "configuration "+f.Path+" "+reason)
}

// applyConfig applies the fields of a configuration that may change at run time, and reports the fields that need a restart.
func (f *File) applyConfig(cfg *schedulerconfig.KubeSchedulerConfiguration, args []config.Args) {
	restartNames := f.changedFields(cfg)
	appliedNames, profilesOf := []string(nil), map[string][]string{}
	addName := func(list *[]string, field, profile string) {
		if profilesOf[field] == nil {
			*list = append(*list, field)
		}
		profilesOf[field] = append(profilesOf[field], profile)
	}
	for i, profile := range cfg.Profiles {
		changed, unchanged := f.Apply(profile.SchedulerName, args[i])
		for _, name := range changed {
			addName(&appliedNames, fmt.Sprintf("%s is %v", name, valueOf(args[i], name)), profile.SchedulerName)
		}
		for _, name := range unchanged {
			addName(&restartNames, name, profile.SchedulerName)
		}
	}
	for _, list := range [][]string{appliedNames, restartNames} {
		for i, field := range list {
			if profiles := profilesOf[field]; profiles != nil {
				list[i] = field + " (" + strings.Join(profiles, ", ") + ")"
			}
		}
	}
	if len(appliedNames) > 0 {
		f.Report(v1.EventTypeNormal, reasons.ConfigurationApplied, "configuration "+f.Path+": "+strings.Join(appliedNames, ", "))
	}
	if len(restartNames) > 0 {
		reloads.WithLabelValues(resultRestart).Inc()
		currentGauge.Set(0)
		f.Report(v1.EventTypeWarning, reasons.ConfigurationNeedsRestart, "configuration "+f.Path+": restart the scheduler to apply "+
			strings.Join(restartNames, ", "))
		return
	}
	currentGauge.Set(1)
	reloads.WithLabelValues(resultApplied).Inc()
}

// valueOf returns the value of the field of args with this name in the configuration file.
func valueOf(args config.Args, name string) any {
	return reflect.ValueOf(args).FieldByNameFunc(func(field string) bool { return config.Name(field) == name }).Interface()
}

// changedFields returns the names of the fields of cfg that differ from startConfig, except Muster's arguments.
func (f *File) changedFields(cfg *schedulerconfig.KubeSchedulerConfiguration) (names []string) {
	old, current := reflect.ValueOf(*withoutMusterArgs(f.startConfig)), reflect.ValueOf(*withoutMusterArgs(cfg))
	for i := range old.NumField() {
		if !reflect.DeepEqual(old.Field(i).Interface(), current.Field(i).Interface()) {
			names = append(names, config.Name(old.Type().Field(i).Name))
		}
	}
	return names
}

// withoutMusterArgs returns a copy of cfg without Muster's arguments.
func withoutMusterArgs(cfg *schedulerconfig.KubeSchedulerConfiguration) *schedulerconfig.KubeSchedulerConfiguration {
	out := cfg.DeepCopy()
	for i := range out.Profiles {
		out.Profiles[i].PluginConfig = slices.DeleteFunc(out.Profiles[i].PluginConfig, configuresMuster)
	}
	return out
}

// configuresMuster says whether an entry has Muster's arguments.
func configuresMuster(c schedulerconfig.PluginConfig) bool { return c.Name == config.PluginName }

// decode parses a configuration as kube-scheduler does. The arguments are Muster's, with one entry for each profile.
func decode(data []byte) (*schedulerconfig.KubeSchedulerConfiguration, []config.Args, error) {
	if err := config.OneDocument(data); err != nil {
		return nil, nil, err
	}
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	cfg, ok := object.(*schedulerconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, nil, fmt.Errorf("kind %s is invalid; supported values: KubeSchedulerConfiguration", kind.Kind)
	}
	cfg.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, nil, err
	}
	args := make([]config.Args, len(cfg.Profiles))
	for i, profile := range cfg.Profiles {
		args[i], err = config.Decode(nil)
		if index := slices.IndexFunc(profile.PluginConfig, configuresMuster); index >= 0 {
			args[i], err = config.Decode(profile.PluginConfig[index].Args)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("profile %s: %w", profile.SchedulerName, err)
		}
	}
	return cfg, args, nil
}
