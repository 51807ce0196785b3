package backend

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/document"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// Config is the configuration of the backends, as in --backend-config (YAML).
//
//	default: muster
//	nodeTier: 0
//	backends:
//	- {name: koordinator, schedulerNames: [koord-scheduler], gangMode: Strict, matchPolicy: once-satisfied}
//	- {name: muster}
type Config struct {
	// Default is the backend for pods without a scheduler name; "" is workload if that is enabled.
	Default string `json:"default,omitempty"`
	// NodeTier is the tier of a single node: 0, or 1 if the first tier is the host.
	NodeTier int32 `json:"nodeTier,omitempty"`
	// Backends are the enabled backends; empty for all.
	Backends []BackendConfig `json:"backends,omitempty"`
}

// BackendConfig configures one backend. Unset fields have the defaults of GREP-537 for koordinator, and the scheduler's own for muster.
type BackendConfig struct {
	Name string `json:"name"`
	// SchedulerNames are the exact scheduler names, in place of the built-in one. Pods get the first.
	SchedulerNames []string `json:"schedulerNames,omitempty"`
	// The following fields are for koordinator and muster.
	GangMode               *string           `json:"gangMode,omitempty"`
	MatchPolicy            *string           `json:"matchPolicy,omitempty"`
	ScheduleTimeoutSeconds *int32            `json:"scheduleTimeoutSeconds,omitempty"`
	DefaultQoSClass        *string           `json:"defaultQoSClass,omitempty"`
	TopologyKeyMappings    map[string]string `json:"topologyKeyMappings,omitempty"`
	// Queue is for volcano: the queue of gangs that name none.
	Queue string `json:"queue,omitempty"`
}

// builtIn maps each backend to its built-in scheduler name; "" for none.
var builtIn = map[string]string{
	"workload": "", "podgang": "kai-scheduler", "koordinator": scheduling.DropInSchedulerName,
	"muster": scheduling.SchedulerName, "volcano": "volcano",
}

// ReadConfig parses and validates a configuration. Unknown fields are errors.
func ReadConfig(data []byte) (*Config, error) {
	out := &Config{}
	if err := document.One(data, "the configuration of the backends"); err != nil {
		return nil, fmt.Errorf("backend configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, out); err != nil {
		return nil, fmt.Errorf("backend configuration: %w", err)
	}
	if _, err := out.Translators(); err != nil {
		return nil, err
	}
	return out, nil
}

// Translators returns the translators of the enabled backends, or an error that names all invalid fields.
func (c *Config) Translators() (out []Translator, err error) {
	all := c.Backends
	if len(all) == 0 {
		for _, name := range slices.Sorted(maps.Keys(builtIn)) {
			all = append(all, BackendConfig{Name: name})
		}
	}
	var errs []error
	invalid := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("backend configuration: "+format, args...))
	}
	if c.NodeTier != 0 && c.NodeTier != 1 {
		invalid("nodeTier: %d is invalid; supported values: 0, 1", c.NodeTier)
	}
	claimed := map[string]string{} // by scheduler name, the backend that claims it
	for i, b := range all {
		for _, name := range b.SchedulerNames {
			if by, twice := claimed[name]; twice || name == "" {
				invalid("backends[%d].schedulerNames: %q is invalid; write a name that no other backend has: %q has it", i, name, by)
			}
			claimed[name] = b.Name
		}
	}
	seen := map[string]bool{}
	for i := range all {
		b := &all[i]
		if _, known := builtIn[b.Name]; !known || seen[b.Name] {
			invalid("backends[%d].name: %q is invalid; write each of %q at most once", i, b.Name, slices.Sorted(maps.Keys(builtIn)))
			continue
		}
		seen[b.Name] = true
		for _, err := range b.check() {
			invalid("backends[%d] %s: %w", i, b.Name, err)
		}
		out = append(out, b.translator(claimed))
	}
	if c.Default != "" && !seen[c.Default] {
		invalid("default: %q is invalid; supported values: one of %q", c.Default, slices.Sorted(maps.Keys(seen)))
	}
	return out, errors.Join(errs...)
}

