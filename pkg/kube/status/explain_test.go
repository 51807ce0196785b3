package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/evict"
)

// TestExplanationIsShort: five domains at the most, and no more than 1 KiB.
func TestExplanationIsShort(t *testing.T) {
	for _, name := range []string{"s", strings.Repeat("long-", 12), strings.Repeat("ö", 500)} {
		why := Explanation{Rule: evict.ByBinpack, Won: name}
		for i := range 100 {
			why.Considered = append(why.Considered,
				ConsideredDomain{Domain: fmt.Sprint(name, i), Possible: true, EvictionCost: &EvictionCost{9, 999_999, 99_999, 1 << 30, 1 << 60}})
		}
		text := why.String()
		require.LessOrEqual(t, len(text), Limit, text)
		require.Regexp(t, `; and 9[5-9] more$`, text)
		require.LessOrEqual(t, strings.Count(text, " pods, and"), maxDomains)
	}
}

// TestRulesInWords: every rule has words.
func TestRulesInWords(t *testing.T) {
	require.Len(t, rules, 18)
	for rule, words := range rules {
		require.NotEmpty(t, words, rule)
	}
}

// TestCostInWords: one pod or many, members that only go back to the queue, a sum that is not clear from the
// highest priority, and budgets.
func TestCostInWords(t *testing.T) {
	for _, test := range []struct {
		says string
		of   ConsideredDomain
	}{
		{"search limit reached", ConsideredDomain{Untried: true}},
		{"impossible", ConsideredDomain{}},
		{"no pods", ConsideredDomain{Possible: true, EvictionCost: &EvictionCost{}}},
		{"1 pod of priority 5", ConsideredDomain{Possible: true, EvictionCost: &EvictionCost{Pods: 1, HighestPriority: 5, Sum: 5}}},
		{
			"1 pod of priority -5, 1 against a budget",
			ConsideredDomain{Possible: true, EvictionCost: &EvictionCost{Pods: 1, HighestPriority: -5, Sum: -5, Violations: 1}},
		},
		{"3 pods of priority up to 5", ConsideredDomain{Possible: true, EvictionCost: &EvictionCost{Pods: 3, HighestPriority: 5, Sum: 15}}},
		{
			"3 pods of priority up to 5, 9 in sum, 2 against a budget",
			ConsideredDomain{Possible: true, EvictionCost: &EvictionCost{Pods: 3, HighestPriority: 5, Sum: 9, Violations: 2}},
		},
		{
			"none, but 2 waiting pods are requeued, of priority up to 7",
			ConsideredDomain{Possible: true, EvictionCost: &EvictionCost{SentBack: 2, HighestPriority: 7, Sum: 14}},
		},
		{
			"1 pod, and 2 waiting pods are requeued, of priority up to 7",
			ConsideredDomain{Possible: true, EvictionCost: &EvictionCost{Pods: 1, SentBack: 2, HighestPriority: 7, Sum: 15}},
		},
	} {
		require.Equal(t, test.says, test.of.cost())
	}
}

// TestWhyInWords: the explanation calls other domains impossible only if all of them were searched.
func TestWhyInWords(t *testing.T) {
	free, untried := ConsideredDomain{
		Domain: "s1", Possible: true, EvictionCost: &EvictionCost{},
	}, ConsideredDomain{Domain: "s2", Untried: true}
	for says, why := range map[string]Explanation{
		"evicts in the cluster: the better plan": {Rule: evict.ByOrder},
		"evicts in s1: no other domain is possible. s1: no pods; s2: impossible": {
			Won: "s1", Rule: evict.Alone, Considered: []ConsideredDomain{free, {Domain: "s2"}},
		},
		"evicts in s1: no other domain is known to be possible. s1: no pods; s2: search limit reached": {
			Won: "s1", Rule: evict.Alone, Considered: []ConsideredDomain{free, untried},
		},
		"evicts in s1: fewest pods. s1: no pods; s2: search limit reached": {
			Won: "s1", Rule: evict.ByPods, Considered: []ConsideredDomain{free, untried},
		},
		"evicts in the cluster: search limit reached. the cluster: 1 pod of priority 5; s2: search limit reached": {
			Rule: evict.NotAll, Considered: []ConsideredDomain{
				{Possible: true, EvictionCost: &EvictionCost{Pods: 1, HighestPriority: 5, Sum: 5}}, untried,
			},
		},
	} {
		require.Equal(t, says, why.String())
	}
}
