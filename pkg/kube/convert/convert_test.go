package convert_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// pod is one with some of everything that makes a template.
func pod(change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"app": "a"}, Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(time.Unix(7, 0)),
		},
		Spec: v1.PodSpec{SchedulerName: "muster-scheduler", Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("2")}},
		}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func claim(name string, readOnly bool) v1.Volume {
	return v1.Volume{
		Name:         "data",
		VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}},
	}
}

// TestTemplateOfDevices: what a pod says of the devices that it wants makes another template, if it wants any. What it
// has been given does not.
func TestTemplateOfDevices(t *testing.T) {
	const hint, joint = "scheduling.koordinator.sh/device-allocate-hint", "scheduling.koordinator.sh/device-joint-allocate"
	for name, c := range map[string]struct {
		gpus        string
		annotations map[string]string
		same        bool
	}{
		"nothing":               {"8", nil, true},
		"a hint":                {"8", map[string]string{hint: `{"rdma": {"allocateStrategy": "ApplyForAll"}}`}, false},
		"a hint that is no one": {"8", map[string]string{hint: `{`}, false},
		"joint":                 {"8", map[string]string{joint: `{"deviceTypes": ["gpu", "rdma"]}`}, false},
		"what it has":           {"8", map[string]string{convert.DeviceAllocated: `{"gpu": [{"minor": 1}]}`}, true},
		"wants none":            {"0", map[string]string{hint: `{"rdma": {}}`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			base := pod()
			if c.gpus != "0" {
				base.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse(c.gpus)
			}
			other := base.DeepCopy()
			other.Annotations = c.annotations
			require.Equal(t, c.same, convert.Template(base) == convert.Template(other))
		})
	}
}

// TestTemplate: pods that differ in a field that Filters read have different templates; other fields do not count.
// Pods that only use different claims have one shape.
func TestTemplate(t *testing.T) {
	const differ, shape, same = "differ", "one shape", "same"
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   string
	}{
		"name and UID":  {func(p *v1.Pod) { p.Name, p.UID = "q", "v" }, same},
		"annotations":   {func(p *v1.Pod) { p.Annotations["x"] = "y" }, same},
		"image":         {func(p *v1.Pod) { p.Spec.Containers[0].Image = "other" }, same},
		"its own index": {func(p *v1.Pod) { p.Labels["apps.kubernetes.io/pod-index"] = "3" }, same},
		"a config map": {func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}}
		}, same},
		"a token": {func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "kube-api-access-x7", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}}}
		}, same},
		"a port inside":  {func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80}} }, same},
		"namespace":      {func(p *v1.Pod) { p.Namespace = "other" }, differ},
		"scheduler":      {func(p *v1.Pod) { p.Spec.SchedulerName = "other" }, differ},
		"a label":        {func(p *v1.Pod) { p.Labels["role"] = "worker" }, differ},
		"priority":       {func(p *v1.Pod) { p.Spec.Priority = ptr.To(int32(5)) }, differ},
		"priority 0":     {func(p *v1.Pod) { p.Spec.Priority = ptr.To(int32(0)) }, same},
		"request":        {func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("3") }, differ},
		"overhead":       {func(p *v1.Pod) { p.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("1")} }, differ},
		"node selector":  {func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"gpu": "yes"} }, differ},
		"affinity":       {func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}} }, differ},
		"toleration":     {func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "gpu"}} }, differ},
		"spread":         {func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1}} }, differ},
		"a host port":    {func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} }, differ},
		"a volume":       {func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{claim("a", false)} }, differ},
		"host network":   {func(p *v1.Pod) { p.Spec.HostNetwork = true }, differ},
		"system":         {func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }, differ},
		"a device":       {func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} }, differ},
		"no labels":      {func(p *v1.Pod) { p.Labels = nil }, differ},
		"another volume": {func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{claim("b", false)} }, shape},
		"read only":      {func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{claim("a", true)} }, differ},
		"another claim": {func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("b")}}
		}, shape},
		"claims by class": {func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("t")}}
		}, differ},
	} {
		t.Run(name, func(t *testing.T) {
			base := pod()
			if c.want == shape || name == "read only" || name == "claims by class" {
				base.Spec.Volumes, base.Spec.ResourceClaims = []v1.Volume{claim("a", false)}, []v1.PodResourceClaim{
					{Name: "gpu", ResourceClaimName: ptr.To("a")},
				}
			}
			other := base.DeepCopy()
			c.change(other)
			before := other.DeepCopy()
			require.Equal(t, c.want == same, convert.Template(base) == convert.Template(other))
			require.Equal(t, c.want != differ, convert.Shape(base) == convert.Shape(other))
			require.Equal(t, before, other, "the pod is left alone")
		})
	}
}

