package cache

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// open returns a cache that leads, with what it asks for written down.
func open(t testing.TB) (*Cache, *[]gang.Effect, *[]Note) {
	t.Helper()
	var effects []gang.Effect
	var notes []Note
	c := New(Options{
		Aware: true, Limits: Limits{Wait: time.Minute, Policy: gang.OnceSatisfied, Leave: time.Minute},
		Clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), Leading: func() bool { return true },
		Do:   func(e []gang.Effect) { effects = append(effects, e...) },
		Note: func(n Note) { notes = append(notes, n) },
	})
	c.Serve("muster-scheduler")
	c.openCache()
	return c, &effects, &notes
}

func member(name string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name),
			Labels: map[string]string{scheduling.LabelPodGroup: "a"}, Annotations: map[string]string{},
		},
		Spec: v1.PodSpec{SchedulerName: "muster-scheduler"},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func podGroup(uid string, annotations ...string) *sigs.PodGroup {
	pg := &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: types.UID(uid), Annotations: map[string]string{}}}
	pg.Spec.MinMember = 2
	for i := 0; i < len(annotations); i += 2 {
		pg.Annotations[annotations[i]] = annotations[i+1]
	}
	return pg
}

// ref names a gang of Koordinator's, refX one of the other kind of PodGroup.
func ref(name string) gang.Ref {
	return gang.Ref{Source: "podgroup", Namespace: "ns", Name: name}
}

func refX(name string) gang.Ref {
	return gang.Ref{Source: "podgroup-x", Namespace: "ns", Name: name}
}

func (c *Cache) why(t *testing.T, pod *v1.Pod) string {
	t.Helper()
	ok, why := c.Admit(pod)
	require.Equal(t, ok, why == "")
	return why
}

const must = `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}`

func topologyOf(layers ...koordinator.NetworkTopologyLayer) *koordinator.ClusterNetworkTopology {
	t := &koordinator.ClusterNetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	t.Spec.NetworkTopologySpec = layers
	return t
}

var (
	spineLayer = koordinator.NetworkTopologyLayer{TopologyLayer: "SpineLayer", LabelKey: []string{"spine"}}
	blockLayer = koordinator.NetworkTopologyLayer{TopologyLayer: "BlockLayer", ParentTopologyLayer: "SpineLayer", LabelKey: []string{"block"}}
	belowBlock = koordinator.NetworkTopologyLayer{TopologyLayer: "NodeTopologyLayer", ParentTopologyLayer: "BlockLayer"}
	blockOf    = func(label string) koordinator.NetworkTopologyLayer {
		return koordinator.NetworkTopologyLayer{TopologyLayer: "SpineLayer", LabelKey: []string{label}}
	}
	nodeLayer = koordinator.NetworkTopologyLayer{TopologyLayer: "NodeTopologyLayer", ParentTopologyLayer: "SpineLayer"}
)

func TestBeforeEverythingWasSeen(t *testing.T) {
	c, _, _ := open(t)
	c.open.Store(false)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p0"))
	c.setPod(member("p1"))
	require.Equal(t, "the scheduler has not seen all objects yet", c.why(t, member("p0")))
	c.openCache()
	require.Empty(t, c.why(t, member("p0")))
}

// TestAPodGroupMadeAnew (case 46): it is the same gang for its members.
func TestAPodGroupMadeAnew(t *testing.T) {
	c, _, _ := open(t)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	running := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	c.setPod(member("p0", running))
	c.setPod(member("p1", running))
	c.setPod(member("p2"))
	require.Empty(t, c.why(t, member("p2")), "the gang was whole once: one more may follow")
	c.dropPod(member("p0", running))
	require.Empty(t, c.why(t, member("p2")))

	c.setObject(ref("a"), nil, source.More{})
	require.Equal(t, "PodGroup ns/a does not exist", c.why(t, member("p2")))
	again := podGroup("2")
	again.Spec.MinMember = 3
	c.setObject(ref("a"), again, source.More{})
	require.Empty(t, c.why(t, member("p2")), "its members were whole, and one of them runs")
	c.dropPod(member("p1", running))
	c.dropPod(member("p2"))
	c.setPod(member("p3"))
	require.Equal(t, "1 of 3 members exist", c.why(t, member("p3")), "no member of that time is left")
}

