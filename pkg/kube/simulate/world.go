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

// World is a cluster in memory with a scheduler that has seen all of it, for those who ask
// what it knows, have it go on and ask again. Nothing in it moves between two calls.
type World struct {
	*simulation
	cancel func()
}

// Open makes the world of a set and of those pods in it that wait; none was tried yet. The
// errors are Run's. Close it: one process can have one world at a time.
func Open(ctx context.Context, o Options, set *Set) (*World, error) {
	ctx, cancel := context.WithCancel(ctx)
	s, pods, err := start(ctx, o, set)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &World{s, cancel}
	if err = s.open(ctx); err == nil {
		err = s.come(ctx, pods)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Close ends the scheduler.
func (w *World) Close() { w.stop(w.cancel) }

// Settle lets the scheduler go on until there is nothing left to do, or until it is enough, which
// is asked whenever nothing moves; nil means until there is nothing left to do. Pods that their
// controller makes when others run come meanwhile.
func (w *World) Settle(ctx context.Context, enough func() bool) error {
	for {
		if err := w.settle(ctx, enough); err != nil {
			return err
		}
		if enough != nil && enough() {
			return nil
		}
		pods := w.cluster.due()
		if len(pods) == 0 {
			return nil
		}
		if err := w.come(ctx, pods); err != nil {
			return err
		}
	}
}

// SettleOr is Settle for who may know enough as soon as the scheduler has had its turn, before what it has decided is
// written and heard of: early is asked then, too, while those who are to write wait.
func (w *World) SettleOr(ctx context.Context, early, enough func() bool) error {
	w.early = early
	defer func() { w.early = nil }()
	return w.Settle(ctx, func() bool { return early() || enough() })
}

// Waiting says whether pods wait at Permit, or are being bound: who evicts one of those takes it back from memory.
func (w *World) Waiting() (any bool) {
	if w.binding.Load() > 0 || len(w.scheduler.SchedulingQueue.InFlightPods()) > 0 {
		return true
	}
	for _, p := range w.scheduler.Profiles {
		p.IterateOverWaitingPods(func(fwk.WaitingPod) { any = true })
	}
	return any
}

// Result is what has become of everything by now.
func (w *World) Result() *Result { return w.result() }

// Shared is what the scheduler's plugins know.
func (w *World) Shared() *plugin.Shared { return w.shared }

// Now is the time in this world.
func (w *World) Now() time.Time { return w.clock.Now() }

// Profile is the profile that serves a pod; nil if none does.
func (w *World) Profile(schedulerName string) framework.Framework {
	return w.scheduler.Profiles[schedulerName]
}

// ProfileNames are the names of the profiles that run the plugin, sorted.
func (w *World) ProfileNames() []string {
	return slices.SortedFunc(maps.Keys(w.scheduler.Profiles), topology.CompareNames)
}

// Nodes brings the scheduler's snapshot up to date, as each cycle begins, and returns its nodes.
func (w *World) Nodes(ctx context.Context, profile framework.Framework) ([]fwk.NodeInfo, error) {
	if snapshot, ok := profile.SnapshotSharedLister().(*cache.Snapshot); ok {
		if err := w.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
			return nil, err
		}
	}
	return profile.SnapshotSharedLister().NodeInfos().List()
}

// Eviction says why a gang has evicted where it has; nil if it has not.
func (w *World) Eviction(of gang.Ref) *status.Explanation { return w.recorder.eviction(of) }

// Pods are all pods as they are now, in the order in which they were made. They must not be changed.
func (w *World) Pods() []*v1.Pod {
	all, _ := w.cluster.list(pods, "", nil)
	out := make([]*v1.Pod, len(all))
	for i, o := range all {
		out[i] = o.(*v1.Pod)
	}
	return out
}