// TestMember: what a pod is as a member.
func TestMember(t *testing.T) {
	of := gang.Ref{Name: "g"}
	plain := gang.Member{Gang: of, Pod: "ns/p", UID: "u", Rank: gang.NoRank, Created: 7}
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want func(*gang.Member)
		bad  string
	}{
		"plain":      {pod(), func(*gang.Member) {}, ""},
		"ranked":     {pod(func(p *v1.Pod) { p.Annotations[scheduling.AnnotationTopologyIndex] = "3" }), func(m *gang.Member) { m.Rank = 3 }, ""},
		"a bad rank": {pod(func(p *v1.Pod) { p.Annotations[scheduling.AnnotationTopologyIndex] = "-3" }), func(*gang.Member) {}, `"-3"`},
		"gated": {
			pod(func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "a/b"}} }),
			func(m *gang.Member) { m.Gate = "spec.schedulingGates has a/b" }, "",
		},
		"important": {pod(func(p *v1.Pod) { p.Spec.Priority = ptr.To(int32(9)) }), func(m *gang.Member) { m.Priority = 9 }, ""},
		"running":   {pod(func(p *v1.Pod) { p.Spec.NodeName = "n" }), func(m *gang.Member) { m.Node = "n" }, ""},
		"finished": {
			pod(func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", v1.PodFailed }), func(m *gang.Member) { m.Node, m.Done = "n", true }, "",
		},
		"succeeded": {pod(func(p *v1.Pod) {
			p.Spec.NodeName, p.Status.Phase = "n", v1.PodSucceeded
			for _, at := range []int64{8, 9, 1} {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
					State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.Unix(at, 0)}},
				})
			}
		}), func(m *gang.Member) { m.Node, m.Done, m.Succeeded, m.Ended = "n", true, true, 9 }, ""},
		"never started": {pod(func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }), func(*gang.Member) {}, ""},
		"of a job": {
			pod(func(p *v1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "j", Controller: ptr.To(true)}} }),
			func(m *gang.Member) { m.Owner = "j" }, "",
		},
		"owned, no more": {pod(func(p *v1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "j"}} }), func(*gang.Member) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := plain
			c.want(&want)
			got, err := convert.Member(c.pod, of)
			require.Equal(t, want, got)
			require.Equal(t, c.bad != "", err != nil)
			if err != nil {
				require.ErrorContains(t, err, c.bad)
			}
		})
	}
}

