package source_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

const (
	must   = `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}`
	prefer = `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"PreferGather"}]}`
)

// words are keys and values, one after the other.
type words []string

func (w words) asMap() map[string]string {
	m := map[string]string{}
	for i := 0; i < len(w); i += 2 {
		m[w[i]] = w[i+1]
	}
	return m
}

func pod(name string, labels, annotations words) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, Labels: labels.asMap(), Annotations: annotations.asMap(),
		CreationTimestamp: metav1.NewTime(time.Unix(int64(len(name)), 0)),
	}}
}

func podGroup(least int32, annotations words) *sigs.PodGroup {
	pg := &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "a", UID: "u", Annotations: annotations.asMap(), CreationTimestamp: metav1.NewTime(time.Unix(7, 0)),
	}}
	pg.Spec.MinMember = least
	return pg
}

// TestOf: which gang a pod is a member of, and whether it describes it. The first that names
// one wins.
func TestOf(t *testing.T) {
	const (
		label      = scheduling.LabelPodGroup
		labelX     = scheduling.LabelPodGroupX
		annotation = scheduling.AnnotationGangName
		old        = scheduling.LabelGangName
	)
	for name, c := range map[string]struct {
		labels, annotations words
		want                gang.Ref
		describes           bool
	}{
		"nothing":                {nil, nil, gang.Ref{}, false},
		"a PodGroup":             {words{label, "a"}, nil, gang.Ref{Source: "podgroup", Namespace: "ns", Name: "a"}, false},
		"the other PodGroup":     {words{labelX, "a"}, nil, gang.Ref{Source: "podgroup-x", Namespace: "ns", Name: "a"}, false},
		"an annotation":          {nil, words{annotation, "a"}, gang.Ref{Source: "podgroup", Namespace: "ns", Name: "a"}, true},
		"a deprecated label":     {words{old, "a"}, nil, gang.Ref{Source: "podgroup", Namespace: "ns", Name: "a"}, true},
		"both PodGroups":         {words{label, "a", labelX, "b"}, nil, gang.Ref{Source: "podgroup", Namespace: "ns", Name: "a"}, false},
		"label and annotation":   {words{labelX, "a"}, words{annotation, "b"}, gang.Ref{Source: "podgroup-x", Namespace: "ns", Name: "a"}, false},
		"annotation and old one": {words{old, "b"}, words{annotation, "a"}, gang.Ref{Source: "podgroup", Namespace: "ns", Name: "a"}, true},
		"an empty name":          {words{label, "", old, "b"}, nil, gang.Ref{Source: "podgroup", Namespace: "ns", Name: "b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("p", c.labels, c.annotations)
			require.Equal(t, c.want, source.GangOf(p))
			require.Equal(t, c.describes, source.Describes(p))
		})
	}
}

// TestRivals: a pod that two APIs make a member of different gangs says so, with what counts.
func TestRivals(t *testing.T) {
	const (
		label      = scheduling.LabelPodGroup
		labelX     = scheduling.LabelPodGroupX
		annotation = scheduling.AnnotationGangName
		old        = scheduling.LabelGangName
	)
	for name, c := range map[string]struct {
		labels, annotations words
		want                string
	}{
		"nothing":            {nil, nil, ""},
		"one":                {words{label, "a"}, nil, ""},
		"two ways, one gang": {words{label, "a", old, "a"}, words{annotation, "a"}, ""},
		"only the others":    {words{old, "a"}, words{annotation, "a"}, ""},
		"label and annotation": {
			words{label, "a"},
			words{annotation, "b"},
			`the pod names more than one gang: annotation ` + annotation + `: "b" has no effect, because label ` + label +
				`: "a" is used; keep one of them`,
		},
		"PodGroups of two APIs": {
			words{label, "a", labelX, "a"},
			nil,
			`the pod names more than one gang: label ` + labelX + `: "a" has no effect, because label ` + label + `: "a" is used; keep one of them`,
		},
		"all of them, one agrees": {
			words{label, "a", labelX, "x", old, "b"},
			words{annotation, "a"},
			`the pod names more than one gang: label ` + labelX + `: "x", label ` + old + `: "b" has no effect, because label ` + label +
				`: "a" is used; keep one of them`,
		},
		"the first is empty": {
			words{label, "", old, "b"},
			words{annotation, "a"},
			`the pod names more than one gang: label ` + old + `: "b" has no effect, because annotation ` + annotation +
				`: "a" is used; keep one of them`,
		},
		"an empty one names no gang":   {words{label, "a", old, ""}, nil, ""},
		"others' labels name no gangs": {words{label, "a", "app", "b"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, source.OtherGangs(pod("p", c.labels, c.annotations)))
		})
	}
}

