package quota_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// A gang with members of two quotas, one of which it can start without, does not wait for the turn of that quota.
func TestGangDoesNotWaitForTurnOfItsOptionalQuota(t *testing.T) {
	most := quota.List{"cpu": 8}
	tree, problems := quota.NewTree([]quota.Spec{
		{Name: "r", Inner: true}, {Name: "a", Parent: "r", Max: most}, {Name: "b", Parent: "r", Max: most},
	})
	require.Empty(t, problems)
	b := quota.NewBook(tree)
	b.Total("r", most)
	set := func(name, gang, of string, cpu int64, state quota.State) {
		b.Set(quota.Pod{Name: name, Gang: gang, Quota: of, Asks: quota.List{"cpu": cpu}, State: state})
	}
	set("runs", "runs", "a", 4, quota.Bound)
	set("g-0", "g", "a", 1, quota.Waiting)
	set("g-1", "g", "a", 1, quota.Waiting)
	set("g-2", "g", "b", 1, quota.Waiting)
	set("w", "w", "b", 4, quota.Waiting)
	ask := quota.Request{Gang: "g", Need: []quota.Want{{Quota: "a", Asks: quota.List{"cpu": 1}, Count: 2}}}
	_, refusal := b.Admit(ask)
	require.NotNil(t, refusal)
	require.Equal(t, quota.NotNext, refusal.Cause, "w could start, and b has the smaller share")
	b.SetPassedOver("w", true)
	_, refusal = b.Admit(ask)
	require.Nil(t, refusal)
}

// What a quota keeps is for its own members: a gang with a member in it and one in another quota does not use the rest of it.
func TestGangOfTwoQuotasDoesNotUseWhatOneKeeps(t *testing.T) {
	tree, problems := quota.NewTree([]quota.Spec{
		{Name: "r", Inner: true},
		{Name: "kept", Parent: "r", Min: quota.List{"cpu": 5}, NotLent: true},
		{Name: "other", Parent: "r", Min: quota.List{"cpu": 1}, Max: quota.List{"cpu": 9}},
	})
	require.Empty(t, problems)
	b := quota.NewBook(tree)
	b.Runtime = true
	b.Total("r", quota.List{"cpu": 7})
	b.Set(quota.Pod{Name: "runs", Gang: "runs", Quota: "other", Asks: quota.List{"cpu": 2}, State: quota.Bound})
	one := quota.List{"cpu": 1}
	for _, ask := range []quota.Request{
		{Gang: "g", Need: []quota.Want{{Quota: "other", Asks: one, Count: 1}}},
		{Gang: "g", Need: []quota.Want{{Quota: "other", Asks: one, Count: 1}, {Quota: "kept", Asks: one, Count: 1}}},
	} {
		_, refusal := b.Admit(ask)
		require.NotNil(t, refusal)
		require.Equal(t, quota.OverFree, refusal.Cause)
	}
	_, refusal := b.Admit(quota.Request{Gang: "g", Need: []quota.Want{{Quota: "kept", Asks: one, Count: 5}}})
	require.Nil(t, refusal)
}