// TestWhatPodsSay: the answers to single questions about pods.
func TestWhatPodsSay(t *testing.T) {
	finished := func(phase v1.PodPhase) *v1.Pod { return pod(func(p *v1.Pod) { p.Status.Phase = phase }) }
	labelled := func(key, value string) *v1.Pod { return pod(func(p *v1.Pod) { p.Labels[key] = value }) }
	never, lower := v1.PreemptNever, v1.PreemptLowerPriority
	require.False(t, convert.Finished(finished(v1.PodRunning)))
	require.True(t, convert.Finished(finished(v1.PodSucceeded)))
	require.True(t, convert.Finished(finished(v1.PodFailed)))
	require.True(t, convert.Finished(pod(func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} })))

	require.True(t, convert.Protected(labelled(scheduling.LabelDisablePreemptible, "true")))
	require.True(t, convert.Protected(labelled(scheduling.LabelQuotaPreemptible, "false")))
	require.False(t, convert.Protected(labelled(scheduling.LabelDisablePreemptible, "false")))
	require.False(t, convert.Protected(labelled(scheduling.LabelQuotaPreemptible, "true")))

	require.False(t, convert.NeverPreempts(pod()))
	require.False(t, convert.NeverPreempts(pod(func(p *v1.Pod) { p.Spec.PreemptionPolicy = &lower })))
	require.True(t, convert.NeverPreempts(pod(func(p *v1.Pod) { p.Spec.PreemptionPolicy = &never })))

	require.EqualValues(t, 7e9, convert.Started(pod()))
	require.EqualValues(t, 9e9, convert.Started(pod(func(p *v1.Pod) { p.Status.StartTime = ptr.To(metav1.Unix(9, 0)) })))

	namespace, name := convert.SplitKey(convert.PodKey(pod()))
	require.Equal(t, []string{"ns", "p"}, []string{namespace, name})
}

func tree(nodes ...topology.Node) *topology.Tree {
	return topology.Build([]string{"Spine", "Block"}, nodes)
}

// TestGather: the constraints of a spec for all members together, and for the members of each gang.
func TestGather(t *testing.T) {
	must, prefer, own := scheduling.MustGather, scheduling.PreferGather, scheduling.ScopePodGroup
	for name, c := range map[string]struct {
		rules               []scheduling.GatherRule
		gangs               int
		must, mustEach      int
		prefer, preferEach  []plan.Preference
		multiple, blockEach offer.Slots // of the blocks
	}{
		"nothing": {gangs: 1, multiple: 1, blockEach: 1},
		"the deepest rule holds": {
			rules: []scheduling.GatherRule{{Layer: "Block", Strategy: must}, {Layer: "Spine", Strategy: must}}, gangs: 1, must: 2, multiple: 1,
			blockEach: 1,
		},
		"preferences in their order": {
			rules: []scheduling.GatherRule{{Layer: "Block", Strategy: prefer}, {Layer: "Spine", Strategy: prefer}}, gangs: 1,
			prefer: []plan.Preference{{Layer: 2}, {Layer: 1}}, multiple: 1, blockEach: 1,
		},
		"each gang": {
			rules: []scheduling.GatherRule{{Layer: "Spine", Strategy: must}, {Layer: "Block", Strategy: must, Scope: own}}, gangs: 2, must: 1,
			mustEach: 2, multiple: 1, blockEach: 1,
		},
		"each of one is all": {
			rules: []scheduling.GatherRule{{Layer: "Block", Strategy: must, Scope: own}}, gangs: 1, must: 2, multiple: 1, blockEach: 1,
		},
		"each gang prefers": {
			rules: []scheduling.GatherRule{{Layer: "Block", Strategy: prefer, Scope: own}}, gangs: 2, preferEach: []plan.Preference{{Layer: 2}},
			multiple: 1, blockEach: 1,
		},
		"multiples have a common one": {
			rules: []scheduling.GatherRule{
				{Layer: "Block", Strategy: prefer, PodCountMultiple: 4}, {Layer: "Block", Strategy: prefer, PodCountMultiple: 6},
			},
			gangs: 1, prefer: []plan.Preference{{Layer: 2}}, multiple: 12, blockEach: 1,
		},
		"a multiple of each gang": {
			rules: []scheduling.GatherRule{{Layer: "Block", Strategy: must, PodCountMultiple: 4, Scope: own}}, gangs: 2, mustEach: 2, multiple: 1,
			blockEach: 4,
		},
		"layers that there are not": {rules: []scheduling.GatherRule{{Layer: "Hall", Strategy: must}}, gangs: 1, multiple: 1, blockEach: 1},
	} {
		t.Run(name, func(t *testing.T) {
			all, sets := convert.Gather(&scheduling.GatherSpec{Rules: c.rules}, nil, tree(), gangs(c.gangs))
			each := plan.Gather{}
			for i, set := range sets {
				require.Equal(t, []int{i}, set.Gangs)
				each = set.Gather
			}
			require.Contains(t, []int{0, c.gangs}, len(sets))
			require.Equal(t, []int{c.must, c.mustEach}, []int{all.Must, each.Must})
			require.Equal(t, c.prefer, all.Prefer)
			require.Equal(t, c.preferEach, each.Prefer)
			require.Equal(t, []offer.Slots{c.multiple, c.blockEach}, []offer.Slots{all.Multiple.At(2), each.Multiple.At(2)})
		})
	}
	all, sets := convert.Gather(nil, nil, tree(), gangs(2))
	require.Zero(t, all.Must)
	require.Empty(t, sets)
}

