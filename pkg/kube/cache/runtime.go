package cache

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// This file answers when pods end, as users declare. All times come from the API server: kubelets' clocks, which status.startTime has, may
// differ.

// DeclaredEnd is when a pod ends, as declared.
type DeclaredEnd struct {
	// Time is zero if an end is not declared.
	Time time.Time
	// Known is false if an end is not declared, or if it is past: the pod is overdue.
	Known bool
}

// Runtime returns how long a pod runs if it gets its node now, as the pod, its Job, its gang's objects or the argument
// backfill.defaultMaxRuntime declare: the shortest of activeDeadlineSeconds and max-runtime. The run time of a member is that of its gang
// group, the longest of all its members. known is false if the end of the pod, or of a member of its gang group, is not declared.
func (c *Cache) Runtime(pod *v1.Pod) (runtime time.Duration, known bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	now, ref := c.Clock.Now(), source.GangOf(pod)
	all := c.lifetimeOf(ref, now)
	all.add(c.lifetime(pod, c.gangs[ref], now))
	return all.longest, !all.undeclared && all.longest > 0
}

// End returns when a pod ends, as declared: the time at which it got its node, by the API server's clock, and its run time. A pending pod
// would get its node now. A gang group ends when its last member does: for a pod with a node, the last of the members with a node; for a
// pending pod, the last of all. The end of a terminating pod is the end of its grace period. A pod that is past its end ends now, until its
// grace period is over as well. known is false if an end is not declared (then end is zero), or if that time is past. Finished members do
// not count, and terminating ones only for themselves.
func (c *Cache) End(pod *v1.Pod, now time.Time) (end time.Time, known bool) {
	e := c.Ends([]*v1.Pod{pod}, now)[0]
	return e.Time, e.Known
}

// Ends returns End of each pod in a list. It locks the cache once, and looks at each gang once.
func (c *Cache) Ends(pods []*v1.Pod, now time.Time) []DeclaredEnd {
	c.mu.RLock()
	defer c.mu.RUnlock()
	ends, gangs := make([]DeclaredEnd, len(pods)), map[gang.Ref]lifetime{}
	for i, pod := range pods {
		end := c.declaredEnd(pod, now, gangs)
		ends[i] = DeclaredEnd{Time: end, Known: end.After(now)}
		if !end.IsZero() && !end.After(now) && now.Before(end.Add(grace(pod))) {
			ends[i] = DeclaredEnd{Time: now, Known: true}
		}
	}
	return ends
}

// declaredEnd is End, also if it is past; zero if it is not declared. gangs remembers gangs between calls; nil does not. c.mu is locked.
func (c *Cache) declaredEnd(pod *v1.Pod, now time.Time, gangs map[gang.Ref]lifetime) time.Time {
	if pod.DeletionTimestamp != nil {
		return pod.DeletionTimestamp.Time
	}
	ref := source.GangOf(pod)
	all, ok := gangs[ref]
	if !ok {
		all = c.lifetimeOf(ref, now)
		if gangs != nil {
			gangs[ref] = all
		}
	}
	all.add(c.lifetime(pod, c.gangs[ref], now))
	return all.end(pod)
}

// assignedAt returns when a pod got its node: when it was bound, or when it was created with a node; now if that is unknown or later.
func assignedAt(pod *v1.Pod, now time.Time) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return boundAt(pod, now)
		}
	}
	if created := pod.CreationTimestamp.Time; !created.IsZero() && created.Before(now) {
		return created
	}
	return now
}

// lifetime is how long pods run, as declared.
type lifetime struct {
	assigned, pending time.Time     // the last end of pods with a node, and of the others
	longest           time.Duration // the longest run time
	undeclared        bool          // some pod declares no end
}

// end returns the end of a pod; zero if it is unknown.
func (l *lifetime) end(pod *v1.Pod) time.Time {
	switch {
	case l.undeclared:
		return time.Time{}
	case pod.Spec.NodeName == "" && l.pending.After(l.assigned):
		return l.pending
	}
	return l.assigned
}

// add adds the pods of m to l.
func (l *lifetime) add(m lifetime) {
	l.undeclared = l.undeclared || m.undeclared
	l.longest = max(l.longest, m.longest)
	if m.assigned.After(l.assigned) {
		l.assigned = m.assigned
	}
	if m.pending.After(l.pending) {
		l.pending = m.pending
	}
}

// lifetimeOf returns the lifetime of the gang group of ref; the zero value for no gang. c.mu is locked.
func (c *Cache) lifetimeOf(ref gang.Ref, now time.Time) (all lifetime) {
	if ref.IsZero() {
		return all
	}
	for _, one := range c.book.GroupOfGang(ref) {
		r := c.gangs[one]
		if r == nil {
			continue
		}
		for _, pod := range r.Pods {
			if pod.DeletionTimestamp == nil && !convert.Finished(pod) {
				all.add(c.lifetime(pod, r, now))
			}
		}
	}
	return all
}

// DeclaresRuntime returns whether a pod, its Job or its gang's objects declare how long it runs.
func (c *Cache) DeclaresRuntime(pod *v1.Pod) bool {
	return read(c, func() bool {
		now := c.Clock.Now()
		return c.declaredRuntime(pod, c.gangs[source.GangOf(pod)], assignedAt(pod, now)) > 0
	})
}

// lifetime returns the lifetime of one pod, whatever its gang's other members declare. r is its gang; nil for none. c.mu is locked.
func (c *Cache) lifetime(pod *v1.Pod, r *record, now time.Time) lifetime {
	start := now
	if pod.Spec.NodeName != "" {
		start = assignedAt(pod, now)
	}
	runtime := c.declaredRuntime(pod, r, start)
	if runtime == 0 {
		runtime = c.DefaultRuntime[pod.Spec.PriorityClassName]
	}
	out := lifetime{longest: runtime, undeclared: runtime == 0}
	if pod.Spec.NodeName != "" || c.book.HasNode(convert.PodKey(pod)) {
		out.assigned = start.Add(runtime)
	} else {
		out.pending = start.Add(runtime)
	}
	return out
}

// declaredRuntime returns the declared run time of one pod that got its node at start; 0 without one. r is its gang; nil for none. c.mu is
// locked.
func (c *Cache) declaredRuntime(pod *v1.Pod, r *record, start time.Time) (runtime time.Duration) {
	declare := func(d time.Duration) {
		if d > 0 && (runtime == 0 || d < runtime) {
			runtime = d
		}
	}
	if value, ok := pod.Annotations[scheduling.AnnotationMaxRuntime]; ok {
		own, _ := scheduling.ParseMaxRuntime(value) // 0 for an invalid value
		declare(own)
	}
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		declare(time.Duration(*seconds) * time.Second)
	}
	if r != nil && r.Declared != nil {
		declare(r.Declared.MaxRuntime)
	}
	if key, ok := source.JobOf(pod); ok {
		if job := c.lineage.Objects[key]; job.Made(pod) {
			declare(job.MaxRuntime)
			if deadline := job.Deadline; deadline > 0 && !job.Started.IsZero() {
				// A deadline that is past ends the pod at once. An overdue pod has a run time, too.
				declare(max(time.Nanosecond, job.Started.Add(deadline).Sub(start)))
			} else {
				declare(deadline)
			}
		}
	}
	return runtime
}
