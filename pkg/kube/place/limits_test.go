package place

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// TestLimitEnds: a limit ends when pods of another group change on the node, at an event of the plugin, or after a
// time.
func TestLimitEnds(t *testing.T) {
	now := time.Unix(1000, 0)
	at := limitKey{group: gang.Ref{Name: "g"}, shape: "s", node: "n"}
	for _, c := range []struct {
		name   string
		when   func(*limits)
		others string
		after  time.Duration
		holds  bool
	}{
		{"nothing happens", nil, "n1 a b", time.Minute, true},
		{"a pod is gone", nil, "n1 a", 0, false},
		{"a pod is added", nil, "n1 a b c", 0, false},
		{"the node changes", nil, "n2 a b", 0, false},
		{"it is long ago", nil, "n1 a b", longestLimit, false},
		{"its plugin has heard something", func(l *limits) { l.forget("VolumeBinding") }, "n1 a b", 0, false},
		{"another one has", func(l *limits) { l.forget("DynamicResources") }, "n1 a b", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l limits
			l.put(at, limit{most: 2, plugin: "VolumeBinding", surroundings: "n1 a b", until: now.Add(longestLimit)}, now)
			require.Equal(t, []limitKey{at}, l.forGroup(at.group))
			require.Empty(t, l.forGroup(gang.Ref{Name: "h"}))
			if c.when != nil {
				c.when(&l)
			}
			is, holds := l.get(at, c.others, now.Add(c.after))
			require.Equal(t, c.holds, holds)
			if holds {
				require.Equal(t, 2, is.most)
			} else {
				_, holds = l.get(at, "n1 a b", now)
				require.False(t, holds, "it does not come back")
			}
		})
	}
}

func TestLimitsThatAreOverAreForgotten(t *testing.T) {
	var l limits
	now := time.Unix(1000, 0)
	for i := range 10 {
		now = now.Add(time.Minute)
		l.put(limitKey{node: fmt.Sprint("n", i)}, limit{until: now.Add(longestLimit)}, now)
	}
	require.Len(t, l.known, 5)
}

// TestAllow: members of one shape share what a node takes, whichever kind they are.
func TestAllow(t *testing.T) {
	l := activeLimits{
		shapes:    []int{0, 0, 1}, // two kinds of workers, each with a claim of its own, and a launcher
		remaining: map[int]map[int]offer.Slots{7: {0: 3}},
	}
	for _, c := range []struct {
		node, kind  int
		load        []offer.Slots
		slots, want offer.Slots
	}{
		{7, 0, nil, 9, 3},
		{7, 1, nil, 2, 2},
		{7, 1, []offer.Slots{2, 0, 0}, 9, 1},
		{7, 0, []offer.Slots{1, 1, 5}, 9, 1},
		{7, 0, []offer.Slots{2, 2, 0}, 9, 0},
		{7, 2, []offer.Slots{3, 0, 0}, 9, 9},
		{6, 0, []offer.Slots{9, 9, 9}, 9, 9},
	} {
		require.Equal(t, c.want, l.allow(c.node, c.kind, c.load, c.slots), "%v", c)
	}
	var none activeLimits
	require.Equal(t, offer.Slots(9), none.allow(7, 0, []offer.Slots{5}, 9), "nothing is known")
}

// openTrial accepts every member.
type openTrial struct{ puts []string }

func (o *openTrial) Fits(int, int) bool { return true }
func (o *openTrial) Put(kind, node int) { o.puts = append(o.puts, fmt.Sprint(kind, "@", node)) }
func (o *openTrial) Undo()              { o.puts = o.puts[:len(o.puts)-1] }

// TestLimitsOnTrial: limits also apply to members that are tried one after the other.
func TestLimitsOnTrial(t *testing.T) {
	a := &Attempt{}
	open := &openTrial{}
	require.Same(t, open, a.limitTrial(open), "without limits there is nothing to watch")

	a.limited = activeLimits{shapes: []int{0, 0, 1}, remaining: map[int]map[int]offer.Slots{7: {0: 2}}}
	trial := a.limitTrial(open)
	trial.Put(0, 7)
	require.True(t, trial.Fits(1, 7))
	trial.Put(1, 7)
	require.False(t, trial.Fits(0, 7))
	require.True(t, trial.Fits(2, 7))
	require.True(t, trial.Fits(0, 6))
	trial.Undo()
	require.True(t, trial.Fits(0, 7))
	require.Equal(t, "0@7", strings.Join(open.puts, " "))
}

// TestHeard: of what refusals have told of nodes ends what the plugin may see otherwise now.
func TestHeard(t *testing.T) {
	var p Planner
	now := time.Unix(0, 0)
	put := func(group, plugin, pod string) {
		key := limitKey{group: gang.Ref{Name: group}, node: pod}
		p.limits.put(key, limit{plugin: plugin, until: now.Add(longestLimit), pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}}}, now)
	}
	put("a", "Volumes", "a-0")
	put("a", "Volumes", "a-1")
	put("b", "Volumes", "b-0")
	put("c", "Devices", "c-0")
	require.Empty(t, p.RecheckLimits("Volumes", func(*v1.Pod) bool { return false }))
	require.Equal(t, []gang.Ref{{Name: "a"}}, p.RecheckLimits("Volumes", func(pod *v1.Pod) bool { return pod.Name != "b-0" }))
	require.Len(t, p.limits.known, 2)
	require.Empty(t, p.RecheckLimits("Volumes", func(pod *v1.Pod) bool { return pod.Name != "b-0" }), "it has ended")
}
