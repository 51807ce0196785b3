package place

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// TestStandIns: stand-ins are planned beside the pending members. A gang that needs members which exist has no stand-ins for lost members,
// unless no member is pending (world 943806). A gang that waits for its first leader needs its stand-ins, too.
func TestStandIns(t *testing.T) {
	a := gang.Ref{Namespace: "default", Name: "a"}
	member := func(pod string, absent bool) gang.Member { return gang.Member{Gang: a, Pod: pod, Absent: absent} }
	for name, c := range map[string]struct {
		need        int
		pending     []gang.Member
		future      gang.Member
		leaderFirst bool
		planned     []string
		needs       int
	}{
		"needs members, one is lost": {2, []gang.Member{member("x", false), member("y", false)}, member("lost", true), false, []string{"x", "y"}, 2},
		"needs none, one is lost":    {0, []gang.Member{member("x", false)}, member("lost", true), false, []string{"x", "lost"}, 0},
		"none is pending":            {1, nil, member("lost", true), false, []string{"lost"}, 1},
		"waits for its first leader": {1, []gang.Member{member("x", false)}, member("later", false), true, []string{"x", "later"}, 2},
	} {
		var group cache.Group
		group.Gangs = []gang.Gang{{Spec: gang.Spec{Ref: a}, Need: c.need}}
		group.Pending, group.Future = c.pending, []gang.Member{c.future}
		if c.leaderFirst {
			group.LeaderFirst = []gang.Ref{a}
		}
		all := withStandIns(&group)
		var planned []string
		for _, m := range all.Pending {
			planned = append(planned, m.Pod)
		}
		require.Equal(t, c.planned, planned, name)
		require.Equal(t, c.needs, all.Gangs[0].Need, name)
		require.Equal(t, c.need, group.Gangs[0].Need, name+": the group itself does not change")
	}
}