// Case 45: what a gang has reached is read from its members, finished ones included, and from its PodGroup.
func TestRestartReadsProgressOfGangs(t *testing.T) {
	running := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	succeeded := func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", v1.PodSucceeded }
	rejected := func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }
	started := func(pg *sigs.PodGroup) {
		pg.Status.Conditions = []metav1.Condition{{Type: scheduling.ConditionStarted, Status: metav1.ConditionTrue}}
	}
	for name, c := range map[string]struct {
		done  []*v1.Pod
		runs  []*v1.Pod
		group func(*sigs.PodGroup)
		want  string
	}{
		"one has finished": {[]*v1.Pod{member("p0", succeeded)}, []*v1.Pod{member("p1", running), member("p2", running)}, nil, ""},
		"one never had a node": {
			[]*v1.Pod{member("p0", rejected)}, []*v1.Pod{member("p1", running), member("p2", running)}, nil, "3 of 4 members exist",
		},
		"the PodGroup says so":         {nil, []*v1.Pod{member("p1", running)}, started, ""},
		"the phase says so":            {nil, []*v1.Pod{member("p1", running)}, func(pg *sigs.PodGroup) { pg.Status.Phase = "Running" }, ""},
		"the PodGroup says so of none": {nil, nil, started, "1 of 4 members exist"},
	} {
		t.Run(name, func(t *testing.T) {
			cache, _, _ := open(t)
			cache.open.Store(false)
			pg := podGroup("1")
			pg.Spec.MinMember = 4
			if c.group != nil {
				c.group(pg)
			}
			for _, p := range c.done {
				cache.setFinished(p)
			}
			cache.setPod(member("p3"))
			for _, p := range c.runs {
				cache.setPod(p)
			}
			cache.setObject(ref("a"), pg, source.More{})
			cache.openCache()
			require.Equal(t, c.want, cache.why(t, member("p3")))
		})
	}
}

// TestFinishedMembers is told twice, in any order: gone for the scheduler, and finished. It counts
// until it is deleted.
func TestFinishedMembers(t *testing.T) {
	running := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	succeeded := func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", v1.PodSucceeded }
	for _, goneFirst := range []bool{true, false} {
		c, _, _ := open(t)
		c.setObject(ref("a"), podGroup("1"), source.More{})
		c.setPod(member("p0", running))
		c.setPod(member("p1", running))
		tell := []func(){func() { c.dropPod(member("p0", running)) }, func() { c.setFinished(member("p0", succeeded)) }}
		if !goneFirst {
			tell[0], tell[1] = tell[1], tell[0]
		}
		tell[0]()
		tell[1]()
		c.dropPod(member("p1", running))
		c.setPod(member("p2"))
		require.Empty(t, c.why(t, member("p2")), "one member of the whole gang is left")
		c.dropPod(member("p2"))
		c.dropFinished(member("p0", succeeded))
		c.setPod(member("p3"))
		require.Equal(t, "1 of 2 members exist", c.why(t, member("p3")))

		c.setPod(member("p4"))
		c.dropFinished(member("p4"))
		require.NotEqual(t, "1 of 2 members exist", c.why(t, member("p3")),
			"an unfinished member is not gone after an event about finished members")
		again := member("p4", succeeded)
		again.UID = "another"
		c.setFinished(again)
		require.Equal(t, "waits for ns/p3, with which Muster tries the whole gang", c.why(t, member("p4")),
			"one of its name that was there before does not take its place")
	}
}

