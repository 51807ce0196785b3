package bundle_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/bundle"
)

// subGroups reads "POLICY-MEMBERS" words; -1 as a policy is written "-". Each policy needs so many
// sub-groups of two.
func subGroups(text string, least int) (out []bundle.SubGroup) {
	for _, word := range strings.Fields(text) {
		policy, members, _ := strings.Cut(word, "-")
		g := bundle.SubGroup{Policy: -1}
		if n, err := strconv.Atoi(policy); err == nil {
			g.Policy, g.Size, g.Least = n, 2, least
		}
		g.Members, _ = strconv.Atoi(members)
		out = append(out, g)
	}
	return out
}

// TestSplit: which members of a gang are evicted together, and which may be evicted alone.
func TestSplit(t *testing.T) {
	for name, test := range map[string]struct {
		groups string
		least  int
		spare  int
		want   string // each part: how many it spares, the least number that stays of its level, ? if it is short
		odd    int
	}{
		"two of three may leave":                      {"0-2 0-2 0-2", 1, 4, "0:1 0:1 0:1", 0},
		"minMember needs two":                         {"0-2 0-2 0-2", 1, 2, "0:2 0:2 0:2", 0},
		"the policy needs two":                        {"0-2 0-2 0-2", 2, 4, "0:2 0:2 0:2", 0},
		"it needs all":                                {"0-2 0-2 0-2", 3, 2, "0 0 0", 0},
		"three are not two sub-groups":                {"0-2 0-2 0-2", 1, 3, "0:2 0:2 0:2", 0},
		"the larger ones first":                       {"0-3 0-2 0-2", 0, 4, "0:2 0:2 0:2", 0},
		"one to spare is no sub-group":                {"0-2 0-2 0-2", 1, 1, "", 1},
		"but all sub-groups are needed":               {"0-2 0-2", 2, 1, "0 0", 0},
		"so it is the member without a sub-group":     {"0-2 0-2 -2", 2, 1, "0 0 1", 0},
		"sub-groups first, then single members":       {"0-2 0-2 -2", 1, 3, "0:1 0:1 1", 0},
		"policies in turn":                            {"0-2 0-2 1-2 1-2", 1, 4, "0:1 0:1 0:1 0:1", 0},
		"the first has all there is":                  {"0-2 0-2 1-2 1-2", 1, 2, "0:1 0:1 0 0", 0},
		"none asks for any: whichever it is":          {"0-2 0-2 1-2 1-2", 0, 2, "0:3 0:3 0:3 0:3", 0},
		"single members after them":                   {"0-2 1-2 -2", 0, 3, "0:1 0:1 1", 0},
		"unlike sizes are shared in turn":             {"0-2 1-3", 0, 2, "0:0 0", 0},
		"a sub-group that lost a member":              {"0-1 0-2 0-2", 1, 3, "0:1? 0:1 0:1", 0},
		"such a sub-group, and too few spare members": {"0-1 0-2 0-2", 2, 1, "0:2? 0:2 0:2", 0},
		"two such sub-groups, and one spare member":   {"0-1 0-1 0-2", 1, 1, "0 0 0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			parts, single := bundle.Split("g", subGroups(test.groups, test.least), test.spare)
			for _, part := range parts {
				word := fmt.Sprint(part.Spare)
				for _, l := range part.Above {
					word += fmt.Sprint(":", l.Least)
				}
				if part.Short {
					word += "?"
				}
				got = append(got, word)
			}
			require.Equal(t, test.want, strings.Join(got, " "))
			require.Equal(t, test.odd, single)
		})
	}
}

// TestSplitSparesNoMore: unless the whole gang is evicted, any parts may be evicted without harm. The gang then loses
// no more members than it can spare, no sub-group is evicted in part, and each policy keeps its minimum of
// sub-groups.
func TestSplitSparesNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.IntRange(0, 2).Draw(t, "least")
		text, members := "", 0
		for policy := range rapid.IntRange(1, 2).Draw(t, "policies") {
			for range rapid.IntRange(1, 3).Draw(t, "sub-groups") {
				n := rapid.SampledFrom([]int{1, 2, 2, 2, 3}).Draw(t, "members")
				text, members = text+fmt.Sprint(policy, "-", n, " "), members+n
			}
		}
		if n := rapid.IntRange(0, 2).Draw(t, "in none"); n > 0 {
			text, members = text+fmt.Sprint("-", n), members+n
		}
		spare := rapid.IntRange(1, members).Draw(t, "spare")
		groups := subGroups(text, least)
		parts, odd := bundle.Split("g", groups, spare)
		if parts == nil {
			require.Positive(t, odd, text)
			require.LessOrEqual(t, odd, spare, text)
			return
		}
		lose := make([]int, len(parts))
		for i := range parts {
			parts[i].Group = 1
			lose[i] = rapid.IntRange(0, groups[i].Members).Draw(t, "lose")
		}
		gone, all := 0, true
		whole, before := map[int]int{}, map[int]int{}
		for i, leaves := range bundle.Evicted(parts, lose) {
			g := groups[i]
			switch {
			case leaves:
				gone += g.Members
			case g.Policy >= 0:
				require.Zero(t, lose[i], "%s: %v", text, lose)
				fallthrough
			default:
				gone, all = gone+lose[i], false
			}
			if g.Policy >= 0 && g.Members >= g.Size {
				if before[g.Policy]++; !leaves {
					whole[g.Policy]++
				}
			}
		}
		if all || gone == 0 {
			return
		}
		require.LessOrEqual(t, gone, spare, "%s: %v", text, lose)
		for policy, n := range before {
			require.GreaterOrEqual(t, whole[policy], min(n, least), "%s: %v", text, lose)
		}
	})
}
