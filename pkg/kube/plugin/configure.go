package plugin

import (
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
)

// Configure has a profile go on with other arguments, as far as they may change while it runs. It
// returns the names of those that have changed, and of those that need a restart. A profile that is not
// known has neither: it needs one itself.
func (s *Shared) Configure(profile string, args config.Args) (changed, stay []string) {
	p := s.profiles[profile]
	if p == nil {
		return nil, nil
	}
	was := *p.args.Load()
	now, changed, stay := was.Take(args)
	if len(changed) == 0 {
		return nil, stay
	}
	p.args.Store(&now)
	if p.first {
		s.Cache.Configure(limitsOf(now))
	}
	if now.EnablePreemption && !was.EnablePreemption { // who was refused may evict now
		s.try(s.refused.Leaders())
	}
	klog.Background().Info("Arguments have changed", "profile", profile, "arguments", changed)
	return changed, stay
}

// limitsOf are those of all gangs.
func limitsOf(args config.Args) cache.Limits {
	return cache.Limits{Leave: args.PreemptionTimeout, Wait: args.DefaultTimeout, Policy: gang.MatchPolicy(args.DefaultMatchPolicy), Starve: args.StarvationTimeout}
}

// limits are those of an eviction that begins now.
func (p *Plugin) limits() preempt.Limits {
	args := p.args.Load()
	return preempt.Limits{Leave: args.PreemptionTimeout, MaxGrace: args.MaxGrace, Enabled: args.EnablePreemption}
}
