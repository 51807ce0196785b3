package group_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

func ref(name string) gang.Ref { return gang.Ref{Source: "PodGroup", Namespace: "ns", Name: name} }

func gather(strategy scheduling.GatherStrategy, scope scheduling.GatherScope) *scheduling.GatherSpec {
	return &scheduling.GatherSpec{Rules: []scheduling.GatherRule{{Layer: "Spine", Strategy: strategy, Scope: scope}}}
}

// made is a group of gangs a, b, ... that say these things.
func made(says ...*source.Declaration) (*group.Group, gang.Obstacle) {
	var of gang.Group
	var records []*group.Record
	for i, d := range says {
		r := &group.Record{Gang: source.Gang{Ref: ref(string(rune('a' + i)))}, Declared: d}
		of.Gangs = append(of.Gangs, gang.Gang{Spec: gang.Spec{Ref: r.Ref, Min: 1}, Need: 1})
		records = append(records, r)
	}
	return group.New(of, records, nil)
}

// TestGangsOfOneGroupGatherAlike: the constraint of one gang holds for its group, and different constraints are
// rejected. Constraints for each gang by itself hold only for that gang.
func TestGangsOfOneGroupGatherAlike(t *testing.T) {
	must, prefer := gather(scheduling.MustGather, ""), gather(scheduling.PreferGather, "")
	mustEach, preferEach := gather(scheduling.MustGather, scheduling.ScopePodGroup), gather(scheduling.PreferGather, scheduling.ScopePodGroup)
	for name, c := range map[string]struct {
		says     []*source.Declaration
		all      *scheduling.GatherSpec
		own      int
		conflict bool
	}{
		"none":                        {[]*source.Declaration{nil, {}}, nil, 0, false},
		"one for all":                 {[]*source.Declaration{{Gather: must}, {}}, must, 0, false},
		"the same":                    {[]*source.Declaration{{Gather: must}, {Gather: must}}, must, 0, false},
		"others":                      {[]*source.Declaration{{Gather: must}, {Gather: prefer}}, nil, 0, true},
		"each by itself, alike":       {[]*source.Declaration{{Gather: mustEach}, {Gather: mustEach}}, mustEach, 0, false},
		"each by itself, differently": {[]*source.Declaration{{Gather: mustEach}, {Gather: preferEach}}, nil, 2, false},
	} {
		g, why := made(c.says...)
		if c.conflict {
			require.Equal(t, gang.Conflict, why.By, name)
			continue
		}
		require.False(t, why.Exists(), name)
		require.Equal(t, c.all, g.Gather, name)
		require.Len(t, g.Constraints, c.own, name)
	}
}

// TestGangSaysWhetherItPreempts: the gang's object counts before the pod.
func TestGangSaysWhetherItPreempts(t *testing.T) {
	never, preempts := true, false
	policy := v1.PreemptNever
	for want, d := range map[bool]*source.Declaration{true: {NeverPreempts: &never}, false: {NeverPreempts: &preempts}} {
		g, _ := made(d)
		g.Pods["ns/p"] = &v1.Pod{Spec: v1.PodSpec{PreemptionPolicy: &policy}}
		require.Equal(t, want, g.NeverPreempts(gang.Member{Gang: ref("a"), Pod: "ns/p"}))
	}
	g, _ := made(&source.Declaration{})
	g.Pods["ns/p"] = &v1.Pod{}
	require.False(t, g.NeverPreempts(gang.Member{Gang: ref("a"), Pod: "ns/p"}))
}

// TestPodWithoutAGangIsAGroupOfOne: pods of one name are different groups, and a reserved node makes the group one that waits.
func TestPodWithoutAGangIsAGroupOfOne(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}}
	again := pod.DeepCopy()
	again.UID = "2"
	require.NotEqual(t, group.AloneKey(pod), group.AloneKey(again))
	g := group.Alone(pod, "")
	require.Equal(t, []any{true, false, 1}, []any{g.Alone, g.Waiting, g.Need()})
	require.Len(t, g.Needed(), 1)
	g = group.Alone(pod, "n1")
	require.Equal(t, []any{true, "n1"}, []any{g.Waiting, g.Places["ns/p"]})
}
