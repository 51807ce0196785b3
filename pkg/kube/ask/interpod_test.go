package ask

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// TestMemberWithOwnVolumeIsCountedAlone: one of two members with equal specs has its volume, or its device,
// on n1. It fits on no other node, so the members do not share an answer.
func TestMemberWithOwnVolumeIsCountedAlone(t *testing.T) {
	for _, name := range []string{"devices-one-has-its-own", "volumes-one-has-its-own"} {
		t.Run(name, func(t *testing.T) {
			set := &simulate.Set{}
			for _, file := range []string{"priorities.yaml", name + "/in.yaml"} {
				text, err := os.ReadFile("../../../test/scenarios/simulate/" + file)
				require.NoError(t, err)
				require.NoError(t, set.Add(file, text))
			}
			v, err := Open(t.Context(), Options{}, set)
			require.NoError(t, err)
			defer v.Close()
			tree, err := v.Topology(t.Context(), SlotSize{Gang: &Target{Kind: "podgroup", Namespace: "default", Name: "g"}})
			require.NoError(t, err)
			book, _, err := v.Book(t.Context())
			require.NoError(t, err)

			free := map[string]int{}
			for _, c := range tree.Branch.Children {
				free[c.Path] = c.Free
			}
			require.Equal(t, 1, free["n0"], "the one that has none fits there; the one that has its own cannot be there, and does not count")
			fits := map[string]map[string]bool{}
			for _, a := range book.Answers {
				require.Equal(t, 1, a.Pods, a.Pod)
				fits[a.Pod] = map[string]bool{}
				for _, n := range a.Nodes {
					for _, node := range n.Nodes {
						fits[a.Pod][node] = n.Slots > 0
					}
				}
			}
			require.Len(t, fits, 2)
			require.True(t, fits["default/g-0"]["n0"])
			require.False(t, fits["default/g-1"]["n0"])
			require.True(t, fits["default/g-1"]["n1"])
		})
	}
}
