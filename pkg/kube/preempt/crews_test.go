package preempt

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	_ "github.com/muster-scheduler/muster/test/seed"
)

// subGroups reads "POLICY-MEMBERS" words; -1 as a policy is written "-". Each policy asks for so many
// sub-groups of two.
func subGroups(text string, least int) (out []cache.SubGroup) {
	of := gang.Ref{Name: "g"}
	for i, word := range strings.Fields(text) {
		policy, members, _ := strings.Cut(word, "-")
		g := cache.SubGroup{Part: of.Part(fmt.Sprint(i)), Policy: -1}
		if n, err := strconv.Atoi(policy); err == nil {
			g.Policy, g.Size, g.Least = n, 2, least
		}
		n, _ := strconv.Atoi(members)
		g.Pods = make([]*v1.Pod, n)
		out = append(out, g)
	}
	return out
}

// TestParts: which members of a gang leave together, and which of them may without the others.
func TestParts(t *testing.T) {
	for name, test := range map[string]struct {
		groups string
		least  int
		spare  int
		want   string // each part: how many it spares, the least number that stays of its level, ? if it is short
		odd    int
	}{
		"two of three may leave":              {"0-2 0-2 0-2", 1, 4, "0:1 0:1 0:1", 0},
		"minMember needs two":                 {"0-2 0-2 0-2", 1, 2, "0:2 0:2 0:2", 0},
		"the policy needs two":                {"0-2 0-2 0-2", 2, 4, "0:2 0:2 0:2", 0},
		"it needs all":                        {"0-2 0-2 0-2", 3, 2, "0 0 0", 0},
		"three are not two sub-groups":        {"0-2 0-2 0-2", 1, 3, "0:2 0:2 0:2", 0},
		"the larger ones first":               {"0-3 0-2 0-2", 0, 4, "0:2 0:2 0:2", 0},
		"one to spare is no sub-group":        {"0-2 0-2 0-2", 1, 1, "", 1},
		"but all sub-groups are needed":       {"0-2 0-2", 2, 1, "0 0", 0},
		"so it is who is in none":             {"0-2 0-2 -2", 2, 1, "0 0 1", 0},
		"sub-groups first, then who is left":  {"0-2 0-2 -2", 1, 3, "0:1 0:1 1", 0},
		"policies in turn":                    {"0-2 0-2 1-2 1-2", 1, 4, "0:1 0:1 0:1 0:1", 0},
		"the first has all there is":          {"0-2 0-2 1-2 1-2", 1, 2, "0:1 0:1 0 0", 0},
		"none asks for any: whichever it is":  {"0-2 0-2 1-2 1-2", 0, 2, "0:3 0:3 0:3 0:3", 0},
		"and who is in none after them":       {"0-2 1-2 -2", 0, 3, "0:1 0:1 1", 0},
		"unlike sizes are shared in turn":     {"0-2 1-3", 0, 2, "0:0 0", 0},
		"one that has lost somebody":          {"0-1 0-2 0-2", 1, 3, "0:1? 0:1 0:1", 0},
		"one that has, and nobody to spare":   {"0-1 0-2 0-2", 2, 1, "0:2? 0:2 0:2", 0},
		"two that have, of whom one is spare": {"0-1 0-1 0-2", 1, 1, "0 0 0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			parts, odd := partsOf(gang.Ref{Name: "g"}, subGroups(test.groups, test.least), test.spare)
			for _, is := range parts {
				word := fmt.Sprint(is.spare)
				for _, l := range is.above {
					word += fmt.Sprint(":", l.Least)
				}
				if is.short {
					word += "?"
				}
				got = append(got, word)
			}
			require.Equal(t, test.want, strings.Join(got, " "))
			require.Equal(t, test.odd, odd)
		})
	}
}

// TestPartsSpareNoMore: whoever leaves by what the parts say, no more members do than the gang can spare, no
// sub-group in part, and of each policy as many stay whole as it asks for; or all leave.
func TestPartsSpareNoMore(t *testing.T) {
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
		parts, odd := partsOf(gang.Ref{Name: "g"}, groups, spare)
		if parts == nil {
			require.Positive(t, odd, text)
			require.LessOrEqual(t, odd, spare, text)
			return
		}
		gangs, lose := make([]evict.Gang, len(parts)), make([]int, len(parts))
		for i, is := range parts {
			gangs[i] = evict.Gang{Group: 1, Spare: is.spare, Above: is.above, Short: is.short}
			lose[i] = rapid.IntRange(0, len(is.pods)).Draw(t, "lose")
		}
		gone, all := 0, true
		whole, before := map[int]int{}, map[int]int{}
		for i, leaves := range evict.Leave(gangs, lose) {
			g := groups[i]
			switch {
			case leaves:
				gone += len(g.Pods)
			case g.Policy >= 0:
				require.Zero(t, lose[i], "%s: %v", text, lose)
				fallthrough
			default:
				gone, all = gone+lose[i], false
			}
			if g.Policy >= 0 && len(g.Pods) >= g.Size {
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
