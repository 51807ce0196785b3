// Package plugin is the Coscheduling plugin: it translates the scheduler's calls into calls of other packages, and their results into
// statuses. Its files:
//
//	queue.go          QueueSort: members stay together
//	events.go         which events retry which group
//	gate.go           PreEnqueue: one member is tried for its group
//	listeners.go      for which waiting pods the queue calls hints
//	prefilter.go      PreFilter: the plan of the group, then one node for each member
//	filter.go         Filter: a planned member gets its own node, other pods no reserved node
//	postfilter.go     PostFilter: eviction and reservation
//	singlepod.go      PostFilter: eviction for pods without a gang
//	score.go          PreScore, Score: attraction of pods without a gang
//	permit.go         Reserve, Permit, Unreserve, PostBind: the barrier
//	effects.go        carries out the effects of the book of gangs
//	shareddevices.go  devices that members share: allocated before they bind, released if none starts
//	devices.go        connects the plugin DeviceShare with the gangs
//	quotas.go         connects the plugin ElasticQuota with the gangs
//	start.go          New, Start: connects the parts of a plugin
//	configure.go      changes the arguments of a running profile
//	future.go         nodes for members that do not exist yet
//	nominations.go    nominated pods that do not count for a planned member
//	promise.go        capacity holds and promised starts of starving gangs
//	repair.go         moves of incomplete gangs to other domains
//	maintenance.go    nodes in or before a maintenance window
//	trial.go          plans outside of scheduling cycles
//	extensions.go     plugins that a user adds
//
// The package connects plans (place), victims (preempt), reports (status) and the state of gangs (cache). It must not decide by itself:
// plans, victims and quotas belong to these packages. Invariant: hints and PreEnqueue run with the scheduling queue locked, and must not
// call the queue.
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

// Options are the settings of the process. Connect is required.
type Options struct {
	// Connect returns from where the cache reads objects, as package connect does.
	Connect func(context.Context, fwk.Handle) (cache.Source, error)
	// TopologyManager enables writing the status of the ClusterNetworkTopology; nil enables it.
	TopologyManager *bool
	// Clock is the time; nil means the real one.
	Clock clock.WithTicker
	// Leading returns whether this process schedules; false is a standby. nil means that it schedules.
	Leading func() bool
	// Settle is how long changes of a gang are gathered before its status is written; 0 means 300 ms, negative means no delay.
	Settle time.Duration
	// Busy returns whether bindings are in progress. Status updates of gangs and quotas wait for them. nil means never.
	Busy func() bool
	// BeforeWrite is called with the name of each work in the background, such as a status update, before that work. nil does nothing.
	BeforeWrite func(ctx context.Context, name string)
	// Unanswered returns whether the binding of this cycle failed because the API server did not answer, so that the node is not the cause.
	// nil means never.
	Unanswered func(fwk.CycleState) bool
	// Writers is how many requests an eviction sends at a time; 0 means 16. With 1 their order is fixed.
	Writers int
	// ListenerRatio is the ratio of pending members to listeners from which the queue calls hints only for listeners; 0 means 16. It affects
	// only speed.
	ListenerRatio int
	// NoGangStatus disables writing the status of gangs.
	NoGangStatus bool
	// Started is called once with what all profiles share.
	Started func(*Shared)
	// Tried is called after each attempt to place a gang, before its result takes effect. It must change nothing.
	Tried func(context.Context, Trial)
}

// Trial is one attempt and its result: a plan, or a refusal. Both are empty when a plugin failed.
type Trial struct {
	*Plugin
	Attempt *place.Attempt
	Found   place.Outcome
	Refusal *place.Refusal
	partial bool // there are other choices of members, which may have a plan
}

// Shared is the state that the profiles of one process share.
type Shared struct {
	Cache  *cache.Cache
	Writer *status.Writer
	Meter  *status.Meter

	profiles map[string]*Plugin // by name

	options     Options
	handle      fwk.Handle // of the first profile: queue and waiting pods are the same for all
	teller      *status.Reporter
	victims     departure.Victims
	retries     wake.Registry // unschedulable groups, to be retried by events
	listeners   listeners
	narrowing   atomic.Bool // see Complete
	allocations allot.Allocations
	quotas      *elasticquota.Manager
	maintenance maintenanceSeen
	// Pods without a gang that no event retries. delayed wait for groups that were partially bound at the start, podsKeptOffNodes for
	// reserved nodes.
	delayed, podsKeptOffNodes memo.Map[string, *v1.Pod]
	// Groups that are retried only to update their message.
	renewals memo.Map[gang.Ref, struct{}]
	// Groups whose reserved nodes are free and whose quotas suffice only after pods have terminated, with the representative.
	awaitingQuota memo.Map[gang.Ref, string]
	// Nominations that do not count in the current cycle, with their nodes.
	suspended memo.Map[*v1.Pod, string]
	// resumeFuncs are called once, when all objects were listed and all profiles exist.
	resumeFuncs []func()
	resumeOnce  sync.Once
}

// Plugin is the plugin of one profile.
type Plugin struct {
	*Shared
	args           atomic.Pointer[config.Args]
	first          bool // it is the first profile, whose arguments Shared uses
	profile        framework.Framework
	planner        *place.Planner
	Preemptor      *preempt.Preemptor   // evicts for gangs
	ownsPreemption bool                 // replacePreemption was called
	claimReleaser  fwk.PostFilterPlugin // DynamicResources, which releases unused claims; nil if the profile does not run it at PostFilter
	hasGate        bool                 // the profile runs the Gate
	gateComplete   bool                 // the profile runs the Gate and no unknown PreEnqueue plugin
	addedPlugins   func() []fwk.Plugin
	checks         []Checker
	absent         []*absentGroup // used by scheduling cycles only, which run one after another
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

// Rooms are the shared states of the plugins DeviceShare and ElasticQuota.
type Rooms struct {
	Devices *deviceshare.Room
	Quotas  *elasticquota.Manager
}

// Profile is the input of New.
type Profile struct {
	framework.Framework
	Args    config.Args
	Ledgers []fit.Ledger
	// Added returns the plugins that a user added. It is called once all plugins exist.
	Added func() []fwk.Plugin
	Ended <-chan struct{} // closed when the process ends
}

// Profile returns the plugin of the profile with this name; nil if there is none.
func (s *Shared) Profile(name string) *Plugin { return s.profiles[name] }

// ChecksProgress returns whether an eviction polls a member that is neither at Permit nor bound. It polls by the real clock.
func (s *Shared) ChecksProgress() bool { return s.victims.Polls() }

// Template returns a text that is equal for pods that an attempt treats alike.
func (p *Plugin) Template(pod *v1.Pod) string { return p.planner.Template(pod) }

// IsMember returns whether a pod belongs to a gang.
func IsMember(pod *v1.Pod) bool { return !source.GangOf(pod).IsZero() }
