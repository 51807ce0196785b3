package plugin

import (
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
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
	if current.EnablePreemption && !old.EnablePreemption { // unschedulable groups may evict now
		s.retry(s.retries.Leaders())
	}
	klog.Background().Info("Arguments have changed", "profile", profile, "arguments", changed)
	return changed, stay
}

// gangLimits returns the arguments that are limits of all gangs.
func gangLimits(args config.Args) cache.Limits {
	return cache.Limits{
		Leave: args.PreemptionTimeout, Wait: args.DefaultTimeout,
		Policy: gang.MatchPolicy(args.DefaultMatchPolicy), Starve: args.StarvationTimeout, Repair: args.RepairTimeout,
		Moves: args.RepairPolicy == scheduling.RepairMove,
	}
}

// evictionLimits returns the current arguments that are limits of evictions.
func (p *Plugin) evictionLimits() preempt.Limits {
	args := p.args.Load()
	return preempt.Limits{Leave: args.PreemptionTimeout, MaxGrace: args.MaxGrace, Enabled: args.EnablePreemption, Swap: args.RepairSwap}
}