// check returns an error for each invalid field.
func (b *BackendConfig) check() (errs []error) {
	oneOf := func(field string, value *string, legal ...string) {
		if value != nil && !slices.Contains(legal, *value) {
			errs = append(errs, fmt.Errorf("%s: %q is invalid; supported values: %q", field, *value, legal))
		}
	}
	oneOf("gangMode", b.GangMode, string(scheduling.ModeStrict), string(scheduling.ModeNonStrict))
	var policies []string
	for _, p := range scheduling.MatchPolicies() {
		policies = append(policies, string(p))
	}
	oneOf("matchPolicy", b.MatchPolicy, policies...)
	oneOf("defaultQoSClass", b.DefaultQoSClass, "LSE", "LSR", "LS", "BE")
	if s := b.ScheduleTimeoutSeconds; s != nil && *s < 1 {
		errs = append(errs, fmt.Errorf("scheduleTimeoutSeconds: %d is invalid; supported values: an integer ≥ 1", *s))
	}
	layers := slices.Sorted(maps.Values(koordinatorKeys))
	for _, key := range slices.Sorted(maps.Keys(b.TopologyKeyMappings)) {
		layer := b.TopologyKeyMappings[key]
		if b.Name == "koordinator" && !slices.Contains(layers, layer) || layer == "" || key == "" {
			errs = append(errs, fmt.Errorf("topologyKeyMappings[%s]: %q is invalid; supported values: %q", key, layer, layers))
		}
	}
	if b.Name != "koordinator" && b.Name != "muster" && (b.GangMode != nil || b.MatchPolicy != nil || b.ScheduleTimeoutSeconds != nil ||
		b.DefaultQoSClass != nil || len(b.TopologyKeyMappings) > 0) {
		errs = append(errs,
			errors.New("gangMode, matchPolicy, scheduleTimeoutSeconds, defaultQoSClass and topologyKeyMappings are for koordinator and muster"))
	}
	if b.Name != "volcano" && b.Queue != "" {
		errs = append(errs, errors.New("queue is for volcano"))
	}
	return errs
}

// defaultTimeout is koordinator's default of scheduleTimeoutSeconds, from GREP-537.
const defaultTimeout = 30

// translator returns the backend's translator. claimed maps configured scheduler names to backends: a backend does not serve its
// built-in name if another backend claims it.
func (b *BackendConfig) translator(claimed map[string]string) Translator {
	n := names{exact: b.SchedulerNames}
	if known := builtIn[b.Name]; len(n.exact) == 0 && known != "" {
		n.exact = []string{known}
		if by, taken := claimed[known]; taken && by != b.Name {
			n.claimedByOther = true
		}
	}
	pods := podGroups{
		names: n, name: b.Name, mode: value(b.GangMode, ""), matchPolicy: value(b.MatchPolicy, ""), qos: value(b.DefaultQoSClass, ""),
		mappings: b.TopologyKeyMappings,
	}
	if b.ScheduleTimeoutSeconds != nil {
		pods.timeout = *b.ScheduleTimeoutSeconds
	}
	switch b.Name {
	case "workload":
		return &workload{n}
	case "podgang":
		n.anyName = true
		return &passThrough{n}
	case "koordinator":
		pods.substring = "koord"
		pods.mode = value(b.GangMode, string(scheduling.ModeStrict))
		pods.matchPolicy = value(b.MatchPolicy, string(scheduling.MatchOnceSatisfied))
		if b.ScheduleTimeoutSeconds == nil {
			pods.timeout = defaultTimeout
		}
		return &koordinator{pods}
	case "muster":
		return &muster{pods}
	}
	return &volcano{names: n, queue: b.Queue}
}

// value returns *configured, or otherwise if configured is nil.
func value(configured *string, otherwise string) string {
	if configured == nil {
		return otherwise
	}
	return *configured
}
