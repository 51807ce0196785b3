package simulate

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// World is a cluster in memory with a scheduler that has seen all of it. Callers query it, let it go on and query it again. Nothing
// in it moves between two calls.
type World struct {
	*simulation
	cancel func()
}

// Open makes the world of a set and adds its waiting pods; none has been tried. The errors are Run's. Close it: one process can
// have one world at a time.
func Open(ctx context.Context, o Options, set *Set) (*World, error) {
	ctx, cancel := context.WithCancel(ctx)
	s, pods, err := start(ctx, o, set)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &World{s, cancel}
	if err = s.waitReady(ctx); err == nil {
		err = s.addPods(ctx, pods)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Close ends the scheduler.
func (w *World) Close() { w.stop(w.cancel) }

// Settle runs the scheduler until nothing is left to do, or until enough (if not nil) returns true; it is called whenever nothing
// moves. Held pods are made when the pods that they wait for run.
func (w *World) Settle(ctx context.Context, enough func() bool) error {
	for {
		if err := w.settle(ctx, enough); err != nil {
			return err
		}
		if enough != nil && enough() {
			return nil
		}
		pods := w.cluster.releaseHeld()
		if len(pods) == 0 {
			return nil
		}
		if err := w.addPods(ctx, pods); err != nil {
			return err
		}
	}
}

// SettleEarly is Settle with a second condition: early is also called right after the scheduler's turn, before its decisions are
// written and delivered.
func (w *World) SettleEarly(ctx context.Context, early, enough func() bool) error {
	w.early = early
	defer func() { w.early = nil }()
	return w.Settle(ctx, func() bool { return early() || enough() })
}

// BindingInProgress reports whether pods wait at Permit or are being bound. The eviction of such a pod takes it back from the scheduler's
// memory.
func (w *World) BindingInProgress() (waiting bool) {
	if w.binding.Load() > 0 || len(w.scheduler.SchedulingQueue.InFlightPods()) > 0 {
		return true
	}
	for _, p := range w.scheduler.Profiles {
		p.IterateOverWaitingPods(func(fwk.WaitingPod) { waiting = true })
	}
	return waiting
}

// Result returns the current state of the cluster.
func (w *World) Result() *Result { return w.result() }

// Warnings returns the mistakes in objects as they were written.
func (w *World) Warnings() []Event { return w.warnings() }

// Shared returns the state that the scheduler's plugins share.
func (w *World) Shared() *plugin.Shared { return w.shared }

// Now returns the simulated time.
func (w *World) Now() time.Time { return w.clock.Now() }

// Profile returns the profile that serves a scheduler name; nil if none does.
func (w *World) Profile(schedulerName string) framework.Framework {
	return w.scheduler.Profiles[schedulerName]
}

// ProfileNames returns the names of the profiles that run the plugin, sorted.
func (w *World) ProfileNames() []string {
	return slices.SortedFunc(maps.Keys(w.scheduler.Profiles), topology.CompareNames)
}

// Nodes brings the scheduler's snapshot up to date, as each cycle does, and returns its nodes.
func (w *World) Nodes(ctx context.Context, profile framework.Framework) ([]fwk.NodeInfo, error) {
	if snapshot, ok := profile.SnapshotSharedLister().(*cache.Snapshot); ok {
		if err := w.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
			return nil, err
		}
	}
	return profile.SnapshotSharedLister().NodeInfos().List()
}

// Eviction explains the last eviction of a gang; nil if the gang evicted no pod.
func (w *World) Eviction(ref gang.Ref) *status.Explanation { return w.recorder.eviction(ref) }

// Pods returns all current pods in the order of creation. They must not be changed.
func (w *World) Pods() []*v1.Pod {
	all, _ := w.cluster.list(pods, "", nil)
	out := make([]*v1.Pod, len(all))
	for i, o := range all {
		out[i] = o.(*v1.Pod)
	}
	return out
}
