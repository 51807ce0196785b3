package source_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestSources: All holds all that other packages need to know of each API.
func TestSources(t *testing.T) {
	spaces, objects := map[string]int{}, map[string]int{}
	for _, s := range source.All {
		require.NotEmpty(t, s.Way)
		require.Empty(t, s.NameOf(&v1.Pod{}), s.Way)
		spaces[s.Space]++
		if s.Object != nil || s.Fill != nil {
			objects[s.Space]++
		}
		if s.Owner != nil {
			require.Contains(t, source.Owners, s.Owner, s.Way)
			require.Empty(t, s.OwnerName(&v1.Pod{}), s.Way)
		}
	}
	for space := range spaces {
		require.Equal(t, 1, objects[space], "%s: one thing says what is declared of its gangs", space)
	}
	require.Nil(t, source.ObjectOf("nobody's"))

	var needs, foreign []string
	for _, p := range source.Permissions() {
		if p.Optional {
			foreign = append(foreign, p.Verbs+" "+p.Resource+"."+p.Group)
			continue
		}
		needs = append(needs, p.Verbs+" "+p.Resource+"."+p.Group)
	}
	require.Equal(t, []string{
		"list watch podgroups.scheduling.sigs.k8s.io", "patch podgroups/status.scheduling.sigs.k8s.io",
		"list watch podgroups.scheduling.x-k8s.io", "patch podgroups/status.scheduling.x-k8s.io",
	}, needs)
	require.Equal(t, []string{
		"list watch podgroups.scheduling.k8s.io", "patch podgroups/status.scheduling.k8s.io", "list watch podgroups.scheduling.volcano.sh",
		"list watch leaderworkersets.leaderworkerset.x-k8s.io", "list watch jobsets.jobset.x-k8s.io",
		"list watch jobs.batch", "list watch podgangs.scheduler.grove.io", "patch podgangs/status.scheduler.grove.io",
		"list watch compositepodgroups.scheduling.k8s.io", "list watch workloads.scheduling.k8s.io", "list watch trainjobs.trainer.kubeflow.org",
		"list watch mpijobs.kubeflow.org", "list watch pytorchjobs.kubeflow.org",
		"list watch tfjobs.kubeflow.org", "list watch jaxjobs.kubeflow.org", "list watch rayclusters.ray.io",
	}, foreign)
}

// TestRead: an object of either API is read as the gang that it declares.
func TestRead(t *testing.T) {
	read := 0
	for i := range source.All {
		s := &source.All[i]
		if s.Object == nil || s.Object.ReadOnly {
			continue
		}
		read++
		u := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{
				"namespace": "ns", "name": "a", "uid": "u",
				"annotations": map[string]any{scheduling.AnnotationMode: "NonStrict"},
			},
			"spec":   map[string]any{"minMember": int64(3), "scheduleTimeoutSeconds": int64(5)},
			"status": map[string]any{"phase": "Running"},
		}}
		require.Equal(t, gang.Ref{Source: s.Space, Namespace: "ns", Name: "a"}, s.Ref(u))
		pg, err := s.Object.Read(u)
		require.NoError(t, err)
		require.EqualValues(t, 3, pg.Spec.MinMember)
		require.EqualValues(t, 5, *pg.Spec.ScheduleTimeoutSeconds)
		require.EqualValues(t, "u", pg.UID)
		require.True(t, source.HasKoordinatorKeys(pg))
		require.True(t, source.Reached(pg))

		u.Object["spec"] = map[string]any{"minMember": "three"}
		_, err = s.Object.Read(u)
		require.Error(t, err)
		require.NotNil(t, s.Object.New())
	}
	require.Equal(t, 2, read)
}

// TestReached: which status means that the gang has reached its minimum once.
func TestReached(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) func(*sigs.PodGroup) {
		return func(pg *sigs.PodGroup) { pg.Status.Conditions = []metav1.Condition{{Type: kind, Status: status}} }
	}
	phase := func(p scheduling.PodGroupPhase) func(*sigs.PodGroup) {
		return func(pg *sigs.PodGroup) { pg.Status.Phase = p }
	}
	for name, c := range map[string]struct {
		says func(*sigs.PodGroup)
		want bool
	}{
		"nothing":           {func(*sigs.PodGroup) {}, false},
		"pending":           {phase(scheduling.PodGroupPending), false},
		"scheduled":         {phase(scheduling.PodGroupScheduled), true},
		"running":           {phase(scheduling.PodGroupRunning), true},
		"failed":            {phase(scheduling.PodGroupFailed), true},
		"finished":          {phase(scheduling.PodGroupFinished), true},
		"condition":         {condition(scheduling.ConditionScheduled, metav1.ConditionTrue), true},
		"started":           {condition(scheduling.ConditionStarted, metav1.ConditionTrue), true},
		"a false condition": {condition(scheduling.ConditionScheduled, metav1.ConditionFalse), false},
		"another condition": {condition("Ready", metav1.ConditionTrue), false},
	} {
		pg := podGroup(1, nil)
		c.says(pg)
		require.Equal(t, c.want, source.Reached(pg), name)
	}
}

