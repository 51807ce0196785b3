package cache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	x "github.com/muster-scheduler/muster/pkg/apis/scheduling/x/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// open returns a cache that leads, with what it asks for written down.
func open(t *testing.T) (*Cache, *[]gang.Effect, *[]Note) {
	t.Helper()
	var effects []gang.Effect
	var notes []Note
	c := New(Options{
		Aware: true, Wait: time.Minute, Policy: gang.OnceSatisfied, Leave: time.Minute,
		Clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), Leading: func() bool { return true },
		Do:   func(e []gang.Effect) { effects = append(effects, e...) },
		Note: func(n Note) { notes = append(notes, n) },
	})
	c.Serve("muster-scheduler")
	c.ready()
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
	nodeLayer  = koordinator.NetworkTopologyLayer{TopologyLayer: "NodeTopologyLayer", ParentTopologyLayer: "SpineLayer"}
)

func TestBeforeEverythingWasSeen(t *testing.T) {
	c, _, _ := open(t)
	c.open.Store(false)
	c.setPodGroup(sigs.PodGroups, "ns/a", podGroup("1"))
	c.setPod(member("p0"))
	c.setPod(member("p1"))
	require.Equal(t, "the scheduler has not seen all objects yet", c.why(t, member("p0")))
	c.ready()
	require.Empty(t, c.why(t, member("p0")))
}

func TestAPodGroupMadeAnewIsANewGang(t *testing.T) {
	c, _, _ := open(t)
	c.setPodGroup(sigs.PodGroups, "ns/a", podGroup("1"))
	running := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	c.setPod(member("p0", running))
	c.setPod(member("p1", running))
	c.setPod(member("p2"))
	require.Empty(t, c.why(t, member("p2")), "the gang was whole once: one more may follow")
	c.dropPod(member("p0", running))
	require.Empty(t, c.why(t, member("p2")))

	c.setPodGroup(sigs.PodGroups, "ns/a", nil)
	require.Equal(t, "PodGroup ns/a does not exist", c.why(t, member("p2")))
	again := podGroup("2")
	again.Spec.MinMember = 3
	c.setPodGroup(sigs.PodGroups, "ns/a", again)
	require.Equal(t, "2 of 3 members exist", c.why(t, member("p2")))
}

// TestWhatWakesAGang: its own status, which this process writes, does not; what changes
// how it is planned does.
func TestWhatWakesAGang(t *testing.T) {
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
			cache.setPodGroup(sigs.PodGroups, "ns/a", podGroup("1", scheduling.AnnotationTopologySpec, must))
			cache.setPod(member("p0"))
			cache.setPod(member("p1"))
			cache.Handle(gang.Refused{Group: "ns/a", Why: "no room"})
			*effects = nil
			changed := podGroup("1", scheduling.AnnotationTopologySpec, must)
			c.change(cache, changed)
			cache.setPodGroup(sigs.PodGroups, "ns/a", changed)
			verbs := map[gang.Verb]bool{}
			for _, e := range *effects {
				verbs[e.Verb] = true
			}
			require.Equal(t, c.wakes, verbs[gang.Wake], *effects)
			require.True(t, verbs[gang.Report], "whoever watches it is told")
		})
	}
}

func TestBothKindsOfPodGroup(t *testing.T) {
	c, _, _ := open(t)
	other := podGroup("x")
	other.Spec.MinMember = 5
	c.setPod(member("p0", func(p *v1.Pod) { p.Labels = map[string]string{scheduling.LabelPodGroupX: "a"} }))
	c.setPodGroup(x.PodGroups, "ns/a", other)
	require.Equal(t, "1 of 5 members exist", c.why(t, member("p0")))
	c.setPodGroup(sigs.PodGroups, "ns/a", podGroup("s"))
	require.Equal(t, "1 of 2 members exist", c.why(t, member("p0")), "of two, Koordinator's")
	c.setPodGroup(sigs.PodGroups, "ns/a", nil)
	require.Equal(t, "1 of 5 members exist", c.why(t, member("p0")))
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
	c.setPodGroup(sigs.PodGroups, "ns/a", podGroup("1"))
	c.setPod(member("p0"))
	c.setPod(member("p1", func(p *v1.Pod) { p.Spec.SchedulerName = "another" }))
	require.Equal(t, "1 of 2 members exist, and 1 that do not count: they have scheduling gates or another scheduler", c.why(t, member("p0")))
	c.setPod(member("p2", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "quota"}} }))
	require.Equal(t, "1 of 2 members exist, and 2 that do not count: they have scheduling gates or another scheduler", c.why(t, member("p0")))
	c.setPod(member("p2"))
	require.Empty(t, c.why(t, member("p0")))
}

func TestAPodThatChangesItsGang(t *testing.T) {
	c, _, _ := open(t)
	c.setPodGroup(sigs.PodGroups, "ns/a", podGroup("1"))
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
			cache.setPodGroup(sigs.PodGroups, "ns/a", podGroup("1", c.key, c.value))
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
	c.setPodGroup(sigs.PodGroups, "ns/a", podGroup("1", scheduling.AnnotationTopologySpec, must))
	c.setPod(member("p0"))
	c.setPod(member("p1"))
	require.Equal(t, "rejected: MustGather needs ClusterNetworkTopology default, which does not exist", c.why(t, member("p0")))
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
	c.setPodGroup(sigs.PodGroups, "ns/a", a)
	c.setPodGroup(sigs.PodGroups, "ns/b", b)
	c.setPod(member("p0"))
	_, err := c.Group(member("p0"))
	require.ErrorContains(t, err, "TopologySpecConflict: gangs ns/a and ns/b")
	delete(b.Annotations, scheduling.AnnotationTopologySpec)
	c.setPodGroup(sigs.PodGroups, "ns/b", b)
	g, err := c.Group(member("p0"))
	require.NoError(t, err)
	require.NotNil(t, g.Gather, "one spec speaks for a group whose other gangs have none")
}

func TestNominationsBecomeAReservation(t *testing.T) {
	c, effects, _ := open(t)
	c.open.Store(false)
	nominated := func(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.NominatedNodeName = node } }
	c.setPodGroup(sigs.PodGroups, "ns/a", podGroup("1"))
	c.setPod(member("p0", nominated("n0")))
	c.setPod(member("p1", nominated("n1")))
	c.ready()
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
	c.setPodGroup(sigs.PodGroups, "ns/a", podGroup("1"))
	c.setPod(member("p0", func(p *v1.Pod) { p.Status.NominatedNodeName = "n0" }))
	c.setPod(member("p1"))
	c.ready()
	require.False(t, c.AnyPlaces())
}

func TestWakingGoesWithoutTheLock(t *testing.T) {
	c, effects, _ := open(t)
	c.Do = func(e []gang.Effect) {
		_ = c.AnyPlaces() // would hang if the lock were held
		*effects = append(*effects, e...)
	}
	c.setPodGroup(sigs.PodGroups, "ns/a", podGroup("1"))
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
