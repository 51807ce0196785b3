package source_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

const (
	spineKey = "network.topology.nvidia.com/spine"
	blockKey = "network.topology.nvidia.com/block"
)

func nativePod(name, group string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &group}},
	}
}

// nativeGang is a gang of one pod with a PodGroup.
func nativeGang(t *testing.T, name, spec string) source.Gang {
	t.Helper()
	p := nativePod(name+"-0", name)
	g := source.Gang{Ref: source.GangOf(p), Pods: map[string]*v1.Pod{convert.PodKey(p): p}, Expected: true}
	o := source.ObjectOf(g.Ref.Source)
	u := object(t,
		"{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {namespace: ns, name: "+name+", uid: u}, spec: {"+spec+"}}")
	pg, err := o.Read(u)
	require.NoError(t, err)
	g.Object, g.More = pg, o.More(u)
	return g
}

func nativeDeclared(t *testing.T, g source.Gang) *source.Declaration {
	t.Helper()
	d, ok := source.Declare(g, source.Defaults{NetworkTopologyAware: true, Layers: topo12})
	require.True(t, ok)
	return d
}

func atLeast(least string) string { return "schedulingPolicy: {gang: {minCount: " + least + "}}" }

func in(key string) string { return ", schedulingConstraints: {topology: [{key: " + key + "}]}" }

// TestNative: what Kubernetes' own PodGroup says, and how pods name it.
func TestNative(t *testing.T) {
	require.Equal(t, gang.Ref{Source: "podgroup-native", Namespace: "ns", Name: "train"}, source.GangOf(nativePod("p", "train")))
	require.True(t, source.GangOf(&v1.Pod{Spec: v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{}}}).IsZero())
	require.True(t, source.GangOf(nativePod("p", "")).IsZero())

	for name, c := range map[string]struct {
		spec  string
		min   int
		rules string
		whole bool
	}{
		"a gang":             {atLeast("4"), 4, "", false},
		"basic":              {"schedulingPolicy: {basic: {}}", 1, "", false},
		"basic, not null":    {"schedulingPolicy: {basic: {}, gang: null}", 1, "", false},
		"a spine":            {atLeast("4") + in(spineKey), 4, "must SpineLayer PodGroup", false},
		"one node":           {atLeast("4") + in("kubernetes.io/hostname"), 4, "must NodeTopologyLayer PodGroup", false},
		"no constraint":      {atLeast("4") + ", schedulingConstraints: {topology: []}", 4, "", false},
		"a null one":         {atLeast("4") + ", schedulingConstraints: null", 4, "", false},
		"basic, in a block":  {"schedulingPolicy: {basic: {}}" + in(blockKey), 1, "must BlockLayer PodGroup", false},
		"all leave together": {atLeast("4") + ", disruptionMode: {all: {}}", 4, "", true},
		"one by one":         {atLeast("4") + ", disruptionMode: {single: {}}", 4, "", false},
		"1.36, all":          {atLeast("4") + ", disruptionMode: PodGroup", 4, "", true},
		"1.36, one by one":   {atLeast("4") + ", disruptionMode: Pod", 4, "", false},
		"1.36, its Workload": {atLeast("4") + ", podGroupTemplateRef: {workload: {workloadName: w, podGroupTemplateName: t}}", 4, "", false},
		"what is not for us": {
			atLeast("4") + ", priorityClassName: high, priority: 7, preemptionPolicy: Never, resourceClaims: []", 4, "",
			false,
		},
		"a parent without name": {atLeast("4") + `, parentCompositePodGroupName: ""`, 4, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := nativeDeclared(t, nativeGang(t, "train", c.spec))
			require.Empty(t, d.Problem.Words)
			require.Equal(t, c.min, d.Min)
			require.Equal(t, c.rules, scoped(d))
			require.Equal(t, c.whole, d.EvictWhole)
			require.Empty(t, d.Group)
			require.Equal(t, "u", d.UID)
		})
	}
	d := nativeDeclared(t, nativeGang(t, "train", atLeast("4")+in(spineKey)))
	require.Equal(t, "PodGroup ns/train field spec.schedulingConstraints", d.ConstraintOrigin)
}

