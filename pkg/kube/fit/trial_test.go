package fit_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

const rack = "rack"

// racks are three racks of two nodes.
func racks() (nodes []*v1.Node, names []string) {
	for _, n := range []string{"a1", "a2", "b1", "b2", "c1", "c2"} {
		nodes = append(nodes, node(n, "8").Label(rack, n[:1]).Obj())
		names = append(names, n)
	}
	return nodes, names
}

func like(app string) *metav1.LabelSelector {
	return st.MakeLabelSelector().In("app", []string{app}).Obj()
}

// perform runs a script and returns the steps that did not fit. "+a1" places a member of the first kind on a1, "1+a1"
// a member of the second kind, and "-" undoes the last placement.
func perform(t *testing.T, f framework.Framework, kinds []*v1.Pod, script ...string) (refused []string) {
	t.Helper()
	_, names := racks()
	s, err := fit.NewTrial(t.Context(), f, kinds, names)
	require.NoError(t, err)
	for _, line := range script {
		if line == "-" {
			s.Undo()
			continue
		}
		kind := 0
		if line[0] == '1' {
			kind, line = 1, line[1:]
		}
		i := indexOf(names, line[1:])
		if !s.Fits(kind, i) {
			refused = append(refused, line)
			continue
		}
		s.Put(kind, i)
	}
	require.NoError(t, s.Close())
	return refused
}

func indexOf(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}

func TestTrial(t *testing.T) {
	apart := pod("m").Req(cpu("1")).PodAntiAffinity(rack, like("a"), st.PodAntiAffinityWithRequiredReq)
	spread := pod("m").Req(cpu("1")).SpreadConstraint(1, rack, v1.DoNotSchedule, like("a"), nil, nil, nil, nil)
	near := pod("m").Label("app", "worker").Req(cpu("1")).PodAffinity(rack, like("launcher"), st.PodAffinityWithRequiredReq)
	launcher := pod("l").Label("app", "launcher").Req(cpu("1"))
	plain := pod("p").Req(cpu("1"))
	for name, c := range map[string]struct {
		kinds  []*v1.Pod
		script []string
		want   []string
	}{
		"apart":                          {[]*v1.Pod{apart.Obj()}, []string{"+a1", "+a2", "+b1", "+a1"}, []string{"+a2", "+a1"}},
		"back again":                     {[]*v1.Pod{apart.Obj()}, []string{"+a1", "-", "+a2", "+a1"}, []string{"+a1"}},
		"apart from another kind":        {[]*v1.Pod{plain.Obj(), apart.Obj()}, []string{"+a1", "1+a2", "1+b1", "+b2"}, []string{"+a2", "+b2"}},
		"spread over three racks":        {[]*v1.Pod{spread.Obj()}, []string{"+a1", "+a2", "+b1", "+b2", "+c1", "+a2"}, []string{"+a2", "+b2"}},
		"near a pod that does not exist": {[]*v1.Pod{near.Obj(), launcher.Obj()}, []string{"+a1", "1+a2", "+b1", "+a1"}, []string{"+a1", "+b1"}},
		"full":                           {[]*v1.Pod{pod("m").Req(cpu("8")).Obj()}, []string{"+a1", "+a1"}, []string{"+a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, _ := racks()
			f := profile(t, nodes)
			for range 2 { // the second time as the first: a trial leaves nothing behind
				require.Equal(t, c.want, perform(t, f, c.kinds, c.script...))
			}
		})
	}
}

// TestTrialCountsAddedPods: added pods count, removed pods do not.
func TestTrialCountsAddedPods(t *testing.T) {
	nodes, names := racks()
	there := pod("there").Node("a1").Req(cpu("1")).Obj()
	f := profile(t, nodes, there)
	apart := pod("m").Req(cpu("1")).PodAntiAffinity(rack, like("a"), st.PodAntiAffinityWithRequiredReq).Obj()
	s, err := fit.NewTrial(t.Context(), f, []*v1.Pod{apart}, names)
	require.NoError(t, err)
	require.False(t, s.Fits(0, 1))
	s.Remove(there)
	require.True(t, s.Fits(0, 1))
	s.Add("b1", infos(t, []*v1.Pod{pod("other").Req(cpu("1")).Obj()})[0])
	require.False(t, s.Fits(0, 3))
	require.NoError(t, s.Close())
}

// TestTrialLeavesNodesOut: a node without a name takes no member.
func TestTrialLeavesNodesOut(t *testing.T) {
	nodes, names := racks()
	s, err := fit.NewTrial(t.Context(), profile(t, nodes), []*v1.Pod{pod("m").Req(cpu("1")).Obj()}, append([]string{""}, names[1:]...))
	require.NoError(t, err)
	require.False(t, s.Fits(0, 0))
	require.True(t, s.Fits(0, 1))
	require.NoError(t, s.Close())
}

func TestDependent(t *testing.T) {
	nodes, _ := racks()
	f := profile(t, nodes)
	for name, c := range map[string]struct {
		pod   *v1.Pod
		alone bool
		want  bool
	}{
		"nothing":        {pod("m").Obj(), true, false},
		"apart by rack":  {pod("m").PodAntiAffinity(rack, like("a"), st.PodAntiAffinityWithRequiredReq).Obj(), true, true},
		"apart on hosts": {pod("m").PodAntiAffinity(v1.LabelHostname, like("a"), st.PodAntiAffinityWithRequiredReq).Obj(), true, false},
		"apart on hosts, beside other": {
			pod("m").PodAntiAffinity(v1.LabelHostname, like("a"), st.PodAntiAffinityWithRequiredReq).Obj(), false, true,
		},
		"near on hosts":      {pod("m").PodAffinity(v1.LabelHostname, like("a"), st.PodAffinityWithRequiredReq).Obj(), true, true},
		"spread":             {pod("m").SpreadConstraint(1, rack, v1.DoNotSchedule, like("a"), nil, nil, nil, nil).Obj(), true, true},
		"spread if possible": {pod("m").SpreadConstraint(1, rack, v1.ScheduleAnyway, like("a"), nil, nil, nil, nil).Obj(), true, false},
		"host port":          {pod("m").HostPort(80).Obj(), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			counter, err := fit.NewCounter(t.Context(), f, c.pod)
			require.NoError(t, err)
			require.Equal(t, c.want, counter.Dependent(c.alone))
		})
	}
}
