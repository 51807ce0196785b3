// Package family makes the plugins of all profiles of one process, which share their state. It makes no decisions.
//
//	Coscheduling, Gate   package plugin
//	DeviceShare          package deviceshare
//	ElasticQuota         package elasticquota
//	added plugins        Options.Plugins: they may implement the interfaces of plugin/extensions.go
package family

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/deviceshare"
	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
	"github.com/muster-scheduler/muster/pkg/kube/ledger"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
)

// Options are the settings of the process.
type Options struct {
	plugin.Options
	// Plugins are the factories of plugins that a user adds, by name. They cannot replace Muster's plugins.
	Plugins frameworkruntime.Registry
}

// Factories returns the factories of all plugins, by name. The plugins that are made by factories of one call share one state.
func Factories(o Options) frameworkruntime.Registry {
	rooms := plugin.Rooms{Devices: &deviceshare.Room{}, Quotas: elasticquota.NewManager()}
	f := &family{options: o.Options, added: map[string][]fwk.Plugin{}, rooms: rooms}
	all := frameworkruntime.Registry{}
	for name, factory := range o.Plugins {
		all[name] = f.recording(factory)
	}
	maps.Copy(all, frameworkruntime.Registry{
		plugin.Name: f.newPlugin, plugin.GateName: f.newGate, deviceshare.Name: f.rooms.Devices.New, elasticquota.Name: f.rooms.Quotas.New,
	})
	return all
}

// CheckConfig returns an error if a pluginConfig names a plugin that is neither in factories nor of kube-scheduler: it would have no
// effect.
func CheckConfig(profiles []schedulerconfig.KubeSchedulerProfile, factories frameworkruntime.Registry) error {
	known := slices.Sorted(maps.Keys(plugins.NewInTreeRegistry()))
	known = append(slices.Sorted(maps.Keys(factories)), known...)
	for i, profile := range profiles {
		for j, c := range profile.PluginConfig {
			if !slices.Contains(known, c.Name) {
				return field.NotSupported(field.NewPath("profiles").Index(i).Child("pluginConfig").Index(j).Child("name"), c.Name, known)
			}
		}
	}
	return nil
}

// family has what the plugins of all profiles share.
type family struct {
	options plugin.Options
	rooms   plugin.Rooms

	mu     sync.Mutex
	shared *plugin.Shared          // made with the first profile
	added  map[string][]fwk.Plugin // added plugins, by profile
}

func (f *family) newPlugin(ctx context.Context, raw runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := config.Decode(raw)
	if err != nil {
		return nil, err
	}
	profile, ok := h.(framework.Framework)
	if !ok {
		return nil, fmt.Errorf("plugin %s needs the handle of a kube-scheduler profile, not a %T", plugin.Name, h)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shared == nil {
		if f.shared, err = plugin.Start(ctx, f.options, f.rooms, args, h); err != nil {
			return nil, err
		}
		if note := extenderNote(h.Extenders()); note != "" {
			klog.FromContext(ctx).Info(note)
		}
	}
	return plugin.New(f.shared, plugin.Profile{
		Framework: profile, Args: args, Ended: ctx.Done(),
		Ledgers: append(ledger.All(profile), f.rooms.Devices.Ledger(profile)),
		Added:   func() []fwk.Plugin { return f.addedTo(h.ProfileName()) },
	}), nil
}

func (f *family) newGate(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return plugin.NewGate(func() *plugin.Plugin {
		if f.shared == nil {
			return nil
		}
		return f.shared.Profile(h.ProfileName())
	}), nil
}

// recording returns a factory that calls factory and records the made plugin in f.added.
func (f *family) recording(factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p, err := factory(ctx, args, h)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.added[h.ProfileName()] = append(f.added[h.ProfileName()], p)
		return p, nil
	}
}

// addedTo returns the added plugins of a profile.
func (f *family) addedTo(profile string) []fwk.Plugin {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.added[profile])
}

// extenderNote returns a message that names the extenders that filter nodes, because plans do not use these; "" if there are none.
func extenderNote(extenders []fwk.Extender) string {
	var names []string
	for _, e := range extenders {
		if e.IsFilter() {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "Extenders that filter nodes are not asked when a gang is planned, only in each member's own cycle. " +
		"If an extender rejects a node there, the gang is planned again. The node takes no more such members until the node or its " +
		"other pods change, at most for five minutes. Extenders: " + strings.Join(names, ", ")
}