// declare reads a gang of these pods and perhaps an object.
func declare(t *testing.T, object *sigs.PodGroup, pods ...*v1.Pod) (*source.Declaration, source.Gang) {
	g := source.Gang{Ref: gang.Ref{Source: "podgroup", Namespace: "ns", Name: "a"}, Object: object, Pods: map[string]*v1.Pod{}}
	for _, p := range pods {
		g.Pods[convert.PodKey(p)] = p
	}
	d, ok := source.Declare(g,
		source.Defaults{Wait: time.Minute, Policy: gang.OnceSatisfied, NetworkTopologyAware: true, Check: func(s *scheduling.GatherSpec) error {
			return s.CheckLayers([]string{"SpineLayer"}, "default")
		}})
	require.True(t, ok)
	return d, g
}

// TestPodGroups: what PodGroups and their members say, and what counts.
func TestPodGroups(t *testing.T) {
	member := func(name string, annotations words) *v1.Pod {
		return pod(name, words{scheduling.LabelPodGroup, "a"}, annotations)
	}
	for name, c := range map[string]struct {
		object  *sigs.PodGroup
		pods    []*v1.Pod
		want    gang.Spec
		gathers bool
		notes   []string
		problem string
	}{
		"nothing but a minimum": {podGroup(3, nil), nil, gang.Spec{Min: 3}, false, nil, ""},
		"no minimum":            {podGroup(0, nil), nil, gang.Spec{Min: 1}, false, nil, ""},
		"a bad minimum": {
			podGroup(-1, nil), nil,
			gang.Spec{Min: 1},
			false,
			[]string{"spec.minMember: -1 is invalid; write an integer ≥ 1; 1 is used"},
			"",
		},
		"all": {podGroup(3, words{
			scheduling.AnnotationGroups, `["ns/a","other/b"]`, scheduling.AnnotationMode, "NonStrict", scheduling.AnnotationMatchPolicy,
			"only-waiting",
			scheduling.AnnotationWaitingTime, "5s", scheduling.AnnotationTopologySpec, must,
		}), nil, gang.Spec{Min: 3, Group: []gang.Ref{
			{Source: "podgroup", Namespace: "ns", Name: "a"}, {Source: "podgroup", Namespace: "other", Name: "b"},
		}, NonStrict: true, Policy: gang.OnlyWaiting, Wait: 5 * time.Second}, true, nil, ""},
		"the other name of the policy": {
			podGroup(3, words{scheduling.AnnotationMatchPolicyAlias, "only-waiting"}), nil,
			gang.Spec{Min: 3, Policy: gang.OnlyWaiting},
			false, nil, "",
		},
		"both names of the policy": {
			podGroup(3, words{scheduling.AnnotationMatchPolicyAlias, "only-waiting", scheduling.AnnotationMatchPolicy, "waiting-and-running"}),
			nil,
			gang.Spec{Min: 3, Policy: gang.WaitingAndRunning},
			false, nil, "",
		},
		"a member says how to gather": {
			podGroup(3, nil),
			[]*v1.Pod{member("p1", nil), member("p0", words{scheduling.AnnotationTopologySpec, must})},
			gang.Spec{Min: 3},
			true, nil, "",
		},
		"the object before a member": {
			podGroup(3, words{scheduling.AnnotationMode, "NonStrict"}),
			[]*v1.Pod{member("p0", words{scheduling.AnnotationMode, "Strict"})},
			gang.Spec{Min: 3, NonStrict: true},
			false, nil, "",
		},
		"a bad mode": {
			podGroup(3, words{scheduling.AnnotationMode, "strict"}), nil,
			gang.Spec{Min: 3},
			false,
			[]string{scheduling.AnnotationMode + `: "strict" is invalid; supported values: Strict, NonStrict; did you mean Strict?; the default is used`},
			"",
		},
		"bad groups": {
			podGroup(3, words{scheduling.AnnotationGroups, "b"}), nil,
			gang.Spec{Min: 3},
			false, nil,
			scheduling.AnnotationGroups,
		},
		"an unknown layer": {podGroup(3, words{
			scheduling.AnnotationTopologySpec,
			`{"gatherStrategy":[{"layer":"Rack","strategy":"MustGather"}]}`,
		}), nil, gang.Spec{Min: 3}, true, nil, `layer "Rack" is not in`},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := declare(t, c.object, c.pods...)
			want := c.want
			want.Ref, want.UID, want.Created = gang.Ref{Source: "podgroup", Namespace: "ns", Name: "a"}, "u", time.Unix(7, 0)
			if want.Policy == "" {
				want.Policy = gang.OnceSatisfied
			}
			if want.Wait == 0 {
				want.Wait = time.Minute
			}
			if c.problem != "" {
				require.Equal(t, gang.Declaration, d.Problem.By)
				require.Contains(t, d.Problem.Words, c.problem)
				d.Problem = gang.Obstacle{}
			}
			require.Equal(t, want, d.Spec)
			require.Equal(t, c.gathers, d.Gather != nil)
			require.Equal(t, c.notes, messages(d))
		})
	}
}

