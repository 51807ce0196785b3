package plugin

import (
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/spare"
)

// Configure changes the arguments of a running profile, as far as possible. It returns the names of the changed arguments, and of arguments
// that did not change because they need a restart (stay). For an unknown profile both are nil.
func (s *Shared) Configure(profile string, args config.Args) (changed, stay []string) {
	p := s.profiles[profile]
	if p == nil {
		return nil, nil
	}
	old := *p.args.Load()
	current, changed, stay := old.Take(args)
	if len(changed) == 0 {
		return nil, stay
	}
	p.args.Store(&current)
	if p.first {
		s.Cache.Configure(gangLimits(current))
	}
	spares := slices.Contains(changed, "spares") || slices.Contains(changed, "degraded")
	if slices.Contains(changed, "maintenanceLead") {
		s.retryKeptOff()
	}
	// Unschedulable groups may evict more, or use more nodes, or are to be retried at another time.
	if current.EnablePreemption && !old.EnablePreemption || spares || slices.Contains(changed, "forceFit") {
		s.retry(s.retries.Leaders())
	}
	if spares {
		s.teller.Topology()
	}
	klog.Background().Info("Arguments have changed", "profile", profile, "arguments", changed)
	return changed, stay
}

// SpareProblems returns the entries of the profiles' argument spares that have no effect with the topology, as text; "" if there are none.
func (s *Shared) SpareProblems() string {
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(s.profiles)) {
		problem := spare.Problems(s.Cache.Topology().Tree, s.profiles[name].args.Load().Spares)
		if problem != "" && !slices.Contains(problems, problem) {
			problems = append(problems, problem)
		}
	}
	return strings.Join(problems, "; ")
}

// Spares returns, by node index, which nodes gangs of the lowest priority leave unused. nodes and used are as in spare.Nodes.
func (p *Plugin) Spares(net *cache.Topology, nodes []fwk.NodeInfo, used func(node int) bool) []bool {
	return spare.Nodes(net.Tree, nodes, p.args.Load(), math.MinInt32, used)
}

// gangLimits returns the arguments that are limits of all gangs.
func gangLimits(args config.Args) cache.Limits {
	return cache.Limits{
		Leave: args.PreemptionTimeout, Wait: args.DefaultTimeout,
		Policy: gang.MatchPolicy(args.DefaultMatchPolicy), Starve: args.Backfill.PromiseAfter, Repair: args.RepairTimeout,
		Moves: args.RepairPolicy == scheduling.RepairMove, Promises: args.Backfill.Promises, DefaultRuntime: args.Backfill.DefaultMaxRuntime,
	}
}

// evicts returns whether the profile with that scheduler name evicts pods for gangs.
func (s *Shared) evicts(profile string) bool {
	p := s.profiles[profile]
	return p != nil && p.args.Load().EnablePreemption
}

// evictionLimits returns the current arguments that are limits of evictions.
func (p *Plugin) evictionLimits() preempt.Limits {
	args := p.args.Load()
	return preempt.Limits{
		Leave: args.PreemptionTimeout, MaxGrace: args.MaxGrace, Enabled: args.EnablePreemption, Swap: args.RepairSwap,
		EvictOverdue: args.Backfill.Overdue == config.OverdueEvict, ForceFit: args.ForceFit,
	}
}
