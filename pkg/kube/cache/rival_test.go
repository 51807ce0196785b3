package cache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
)

// A pod of ours that another scheduler binds is reported at most once a minute. Bindings by this process or an
// earlier leader are not reported, and neither are other schedulers' pods.
func TestBoundByAnother(t *testing.T) {
	c, _, notes := open(t)
	clock := c.Clock.(*clocktesting.FakeClock)
	on := func(name, scheduler string) (was, is *v1.Pod) {
		was = member(name, func(p *v1.Pod) { p.Labels, p.Spec.SchedulerName = nil, scheduler })
		is = was.DeepCopy()
		is.Spec.NodeName = "n1"
		return was, is
	}
	told := func(name, scheduler string) (messages []string) {
		*notes = nil
		was, is := on(name, scheduler)
		handlers := c.podHandler()
		handlers.OnAdd(was, false)
		handlers.OnUpdate(was, is)
		for _, n := range *notes {
			require.Equal(t, reasons.BoundByAnother, n.Reason)
			messages = append(messages, n.Message)
		}
		handlers.OnDelete(is)
		return messages
	}
	require.Empty(t, told("late", "muster-scheduler"), "the leader before this one may have bound it")
	clock.Step(time.Minute)
	require.Empty(t, told("theirs", "default-scheduler"))

	ours, _ := on("ours", "")
	c.NoteBinding(ours)
	require.Empty(t, told("ours", "muster-scheduler"))
	require.Len(t, told("ours", "muster-scheduler"), 1, "it was forgotten when it went")

	clock.Step(10 * time.Second)
	require.Empty(t, told("second", "muster-scheduler"), "once a minute")
	clock.Step(time.Minute)
	require.Equal(t, []string{
		"bound to n1 by another process than this scheduler, which serves schedulerName muster-scheduler (3 such pods so far): only one " +
			"scheduler may serve a name",
	},
		told("third", "muster-scheduler"))
	require.Empty(t, c.rivals.binding)
}
