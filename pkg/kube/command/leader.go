package command

import (
	"github.com/spf13/pflag"
	"k8s.io/component-base/metrics/legacyregistry"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/muster-scheduler/muster/pkg/apis/config"
)

// leadership knows whether this process leads. kube-scheduler tells its plugins
// nothing of the election, but it keeps a metric of it.
type leadership struct {
	elects  bool // by the configuration, as it was defaulted last
	settled bool // the scheduler is made: configurations that are read later change nothing
	flag    *pflag.Flag
}

// watchConfiguration notes what each configuration says that is defaulted, of which the
// last is the one in use. Call it after config.InstallDefaults.
func (l *leadership) watchConfiguration() {
	scheme.Scheme.AddTypeDefaultingFunc(&configv1.KubeSchedulerConfiguration{}, func(obj any) {
		cfg := obj.(*configv1.KubeSchedulerConfiguration)
		config.SetDefaults(cfg)
		if l.settled {
			return
		}
		l.elects = cfg.LeaderElection.LeaderElect == nil || *cfg.LeaderElection.LeaderElect
	})
}

// leads answers for now. Without an election every process leads.
func (l *leadership) leads() bool {
	elects := l.elects
	if l.flag != nil && l.flag.Changed {
		elects = l.flag.Value.String() == "true"
	}
	if !elects {
		return true
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return false
	}
	for _, f := range families {
		if f.GetName() == "leader_election_master_status" {
			for _, m := range f.GetMetric() {
				if m.GetGauge().GetValue() == 1 {
					return true
				}
			}
		}
	}
	return false
}