// TestEventsThatWakeGang: its own status, which this process writes, does not; what changes
// how it is planned does.
func TestEventsThatWakeGang(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Cache, *sigs.PodGroup)
		wakes  bool
	}{
		"its status":      {func(_ *Cache, pg *sigs.PodGroup) { pg.Status.Phase = "Pending" }, false},
		"another label":   {func(_ *Cache, pg *sigs.PodGroup) { pg.Labels = map[string]string{"a": "b"} }, false},
		"fewer members":   {func(_ *Cache, pg *sigs.PodGroup) { pg.Spec.MinMember = 1 }, true},
		"another gather":  {func(_ *Cache, pg *sigs.PodGroup) { pg.Annotations = nil }, true},
		"another timeout": {func(_ *Cache, pg *sigs.PodGroup) { pg.Spec.ScheduleTimeoutSeconds = new(int32(5)) }, true},
		"another network": {func(c *Cache, _ *sigs.PodGroup) { c.setTopology(topologyOf(spineLayer, blockLayer, belowBlock)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			cache, effects, _ := open(t)
			cache.setTopology(topologyOf(spineLayer, nodeLayer))
			cache.setObject(ref("a"), podGroup("1", scheduling.AnnotationTopologySpec, must), source.More{})
			cache.setPod(member("p0"))
			cache.setPod(member("p1"))
			cache.Handle(gang.Unschedulable{Group: ref("a"), Refusal: gang.Obstacle{By: gang.Plan, Words: "no room"}})
			*effects = nil
			changed := podGroup("1", scheduling.AnnotationTopologySpec, must)
			c.change(cache, changed)
			cache.setObject(ref("a"), changed, source.More{})
			verbs := map[gang.Verb]bool{}
			for _, e := range *effects {
				verbs[e.Verb] = true
			}
			require.Equal(t, c.wakes, verbs[gang.Wake], *effects)
			require.True(t, verbs[gang.Report], "the change is reported")
		})
	}
}

// TestBothKindsOfPodGroup: equal names of two APIs are two gangs.
func TestBothKindsOfPodGroup(t *testing.T) {
	c, _, _ := open(t)
	other := podGroup("x")
	other.Spec.MinMember = 5
	c.setPod(member("p0", func(p *v1.Pod) { p.Labels = map[string]string{scheduling.LabelPodGroupX: "a"} }))
	c.setPod(member("p1"))
	c.setObject(refX("a"), other, source.More{})
	require.Equal(t, "1 of 5 members exist", c.why(t, member("p0")))
	require.Equal(t, "PodGroup ns/a does not exist", c.why(t, member("p1")))
	c.setObject(ref("a"), podGroup("s"), source.More{})
	require.Equal(t, "1 of 5 members exist", c.why(t, member("p0")))
	require.Equal(t, "1 of 2 members exist", c.why(t, member("p1")))
	c.setObject(refX("a"), nil, source.More{})
	require.Equal(t, "PodGroup ns/a does not exist", c.why(t, member("p0")))
	require.Equal(t, "1 of 2 members exist", c.why(t, member("p1")))
}

func TestAGangThatItsPodsDescribe(t *testing.T) {
	c, _, _ := open(t)
	describe := func(least string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Labels = nil
			p.Annotations[scheduling.AnnotationGangName] = "a"
			p.Annotations[scheduling.AnnotationMinAvailable] = least
		}
	}
	c.setPod(member("p0", describe("xxx")))
	require.Contains(t, c.why(t, member("p0")), `"xxx"`)
	c.setPod(member("p1", describe("2")))
	require.Empty(t, c.why(t, member("p0")), "a member with a legal value speaks for the gang")
	c.dropPod(member("p1", describe("2")))
	require.Contains(t, c.why(t, member("p0")), `"xxx"`)
}

func TestMembersThatAreNotOurs(t *testing.T) {
	c, _, _ := open(t)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p0"))
	c.setPod(member("p1", func(p *v1.Pod) { p.Spec.SchedulerName = "another" }))
	require.Equal(t, "1 of 2 members can be placed; 1 cannot: schedulerName is another; supported values: muster-scheduler",
		c.why(t, member("p0")))
	c.setPod(member("p2", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "quota"}} }))
	require.Equal(t,
		"1 of 2 members can be placed; 2 cannot (1: schedulerName is another; supported values: muster-scheduler; 1: "+
			"spec.schedulingGates has quota)",
		c.why(t, member("p0")))
	template := "one-gpu"
	c.setPod(member("p2", func(p *v1.Pod) {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	}))
	require.Contains(t, c.why(t, member("p0")), "2 cannot", "its claim is still to be made")
	c.setPod(member("p2", func(p *v1.Pod) {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
		p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu"}}
	}))
	require.Empty(t, c.why(t, member("p0")))
}