// TestBadNative: what an API server should not have taken is said with its field, its value and
// what is legal.
func TestBadNative(t *testing.T) {
	const key = "spec.schedulingConstraints.topology[0].key: "
	for name, c := range map[string]struct{ spec, want string }{
		"no policy": {"", "spec.schedulingPolicy: neither is set; set exactly one of basic and gang"},
		"a text":    {"schedulingPolicy: gang", `spec.schedulingPolicy: "gang" is invalid; supported values: an object`},
		"both policies": {
			"schedulingPolicy: {basic: {}, gang: {minCount: 2}}", "spec.schedulingPolicy: both are set; set exactly one of basic and gang",
		},
		"an unknown policy": {"schedulingPolicy: {other: {}}", "spec.schedulingPolicy: neither is set; set exactly one of basic and gang"},
		"no minimum": {
			"schedulingPolicy: {gang: {}}",
			"spec.schedulingPolicy.gang.minCount is missing; write an integer ≥ 1",
		},
		"zero members":      {atLeast("0"), "spec.schedulingPolicy.gang.minCount: 0 is invalid; supported values: an integer ≥ 1"},
		"a negative number": {atLeast("-1"), "spec.schedulingPolicy.gang.minCount: -1 is invalid; supported values: an integer ≥ 1"},
		"a word":            {atLeast("many"), `spec.schedulingPolicy.gang.minCount: "many" is invalid; supported values: an integer ≥ 1`},
		"too many": {
			atLeast("9999999999"),
			"spec.schedulingPolicy.gang.minCount: 9999999999 is invalid; supported values: an integer from 1 to 2147483647",
		},
		"an unknown key": {
			atLeast("2") + in("rack"),
			key + `"rack" is no label key of a layer; supported values: the label keys of ClusterNetworkTopology default: [` + spineKey + " " +
				blockKey + "]",
		},
		"an empty key": {atLeast("2") + in(`""`), key + `"" is invalid; write a label key of nodes`},
		"no key": {
			atLeast("2") + ", schedulingConstraints: {topology: [{}]}",
			key + `nothing is invalid; write a label key of nodes`,
		},
		"two keys": {
			atLeast("2") + ", schedulingConstraints: {topology: [{key: a}, {key: b}]}",
			"spec.schedulingConstraints.topology: 2 constraints are listed; keep at most 1",
		},
		"a key that is no list": {
			atLeast("2") + ", schedulingConstraints: {topology: rack}",
			`spec.schedulingConstraints.topology: "rack" is invalid; supported values: a list`,
		},
		"constraints in a list": {
			atLeast("2") + ", schedulingConstraints: [rack]",
			`spec.schedulingConstraints: ["rack"] is invalid; supported values: an object`,
		},
		"an unknown mode": {
			atLeast("2") + ", disruptionMode: {some: {}}",
			`spec.disruptionMode: {"some":{}} is invalid; set exactly one of single and all`,
		},
		"both modes": {
			atLeast("2") + ", disruptionMode: {single: {}, all: {}}",
			`spec.disruptionMode: {"all":{},"single":{}} is invalid; set exactly one of single and all`,
		},
		"an unknown word of it": {
			atLeast("2") + ", disruptionMode: Gang",
			`spec.disruptionMode: "Gang" is invalid; set exactly one of single and all`,
		},
		"a parent with a number": {
			atLeast("2") + ", parentCompositePodGroupName: 7",
			`spec.parentCompositePodGroupName: 7 is invalid; supported values: a text; write "7" with quotes`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := nativeDeclared(t, nativeGang(t, "train", c.spec))
			require.Equal(t, gang.Declaration, d.Problem.By)
			require.Equal(t, c.want, d.Problem.Words)
			require.GreaterOrEqual(t, d.Min, 1)
		})
	}
	d, _ := source.Declare(nativeGang(t, "train", atLeast("2")+in("rack")), source.Defaults{NetworkTopologyAware: true})
	require.Equal(t, key+`"rack" needs ClusterNetworkTopology default, which does not exist`, d.Problem.Words)
	u := object(t, "{kind: PodGroup, metadata: {name: a}, spec: []}")
	require.ErrorContains(t, source.ObjectOf("podgroup-native").More(u).Problem, "spec: [] is invalid; supported values: an object")
}

