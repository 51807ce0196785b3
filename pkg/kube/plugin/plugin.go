// Package plugin is the Coscheduling plugin: it translates what the scheduler asks
// into questions for the core, and answers back. One file for each extension point:
//
//	queue.go       QueueSort: members stand together
//	events.go      what may cure a refusal, and who is tried again then
//	gate.go        PreEnqueue: one member is tried for all
//	listeners.go   who of those that wait need be asked about an event
//	prefilter.go   PreFilter: the plan of the whole gang, then one node for each member
//	filter.go      Filter: no other node for a planned member, no planned place for others
//	postfilter.go  PostFilter: eviction and reservation
//	alone.go       PostFilter: eviction for pods without a gang
//	score.go       PreScore, Score: pods without a gang go where others attract them
//	permit.go      Reserve, Permit, Unreserve, PostBind: the barrier
//	effects.go     what the book of gangs wants done
//	joint.go       devices that members share: written before they come, taken back if none starts
//	devices.go     what the plugin DeviceShare must know of gangs, and they of it
//	quotas.go      what the plugin ElasticQuota must know of gangs, and they of it
//	start.go       New, Start: the parts of a plugin, connected
//	try.go         plans outside of scheduling cycles
//	extend.go      what plugins of somebody's own are asked besides
//
// It wires the rooms that do the work: plans (place), victims (preempt), what people are
// told (status), what is known (cache). It decides nothing itself.
package plugin

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/allot"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/deviceshare"
	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/kube/wake"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = config.PluginName

// Options are what the process decides. All but Connect may be left open.
type Options struct {
	// Connect says where objects come from, as package connect does.
	Connect func(context.Context, fwk.Handle) (cache.Source, error)
	// TopologyManager writes the status of the ClusterNetworkTopology; nil means yes.
	TopologyManager *bool
	// Clock is the time; nil means the real one.
	Clock clock.WithTicker
	// Leading says whether this process schedules, or is a standby; nil means it does.
	Leading func() bool
	// Settle is how long changes of a gang are gathered before its status is written;
	// 0 means 300 ms, less than 0 means not at all.
	Settle time.Duration
	// Busy says whether bindings are under way, for which the status of gangs and quotas should wait;
	// nil means never.
	Busy func() bool
	// Unanswered says of a cycle whose pod was not bound that the API server did not answer: then nothing is wrong with the node.
	// nil means never.
	Unanswered func(fwk.CycleState) bool
	// Writers is how many requests an eviction has under way at a time; 0 means 16. With
	// one their order is always the same.
	Writers int
	// Narrow is how many times as many members must wait as were tried and came to nothing, for the queue to ask those alone about
	// an event; 0 means 16: so many it passes over faster than it looks one up. It makes no difference to what comes of it.
	Narrow int
	// Unread says that nobody reads the status of gangs, which is not written then.
	Unread bool
	// Started is called with what all profiles share, once.
	Started func(*Shared)
	// Tried is called with every attempt to place a gang once it was made, before anything comes
	// of it; nil means that nobody watches. It must change nothing.
	Tried func(context.Context, Trial)
}

// Trial is one attempt and what it has found: a plan, or why there is none. Both are empty when a
// plugin has failed.
type Trial struct {
	*Plugin
	Attempt *place.Attempt
	Found   place.Outcome
	Refusal *place.Refusal
	some    bool // it is for some of those who may start, and others may where these never could
}

// Shared is what the profiles of one process share.
type Shared struct {
	Cache  *cache.Cache
	Writer *status.Writer
	Meter  *status.Meter

	profiles map[string]*Plugin // by name

	options   Options
	handle    fwk.Handle // of the first profile: queue and waiting pods are the same for all
	teller    *status.Teller
	victims   departure.Victims
	refused   wake.Room // groups that wait for something to change
	listeners listeners
	narrows   atomic.Bool // of no profile may a pod hear of events that is not one of them
	allotted  allot.Room
	quotas    *elasticquota.Room
	// Pods without a gang that wait for something that no event tells of: that the gangs are tried that were partially bound at the start,
	// and that a place is given back which is held.
	resumes, keptOff memo.Map[string, *v1.Pod]
	// Groups that are to be tried again only to say newer words.
	renewals memo.Map[gang.Ref, struct{}]
	// Groups whose places are free, and whose quotas wait for somebody to leave, with the pod that was tried for them.
	awaited memo.Map[gang.Ref, string]
	// Nominations that do not count in the cycle that goes on, with their nodes.
	aside memo.Map[*v1.Pod, string]
	// resume are called once, when everything was seen: with all profiles made.
	resume  []func()
	resumed sync.Once
}

// Plugin is the plugin of one profile.
type Plugin struct {
	*Shared
	args      atomic.Pointer[config.Args]
	first     bool // what all profiles share has its arguments
	profile   framework.Framework
	planner   *place.Planner
	Preemptor *preempt.Preemptor   // evicts for gangs
	tookOver  bool                 // DefaultPreemption asks Muster
	idler     fwk.PostFilterPlugin // gives claims back that keep a pod where there is no room; nil if none does
	hasGate   bool                 // the profile runs the Gate
	passes    bool                 // and all its pods come to it that may hear of events
	added     func() []fwk.Plugin
	checks    []Checker
}

var (
	_ fwk.QueueSortPlugin   = (*Plugin)(nil)
	_ fwk.PreEnqueuePlugin  = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PermitPlugin      = (*Plugin)(nil)
	_ fwk.PostBindPlugin    = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// Rooms are what other plugins of the process keep, of which gangs and their plans must know.
type Rooms struct {
	Devices *deviceshare.Room
	Quotas  *elasticquota.Room
}

// Profile is what the plugin of a profile is made of.
type Profile struct {
	framework.Framework
	Args    config.Args
	Ledgers []fit.Ledger
	// Added returns the plugins of somebody's own that the profile has; it is asked once all are made.
	Added func() []fwk.Plugin
	Ended <-chan struct{} // closed when the process ends
}

// Profile returns the plugin of a profile, which is there once the scheduler is made; nil if no
// profile has that name.
func (s *Shared) Profile(name string) *Plugin { return s.profiles[name] }

// Looks says whether an eviction waits to see how far a member is, by the clock on the wall.
func (s *Shared) Looks() bool { return s.victims.Looks() }

// Template is equal for pods that an attempt counts alike.
func (p *Plugin) Template(pod *v1.Pod) string { return p.planner.Template(pod) }

// IsMember says whether a pod belongs to a gang.
func IsMember(pod *v1.Pod) bool { return !source.Of(pod).IsZero() }