// TestNamespacesThatChange: terms of pod affinity may go by the labels of namespaces, and by
// nothing else of them.
func TestNamespacesThatChange(t *testing.T) {
	c, effects, _ := open(t)
	labelled := func(labels map[string]string) *v1.Namespace {
		return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: labels}}
	}
	plain, team := labelled(nil), labelled(map[string]string{"team": "a"})
	annotated := team.DeepCopy()
	annotated.Annotations = map[string]string{"note": "b"}
	h := c.namespaceHandler()
	for name, s := range map[string]struct {
		does  func()
		wakes []gang.Effect
	}{
		"comes":           {func() { h.OnAdd(plain, true) }, []gang.Effect{{Verb: NamespaceChanged}}},
		"gets a label":    {func() { h.OnUpdate(plain, team) }, []gang.Effect{{Verb: NamespaceChanged}}},
		"loses a label":   {func() { h.OnUpdate(team, plain) }, []gang.Effect{{Verb: NamespaceChanged}}},
		"is annotated":    {func() { h.OnUpdate(team, annotated) }, nil},
		"is listed again": {func() { h.OnUpdate(team, team) }, nil},
		"goes":            {func() { h.OnDelete(team) }, nil},
	} {
		*effects = nil
		s.does()
		require.Equal(t, s.wakes, *effects, name)
	}
}

// TestTheQueueOfMembers: first the gang that is older, then by its name, by rank and by name,
// naturally.
func TestTheQueueOfMembers(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	order := []Order{
		{Created: at(0), Member: gang.Member{Gang: ref("z"), Rank: 9, Pod: "ns/z-9"}},
		{Created: at(1)},
		{Created: at(1), Member: gang.Member{Gang: ref("a-2"), Rank: 1, Pod: "ns/p"}},
		{Created: at(1), Member: gang.Member{Gang: ref("a-10"), Rank: 0, Pod: "ns/q"}},
		{Created: at(1), Member: gang.Member{Gang: ref("a-10"), Rank: 1, Pod: "ns/b-2"}},
		{Created: at(1), Member: gang.Member{Gang: ref("a-10"), Rank: 1, Pod: "ns/b-10"}},
	}
	for i, x := range order {
		for j, y := range order {
			require.Equal(t, cmp.Compare(i, j), x.Compare(y), "%v before %v", x, y)
		}
	}
}

func TestAPodThatChangesItsGang(t *testing.T) {
	c, _, _ := open(t)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p0"))
	c.setPod(member("p1"))
	require.Empty(t, c.why(t, member("p0")))
	c.setPod(member("p1", func(p *v1.Pod) { p.Labels = nil }))
	require.Equal(t, "1 of 2 members exist", c.why(t, member("p0")))
}