// tree are the gangs of a CompositePodGroup.
func tree(t *testing.T, parent string, children ...string) []source.Gang {
	t.Helper()
	owner := owned(t, object(t, "{kind: CompositePodGroup, metadata: {namespace: ns, name: all}, spec: {"+parent+"}}"))
	var all []source.Gang
	for i, spec := range children {
		g := nativeGang(t, string(rune('a'+i)), spec+", parentCompositePodGroupName: all")
		g.Owner = owner
		key, ok := source.OwnerOf(g)
		require.True(t, ok)
		require.Equal(t, owner.Key, key)
		all = append(all, g)
	}
	for i := range all {
		all[i].Siblings = all
	}
	return all
}

// TestNativeTrees: a CompositePodGroup that needs all of its PodGroups is one group of gangs; what
// cannot be placed is refused on each of them.
func TestNativeTrees(t *testing.T) {
	all := func(least string) string { return "schedulingPolicy: {gang: {minGroupCount: " + least + "}}" }
	const basic = "schedulingPolicy: {basic: {}}"
	two, some := []string{atLeast("2"), atLeast("3")}, []string{atLeast("2") + in(blockKey), atLeast("3") + in(blockKey)}
	for name, c := range map[string]struct {
		parent   string
		children []string
		group    string
		rules    string
		problem  string
	}{
		"both":                 {all("2"), two, "a b", "", ""},
		"in one spine":         {all("2") + in(spineKey), two, "a b", "must SpineLayer GangGroup", ""},
		"each in a block":      {all("2") + in(spineKey), some, "a b", "must SpineLayer GangGroup, must BlockLayer PodGroup", ""},
		"only one":             {all("1") + in(spineKey), two[:1], "", "must SpineLayer GangGroup", ""},
		"one is missing":       {all("3"), two, "a b", "", "CompositePodGroup ns/all has 2 of the 3 PodGroups that it needs"},
		"each on its own":      {basic, two, "", "", ""},
		"unlike, on their own": {basic, []string{atLeast("2") + in(blockKey), atLeast("3")}, "", "must BlockLayer PodGroup", ""},
		"together, on their own": {
			basic + in(spineKey), two, "", "*",
			"CompositePodGroup ns/all: spec.schedulingConstraints.topology does not work with schedulingPolicy.basic; use gang, with " +
				"minGroupCount from 1 to the number of its PodGroups, 2",
		},
		"any of them": {all("1"), two, "a b", "", ""},
		"unlike ones": {
			all("2"),
			[]string{atLeast("2") + in(blockKey), atLeast("3")},
			"a b", "must BlockLayer PodGroup", "",
		},
		"a level that is not known": {
			all("2") + ", parentCompositePodGroupName: root", two, "", "*",
			"CompositePodGroup ns/root, which CompositePodGroup ns/all names, was not found",
		},
		"a circle": {
			all("2") + ", parentCompositePodGroupName: all", two, "", "*",
			`CompositePodGroup ns/all: spec.parentCompositePodGroupName: "all" is below this group; name one above it, or none`,
		},
		"none of them": {
			all("0"), two, "", "*",
			"CompositePodGroup ns/all: spec.schedulingPolicy.gang.minGroupCount: 0 is invalid; supported values: an integer ≥ 1",
		},
		"no number of them": {
			all("two"), two, "", "*",
			`CompositePodGroup ns/all: spec.schedulingPolicy.gang.minGroupCount: "two" is invalid; supported values: an integer ≥ 1`,
		},
		"more than there are": {all("65"), two, "a b", "", "CompositePodGroup ns/all has 2 of the 65 PodGroups that it needs"},
		"less than none": {
			all("-1"), two, "", "*",
			"CompositePodGroup ns/all: spec.schedulingPolicy.gang.minGroupCount: -1 is invalid; supported values: an integer ≥ 1",
		},
		"a bad key": {
			all("2") + in("7"), two, "", "*",
			"CompositePodGroup ns/all: spec.schedulingConstraints.topology[0].key: 7 is invalid; write a label key of nodes",
		},
		"a bad mode": {
			all("2") + ", disruptionMode: 7", two, "", "*",
			"CompositePodGroup ns/all: spec.disruptionMode: 7 is invalid; set exactly one of single and all",
		},
		"a bad parent": {
			all("2") + ", parentCompositePodGroupName: []", two, "", "*",
			"CompositePodGroup ns/all: spec.parentCompositePodGroupName: [] is invalid; supported values: a text",
		},
		"an unknown key": {
			all("2") + in("rack"), two, "a b", "",
			`spec.parentCompositePodGroupName.schedulingConstraints.topology[0].key: "rack" is no label key of a layer; ` +
				`supported values: the label keys of ClusterNetworkTopology default: [` + spineKey + " " + blockKey + "]",
		},
		"its own comes first": {
			basic,
			[]string{atLeast("0")},
			"", "*",
			"spec.schedulingPolicy.gang.minCount: 0 is invalid; supported values: an integer ≥ 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := nativeDeclared(t, tree(t, c.parent, c.children...)[0])
			require.Equal(t, c.problem, d.Problem.Words+d.TreeObstacle.Words)
			require.Equal(t, strings.Contains(c.problem, " has "), d.TreeObstacle.By == gang.Missing, "a started gang continues")
			require.Equal(t, strings.Contains(c.problem, "was not found"), d.Problem.By == gang.Missing, "what others make is waited for")
			var names []string
			for _, ref := range d.Group {
				names = append(names, ref.Name)
			}
			if c.group != "*" {
				require.Equal(t, c.group, strings.Join(names, " "))
			}
			if c.rules != "*" {
				got := strings.Split(scoped(d), ", ")
				require.ElementsMatch(t, strings.Split(c.rules, ", "), got)
			}
		})
	}
	pair := tree(t, all("2")+in(spineKey), some...)
	require.True(t, source.SameGather(nativeDeclared(t, pair[0]).Gather, nativeDeclared(t, pair[1]).Gather), "else they were no group")
	require.Equal(t, nativeDeclared(t, pair[0]).Group, nativeDeclared(t, pair[1]).Group)
	require.NotContains(t, pair[0].More.Values, source.FieldParentTopologyKey, "what is read is left alone")

	lost := pair[0]
	lost.Owner = nil
	require.Equal(t, gang.Obstacle{By: gang.Missing, Words: "CompositePodGroup ns/all, " +
		"to which the gang belongs, was not found: the gang waits until it exists"},
		nativeDeclared(t, lost).Problem)
	lost.Expected = false
	require.Contains(t, nativeDeclared(t, lost).Problem.Words, "Muster may read it")
	bad := nativeGang(t, "a", atLeast("0")+", parentCompositePodGroupName: all")
	require.Contains(t, nativeDeclared(t, bad).Problem.Words, "minCount: 0 is invalid", "what is wrong comes before what is missing")
	require.True(t, source.IsFamily("CompositePodGroup"))
	require.False(t, source.IsFamily("PodGang"))
}

