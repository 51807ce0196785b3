package page_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/page"
)

// states draws States of few names, so that two of them have much in common: entries stay, go,
// come, change and change places. Names may be there twice.
var states = rapid.Custom(func(t *rapid.T) page.State {
	name := rapid.SampledFrom([]string{"a/a", "a/b", "b/a", "b/b", "c/c"})
	few := rapid.IntRange(0, 2)
	place := rapid.Custom(func(t *rapid.T) page.Place {
		return page.Place{
			Gang: name.Draw(t, "gang"), Kind: rapid.SampledFrom([]page.Kind{page.Runs, page.Terminating, page.Reserved}).Draw(t, "kind"),
			Pods: 1 + few.Draw(t, "pods"),
		}
	})
	node := rapid.Custom(func(t *rapid.T) page.Node {
		return page.Node{
			Path: name.Draw(t, "path"), Free: few.Draw(t, "free"), Broken: few.Draw(t, "broken") == 0,
			Places: rapid.SliceOfN(place, 0, 2).Draw(t, "places"),
		}
	})
	one := rapid.Custom(func(t *rapid.T) page.Gang { return page.Gang{Name: name.Draw(t, "name"), Pods: few.Draw(t, "pods")} })
	waiter := rapid.Custom(func(t *rapid.T) page.Waiter {
		return page.Waiter{
			Gang: name.Draw(t, "gang"), Bound: few.Draw(t, "bound"), Reason: rapid.SampledFrom([]string{"", "no room"}).Draw(t, "reason"),
		}
	})
	return page.State{
		At: time.Unix(int64(few.Draw(t, "at")), 0).UTC(), Problem: rapid.SampledFrom([]string{"", "it is broken"}).Draw(t, "problem"),
		Layers:  rapid.SampledFrom([][]string{{}, {"Cluster", "Node"}, {"Cluster", "Spine", "Node"}}).Draw(t, "layers"),
		Nodes:   rapid.SliceOfN(node, 0, 6).Draw(t, "nodes"),
		Gangs:   rapid.SliceOfN(one, 0, 6).Draw(t, "gangs"),
		Waiting: rapid.SliceOfN(waiter, 0, 6).Draw(t, "waiting"),
	}
})

// wire is a value as it arrives.
func wire[T any](t require.TestingT, value T) (out T) {
	data, err := json.Marshal(value)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &out))
	return out
}

func sameJSON(t require.TestingT, want, is any) {
	a, err := json.Marshal(want)
	require.NoError(t, err)
	b, err := json.Marshal(is)
	require.NoError(t, err)
	require.JSONEq(t, string(a), string(b))
}

// TestPatchMakesState: what is sent makes the old State into the new one, whatever they are.
func TestPatchMakesState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, now := states.Draw(t, "old"), states.Draw(t, "now")
		patch := page.Diff(&old, &now)
		before := wire(t, old)
		sameJSON(t, now, wire(t, patch).Apply(&old))
		sameJSON(t, before, old)
		sameJSON(t, struct{}{}, page.Diff(&now, &now))
	})
}

// TestPatchSize: one node that changes among many is sent, and nothing else.
func TestPatchSize(t *testing.T) {
	old := page.State{Nodes: make([]page.Node, 15000)}
	for i := range old.Nodes {
		old.Nodes[i] = page.Node{Path: fmt.Sprintf("s/n-%d", i), Free: 1}
	}
	now := old
	now.Nodes = append([]page.Node{}, old.Nodes...)
	now.Nodes[7] = page.Node{Path: "s/n-7", Places: []page.Place{{Gang: "a/a", Kind: page.Runs, Pods: 1}}}
	sameJSON(t,
		json.RawMessage(`{"nodes": {"changed": [{"at": 7, "is": {"path": "s/n-7", "free": 0, "places": [{"gang": "a/a", "kind": `+
			`"runs", "pods": 1}]}}]}}`),
		page.Diff(&old, &now))
	now.Nodes = append([]page.Node{{Path: "s/n"}}, old.Nodes[1:]...)
	sameJSON(t, json.RawMessage(`{"nodes": {"gone": [0], "came": [{"at": 0, "is": {"path": "s/n", "free": 0}}]}}`), page.Diff(&old, &now))
}