// gangs are so many of a group.
func gangs(n int) (out []gang.Gang) {
	for i := range n {
		out = append(out, gangOf(gang.Ref{Name: fmt.Sprint("g", i)}))
	}
	return out
}

func gangOf(ref gang.Ref) (g gang.Gang) {
	g.Ref = ref
	return g
}

// TestGatherOwn: what some gangs of a group ask for beside what the group does.
func TestGatherOwn(t *testing.T) {
	rule := func(layer string, scope scheduling.GatherScope) scheduling.GatherRule {
		return scheduling.GatherRule{Layer: layer, Strategy: scheduling.MustGather, Scope: scope}
	}
	spec := func(rules ...scheduling.GatherRule) *scheduling.GatherSpec {
		return &scheduling.GatherSpec{Rules: rules}
	}
	ref := func(name string) gang.Ref { return gang.Ref{Name: name} }
	block, spine := spec(rule("Block", scheduling.ScopeGangGroup)), spec(rule("Spine", scheduling.ScopeGangGroup))
	three := gangs(3)
	parted := append(gangs(1), gangOf(ref("g1").Part("a")), gangOf(ref("g1").Part("b")))
	for name, c := range map[string]struct {
		gangs []gang.Gang
		all   *scheduling.GatherSpec
		own   []convert.Own
		want  string
	}{
		"one of three": {three, spine, []convert.Own{{Gangs: []gang.Ref{ref("g1")}, Gather: block}}, "all 1, [1] 2"},
		"two of three, and one": {
			three, nil,
			[]convert.Own{{Gangs: []gang.Ref{ref("g0"), ref("g2")}, Gather: spine}, {Gangs: []gang.Ref{ref("g2")}, Gather: block}},
			"all 0, [0 2] 1, [2] 2",
		},
		"existing ones": {
			three, nil,
			[]convert.Own{{Gangs: []gang.Ref{ref("g0"), ref("gone")}, Gather: spine}, {Gangs: []gang.Ref{ref("gone")}, Gather: block}},
			"all 0, [0] 1",
		},
		"all of them":       {three, nil, []convert.Own{{Gangs: []gang.Ref{ref("g0"), ref("g2"), ref("g1")}, Gather: spine}}, "all 1"},
		"one that is alone": {three[:1], spine, []convert.Own{{Gangs: []gang.Ref{ref("g0")}, Gather: block}}, "all 2"},
		"each, and one deeper": {
			three[:2], spec(rule("Spine", scheduling.ScopePodGroup)),
			[]convert.Own{{Gangs: []gang.Ref{ref("g1")}, Gather: block}},
			"all 0, [0] 1, [1] 2",
		},
		"each of which has parts": {
			parted, spec(rule("Spine", scheduling.ScopePodGroup)),
			[]convert.Own{{Gangs: []gang.Ref{ref("g1").Part("b")}, Gather: block}},
			"all 0, [0] 1, [1 2] 1, [2] 2",
		},
		"one with parts": {parted, nil, []convert.Own{{Gangs: []gang.Ref{ref("g1")}, Gather: block}}, "all 0, [1 2] 2"},
	} {
		t.Run(name, func(t *testing.T) {
			all, sets := convert.Gather(c.all, c.own, tree(), c.gangs)
			got := fmt.Sprint("all ", all.Must)
			for _, s := range sets {
				got += fmt.Sprintf(", %v %d", s.Gangs, s.Must)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestNode: of several label keys of a layer the first with a value counts.
func TestNode(t *testing.T) {
	layers := []convert.Layer{{Name: "Spine", Keys: []string{"spine", "old-spine"}}, {Name: "Block", Keys: []string{"block"}}}
	require.Equal(t, []string{"Spine", "Block"}, convert.LayerNames(layers))
	for _, c := range []struct{ labels, path string }{
		{"", "/"}, {"spine=s block=b", "s/b"}, {
			"old-spine=o block=b", "o/b",
		}, {"spine= old-spine=o", "o/"}, {"spine=s old-spine=o", "s/"}, {"block=b", "/b"},
	} {
		labels := map[string]string{}
		for word := range strings.FieldsSeq(c.labels) {
			key, value, _ := strings.Cut(word, "=")
			labels[key] = value
		}
		n := convert.Node("n", labels, layers)
		require.Equal(t, "n", n.Name)
		require.Equal(t, c.path, strings.Join(n.Path, "/"), c.labels)
	}
}

// TestDetailStatus: named domains above the nodes, depth first, children by name; domains
// without a name are counted.
func TestDetailStatus(t *testing.T) {
	details, unnamed, left := convert.DetailStatus(tree(
		topology.Node{Name: "n1", Path: []string{"s-10", "b"}}, topology.Node{Name: "n2", Path: []string{"s-2", "b-10"}},
		topology.Node{Name: "n3", Path: []string{"s-2", "b-9"}}, topology.Node{Name: "n4", Path: []string{"s-2", "b-9"}},
		topology.Node{Name: "n5", Path: []string{"s-2", ""}},
	), 10_000)
	require.EqualValues(t, 1, unnamed)
	require.Empty(t, left)
	var got []string
	for _, d := range details {
		parent := koordinator.TopologyInfo{}
		if d.ParentTopologyInfo != nil {
			parent = *d.ParentTopologyInfo
		}
		got = append(got,
			strings.Join([]string{
				d.TopologyInfo.TopologyLayer, d.TopologyInfo.TopologyName, "in", parent.TopologyLayer, parent.TopologyName, "over",
				d.ChildTopologyLayer, strings.Join(d.ChildTopologyNames, ","),
			}, " "))
	}
	require.Equal(t, []string{
		"ClusterTopologyLayer  in   over Spine s-2,s-10",
		"Spine s-2 in ClusterTopologyLayer  over Block b-9,b-10",
		"Block b-9 in Spine s-2 over NodeTopologyLayer ",
		"Block b-10 in Spine s-2 over NodeTopologyLayer ",
		"Spine s-10 in ClusterTopologyLayer  over Block b",
		"Block b in Spine s-10 over NodeTopologyLayer ",
	}, got)
	require.EqualValues(t, []int32{5, 4, 2}, []int32{details[0].NodeNum, details[1].NodeNum, details[2].NodeNum})
}

// TestSelector: what attracts pods to one another. Our annotation wins, and namespaces of PodGangs are
// told apart.
func TestSelector(t *testing.T) {
	of := func(namespace string, annotations, labels map[string]string) string {
		return convert.Selector(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Annotations: annotations, Labels: labels}})
	}
	base := map[string]string{workloads.LabelPodGang: "a"}
	scaled := map[string]string{workloads.LabelPodGang: "a-p-0", workloads.LabelBasePodGang: "a"}
	require.Empty(t, of("ns", nil, map[string]string{"app": "a"}))
	require.Equal(t, of("ns", nil, base), of("ns", nil, scaled))
	require.NotEqual(t, of("ns", nil, base), of("other", nil, base))
	require.NotEqual(t, of("ns", nil, base), of("ns", nil, map[string]string{workloads.LabelPodGang: "b"}))
	require.Equal(t, "x", of("ns", map[string]string{scheduling.AnnotationTopologySelector: "x"}, base))
}