// forest are the PodGroups of some CompositePodGroups, each of which is "name: spec"; parents come
// before their children. PodGroups are "parent/name: more of the spec".
func forest(t *testing.T, lines ...string) map[string]source.Gang {
	t.Helper()
	owners, gangs, names := map[source.OwnerKey]*source.Owned{}, map[string]source.Gang{}, []string(nil)
	for _, line := range lines {
		name, spec, _ := strings.Cut(line, ": ")
		parent, child, leaf := strings.Cut(name, "/")
		if !leaf {
			o := owned(t, object(t, "{kind: CompositePodGroup, metadata: {namespace: ns, name: "+name+"}, spec: {"+spec+"}}"))
			owners[o.Key] = o
			continue
		}
		g := nativeGang(t, child, atLeast("1")+spec+", parentCompositePodGroupName: "+parent)
		g.Owner = owners[source.OwnerKey{Kind: "CompositePodGroup", Namespace: "ns", Name: parent}]
		for o := g.Owner; o != nil && o.Parent.Name != "" && len(g.Above) < source.MaxLevels; {
			if o = owners[o.Parent]; o != nil {
				g.Above = append(g.Above, o)
			}
		}
		gangs[child], names = g, append(names, child)
	}
	var all []source.Gang
	for _, name := range names {
		all = append(all, gangs[name])
	}
	for name, g := range gangs {
		g.Siblings = all
		gangs[name] = g
	}
	return gangs
}

