package command

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/kube/reload"
)

// watchConfiguration registers the metrics of reloads, and starts a goroutine that applies changes of the configuration file path. It
// starts none if path is "" or shared is nil.
func watchConfiguration(
	ctx context.Context, path string, cfg *schedulerserverconfig.CompletedConfig, sched *scheduler.Scheduler, shared *plugin.Shared,
) {
	reload.Register()
	if path == "" || shared == nil {
		return
	}
	record := leaseEvents(cfg, sched)
	file := &reload.File{
		Path: path, Clock: clock.RealClock{}, Apply: shared.Configure,
		Report: func(kind, reason, message string) {
			klog.FromContext(ctx).Info(message, "reason", reason)
			record(kind, reason, message)
		},
	}
	go file.Watch(ctx)
}

// leaseEvents returns a function that records events on the Lease of the scheduler's election, which all replicas share.
func leaseEvents(cfg *schedulerserverconfig.CompletedConfig, sched *scheduler.Scheduler) func(kind, reason, message string) {
	election := cfg.ComponentConfig.LeaderElection
	lease := &v1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: election.ResourceNamespace, Name: election.ResourceName,
	}
	return func(kind, reason, message string) {
		for _, profile := range sched.Profiles {
			recordConfigurationEvent(profile.EventRecorder(), lease, kind, reason, message)
			break
		}
	}
}

// eventDelay is how long after its start a scheduler surely sends events; earlier events are lost.
const eventDelay = 5 * time.Second

// reportLater records a warning after eventDelay, unless ctx ends.
func reportLater(ctx context.Context, record func(kind, reason, message string), reason, message string) {
	select {
	case <-ctx.Done():
	case <-time.After(eventDelay):
		record(v1.EventTypeWarning, reason, message)
	}
}

// recordConfigurationEvent records an event on the Lease. Its action contains a hash of the message: client-go merges events with equal
// actions and keeps the first message, which would hide a second bad edit.
func recordConfigurationEvent(recorder events.EventRecorder, lease *v1.ObjectReference, kind, reason, message string) {
	words := fnv.New32a()
	words.Write([]byte(message))
	recorder.Eventf(lease, nil, kind, reason, fmt.Sprintf("Configuring-%08x", words.Sum32()), "%s", message)
}
