package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// promiseCondition returns the condition StartPromised of a gang; ok is false if no start is or was promised.
func promiseCondition(p gang.Promise) (c metav1.Condition, ok bool) {
	c = metav1.Condition{Type: scheduling.ConditionStartPromised, Status: metav1.ConditionTrue, Reason: reasons.StartPromised}
	switch {
	case p.Exists() && p.Cause == "":
		c.Message = source.PromiseText(p) + ", when the pods there have ended as declared"
	case p.Exists():
		c.Reason = reasons.StartMoved
		c.Message = source.PromiseText(p) + ", when the pods there have ended as declared" + source.MovedText(p.Cause)
	case p.Cause != "":
		c.Status, c.Reason = metav1.ConditionFalse, reasons.StartUnknown
		c.Message = "The start is not known any more: " + p.Cause
	default:
		return c, false
	}
	c.Message = Clip(c.Message + ".")
	return c, true
}

// setPromise sets or removes the condition StartPromised in a list of conditions.
func setPromise(conditions *[]metav1.Condition, c metav1.Condition, ok bool, now metav1.Time) {
	if !ok {
		meta.RemoveStatusCondition(conditions, scheduling.ConditionStartPromised)
		return
	}
	c.LastTransitionTime = now
	meta.SetStatusCondition(conditions, c)
}

// withPromise returns old with the condition StartPromised of a gang. It returns old itself if nothing changes.
func withPromise(old Conditions, c metav1.Condition, ok bool, now metav1.Time) Conditions {
	if !ok && meta.FindStatusCondition(old.Conditions, scheduling.ConditionStartPromised) == nil {
		return old
	}
	out := Conditions{slices.Clone(old.Conditions)}
	setPromise(&out.Conditions, c, ok, now)
	return out
}

// reportPromise records an event when a start is promised, moved, or not known any more.
func (t *Reporter) reportPromise(r cache.Report, c metav1.Condition, ok bool) {
	t.reportCondition(r, "promise of "+r.Gang.ID(), c, ok, c.Message, c.Reason != reasons.StartPromised)
}

// followPromise counts the promise of a group when it is made, kept or moved. m.mu is held.
func (m *Meter) followPromise(ref gang.Ref, t cache.Tally) {
	if ref != t.Group {
		return
	}
	old, current := m.promises[ref], t.Promise
	delete(m.promises, ref)
	if current.Exists() {
		m.promises[ref] = current
	}
	moved := old.Exists() && current.Cause != "" &&
		(!current.Exists() || current.Domain != old.Domain || current.At.After(old.At))
	switch {
	case moved:
		m.promisesMoved.WithLabelValues(cmp.Or(current.Kind, gang.BrokenOther)).Inc()
	case old.Exists() && !current.Exists() && (t.Planned > 0 || t.Reserved || t.Min > 0 && t.Bound+t.Done >= t.Min):
		m.promisesKept.Inc()
	}
	if current.Exists() && (moved || !old.Exists()) {
		m.promisesMade.Inc()
	}
}

// Promise returns the sentence on the promised start of a gang, or on why none is known any more; "" if none is or was promised.
func Promise(p gang.Promise) string {
	c, _ := promiseCondition(p)
	return c.Message
}

// HeldUntil returns why a pod may not use a node on which capacity is held for a gang with a promised start.
func HeldUntil(ref gang.Ref, p gang.Promise) string {
	return fmt.Sprintf("node(s) held for gang %s, which starts by %s; pods that declare an end before that time may run there",
		ref, p.At.UTC().Format(time.RFC3339))
}

// Assumed records whether a pod is assumed on a node as backfill: on capacity that is held for a gang.
func (m *Meter) Assumed(pod *v1.Pod, node string) {
	backfills := m.cache.Backfills(pod, node)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.backfill, pod.UID)
	if backfills {
		m.backfilled(nil) // drops pods that are gone, also if no metrics are scraped
		m.backfill[pod.UID] = pod
	}
}

// backfilled returns the held nodes on which pods run as backfill, and forgets pods that are gone. m.mu is held.
func (m *Meter) backfilled(held map[string]bool) map[string]bool {
	nodes := map[string]bool{}
	maps.DeleteFunc(m.backfill, func(_ types.UID, pod *v1.Pod) bool {
		node, exists := m.nodeOf(pod)
		if held[node] {
			nodes[node] = true
		}
		return !exists
	})
	return nodes
}
