// Package status writes what users see: conditions, status fields and events of PodGroups, of waiting pods and of the
// ClusterNetworkTopology, and metrics. It makes no scheduling decision. Invariant: it writes only changes, and only while this process
// leads.
package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// Scheduled is the type of the condition for the progress of a gang.
const Scheduled = scheduling.ConditionScheduled

// Limit is the longest message, in bytes.
const Limit = 1024

// Clip shortens a message to Limit.
func Clip(message string) string { return clip(message, Limit) }

// clip shortens a message to a number of bytes.
func clip(message string, maxBytes int) string {
	const ellipsis = " ..."
	if len(message) <= maxBytes {
		return message
	}
	return strings.ToValidUTF8(message[:max(0, maxBytes-len(ellipsis))], "") + ellipsis
}

// Condition returns the Scheduled condition for a gang in state s. domain is the path of its bound members; "" if unknown.
func Condition(s gang.State, domain string) metav1.Condition {
	c := metav1.Condition{Type: Scheduled, Status: metav1.ConditionFalse}
	switch {
	case s.Bound >= s.Min && s.Min > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasons.Scheduled, "the gang is bound"
		if domain != "" {
			c.Message += " in " + domain
		}
	case (s.Started || s.Done > 0) && s.Min > 0 && s.Bound+s.Done >= s.Min: // a gang without a minimum is not declared
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasons.Scheduled, "the gang was bound"
		if s.Exist == 0 {
			c.Reason, c.Message = reasons.Finished, "the members have finished"
		}
	case s.Refusal.By == gang.Declaration:
		c.Reason, c.Message = reasons.Rejected, s.Refusal.String()
	case s.Refusal.WaitsForUser():
		c.Reason, c.Message = reasons.Waiting, s.Refusal.String()
	case s.Reserved:
		c.Reason, c.Message = reasons.Preempting, "nodes are reserved for the gang until the victims have terminated"
	case s.Planned > 0:
		c.Reason, c.Message = reasons.Binding, "the members are being bound to nodes"
	case s.Refusal.By == gang.Conflict:
		c.Reason, c.Message = reasons.TopologySpecConflict, s.Refusal.String()
	case s.Refusal.Exists():
		c.Reason, c.Message = reasons.Unschedulable, ExplainedOf(s.Refusal).String()
		if s.Refusal.NeverEvictable {
			c.Reason = reasons.NeverFits
		}
	case s.Started:
		c.Reason, c.Message = reasons.Ready, fmt.Sprintf("the gang was bound; %d of %d members run now", s.Bound, s.Min)
	default:
		c.Reason, c.Message = reasons.Ready, "all members exist"
	}
	c.Message = Clip(c.Message)
	return c
}

// Counts are the numbers of members by their state.
type Counts struct {
	Bound, Running, Succeeded, Failed int
	Owners                            []string
	Domain                            string // of the bound members
	Position                          int32  // in the queue; 0 if it is not shown
}

// PodGroup returns the new status of a gang's PodGroup, made from the written status old, the gang's state s and the counts n.
func PodGroup(old scheduling.PodGroupStatus, s gang.State, n Counts, now metav1.Time) scheduling.PodGroupStatus {
	if s.Exist > 0 && s.Done == 0 { // finished members are of an earlier run
		n.Succeeded, n.Failed = 0, 0
	}
	out := *old.DeepCopy()
	out.Phase = phase(s, n)
	out.OccupiedBy = strings.Join(n.Owners, ",")
	out.Scheduled = int32(n.Bound + n.Succeeded + n.Failed)
	out.Running = int32(n.Running)
	out.Succeeded = int32(n.Succeeded)
	out.Failed = int32(n.Failed)
	out.Domain = n.Domain
	if out.ScheduleStartTime == nil && (s.Planned > 0 || n.Bound > 0) {
		out.ScheduleStartTime = &now
	}
	c := Condition(s, n.Domain)
	out.Position = Position(c.Reason, n.Position)
	c.LastTransitionTime = now
	meta.SetStatusCondition(&out.Conditions, c)
	if s.Started {
		meta.SetStatusCondition(&out.Conditions, metav1.Condition{
			Type: scheduling.ConditionStarted, Status: metav1.ConditionTrue, Reason: reasons.Scheduled,
			Message: "the gang was bound once; its members may be replaced one by one", LastTransitionTime: now,
		})
	} else {
		meta.RemoveStatusCondition(&out.Conditions, scheduling.ConditionStarted)
	}
	return out
}

// phase returns the phase of a PodGroup. The minimum s.Min decides: the first phase that so many members have reached.
func phase(s gang.State, n Counts) scheduling.PodGroupPhase {
	done := n.Succeeded + n.Failed
	switch {
	case s.Exist+done < s.Min:
		return scheduling.PodGroupPending
	case n.Succeeded >= s.Min:
		return scheduling.PodGroupFinished
	case n.Failed > 0 && n.Running+done >= s.Min:
		return scheduling.PodGroupFailed
	case n.Running+n.Succeeded >= s.Min:
		return scheduling.PodGroupRunning
	case n.Bound+done >= s.Min:
		return scheduling.PodGroupScheduled
	case n.Bound+done > 0:
		return scheduling.PodGroupScheduling
	}
	return scheduling.PodGroupPreScheduling
}
