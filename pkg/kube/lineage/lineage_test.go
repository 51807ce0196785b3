package lineage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/lineage"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

func key(name string) source.OwnerKey {
	return source.OwnerKey{Kind: "Owner", Namespace: "ns", Name: name}
}

func ref(name string) gang.Ref { return gang.Ref{Source: "PodGroup", Namespace: "ns", Name: name} }

// TestRelatedGangs: gangs of owners with the same root are related, whichever of these objects is known first, and no longer after the
// parent is deleted. A cycle of parents ends.
func TestRelatedGangs(t *testing.T) {
	parent, child := &source.Owned{Key: key("parent")}, &source.Owned{Key: key("child"), Parent: key("parent")}
	for _, objects := range [][]*source.Owned{{parent, child}, {child, parent}} {
		g := lineage.New()
		g.Add(key("parent"), ref("a"))
		g.Add(key("child"), ref("b"))
		for _, o := range objects {
			g.Store(o.Key, o)
		}
		both := map[gang.Ref]bool{ref("a"): true, ref("b"): true}
		require.Equal(t, both, g.Related(key("child")))
		require.Equal(t, both, g.Related(key("parent")))
		require.Equal(t, []*source.Owned{parent}, g.Above(child))
		require.Equal(t, []*source.Owned{child}, g.Children(key("parent")))

		g.Store(key("parent"), &source.Owned{Key: key("parent"), Parent: key("child")})
		require.Equal(t, both, g.Related(key("child")), "a cycle ends")
		require.Len(t, g.Above(child), source.MaxLevels)

		g.Store(key("child"), nil)
		g.Store(key("parent"), nil)
		g.Remove(key("parent"), ref("a"))
		require.Equal(t, map[gang.Ref]bool{ref("b"): true}, g.Related(key("child")))
		require.Empty(t, g.Related(key("parent")))
		require.Empty(t, g.Objects)
	}
}

// TestGangsOfJobs: a gang whose members are pods of a Job is related to the Job.
func TestGangsOfJobs(t *testing.T) {
	g := lineage.New()
	g.AddJob(key("job"), ref("a"))
	require.Equal(t, map[gang.Ref]bool{ref("a"): true}, g.Related(key("job")))
	require.Empty(t, g.Gangs(key("job")))
	g.RemoveJob(key("job"), ref("a"))
	require.Empty(t, g.Related(key("job")))
}