// TestTimes: how long a gang waits, and what of it has no effect.
func TestTimes(t *testing.T) {
	timed := func(seconds int32, annotations words) *sigs.PodGroup {
		pg := podGroup(2, annotations)
		pg.Spec.ScheduleTimeoutSeconds = &seconds
		return pg
	}
	for name, c := range map[string]struct {
		object *sigs.PodGroup
		wait   time.Duration
		notes  int
	}{
		"the default":            {podGroup(2, nil), time.Minute, 0},
		"a timeout":              {timed(5, nil), 5 * time.Second, 0},
		"none":                   {timed(0, nil), time.Minute, 0},
		"below none":             {timed(-1, nil), time.Minute, 0},
		"the annotation counts":  {timed(5, words{scheduling.AnnotationWaitingTime, "7s"}), 7 * time.Second, 0},
		"a bad one does not":     {timed(5, words{scheduling.AnnotationWaitingTime, "soon"}), 5 * time.Second, 1},
		"as many as are needed":  {podGroup(2, words{scheduling.AnnotationTotalNumber, "2"}), time.Minute, 0},
		"fewer than are needed":  {podGroup(2, words{scheduling.AnnotationTotalNumber, "1"}), time.Minute, 1},
		"a total that is no sum": {podGroup(2, words{scheduling.AnnotationTotalNumber, "two"}), time.Minute, 1},
	} {
		d, _ := declare(t, c.object)
		require.Equal(t, c.wait, d.Wait, name)
		require.Len(t, d.Notes, c.notes, name)
		require.False(t, d.Problem.Exists(), name)
	}
}

// TestNotAware: without topology how members gather is read, and has no effect.
func TestNotAware(t *testing.T) {
	g := source.Gang{Object: podGroup(1, words{scheduling.AnnotationTopologySpec, must})}
	d, ok := source.Declare(g, source.Defaults{})
	require.True(t, ok)
	require.Nil(t, d.Gather)
	require.Equal(t, []string{scheduling.AnnotationTopologySpec + " has no effect: CoschedulingArgs.awareNetworkTopology is false"},
		messages(d))
	g.Object.Annotations[scheduling.AnnotationTopologySpec] = "{"
	d, _ = source.Declare(g, source.Defaults{})
	require.True(t, d.Problem.Exists(), "what cannot be read is said all the same")
}

// TestDoneDescribe: finished members describe a gang without an object and without other members.
func TestDoneDescribe(t *testing.T) {
	describes := pod("p1", nil, words{scheduling.AnnotationGangName, "a", scheduling.AnnotationMinAvailable, "3"})
	g := source.Gang{Finished: map[string]*v1.Pod{"ns/p1": describes}, Pods: map[string]*v1.Pod{}}
	d, ok := source.Declare(g, source.Defaults{})
	require.True(t, ok)
	require.Equal(t, 3, d.Min)
	g.Pods["ns/p2"] = pod("p2", nil, words{scheduling.AnnotationGangName, "a", scheduling.AnnotationMinAvailable, "2"})
	d, _ = source.Declare(g, source.Defaults{})
	require.Equal(t, 2, d.Min)
	require.Equal(t, "ns/p2", d.DeclaringPod)
}

// TestSameGather: the order of the rules means nothing, all the rest does.
func TestSameGather(t *testing.T) {
	rules := []scheduling.GatherRule{
		{Layer: "Spine", Strategy: scheduling.MustGather},
		{Layer: "Block", Strategy: scheduling.PreferGather},
		{Layer: "Block", Strategy: scheduling.MustGather, Scope: scheduling.ScopePodGroup},
	}
	spec := func(change func([]scheduling.GatherRule) []scheduling.GatherRule) *scheduling.GatherSpec {
		return &scheduling.GatherSpec{Rules: change(slices.Clone(rules))}
	}
	is := func(r []scheduling.GatherRule) []scheduling.GatherRule { return r }
	require.True(t, source.SameGather(nil, nil))
	require.False(t, source.SameGather(spec(is), nil))
	require.True(t, source.SameGather(spec(is), spec(func(r []scheduling.GatherRule) []scheduling.GatherRule { slices.Reverse(r); return r })))
	for name, change := range map[string]func([]scheduling.GatherRule) []scheduling.GatherRule{
		"one less": func(r []scheduling.GatherRule) []scheduling.GatherRule { return r[1:] },
		"strategy": func(r []scheduling.GatherRule) []scheduling.GatherRule {
			r[0].Strategy = scheduling.PreferGather
			return r
		},
		"multiple": func(r []scheduling.GatherRule) []scheduling.GatherRule { r[1].PodCountMultiple = 2; return r },
		"scope":    func(r []scheduling.GatherRule) []scheduling.GatherRule { r[2].Scope = ""; return r },
	} {
		require.False(t, source.SameGather(spec(is), spec(change)), name)
	}
}

// messages are what people are told of a gang, without the reasons.
func messages(d *source.Declaration) (all []string) {
	for _, n := range d.Notes {
		all = append(all, n.Message)
	}
	return all
}