func TestBadValues(t *testing.T) {
	for _, c := range []struct{ name, key, value, gated, noted string }{
		{"gather is not JSON", scheduling.AnnotationTopologySpec, `{"gather`, scheduling.AnnotationTopologySpec, ""},
		{
			"unknown layer", scheduling.AnnotationTopologySpec, `{"gatherStrategy":[{"layer":"spineLayer","strategy":"MustGather"}]}`,
			`layer "spineLayer" is not in ClusterNetworkTopology default (has: SpineLayer, NodeTopologyLayer)`, "",
		},
		{"groups is not JSON", scheduling.AnnotationGroups, `ns/a`, scheduling.AnnotationGroups, ""},
		{"mode", scheduling.AnnotationMode, "strict", "", `"strict"`},
		{"match policy", scheduling.AnnotationMatchPolicy, "never", "", `"never"`},
		{"waiting time", scheduling.AnnotationWaitingTime, "soon", "", `"soon"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache, _, notes := open(t)
			cache.setTopology(topologyOf(spineLayer, nodeLayer))
			cache.setObject(ref("a"), podGroup("1", c.key, c.value), source.More{})
			cache.setPod(member("p0"))
			cache.setPod(member("p1"))
			why := cache.why(t, member("p0"))
			if c.gated == "" {
				require.Empty(t, why)
				require.Len(t, *notes, 1)
				require.Contains(t, (*notes)[0].Message, c.noted)
				require.Contains(t, (*notes)[0].Message, "the default is used")
				return
			}
			require.Contains(t, why, "rejected: ")
			require.Contains(t, why, c.gated)
		})
	}
}

// TestAPodOfTwoGangs: it is a member of one, which its owner is told once.
func TestAPodOfTwoGangs(t *testing.T) {
	c, _, notes := open(t)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	torn := member("p0", func(p *v1.Pod) { p.Annotations[scheduling.AnnotationGangName] = "b" })
	c.setPod(torn)
	c.setPod(torn)
	require.Len(t, *notes, 1)
	require.Equal(t, "TwoGangs", (*notes)[0].Reason)
	require.Same(t, torn, (*notes)[0].About)
	require.Contains(t, (*notes)[0].Message, `"b" has no effect, because`)
	foreign := torn.DeepCopy()
	foreign.Name, foreign.UID, foreign.Spec.SchedulerName = "p1", "p1", "other"
	c.setPod(foreign)
	require.Len(t, *notes, 1, "pods of other schedulers get no events")
}

// TestUnknownKeys: they are named once, on the object that has them, also on a pod that names
// no gang because of it.
func TestUnknownKeys(t *testing.T) {
	const specs, says = scheduling.GangDomain + "network-topology-specs", scheduling.GangDomain +
		"network-topology-specs: unknown; did you mean network-topology-spec?"
	with := func(key string) func(*v1.Pod) { return func(p *v1.Pod) { p.Annotations[key] = "x" } }
	alone := func(p *v1.Pod) { p.Labels = nil }

	c, _, notes := open(t)
	group := podGroup("1", specs, must)
	c.setObject(ref("a"), group, source.More{})
	require.Equal(t, []Note{{About: group, Warning: true, Reason: reasons.UnknownKey, Message: says}}, *notes, "before it has members")
	c.setPod(member("p0"))
	c.setObject(ref("a"), group.DeepCopy(), source.More{})
	require.Len(t, *notes, 1, "once")
	wrong := member("p1", with(specs))
	c.setPod(wrong)
	require.Len(t, *notes, 2)
	require.Same(t, wrong, (*notes)[1].About)

	lost := member("p2", alone, with(scheduling.GangDomain+"nam"))
	c.setPod(lost)
	require.Len(t, *notes, 3)
	require.Same(t, lost, (*notes)[2].About)
	require.Contains(t, (*notes)[2].Message, "did you mean name?")
	c.setPod(member("p2", alone, with(scheduling.GangDomain+"nam"), func(p *v1.Pod) { p.Status.NominatedNodeName = "n" }))
	require.Len(t, *notes, 3, "once")
	c.setPod(member("p2", with(scheduling.GangDomain+"nam")))
	require.Len(t, *notes, 4, "it is a member now")
	require.Empty(t, c.strays)

	for name, change := range map[string]func(*v1.Pod){
		"it runs":              func(p *v1.Pod) { p.Spec.NodeName = "n" },
		"another scheduler's":  func(p *v1.Pod) { p.Spec.SchedulerName = "other" },
		"another's annotation": func(p *v1.Pod) { p.Annotations = map[string]string{"scheduling.koordinator.sh/nam": "x"} },
	} {
		c.setPod(member("p3", alone, with(scheduling.GangDomain+"nam"), change))
		require.Len(t, *notes, 4, name)
		c.dropPod(member("p3", alone))
	}
	require.Empty(t, c.strays, "deleted pods are forgotten")
}

// TestUnknownKeysFromBefore: they are named when the cache opens.
func TestUnknownKeysFromBefore(t *testing.T) {
	c, _, notes := open(t)
	c.open.Store(false)
	c.setPod(member("p", func(p *v1.Pod) { p.Labels, p.Annotations[scheduling.GangDomain+"nam"] = nil, "x" }))
	require.Empty(t, *notes)
	c.openCache()
	require.Len(t, *notes, 1)
}

func TestABadIndexIsSaidOnce(t *testing.T) {
	c, _, notes := open(t)
	bad := member("p0", func(p *v1.Pod) { p.Annotations[scheduling.AnnotationTopologyIndex] = "first" })
	c.setPod(bad)
	c.setPod(bad)
	require.Len(t, *notes, 1)
	require.Contains(t, (*notes)[0].Message, `"first"`)
}

func TestTheTopologyComesAndGoes(t *testing.T) {
	c, _, _ := open(t)
	for _, n := range []string{"n1", "n2"} {
		c.setNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"spine": "s-" + n}}})
	}
	c.setObject(ref("a"), podGroup("1", scheduling.AnnotationTopologySpec, must), source.More{})
	c.setPod(member("p0"))
	c.setPod(member("p1"))
	require.Equal(t, "rejected: MustGather needs ClusterNetworkTopology default, which does not exist; create it, or use PreferGather",
		c.why(t, member("p0")))
	require.Equal(t, 1, c.Topology().Tree.Depth())

	c.setTopology(topologyOf(spineLayer, nodeLayer))
	require.Empty(t, c.why(t, member("p0")))
	require.Equal(t, 2, c.Topology().Tree.Depth())

	c.setTopology(topologyOf(spineLayer)) // no NodeTopologyLayer
	require.Contains(t, c.why(t, member("p0")), "which is invalid: ")
	require.Equal(t, 2, c.Topology().Tree.Depth(), "the last good tree stays in use")
	require.NotEmpty(t, c.Topology().Problem)

	c.setTopology(nil)
	require.Contains(t, c.why(t, member("p0")), "does not exist")
}

func TestALabelChangeIsInTheNextTree(t *testing.T) {
	c, _, _ := open(t)
	c.setTopology(topologyOf(spineLayer, nodeLayer))
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"spine": "s1"}}}
	c.setNode(node)
	path := func() string { tree := c.Topology().Tree; return tree.Path(tree.Node(0)) }
	require.Equal(t, "s1/n", path())
	before := c.Topology()
	moved := node.DeepCopy()
	moved.Status.Phase = v1.NodeRunning
	c.setNode(moved)
	require.Same(t, before, c.Topology(), "a heartbeat builds no tree")
	moved = moved.DeepCopy()
	moved.Labels["spine"] = "s2"
	c.setNode(moved)
	require.Equal(t, "s2/n", path())
	c.dropNode("n")
	require.Zero(t, c.Topology().Tree.NumNodes())
}

func TestAConflictOfSpecs(t *testing.T) {
	c, _, _ := open(t)
	c.setTopology(topologyOf(spineLayer, nodeLayer))
	both := `["ns/a","ns/b"]`
	a := podGroup("1", scheduling.AnnotationGroups, both, scheduling.AnnotationTopologySpec, must)
	b := podGroup("2", scheduling.AnnotationGroups, both,
		scheduling.AnnotationTopologySpec, `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"PreferGather"}]}`)
	b.Name = "b"
	c.setObject(ref("a"), a, source.More{})
	c.setObject(ref("b"), b, source.More{})
	c.setPod(member("p0"))
	_, refusal := c.Group(member("p0"))
	require.Equal(t, gang.Conflict, refusal.By)
	require.Contains(t, refusal.Words, "TopologySpecConflict: gangs ns/a and ns/b")
	delete(b.Annotations, scheduling.AnnotationTopologySpec)
	c.setObject(ref("b"), b, source.More{})
	g, refusal := c.Group(member("p0"))
	require.Zero(t, refusal)
	require.NotNil(t, g.Gather, "one spec speaks for a group whose other gangs have none")
}

func TestNominationsBecomeAReservation(t *testing.T) {
	c, effects, _ := open(t)
	c.open.Store(false)
	nominated := func(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.NominatedNodeName = node } }
	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p0", nominated("n0")))
	c.setPod(member("p1", nominated("n1")))
	c.openCache()
	node, confirmed := c.Place(member("p1"))
	require.Equal(t, "n1", node)
	require.False(t, confirmed)
	require.Contains(t, *effects, gang.Effect{Verb: gang.Wake, Pod: "ns/p0"}, "the victims may be gone already")
	require.Len(t, c.PlacesOn("n1", &v1.Pod{}), 1)
	high := int32(1)
	require.Empty(t, c.PlacesOn("n1", &v1.Pod{Spec: v1.PodSpec{Priority: &high}}), "the higher may take it")
}

func TestOneNominationOfTwoIsNone(t *testing.T) {
	c, _, _ := open(t)
	c.open.Store(false)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p0", func(p *v1.Pod) { p.Status.NominatedNodeName = "n0" }))
	c.setPod(member("p1"))
	c.openCache()
	require.False(t, c.AnyPlaces())
}

func TestWakingGoesWithoutTheLock(t *testing.T) {
	c, effects, _ := open(t)
	c.Do = func(e []gang.Effect) {
		_ = c.AnyPlaces() // would hang if the lock were held
		*effects = append(*effects, e...)
	}
	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p0"))
	c.setPod(member("p1"))
	require.Contains(t, *effects, gang.Effect{Verb: gang.Wake, Pod: "ns/p0"})
}

// TestAPlanOnNodesThatAreNotKnownYet: the scheduler may hear of a node first.
func TestAPlanOnNodesThatAreNotKnownYet(t *testing.T) {
	c, _, _ := open(t)
	c.setTopology(topologyOf(spineLayer, nodeLayer))
	node := func(name, spine string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"spine": spine}}}
	}
	c.setNode(node("n1", "s1"))
	c.setNode(node("n2", "s1"))
	place := func(t *Topology, name string) string {
		i, ok := t.Tree.NodeIndex(name)
		if !ok {
			return ""
		}
		return t.Tree.Path(t.Tree.Node(i))
	}
	now := c.Topology()
	require.Same(t, now, c.TopologyOf([]*v1.Node{node("n1", "s1"), node("n2", "s1")}))
	require.Same(t, now, c.TopologyOf([]*v1.Node{node("n1", "s1")}), "a node more does no harm")
	come := c.TopologyOf([]*v1.Node{node("n1", "s1"), node("n3", "s2")})
	require.Equal(t, "s2/n3", place(come, "n3"))
	require.Empty(t, place(come, "n2"))
	moved := c.TopologyOf([]*v1.Node{node("n1", "s1"), node("n2", "s2")})
	require.Equal(t, "s2/n2", place(moved, "n2"))
	require.Equal(t, "s1/n2", place(c.Topology(), "n2"))
}

// TestGangsOfOtherSchedulersAreNotWritten (case 48): what another scheduler serves is not told about, and what it
// has nominated stays.
func TestGangsOfOtherSchedulersAreNotWritten(t *testing.T) {
	c, effects, notes := open(t)
	other := func(p *v1.Pod) {
		p.Spec.SchedulerName, p.Status.NominatedNodeName = "another", "n0"
		p.Annotations[scheduling.AnnotationTopologyIndex] = "first"
	}
	served := func() bool {
		r, ok := c.Report(ref("a"))
		require.True(t, ok)
		return r.Served
	}
	c.setObject(ref("a"), podGroup("1"), source.More{})
	require.False(t, served(), "its gang is unknown")
	c.setPod(member("p0", other))
	require.False(t, served())
	for _, e := range *effects {
		require.NotEqual(t, gang.Clear, e.Verb)
	}
	c.setObject(ref("a"), podGroup("1", scheduling.AnnotationMode, "strict"), source.More{})
	require.Empty(t, *notes)
	c.dropPod(member("p0", other))
	require.False(t, served(), "it was the other's")

	c.setPod(member("p1"))
	require.True(t, served(), "one member is enough")
	require.Len(t, *notes, 1)
	require.Contains(t, (*notes)[0].Message, `"strict"`)
	c.setPod(member("p1", func(p *v1.Pod) { p.Status.NominatedNodeName = "n0" }))
	cleared := gang.Effect{Verb: gang.Clear, Pod: "ns/p1"}
	require.NotContains(t, *effects, cleared, "another scheduler has written that")
	for _, node := range []string{"n1", "n2"} {
		c.Handle(gang.Planned{Group: ref("a"), Places: []gang.Assignment{{Pod: "ns/p1", Node: node}}})
		c.Forget(ref("a"), "test")
	}
	require.NotContains(t, *effects, cleared)
	c.setPod(member("p1", func(p *v1.Pod) { p.Status.NominatedNodeName = "n1" }))
	require.Contains(t, *effects, cleared, "that was its place once, and is not any more")
}

// TestPodGroupsWithoutMembers: they are told about where it can be ours to tell.
func TestPodGroupsWithoutMembers(t *testing.T) {
	told := metav1.Condition{Type: "Scheduled", Status: metav1.ConditionFalse}
	gathers := func(pg *sigs.PodGroup) { pg.Annotations[scheduling.AnnotationTopologySpec] = must }
	for name, c := range map[string]struct {
		change func(*sigs.PodGroup)
		served bool
	}{
		"says nothing":            {func(*sigs.PodGroup) {}, false},
		"says how to gather":      {gathers, true},
		"another gave it a phase": {func(pg *sigs.PodGroup) { gathers(pg); pg.Status.Phase = "Pending" }, false},
		"we gave it a phase": {
			func(pg *sigs.PodGroup) { pg.Status.Conditions, pg.Status.Phase = []metav1.Condition{told}, "Pending" }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cache, _, _ := open(t)
			pg := podGroup("1")
			c.change(pg)
			cache.setObject(ref("a"), pg, source.More{})
			r, ok := cache.Report(ref("a"))
			require.True(t, ok)
			require.Equal(t, c.served, r.Served)
		})
	}
}

// Case 49: the assignments of a partially bound gang exclude pods of equal or lower priority only.
func TestPlacesOfAPartiallyBoundGang(t *testing.T) {
	c, _, _ := open(t)
	priority := func(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }
	c.setNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p0", priority(1000), func(p *v1.Pod) { p.Spec.NodeName = "n0" }))
	c.setPod(member("p1", priority(1000)))
	c.Handle(gang.Planned{Group: ref("a"), Places: []gang.Assignment{{Pod: "ns/p1", Node: "n1"}}, Reserved: true})
	for least, blocked := range map[int32]int{999: 1, 1000: 1, 1001: 0, 100_000: 0} {
		other := member("other", priority(least), func(p *v1.Pod) { p.Labels = nil })
		require.Len(t, c.PlacesOn("n1", other), blocked, least)
		require.Len(t, c.ReservedIn(c.Topology().Tree, other), 1, "whose victims leave for it")
	}
}

// TestLacks: of a gang that waits for nothing else it is said what a member names that does not exist.
func TestLacks(t *testing.T) {
	claim := "gpu"
	asks := func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}} }
	for name, test := range map[string]struct {
		pods []*v1.Pod
		want string
	}{
		"it does not exist": {
			[]*v1.Pod{member("p0"), member("p1", asks)}, "member ns/p1 names ResourceClaim ns/gpu, which does not exist",
		},
		"no pod names any":         {[]*v1.Pod{member("p0"), member("p1")}, ""},
		"members are missing, too": {[]*v1.Pod{member("p1", asks)}, "1 of 2 members exist"},
	} {
		c, _, _ := open(t)
		c.Lacks = func(*v1.Pod) string { return "ResourceClaim ns/gpu" }
		c.setObject(ref("a"), podGroup("u"), source.More{})
		for _, p := range test.pods {
			c.setPod(p)
		}
		r, ok := c.Report(ref("a"))
		require.True(t, ok, name)
		require.Equal(t, test.want, r.Refusal.Words, name)
	}
}
