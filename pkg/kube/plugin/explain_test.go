package plugin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

func TestExplanation(t *testing.T) {
	tree := topology.Build([]string{"SpineLayer"}, []topology.Node{
		{Name: "n1", Path: []string{"s1"}},
		{Name: "n2", Path: []string{"s2"}},
		{Name: "n3", Path: []string{""}},
	})
	got := explanation(tree, evict.Choice{Rule: evict.BySum, Considered: []evict.Considered{
		{Domain: topology.Root, Cost: evict.Cost{Violations: 2, Pods: 3, Highest: 7, Sum: 9}},
		{Domain: 1, Cost: evict.Cost{Violations: 1, Pods: 1, Highest: -7, Sum: -7}},
		{Domain: 3},
		{Domain: 5, Outcome: evict.Untried},
		{Domain: 5, Outcome: evict.Impossible},
	}})
	require.Equal(t, "evicts in the cluster: lowest sum of priorities. the cluster: 3 pods of priority up to 7, 9 in sum, 2 budgets violated; "+
		"s1: 1 pod of priority -7, 1 budget violated; s2: nobody; (unnamed, with n3): not all ways were tried; (unnamed, with n3): impossible",
		got.String())
	data, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{"won": "", "rule": "sum", "considered": [
		{"domain": "", "possible": true, "violations": 2, "pods": 3, "highestPriority": 7, "sum": 9},
		{"domain": "s1", "possible": true, "violations": 1, "pods": 1, "highestPriority": -7, "sum": -7},
		{"domain": "s2", "possible": true, "violations": 0, "pods": 0, "highestPriority": 0, "sum": 0},
		{"domain": "(unnamed, with n3)", "possible": false, "untried": true},
		{"domain": "(unnamed, with n3)", "possible": false}]}`, string(data))
}

// TestWithoutComparing: what was found by trying has a domain and no rule.
func TestWithoutComparing(t *testing.T) {
	tree := topology.Build([]string{"SpineLayer"}, []topology.Node{{Name: "n1", Path: []string{"s1"}}, {Name: "n2", Path: []string{"s1"}}, {Name: "n3", Path: []string{"s2"}}})
	got := withoutComparing(tree, []gang.Place{{Node: "n1"}, {Node: "n2"}})
	require.Equal(t, "evicts in s1: not all ways were tried", got.String())
	require.Empty(t, withoutComparing(tree, []gang.Place{{Node: "n1"}, {Node: "n3"}}).Won)
}

// TestExplanationIsShort: five domains at the most, and no more than 1 KiB.
func TestExplanationIsShort(t *testing.T) {
	for _, name := range []string{"s", strings.Repeat("long-", 12), strings.Repeat("ö", 500)} {
		why := Explanation{Rule: evict.ByBinpack, Won: name}
		for i := range 100 {
			why.Considered = append(why.Considered, ConsideredDomain{Domain: fmt.Sprint(name, i), Possible: true, EvictionCost: &EvictionCost{9, 999_999, 1 << 30, 1 << 60}})
		}
		text := why.String()
		require.LessOrEqual(t, len(text), status.Limit, text)
		require.Regexp(t, `; and 9[5-9] more$`, text)
		require.LessOrEqual(t, strings.Count(text, "pods"), mostDomains)
	}
}

// TestRulesInWords: every rule has words.
func TestRulesInWords(t *testing.T) {
	require.Len(t, rules, 13)
	for rule, words := range rules {
		require.NotEmpty(t, words, rule)
	}
}