// TestDeepTrees: CompositePodGroups below CompositePodGroups. A CompositePodGroup's label key is about all that is below it.
func TestDeepTrees(t *testing.T) {
	needs := func(n, more string) string { return "schedulingPolicy: {gang: {minGroupCount: " + n + "}}" + more }
	below := func(parent string) string { return ", parentCompositePodGroupName: " + parent }
	const basic = "schedulingPolicy: {basic: {}}"
	for name, c := range map[string]struct {
		lines   []string
		of      string // the PodGroup that is looked at
		group   string
		rules   string
		problem string
	}{
		"three levels": {
			[]string{
				"root: " + needs("2", in(spineKey)), "p: " + needs("2", in(blockKey)+below("root")), "d: " + needs("1", below("root")), "p/a: ",
				"p/b: ", "d/c: ",
			},
			"a", "a b c", "must SpineLayer GangGroup, [a b]: must BlockLayer PodGroup", "",
		},
		"a part that is not there yet": {
			[]string{"root: " + needs("2", ""), "p: " + needs("1", below("root")), "p/a: "},
			"a", "", "", "CompositePodGroup ns/root has 1 of the 2 children that it needs",
		},
		"a part that is not whole": {
			[]string{"root: " + needs("2", ""), "p: " + needs("2", below("root")), "d: " + needs("1", below("root")), "p/a: ", "d/c: "},
			"c", "a c", "", "CompositePodGroup ns/p has 1 of the 2 PodGroups that it needs",
		},
		"each part on its own": {
			[]string{"root: " + basic, "p: " + needs("2", in(blockKey)+below("root")), "d: " + needs("1", below("root")), "p/a: ", "p/b: ", "d/c: "},
			"b", "a b", "[a b]: must BlockLayer PodGroup", "",
		},
		"the other part": {
			[]string{"root: " + basic, "p: " + needs("3", below("root")), "d: " + needs("1", below("root")), "p/a: ", "p/b: ", "d/c: "},
			"c", "", "", "",
		},
		"basic inside": {
			[]string{"root: " + needs("1", ""), "p: " + basic + below("root"), "p/a: ", "p/b: "},
			"a", "", "",
			"CompositePodGroup ns/p: spec.schedulingPolicy.basic has no effect below another CompositePodGroup; use gang, with minGroupCount " +
				"from 1 to the number of its children, 2",
		},
		"four levels": {
			[]string{"root: " + needs("1", ""), "p: " + needs("1", below("root")), "q: " + needs("1", in(blockKey)+below("p")), "q/a: "},
			"a", "", "[a]: must BlockLayer PodGroup", "",
		},
		"five": {
			[]string{
				"root: " + needs("1", ""), "p: " + needs("1", below("root")), "q: " + needs("1", below("p")), "r: " + needs("1", below("q")),
				"r/a: ",
			},
			"a", "", "",
			`CompositePodGroup ns/p: spec.parentCompositePodGroupName: "root" makes the tree too deep; ` +
				`remove it: a tree has at most 4 levels`,
		},
		"five, elsewhere": {
			[]string{
				"root: " + needs("2", ""), "p: " + needs("1", below("root")), "q: " + needs("1", below("p")), "r: " + needs("1", below("q")),
				"r/a: ", "root/b: ",
			},
			"b", "", "",
			`CompositePodGroup ns/p: spec.parentCompositePodGroupName: "root" makes the tree too deep; ` +
				`remove it: a tree has at most 4 levels`,
		},
		"a circle of two": {
			[]string{"p: " + needs("1", below("q")), "q: " + needs("1", below("p")), "q/a: "},
			"a", "", "", `CompositePodGroup ns/q: spec.parentCompositePodGroupName: "p" is below this group; name one above it, or none`,
		},
		"something is wrong elsewhere": {
			[]string{"root: " + needs("2", ""), "p: " + needs("1", below("root")), "d: " + needs("-1", below("root")), "p/a: ", "d/c: "},
			"a", "", "", "CompositePodGroup ns/d: spec.schedulingPolicy.gang.minGroupCount: -1 is invalid; supported values: an integer ≥ 1",
		},
		"an unknown key inside": {
			[]string{"root: " + needs("1", ""), "p: " + needs("1", in("rack")+below("root")), "p/a: "},
			"a", "", "",
			`CompositePodGroup ns/p: spec.schedulingConstraints.topology[0].key: "rack" is no label key of a layer; ` +
				`supported values: the label keys of ClusterNetworkTopology default: [` + spineKey + " " + blockKey + "]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := nativeDeclared(t, forest(t, c.lines...)[c.of])
			require.Equal(t, c.problem, d.Problem.Words+d.TreeObstacle.Words)
			var names []string
			for _, ref := range d.Group {
				names = append(names, ref.Name)
			}
			require.Equal(t, c.group, strings.Join(names, " "))
			require.Equal(t, c.rules, scoped(d))
		})
	}
}

