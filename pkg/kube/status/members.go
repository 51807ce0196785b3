package status

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Users look at pods, and autoscalers count them. So each member that waits says whether it waits
// for others to exist, or for room: not again whenever the room changes, but once, with the words
// of the first refusal. The newest are on the member that is tried, and on the PodGroup.

// ReasonWaitingForGang is the reason of PodScheduled while members or gangs are missing: more nodes
// would not help.
const ReasonWaitingForGang = "WaitingForGang"

// isRefused says whether a gang waits for room: all it waits for exists, and there is no plan.
func isRefused(s gang.State) bool {
	return s.Refusal.Is() && !s.Refusal.Waits() && !s.Reserved && s.Planned == 0
}

// tellRefused writes to the members of a gang that is refused that it is, but for the one that was
// tried: the scheduler itself tells it. Who has a place by then is told nothing.
func (t *Teller) tellRefused(r cache.Report) {
	speaker := t.cache.TriedFor(r.Gang)
	if speaker == nil {
		return
	}
	said := t.memory.toMembers(r.Gang.ID(), Condition(r.State, "").Reason, Of(r.Refusal))
	say := Waiting{Message: Sibling(r.Gang, speaker, said, "", 0)}
	for _, pod := range t.cache.Pending(r.Gang) {
		if pod.UID == speaker.UID || len(pod.Spec.SchedulingGates) > 0 || !t.cache.Serves(pod) {
			continue
		}
		key := convert.PodKey(pod)
		t.Writer.Do("pod "+key, func(ctx context.Context) error {
			pod := t.cache.Pod(key)
			if pod == nil || pod.Spec.NodeName != "" {
				return nil
			}
			if node, _ := t.cache.Place(pod); node != "" {
				return nil
			}
			return t.Writer.Pod(ctx, pod, say)
		})
	}
}

// toldNow is what the members of a gang are to be told, and how many there are: one more must be
// told, too.
func toldNow(r cache.Report) string {
	switch {
	case r.Refusal.Waits():
		return fmt.Sprint(State(r).Refusal, " ", r.Members)
	case isRefused(r.State):
		return fmt.Sprint(Condition(r.State, "").Reason, " ", r.Members)
	}
	return ""
}

// saysWaiting says whether a pod was told that others are missing; by a process before this one it
// may have been in older words.
func saysWaiting(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && (c.Reason == ReasonWaitingForGang || c.Reason == v1.PodReasonSchedulingGated) {
			return true
		}
	}
	return false
}
