package command

import (
	"context"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/muster-scheduler/muster/pkg/apis/config"
)

// leadership determines whether this process leads, from kube-scheduler's metric: kube-scheduler does not report it to plugins.
type leadership struct {
	elects  bool // according to the configuration that was defaulted last
	settled bool // the scheduler exists: configurations that are read later change nothing
	flag    *pflag.Flag
}

// watchConfiguration sets l.elects from each configuration that is defaulted, until l.settled. Call it after config.InstallDefaults.
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

// leads says whether this process leads now. Without an election every process leads.
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

// lock is a Lease that calls deposed, which ends the process, if the process has led and reads another leader. client-go would retry
// for the whole RenewDeadline (10 s). During that time, a process that was stopped for longer than the lease would schedule beside the
// new leader, and undo its writes.
type lock struct {
	resourcelock.Interface
	deposed func(by string)
	led     bool
}

// Get implements resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && l.led && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.deposed(record.HolderIdentity)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.record(record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.record(record, l.Interface.Update(ctx, record))
}

// record sets led after a write of record with result err, and returns err. A released Lease has no holder.
func (l *lock) record(record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.led = record.HolderIdentity == l.Identity()
	}
	return err
}

// end exits the process, whose Lease process by has taken, as kube-scheduler does.
func end(by string) {
	klog.ErrorS(nil, "Leaderelection lost", "to", by)
	klog.FlushAndExit(klog.ExitFlushTimeout, 1)
}
