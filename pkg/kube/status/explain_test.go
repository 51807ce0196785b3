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
			why.Considered = append(why.Considered, ConsideredDomain{Domain: fmt.Sprint(name, i), Possible: true, EvictionCost: &EvictionCost{9, 999_999, 99_999, 1 << 30, 1 << 60}})
		}
		text := why.String()
		require.LessOrEqual(t, len(text), Limit, text)
		require.Regexp(t, `; and 9[5-9] more$`, text)
		require.LessOrEqual(t, strings.Count(text, "pods"), mostDomains)
	}
}

// TestRulesInWords: every rule has words.
func TestRulesInWords(t *testing.T) {
	require.Len(t, rules, 14)
	for rule, words := range rules {
		require.NotEmpty(t, words, rule)
	}
}
