package command

import (
	"context"
	"fmt"
	"hash/fnv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/kube/reload"
)

// watchConfiguration has the scheduler take over changes in its configuration file; "" is none. Events are about the Lease of its
// election, the one object that stands for all of its replicas.
func watchConfiguration(
	ctx context.Context, path string, cfg *schedulerserverconfig.CompletedConfig, sched *scheduler.Scheduler, shared *plugin.Shared,
) {
	reload.Register()
	if path == "" || shared == nil {
		return
	}
	election := cfg.ComponentConfig.LeaderElection
	lease := &v1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: election.ResourceNamespace, Name: election.ResourceName,
	}
	var recorder events.EventRecorder
	for _, profile := range sched.Profiles {
		recorder = profile.EventRecorder()
		break
	}
	file := &reload.File{
		Path: path, Clock: clock.RealClock{}, Apply: shared.Configure,
		Report: func(kind, reason, message string) {
			klog.FromContext(ctx).Info(message, "reason", reason)
			if recorder != nil {
				recordConfigurationEvent(recorder, lease, kind, reason, message)
			}
		},
	}
	go file.Watch(ctx)
}

// recordConfigurationEvent records an event. client-go merges events that differ only in their message and keeps the first message,
// which would hide a second bad edit. So each message has an action of its own.
func recordConfigurationEvent(recorder events.EventRecorder, lease *v1.ObjectReference, kind, reason, message string) {
	words := fnv.New32a()
	words.Write([]byte(message))
	recorder.Eventf(lease, nil, kind, reason, fmt.Sprintf("Configuring-%08x", words.Sum32()), "%s", message)
}
