package status

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Users look at pods, and autoscalers count them. So the status of each waiting member says whether it waits for other members or for
// capacity. Its message is that of the first refusal. The newest message is on the representative and on the PodGroup.

// isRefused says whether a gang is complete and the scheduler found no plan for it.
func isRefused(s gang.State) bool {
	return s.Refusal.Exists() && !s.Refusal.WaitsForUser() && !s.Reserved && s.Planned == 0
}

// reportRefusal writes the refusal into the status of a gang's pending members. It omits the representative, whose status the
// scheduler writes, and members with a node assignment.
func (t *Reporter) reportRefusal(r cache.Report) {
	representative := t.cache.TriedFor(r.Gang)
	if representative == nil {
		return
	}
	refusal := t.memory.memberRefusal(r.Gang.ID(), Condition(r.State, "").Reason, ExplainedOf(r.Refusal))
	waiting := Waiting{Message: Sibling(r.Gang, representative, refusal, "", 0)}
	for _, pod := range t.cache.Pending(r.Gang) {
		if pod.UID == representative.UID || len(pod.Spec.SchedulingGates) > 0 || !t.cache.Serves(pod) {
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
			return t.Writer.Pod(ctx, pod, waiting)
		})
	}
}

// memberMessage returns a text that changes when the members' status must be written again; "" if there is nothing to write. It
// includes the number of members, since the status of a further member is to be written, too.
func memberMessage(r cache.Report) string {
	switch {
	case r.Refusal.WaitsForUser():
		return fmt.Sprint(State(r).Refusal, " ", r.Members)
	case isRefused(r.State):
		return fmt.Sprint(Condition(r.State, "").Reason, " ", r.Members)
	}
	return ""
}

// hasWaitingCondition says whether the pod's status reports that members are missing. Older releases wrote another reason.
func hasWaitingCondition(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && (c.Reason == reasons.WaitingForGang || c.Reason == v1.PodReasonSchedulingGated)
	})
}