// TestLevels: where a CompositePodGroup has more children than it needs, its PodGroups know the levels above them; where all
// are needed they know none. A level that has fewer than it needs is not waited for if the group can start without it.
func TestLevels(t *testing.T) {
	needs := func(n, more string) string { return "schedulingPolicy: {gang: {minGroupCount: " + n + "}}" + more }
	below := func(parent string) string { return ", parentCompositePodGroupName: " + parent }
	const basic = "schedulingPolicy: {basic: {}}"
	for name, c := range map[string]struct {
		lines []string
		want  string // the levels above PodGroup a, or what it waits for
	}{
		"all":  {[]string{"root: " + needs("2", ""), "root/a: ", "root/b: "}, ""},
		"some": {[]string{"root: " + needs("1", ""), "root/a: ", "root/b: "}, "root≥1"},
		"some inside": {
			[]string{"root: " + needs("2", ""), "p: " + needs("1", below("root")), "d: " + needs("1", below("root")), "p/a: ", "p/b: ", "d/c: "},
			"p≥1 root≥2",
		},
		"some elsewhere": {
			[]string{"root: " + needs("2", ""), "p: " + needs("1", below("root")), "d: " + needs("1", below("root")), "p/a: ", "d/b: ", "d/c: "},
			"p≥1 root≥2",
		},
		"some of what starts alone": {
			[]string{"root: " + basic, "p: " + needs("1", below("root")), "d: " + needs("1", below("root")), "p/a: ", "p/b: ", "d/c: "},
			"p≥1",
		},
		"elsewhere of what starts alone": {
			[]string{"root: " + basic, "p: " + needs("1", below("root")), "d: " + needs("1", below("root")), "p/a: ", "d/b: ", "d/c: "},
			"",
		},
		"a parent that does not need the incomplete part": {
			[]string{"root: " + needs("1", ""), "p: " + needs("1", below("root")), "d: " + needs("2", below("root")), "p/a: ", "d/b: "},
			"p≥1 root≥1",
		},
		"a parent that needs it": {
			[]string{"root: " + needs("2", ""), "p: " + needs("1", below("root")), "d: " + needs("2", below("root")), "p/a: ", "d/b: "},
			"p≥1 root≥2CompositePodGroup ns/d has 1 of the 2 PodGroups that it needs",
		},
		"four levels": {
			[]string{
				"root: " + needs("1", ""), "p: " + needs("1", below("root")), "q: " + needs("2", below("p")), "r: " + needs("1", below("root")),
				"q/a: ", "q/b: ", "q/c: ", "r/d: ",
			},
			"q≥2 p≥1 root≥1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := nativeDeclared(t, forest(t, c.lines...)["a"])
			got := []string{}
			for _, l := range d.Levels {
				got = append(got, fmt.Sprintf("%s≥%d", strings.TrimPrefix(l.Name, "CompositePodGroup ns/"), l.Least))
			}
			require.Equal(t, c.want, strings.Join(got, " ")+d.TreeObstacle.Words)
		})
	}
}

