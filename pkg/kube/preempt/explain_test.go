package preempt

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/evict"
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
		{Domain: 1, Cost: evict.Cost{Requeued: 2, Highest: 7, Sum: 14}},
		{Domain: 1, Cost: evict.Cost{Pods: 1, Requeued: 2, Highest: 7, Sum: 14}},
		{Domain: 3},
		{Domain: 5, Outcome: evict.Untried},
		{Domain: 5, Outcome: evict.Impossible},
	}})
	require.Equal(t,
		"evicts in the cluster: lowest sum of priorities. the cluster: 3 pods of priority up to 7, 9 in sum, 2 against a budget; "+
			"s1: 1 pod of priority -7, 1 against a budget; s1: none, but 2 waiting pods are requeued, of priority up to 7; s1: 1 pod, and 2 "+
			"waiting pods are requeued, of priority up to 7; "+
			"s2: no pods; and 2 more",
		got.String())
	data, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{"won": "", "rule": "sum", "considered": [
		{"domain": "", "possible": true, "violations": 2, "pods": 3, "highestPriority": 7, "sum": 9},
		{"domain": "s1", "possible": true, "violations": 1, "pods": 1, "highestPriority": -7, "sum": -7},
		{"domain": "s1", "possible": true, "violations": 0, "pods": 0, "sentBack": 2, "highestPriority": 7, "sum": 14},
		{"domain": "s1", "possible": true, "violations": 0, "pods": 1, "sentBack": 2, "highestPriority": 7, "sum": 14},
		{"domain": "s2", "possible": true, "violations": 0, "pods": 0, "highestPriority": 0, "sum": 0},
		{"domain": "(unnamed, with n3)", "possible": false, "untried": true},
		{"domain": "(unnamed, with n3)", "possible": false}]}`, string(data))
}
