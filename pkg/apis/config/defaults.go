package config

import (
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	upstream "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-scheduler/muster/pkg/apis/document"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// OneDocument returns an error for a configuration with a second document, which kube-scheduler's decoder ignores.
func OneDocument(text []byte) error { return document.One(text, "a KubeSchedulerConfiguration") }

// InstallDefaults makes kube-scheduler call SetDefaults for each KubeSchedulerConfiguration. Call it before the scheduler's command runs.
func InstallDefaults() {
	scheme.Scheme.AddTypeDefaultingFunc(&configv1.KubeSchedulerConfiguration{}, func(obj any) {
		SetDefaults(obj.(*configv1.KubeSchedulerConfiguration))
	})
}

// SetDefaults sets missing fields of cfg, so that an empty configuration runs Muster, and a configuration for Koordinator runs unchanged.
func SetDefaults(cfg *configv1.KubeSchedulerConfiguration) {
	// A separate Lease: with kube-scheduler's Lease, only one of the two schedulers would run at a time.
	if cfg.LeaderElection.ResourceName == "" {
		cfg.LeaderElection.ResourceName = scheduling.SchedulerName
	}
	// The upstream default of 50 requests a second also limits bindings: a gang of 500 would take ten seconds to start. The API
	// server protects itself by priority and fairness; a second limit here only slows gangs.
	if cfg.ClientConnection.QPS == 0 {
		cfg.ClientConnection.QPS = 5000
	}
	if cfg.ClientConnection.Burst == 0 {
		cfg.ClientConnection.Burst = 10000
	}

	nameProfiles(cfg)
	upstream.SetObjectDefaults_KubeSchedulerConfiguration(cfg)
	shareArgs(cfg.Profiles)
	for _, p := range cfg.Profiles {
		enable(p.Plugins)
	}
	shareQueueSort(cfg.Profiles)
}

// nameProfiles names a single profile without a name muster-scheduler, and adds a copy named koord-scheduler: Koordinator's own
// configuration has one profile without a name. Without profiles, it adds only muster-scheduler.
func nameProfiles(cfg *configv1.KubeSchedulerConfiguration) {
	switch {
	case len(cfg.Profiles) == 0:
		cfg.Profiles = []configv1.KubeSchedulerProfile{{SchedulerName: new(scheduling.SchedulerName)}}
	case len(cfg.Profiles) == 1 && cfg.Profiles[0].SchedulerName == nil:
		dropIn := *cfg.Profiles[0].DeepCopy()
		dropIn.SchedulerName = new(scheduling.DropInSchedulerName)
		cfg.Profiles[0].SchedulerName = new(scheduling.SchedulerName)
		cfg.Profiles = append(cfg.Profiles, dropIn)
	}
}

// shareArgs copies the first profile's arguments for Muster's plugin to profiles without any. kube-scheduler requires equal arguments of
// the plugin that sorts the queue in all profiles, because there is one queue.
func shareArgs(profiles []configv1.KubeSchedulerProfile) {
	ours := func(c configv1.PluginConfig) bool { return c.Name == PluginName }
	var args *configv1.PluginConfig
	for _, p := range profiles {
		if i := slices.IndexFunc(p.PluginConfig, ours); i >= 0 && args == nil {
			args = &p.PluginConfig[i]
		}
	}
	for i := range profiles {
		if p := &profiles[i]; args != nil && !slices.ContainsFunc(p.PluginConfig, ours) {
			p.PluginConfig = append(p.PluginConfig, *args.DeepCopy())
		}
	}
}

// enable enables Muster's plugins in a profile, and puts the main one first where order matters. It respects what the profile disables, at
// one extension point or at MultiPoint.
//
// kube-scheduler runs the plugins of an extension point in this order: plugins listed both there and in MultiPoint, in the
// order of that list; the rest of MultiPoint; the rest of the list. So Muster's plugin is first if it is first in MultiPoint
// and in each list of the profile.
func enable(p *configv1.Plugins) {
	weigh(&p.Score)
	if !has(p.MultiPoint.Enabled, PluginName) && disables(p.MultiPoint) {
		if has(p.MultiPoint.Enabled, DevicesName) {
			addDevices(p, 0)
		}
		return
	}
	putFirst(&p.MultiPoint)
	addGate(p)
	addDevices(p, 1)
	addQuota(p)
	weigh(&p.MultiPoint)
	for _, s := range []*configv1.PluginSet{
		&p.PreFilter,  // plans the gang; filtering before that is wasted
		&p.Filter,     // the cheapest: a planned member has one node
		&p.PostFilter, // else DefaultPreemption would evict for a single member
	} {
		if has(s.Enabled, PluginName) || len(s.Enabled) > 0 && !disables(*s) {
			putFirst(s)
		}
	}
}

// addGate enables the plugin's gate, unless the profile disables the gate or the plugin at PreEnqueue.
func addGate(p *configv1.Plugins) {
	switch {
	case has(p.MultiPoint.Enabled, GateName) || has(p.MultiPoint.Disabled, GateName) || disables(p.PreEnqueue):
	default:
		p.MultiPoint.Enabled = append(p.MultiPoint.Enabled, configv1.Plugin{Name: GateName})
	}
}

// addDevices enables the plugin DeviceShare, unless the profile disables it or all plugins. It inserts it at index at of MultiPoint, and
// first at Bind: DeviceShare binds a pod together with its devices.
func addDevices(p *configv1.Plugins, at int) {
	own := configv1.Plugin{Name: DevicesName}
	m := &p.MultiPoint
	i := slices.IndexFunc(m.Enabled, named(DevicesName))
	switch {
	case has(m.Disabled, DevicesName), i < 0 && has(m.Disabled, "*"):
		return
	case i >= 0:
		own = m.Enabled[i]
	}
	m.Enabled = slices.Insert(slices.DeleteFunc(m.Enabled, named(DevicesName)), at, own)
	if b := &p.Bind; len(b.Enabled) > 0 && !has(b.Enabled, DevicesName) && !has(b.Disabled, DevicesName) {
		b.Enabled = slices.Insert(b.Enabled, 0, own)
	}
}

// addQuota enables the plugin ElasticQuota, unless the profile disables it or all plugins, or names it already.
func addQuota(p *configv1.Plugins) {
	m := &p.MultiPoint
	if has(m.Disabled, QuotaName) || has(m.Enabled, QuotaName) || has(m.Disabled, "*") {
		return
	}
	for _, s := range []*configv1.PluginSet{&p.PreFilter, &p.Reserve} { // as Koordinator's configurations name it
		if has(s.Enabled, QuotaName) {
			return
		}
	}
	m.Enabled = append(m.Enabled, configv1.Plugin{Name: QuotaName})
}

// attraction is the weight of Muster's Score, which only pods with a network-topology-selector have. One point of it outweighs all stock
// plugins: 100 points each, with weights that add up to 14. Most of these spread pods, so a smaller weight would attract pods only while
// nodes are equally full.
const attraction int32 = 2000

// weigh sets the weight of Muster's plugin in s to attraction if the profile sets none.
func weigh(s *configv1.PluginSet) {
	for i := range s.Enabled {
		if p := &s.Enabled[i]; p.Name == PluginName && p.Weight == nil {
			p.Weight = new(attraction)
		}
	}
}

// shareQueueSort sets the queue-sort plugin of profiles that name none, since all must have the same: the first one that a profile names,
// else Muster's if any profile runs it. kube-scheduler rejects profiles that name different plugins.
func shareQueueSort(profiles []configv1.KubeSchedulerProfile) {
	var sort configv1.PluginSet
	ours := false
	for _, p := range profiles {
		ours = ours || has(p.Plugins.MultiPoint.Enabled, PluginName)
		if len(sort.Enabled) == 0 {
			sort = onlySort(p.Plugins.QueueSort)
		}
	}
	if len(sort.Enabled) == 0 && ours {
		sort = onlySort(configv1.PluginSet{Enabled: []configv1.Plugin{{Name: PluginName}}})
	}
	for _, p := range profiles {
		if own := onlySort(p.Plugins.QueueSort); len(own.Enabled) > 0 {
			p.Plugins.QueueSort = own
		} else if len(sort.Enabled) > 0 {
			p.Plugins.QueueSort = *sort.DeepCopy()
		}
	}
}

// onlySort returns the QueueSort set s with its one plugin enabled by name and all others disabled: MultiPoint has both Muster's and
// PrioritySort, and only one is permitted. If s names none, it is returned unchanged.
func onlySort(s configv1.PluginSet) configv1.PluginSet {
	switch {
	case len(s.Enabled) > 0:
	case has(s.Disabled, names.PrioritySort):
		s.Enabled = []configv1.Plugin{{Name: PluginName}}
	case disables(s):
		s.Enabled = []configv1.Plugin{{Name: names.PrioritySort}}
	default:
		return s
	}
	s.Disabled = []configv1.Plugin{{Name: "*"}}
	return s
}

// putFirst moves Muster's plugin to the front of the enabled plugins, or adds it there.
func putFirst(s *configv1.PluginSet) {
	ours := configv1.Plugin{Name: PluginName}
	if i := slices.IndexFunc(s.Enabled, named(PluginName)); i >= 0 {
		ours = s.Enabled[i] // with the weight of the profile
	}
	s.Enabled = append([]configv1.Plugin{ours}, slices.DeleteFunc(s.Enabled, named(PluginName))...)
}

// disables says whether s disables Muster's plugin, by name or by "*".
func disables(s configv1.PluginSet) bool {
	return has(s.Disabled, PluginName) || has(s.Disabled, "*")
}

func has(plugins []configv1.Plugin, name string) bool {
	return slices.ContainsFunc(plugins, named(name))
}

func named(name string) func(configv1.Plugin) bool {
	return func(p configv1.Plugin) bool { return p.Name == name }
}
