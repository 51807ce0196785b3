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

// World is a cluster in memory with a scheduler that has seen all its objects. Callers read its state, run the scheduler, and read
// the state again. Between two calls nothing changes.
type World struct {
	*simulation
	cancel func()
	ended  []string
}

// Open returns a world with the objects of set. The scheduler has not tried any pod yet. The errors are Run's. One process can have
// one world at a time; the caller must close it.
func Open(ctx context.Context, o Options, set *Set) (*World, error) {
	ctx, cancel := context.WithCancel(ctx)
	s, pods, err := start(ctx, o, set)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &World{simulation: s, cancel: cancel}
	if err = s.waitReady(ctx); err == nil {
		err = s.addPods(ctx, pods)
	}
	if err == nil && o.At != (Moment{}) {
		err = w.moveTo(ctx, o.At)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// ReadOwners lets the scheduler read the objects that own the gangs of new pods, such as Jobs: discovery searches for them every 100 ms.
func (w *World) ReadOwners(ctx context.Context) error {
	for tries := 0; tries < 2 && w.shared.Cache.AwaitsOwners(); tries++ {
		w.clock.Step(100 * time.Millisecond)
		if err := w.waitQuiet(ctx); err != nil {
			return &UnsettledError{w.waiting()}
		}
	}
	return nil
}

// Close stops the scheduler.
func (w *World) Close() { w.stop(w.cancel) }

// Settle runs the scheduler until nothing is left to do, or until enough (if not nil) returns true. It calls enough before each step.
// It creates held pods when the pods that they wait for run.
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

// Apply creates, replaces or (with a deletion timestamp) deletes the objects of set, and creates the pods of its workloads. It returns when
// the scheduler has seen them; the scheduler tries no pod yet.
func (w *World) Apply(ctx context.Context, set *Set) error {
	newPods, err := w.cluster.apply(set)
	if err != nil {
		return err
	}
	return w.addPods(ctx, newPods)
}

// Work runs the scheduler at the current simulated time until it has no pod to try. It returns whether an object has changed.
func (w *World) Work(ctx context.Context) (changed bool, err error) {
	before := w.cluster.changes()
	for more := true; more; more = w.runStep(ctx) {
		if err := w.waitQuiet(ctx); err != nil {
			return false, &UnsettledError{w.waiting()}
		}
	}
	return w.cluster.changes() != before, nil
}

// AdvanceTo moves the simulated time forward to t, if it is later. Timers that end by then end at t.
func (w *World) AdvanceTo(t time.Time) { w.advanceTo(t) }

// SettleEarly is Settle with a second end: it also calls early right after each scheduling cycle, before any decision is written.
func (w *World) SettleEarly(ctx context.Context, early, enough func() bool) error {
	w.early = early
	defer func() { w.early = nil }()
	return w.Settle(ctx, func() bool { return early() || enough() })
}

// BindingInProgress says whether pods wait at Permit or are being bound. An eviction of such a pod is no API request.
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

// Warnings returns the events that report mistakes in objects.
func (w *World) Warnings() []Event { return w.warnings() }

// Shared returns the state that the scheduler's plugins share.
func (w *World) Shared() *plugin.Shared { return w.shared }

// Now returns the simulated time.
func (w *World) Now() time.Time { return w.clock.Now() }

// Profile returns the profile that serves a scheduler name; nil if none does.
func (w *World) Profile(schedulerName string) framework.Framework {
	return w.scheduler.Profiles[schedulerName]
}

// ProfileNames returns the names of the scheduler's profiles, sorted.
func (w *World) ProfileNames() []string {
	return slices.SortedFunc(maps.Keys(w.scheduler.Profiles), topology.CompareNames)
}

// Nodes updates the snapshot of profile from the scheduler's cache, as each cycle does, and returns its nodes.
func (w *World) Nodes(ctx context.Context, profile framework.Framework) ([]fwk.NodeInfo, error) {
	if snapshot, ok := profile.SnapshotSharedLister().(*cache.Snapshot); ok {
		if err := w.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
			return nil, err
		}
	}
	return profile.SnapshotSharedLister().NodeInfos().List()
}

// Eviction returns the explanation of a gang's last eviction; nil if the gang evicted no pod.
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