// TestGangsThatTheirPodsDescribe: by annotation or by the deprecated labels (case 51).
func TestGangsThatTheirPodsDescribe(t *testing.T) {
	annotated := func(name string, more ...string) *v1.Pod {
		return pod(name, nil, append(words{scheduling.AnnotationGangName, "a"}, more...))
	}
	labelled := func(name string, more ...string) *v1.Pod {
		return pod(name, append(words{scheduling.LabelGangName, "a"}, more...), nil)
	}
	for name, c := range map[string]struct {
		pods    []*v1.Pod
		least   int
		by      string
		problem string
	}{
		"annotations": {[]*v1.Pod{annotated("p0", scheduling.AnnotationMinAvailable, "3")}, 3, "ns/p0", ""},
		"labels":      {[]*v1.Pod{labelled("p0", scheduling.LabelMinAvailable, "3")}, 3, "ns/p0", ""},
		"both": {[]*v1.Pod{pod("p0", words{scheduling.LabelMinAvailable, "3"},
			words{scheduling.AnnotationGangName, "a", scheduling.AnnotationMinAvailable, "2"})}, 3, "ns/p0", ""},
		"the first legal one": {[]*v1.Pod{
			annotated("p0", scheduling.AnnotationMinAvailable, "x"),
			annotated("p2", scheduling.AnnotationMinAvailable, "2"), annotated("p1", scheduling.AnnotationMinAvailable, "3"),
		}, 3, "ns/p1", ""},
		"none that is legal": {
			[]*v1.Pod{annotated("p0", scheduling.AnnotationMinAvailable, "x")},
			1, "ns/p0",
			scheduling.AnnotationMinAvailable + `: "x"`,
		},
		"no label that is legal": {
			[]*v1.Pod{labelled("p0", scheduling.LabelMinAvailable, "0")},
			1, "ns/p0",
			scheduling.LabelMinAvailable + `: "0"`,
		},
		"it does not say how many": {[]*v1.Pod{labelled("p0")}, 1, "ns/p0", scheduling.AnnotationMinAvailable + `: ""`},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := declare(t, nil, c.pods...)
			require.Equal(t, c.least, d.Min)
			require.Equal(t, c.by, d.DeclaringPod)
			require.Equal(t, c.problem != "", d.Problem.Exists())
			require.Contains(t, d.Problem.Words, c.problem)
		})
	}
	_, ok := source.Declare(source.Gang{Pods: map[string]*v1.Pod{"ns/p": pod("p", words{scheduling.LabelPodGroup, "a"}, nil)}},
		source.Defaults{})
	require.False(t, ok, "nothing declares it")
}

