package scheduling_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

func TestAnnotations(t *testing.T) {
	mode := func(v string) (any, error) { return scheduling.ParseMode(v) }
	policy := func(v string) (any, error) { return scheduling.ParseMatchPolicy(v) }
	least := func(v string) (any, error) { return scheduling.ParseMinAvailable(v) }
	total := func(v string) (any, error) { return scheduling.ParseTotalNumber(v) }
	index := func(v string) (any, error) { return scheduling.ParseTopologyIndex(v) }
	wait := func(v string) (any, error) { return scheduling.ParseWaitingTime(v) }
	groups := func(v string) (any, error) { return scheduling.ParseGroups(v) }

	const (
		modeLegal   = `; legal: Strict, NonStrict`
		policyLegal = `; legal: only-waiting, waiting-and-running, once-satisfied`
		waitLegal   = `; legal: a duration > 0, such as 600s`
		groupsLegal = `; legal: a JSON list such as ["default/a","default/b"], each gang once`
	)
	for _, c := range []struct {
		parse func(string) (any, error)
		value string
		want  any    // if it is legal
		err   string // if not, without the key's domain
	}{
		{mode, "Strict", scheduling.ModeStrict, ""},
		{mode, "NonStrict", scheduling.ModeNonStrict, ""},
		{mode, "strict", nil, `mode: "strict" is not legal` + modeLegal},
		{mode, "", nil, `mode: "" is not legal` + modeLegal},
		{policy, "only-waiting", scheduling.MatchOnlyWaiting, ""},
		{policy, "waiting-and-running", scheduling.MatchWaitingAndRunning, ""},
		{policy, "once-satisfied", scheduling.MatchOnceSatisfied, ""},
		{policy, "once", nil, `match-policy: "once" is not legal` + policyLegal},
		{least, "4", 4, ""},
		{least, "0", nil, `min-available: "0" is not legal; legal: an integer ≥ 1`},
		{least, "99999999999", nil, `min-available: "99999999999" is not legal; legal: an integer ≥ 1`},
		{total, "8", 8, ""},
		{total, "-1", nil, `total-number: "-1" is not legal; legal: an integer ≥ 1`},
		{index, "0", 0, ""},
		{index, "12", 12, ""},
		{index, "-1", nil, `network-topology-index: "-1" is not legal; legal: an integer ≥ 0`},
		{index, "1.0", nil, `network-topology-index: "1.0" is not legal; legal: an integer ≥ 0`},
		{wait, "1m30s", 90 * time.Second, ""},
		{wait, "0s", nil, `waiting-time: "0s" is not legal` + waitLegal},
		{wait, "600", nil, `waiting-time: "600" is not legal` + waitLegal},
		{groups, "[\"default/a\", \"other/b\"]\n", []string{"default/a", "other/b"}, ""},
		{groups, "[]", []string{}, ""},
		{groups, "default/a", nil, `groups: "default/a" is not legal` + groupsLegal},
		{groups, `["a/b"] x`, nil, `groups: "[\"a/b\"] x" is not legal` + groupsLegal},
		{groups, `["a/b","a"]`, nil, `groups[1]: "a" is not legal` + groupsLegal},
		{groups, `["a/b/c"]`, nil, `groups[0]: "a/b/c" is not legal` + groupsLegal},
		{groups, `["/b"]`, nil, `groups[0]: "/b" is not legal` + groupsLegal},
		{groups, `["a/b","a/b"]`, nil, `groups[1]: "a/b" is not legal` + groupsLegal},
	} {
		got, err := c.parse(c.value)
		if c.err != "" {
			require.EqualError(t, err, "gang.scheduling.koordinator.sh/"+c.err)
			continue
		}
		require.NoError(t, err, c.value)
		require.Equal(t, c.want, got, c.value)
	}
}