// TestNativeWins is INT-04: a pod that two APIs claim is a gang of Kubernetes' own, once, and is
// told so.
func TestNativeWins(t *testing.T) {
	p := nativePod("p", "a")
	p.Labels = map[string]string{scheduling.LabelPodGroup: "b", "batch.kubernetes.io/job-name": "j"}
	p.Annotations = map[string]string{scheduling.AnnotationMinAvailable: "2"}
	require.Equal(t, "podgroup-native", source.GangOf(p).Source)
	require.Equal(t,
		`the pod names more than one gang: label pod-group.scheduling.sigs.k8s.io: "b" has no effect, because `+
			`field spec.schedulingGroup.podGroupName: "a" is used; keep one of them`, source.OtherGangs(p))
	delete(p.Labels, scheduling.LabelPodGroup)
	require.Empty(t, source.OtherGangs(p), "what the Job implies is no second name")
	require.False(t, source.Describes(p))
}

// TestVersions: each version in which Kubernetes serves PodGroups is read, and none need be served.
func TestVersions(t *testing.T) {
	var versions []string
	for _, r := range source.ObjectOf("podgroup-native").Versions() {
		require.True(t, source.Foreign(r))
		require.Equal(t, schema.GroupResource{Group: "scheduling.k8s.io", Resource: "podgroups"}, r.GroupResource())
		versions = append(versions, r.Version)
	}
	require.Equal(t, []string{"v1beta1", "v1alpha3", "v1alpha2"}, versions)
	require.False(t, source.Foreign(schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "podgroups"}))
}

// TestNativeReached: a gang that was whole once is so for the next process.
func TestNativeReached(t *testing.T) {
	o := source.ObjectOf("podgroup-native")
	for name, c := range map[string]struct {
		status string
		want   bool
	}{
		"nothing": {"{}", false},
		"once": {
			"{conditions: [{type: DisruptionTarget, status: 'False'}, {type: PodGroupInitiallyScheduled, status: 'True', lastTransitionTime: " +
				"'2026-01-02T03:04:05Z', reason: Scheduled, message: m}]}",
			true,
		},
		"not yet": {"{conditions: [{type: PodGroupInitiallyScheduled, status: 'False'}]}", false},
		"in 1.36": {
			"{conditions: [{type: PodGroupScheduled, status: 'True', lastTransitionTime: '2026-01-02T03:04:05Z', reason: Scheduled, message: m}]}",
			true,
		},
		"a list":   {"[3]", false},
		"nonsense": {"{conditions: [3]}", false},
	} {
		t.Run(name, func(t *testing.T) {
			pg, err := o.Read(object(t, "{kind: PodGroup, metadata: {namespace: ns, name: a}, spec: {"+atLeast("1")+"}, status: "+c.status+"}"))
			require.NoError(t, err)
			require.Equal(t, c.want, source.Reached(pg))
		})
	}
	for version, want := range map[string]string{
		"v1alpha2": "PodGroupScheduled", "v1alpha3": "PodGroupInitiallyScheduled",
		"v1beta1": "PodGroupInitiallyScheduled",
	} {
		pg, err := o.Read(object(t,
			"{apiVersion: scheduling.k8s.io/"+version+", kind: PodGroup, "+
				"metadata: {namespace: ns, name: a, generation: 3}, spec: {"+atLeast("1")+"}}"))
		require.NoError(t, err)
		require.Equal(t, want, o.Condition(pg))
		require.EqualValues(t, 3, pg.Generation)
	}
}

// TestPriorityOfAPodGroup: what a native PodGroup says of its priority counts for its pods, and an unresolved class does not.
func TestPriorityOfAPodGroup(t *testing.T) {
	for says, want := range map[string]string{
		"":                                  "none",
		"priority: 0":                       "none",
		"priority: 5":                       "5",
		"priority: 0, priorityClassName: a": "0",
		"priorityClassName: a":              "none a",
		"priority: high":                    "none",
	} {
		more := source.ObjectOf("podgroup-native").More(object(t,
			"{kind: PodGroup, metadata: {namespace: ns, name: a}, spec: {schedulingPolicy: {basic: {}}, "+says+"}}"))
		got := "none"
		if more.Priority != nil {
			got = fmt.Sprint(*more.Priority)
		}
		require.Equal(t, want, strings.TrimSpace(got+" "+more.PriorityClass), says)
	}
}
