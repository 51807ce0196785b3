package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
)

// TestInitially: that a gang was whole once is said once and for all; why it is not, only of those
// that were tried or refused. What others say stays.
func TestInitially(t *testing.T) {
	const kind = "PodGroupInitiallyScheduled"
	at := func(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }
	others := metav1.Condition{Type: "DisruptionTarget", Status: metav1.ConditionFalse, Reason: "None", LastTransitionTime: at(1)}
	was := func(status metav1.ConditionStatus, reason, message string) Conditions {
		return Conditions{
			[]metav1.Condition{
				others, {Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 3, LastTransitionTime: at(1)},
			},
		}
	}
	nothing := Conditions{[]metav1.Condition{others}}
	is := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: Scheduled, Status: status, Reason: reason, Message: "m"}
	}
	for name, c := range map[string]struct {
		old  Conditions
		is   metav1.Condition
		once bool
		want string // status and reason
		at   metav1.Time
	}{
		"it is bound":  {nothing, is(metav1.ConditionTrue, reasons.Scheduled), false, "True Scheduled", at(9)},
		"it was bound": {nothing, is(metav1.ConditionFalse, reasons.Ready), true, "True Scheduled", at(9)},
		"no room":      {nothing, is(metav1.ConditionFalse, reasons.Unschedulable), false, "False Unschedulable", at(9)},
		"still no room": {
			was(metav1.ConditionFalse, "Unschedulable", "x"), is(metav1.ConditionFalse, reasons.Unschedulable), false, "False Unschedulable", at(1),
		},
		"rejected":              {nothing, is(metav1.ConditionFalse, reasons.Rejected), false, "False Unschedulable", at(9)},
		"victims have to leave": {nothing, is(metav1.ConditionFalse, reasons.Preempting), false, "False Unschedulable", at(9)},
		"members are missing":   {nothing, is(metav1.ConditionFalse, reasons.Waiting), false, "", at(0)},
		"not tried yet":         {nothing, is(metav1.ConditionFalse, reasons.Ready), false, "", at(0)},
		"places are taken": {
			was(metav1.ConditionFalse, "Unschedulable", "x"), is(metav1.ConditionFalse, reasons.Binding), false, "False Unschedulable", at(1),
		},
		"room after all": {
			was(metav1.ConditionFalse, "Unschedulable", "x"), is(metav1.ConditionTrue, reasons.Scheduled), false, "True Scheduled", at(9),
		},
		"members have gone": {
			was(metav1.ConditionTrue, "Scheduled", "x"), is(metav1.ConditionFalse, reasons.Unschedulable), false, "True Scheduled", at(1),
		},
		"what is true is enough": {was(metav1.ConditionTrue, "Other", "x"), is(metav1.ConditionTrue, reasons.Scheduled), true, "True Other", at(1)},
	} {
		t.Run(name, func(t *testing.T) {
			before := Conditions{append([]metav1.Condition(nil), c.old.Conditions...)}
			out := InitialConditions(c.old, kind, c.is, c.once, 4, at(9))
			require.Equal(t, before, c.old, "what is written is left alone")
			require.Equal(t, others, out.Conditions[0])
			got := meta.FindStatusCondition(out.Conditions, kind)
			if c.want == "" {
				require.Nil(t, got)
				return
			}
			require.Equal(t, c.want, string(got.Status)+" "+got.Reason)
			require.Equal(t, c.at.Unix(), got.LastTransitionTime.Unix())
			require.Equal(t, out, InitialConditions(out, kind, c.is, c.once, 4, at(10)), "and then there is nothing to write")
		})
	}
}