// TestMayChangeWith: a declaration is read again when a member can change it, and mostly not.
func TestMayChangeWith(t *testing.T) {
	silent := pod("p1", words{scheduling.LabelPodGroup, "a"}, nil)
	speaks := pod("p1", words{scheduling.LabelPodGroup, "a"}, words{scheduling.AnnotationTopologySpec, must})
	var none *source.Declaration
	require.False(t, none.MayChangeWith(silent))
	require.True(t, none.MayChangeWith(speaks))

	d, _ := declare(t, podGroup(1, nil), speaks)
	require.True(t, d.MayChangeWith(speaks), "its declaration counts")
	p0, p2 := speaks.DeepCopy(), speaks.DeepCopy()
	p0.Name, p2.Name = "p0", "p2"
	require.True(t, d.MayChangeWith(p0), "it comes first")
	require.False(t, d.MayChangeWith(p2))
	p2.Annotations[scheduling.AnnotationMode] = "NonStrict"
	require.True(t, d.MayChangeWith(p2), "the change was not declared")

	by := pod("p1", nil, words{scheduling.AnnotationGangName, "a", scheduling.AnnotationMinAvailable, "x"})
	d, _ = declare(t, nil, by)
	legal := pod("p2", nil, words{scheduling.AnnotationGangName, "a", scheduling.AnnotationMinAvailable, "2"})
	require.True(t, d.MayChangeWith(legal), "its minimum is legal")
}

// TestSame: what the book need not hear again.
func TestSame(t *testing.T) {
	d, _ := declare(t, podGroup(2, words{scheduling.AnnotationTopologySpec, must}))
	var none *source.Declaration
	require.False(t, none.Same(d))
	again, _ := declare(t, podGroup(2, words{scheduling.AnnotationTopologySpec, must}))
	require.True(t, d.Same(again))
	for name, pg := range map[string]*sigs.PodGroup{
		"another minimum": podGroup(3, words{scheduling.AnnotationTopologySpec, must}),
		"another gather":  podGroup(2, words{scheduling.AnnotationTopologySpec, prefer}),
		"no gather":       podGroup(2, nil),
		"a group":         podGroup(2, words{scheduling.AnnotationTopologySpec, must, scheduling.AnnotationGroups, `["ns/a","ns/b"]`}),
		"another object": func() *sigs.PodGroup {
			pg := podGroup(2, words{scheduling.AnnotationTopologySpec, must})
			pg.UID = "other"
			return pg
		}(),
	} {
		other, _ := declare(t, pg)
		require.False(t, d.Same(other), name)
	}
}

// TestContradictions: a member that says something else is told so.
func TestContradictions(t *testing.T) {
	says := func(name, mode string) *v1.Pod {
		return pod(name, nil, words{scheduling.AnnotationGangName, "a", scheduling.AnnotationMinAvailable, "2", scheduling.AnnotationMode, mode})
	}
	first, second := says("p0", "Strict"), says("p1", "NonStrict")
	d, g := declare(t, nil, first, second)
	require.Empty(t, d.Contradictions(g, first))
	require.Equal(t,
		[]string{
			scheduling.AnnotationMode + `: "NonStrict" has no effect: ns/p0 says "Strict", which is used; write the same on all members`,
		}, d.Contradictions(g, second))
	d, g = declare(t, podGroup(1, words{scheduling.AnnotationMode, "NonStrict"}), first)
	require.Contains(t, d.Contradictions(g, first)[0], "has no effect: PodGroup ns/a says")
}

// TestOneLimit: what may be written is what the book takes.
func TestOneLimit(t *testing.T) { require.Equal(t, gang.MaxGroupSize, scheduling.MaxGroups) }
