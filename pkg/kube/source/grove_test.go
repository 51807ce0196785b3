package source_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// grove12 are the layers that GREP-537 has, with the label keys that Grove resolves its levels to.
var grove12 = []convert.Layer{
	{Name: "blockLayer", Keys: []string{"topology.kubernetes.io/block", "topology.example.com/zone"}},
	{Name: "rackLayer", Keys: []string{"topology.kubernetes.io/rack"}},
	{Name: "hostLayer", Keys: []string{"kubernetes.io/hostname"}},
}

const (
	inBlock = "topologyConstraint: {packConstraint: {required: topology.kubernetes.io/block}}"
	inRack  = "topologyConstraint: {packConstraint: {required: topology.kubernetes.io/rack}}"
)

// podGang is one that Grove makes, with a spec and perhaps annotations.
func podGang(t *testing.T, spec string, annotations ...string) *source.Owned {
	t.Helper()
	u := object(t, "{kind: PodGang, metadata: {namespace: default, name: demo-0, uid: u1}, spec: {"+spec+"}}")
	u.SetAnnotations(words(annotations).asMap())
	return owned(t, u)
}

// groups are podgroups as YAML, each "name minReplicas" and what else it says.
func groups(all ...string) string {
	out := make([]string, len(all))
	for i, one := range all {
		name, rest, _ := strings.Cut(one, " ")
		least, more, found := strings.Cut(rest, " ")
		if out[i] = "{name: " + name + ", minReplicas: " + least; found {
			out[i] += ", " + more
		}
		out[i] += ", podReferences: []}"
	}
	return "podgroups: [" + strings.Join(out, ", ") + "]"
}

func grovePod(group string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "demo-0-" + group + "-x",
		Labels: map[string]string{"grove.io/podgang": "demo-0"},
	}}
	if group != "" {
		p.Labels["grove.io/podclique"] = group
	}
	return p
}

// groveDeclared is what is declared of a podgroup, on the nodes of grove12.
func groveDeclared(t *testing.T, owner *source.Owned, group string) *source.Declaration {
	t.Helper()
	p := grovePod(group)
	g := source.Gang{Ref: source.GangOf(p), Pods: map[string]*v1.Pod{convert.PodKey(p): p}, Owner: owner, Expected: true}
	d, ok := source.Declare(g, source.Defaults{NetworkTopologyAware: true, Layers: grove12})
	require.True(t, ok)
	return d
}

// scoped are rules with their scope.
func scoped(d *source.Declaration) string {
	var out []string
	if d.Gather != nil {
		for _, r := range d.Gather.Rules {
			out = append(out, strings.ToLower(strings.TrimSuffix(string(r.Strategy), "Gather"))+" "+r.Layer+" "+string(r.Scope))
		}
	}
	for _, own := range d.Branches {
		var names []string
		for _, ref := range own.Gangs {
			names = append(names, ref.Name[strings.LastIndex(ref.Name, "/")+1:])
		}
		for _, r := range own.Gather.Rules {
			out = append(out,
				fmt.Sprintf("%v: %s %s %s", names, strings.ToLower(strings.TrimSuffix(string(r.Strategy), "Gather")), r.Layer, r.Scope))
		}
	}
	return strings.Join(out, ", ")
}

// TestPodGangs is INT-06, S004-01 and 03: each podgroup is a gang with its own minimum, and the ones of one PodGang are one
// group.
func TestPodGangs(t *testing.T) {
	owner := podGang(t, groups("demo-0-pleader 1", "demo-0-pworker 4", "demo-0-dleader 1", "demo-0-dworker 3"))
	ref := func(name string) gang.Ref {
		return gang.Ref{Source: "podgang", Namespace: "default", Name: "demo-0/demo-0-" + name}
	}
	require.Equal(t, ref("pworker"), source.GangOf(grovePod("demo-0-pworker")))
	d := groveDeclared(t, owner, "demo-0-pworker")
	require.Equal(t, 4, d.Min)
	require.Equal(t, []gang.Ref{ref("dleader"), ref("dworker"), ref("pleader"), ref("pworker")}, d.Group)
	require.Empty(t, drawn(d))
	require.Equal(t, d.Group, groveDeclared(t, owner, "demo-0-dleader").Group)
	require.Empty(t, groveDeclared(t, podGang(t, groups("w 2")), "w").Group, "one gang is no group")

	scaled := grovePod("demo-0-prefill-1-w")
	scaled.Labels["grove.io/podgang"], scaled.Labels["grove.io/base-podgang"] = "demo-0-prefill-0", "demo-0"
	require.Equal(t, "demo-0-prefill-0/demo-0-prefill-1-w", source.GangOf(scaled).Name, "S004-03: a scaled PodGang is another group")

	short, other := grovePod("b-c"), grovePod("c")
	short.Labels["grove.io/podgang"], other.Labels["grove.io/podgang"] = "a", "a-b"
	require.NotEqual(t, source.GangOf(short), source.GangOf(other), "S004-02: names that could be joined to the same one")

	require.Equal(t, "problem: PodGang default/demo-0, which its members name, was not found", drawn(groveDeclared(t, nil, "w")))
	require.Equal(t,
		`problem: grove.io/podclique: "x" on default/demo-0-x-x names no podgroup of PodGang default/demo-0; supported values: [a b]`,
		drawn(groveDeclared(t, podGang(t, groups("a 1", "b 1")), "x")))
	require.Equal(t,
		`problem: label grove.io/podclique is missing on default/demo-0--x; write the name of a podgroup of PodGang default/demo-0`,
		drawn(groveDeclared(t, podGang(t, groups("a 1", "b 1")), "")), "S004-04")
	require.Contains(t, drawn(groveDeclared(t, podGang(t, ""), "a")), "names no podgroup")
	require.True(t, source.Foreign(sourceOwner(t, "PodGang").Resource), "it need not be served")
}

func sourceOwner(t *testing.T, kind string) *source.Owner {
	t.Helper()
	for _, o := range source.Owners {
		if o.Kind == kind {
			return o
		}
	}
	t.Fatalf("%s is not read", kind)
	return nil
}

// TestPodGangRules is S004-05 to 09 and 11: label keys name layers; keys of the PodGang hold for all, keys of its podgroups for
// each.
func TestPodGangRules(t *testing.T) {
	prefers := func(key string) string { return "topologyConstraint: {packConstraint: {preferred: " + key + "}}" }
	requires := func(key string) string { return "topologyConstraint: {packConstraint: {required: " + key + "}}" }
	config := func(names, more string) string {
		return "topologyConstraintGroupConfigs: [{name: x, podGroupNames: [" + names + "], " + more + "}]"
	}
	two := groups("a 1", "b 1")
	for name, c := range map[string]struct{ spec, want string }{
		"nothing":                   {two, ""},
		"S004-05 a rack":            {inRack + ", " + two, "must rackLayer GangGroup"},
		"S004-06 a host":            {requires("kubernetes.io/hostname") + ", " + two, "must hostLayer GangGroup"},
		"S004-06 a block":           {inBlock + ", " + two, "must blockLayer GangGroup"},
		"S004-06 another label key": {requires("topology.example.com/zone") + ", " + two, "must blockLayer GangGroup"},
		"preferred":                 {prefers("topology.kubernetes.io/rack") + ", " + two, "prefer rackLayer GangGroup"},
		"both": {
			"topologyConstraint: {packConstraint: {required: topology.kubernetes.io/block, preferred: topology.kubernetes.io/rack}}, " + two,
			"must blockLayer GangGroup, prefer rackLayer GangGroup",
		},
		"both the same": {
			"topologyConstraint: {packConstraint: {required: topology.kubernetes.io/rack, preferred: topology.kubernetes.io/rack}}, " + two,
			"must rackLayer GangGroup",
		},
		"each":                  {groups("a 1 "+inRack, "b 1 "+inRack), "must rackLayer PodGroup"},
		"S004-09 all and each":  {inBlock + ", " + groups("a 1 "+inRack, "b 1 "+inRack), "must blockLayer GangGroup, must rackLayer PodGroup"},
		"S004-09 one of them":   {inBlock + ", " + groups("a 1 "+inRack, "b 1"), "must blockLayer GangGroup, must rackLayer PodGroup"},
		"S004-09 the other one": {inBlock + ", " + groups("a 1", "b 1 "+inRack), "must blockLayer GangGroup"},
		"a config for all":      {config("a, b", inRack) + ", " + two, "[a b]: must rackLayer PodGroup"},
		"S004-11 some podgroups": {
			inBlock + ", " + config("a, b", inRack) + ", " + groups("a 1", "b 1", "c 1"),
			"must blockLayer GangGroup, [a b]: must rackLayer PodGroup",
		},
		"a config for one": {
			config("b", inRack) + ", " + groups("a 1 "+inBlock, "b 1"),
			"must blockLayer PodGroup, [b]: must rackLayer PodGroup",
		},
		"a config without a rule": {config("a", "name: y") + ", " + two, ""},
		"null is nothing":         {"topologyConstraint: null, topologyConstraintGroupConfigs: null, " + two, ""},
		"no constraint inside":    {"topologyConstraint: {packConstraint: null}, " + two, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(c.spec, "name: x, podGroupNames: [a], name: y") {
				c.spec = strings.Replace(c.spec, ", name: y", "", 1)
			}
			d := groveDeclared(t, podGang(t, c.spec), "a")
			require.Empty(t, d.Problem.Words)
			require.Equal(t, c.want, scoped(d))
			require.Equal(t, c.want != "", d.ReadsLayers)
		})
	}

	d := groveDeclared(t, podGang(t, inRack+", "+two), "a")
	require.Equal(t, "PodGang default/demo-0 field spec.topologyConstraint", d.ConstraintOrigin)
	d = groveDeclared(t, podGang(t, prefers("nfs-hostpath")+", "+two), "a")
	require.False(t, d.Problem.Exists(), "S004-08")
	require.Contains(t, d.Notes[0].Message,
		`spec.topologyConstraint.packConstraint.preferred has no effect: "nfs-hostpath" is no label key of a layer`)
	require.True(t, d.Notes[0].Warns())
	d = groveDeclared(t, podGang(t, inRack+", "+two, scheduling.AnnotationTopologySpec,
		`{"gatherStrategy":[{"layer":"blockLayer","strategy":"MustGather"}]}`), "a")
	require.Equal(t, "must blockLayer GangGroup", scoped(d), "our own words come first")
	require.Contains(t, drawn(groveDeclared(t, podGang(t, "reuseReservationRef: {name: old}, "+two), "a")), reasons.InvalidAnnotation,
		"S004-17")
}

// TestBadPodGangs: what is wrong with a PodGang is the problem of each of its gangs, and said of
// the PodGang.
func TestBadPodGangs(t *testing.T) {
	config := func(names string) string {
		return ", topologyConstraintGroupConfigs: [{name: x, podGroupNames: " + names + ", " + inRack + "}]"
	}
	for name, c := range map[string]struct{ spec, want string }{
		"podgroups are a text": {"podgroups: many", `spec.podgroups: "many" is invalid; supported values: a list`},
		"a podgroup is a text": {"podgroups: [a]", `spec.podgroups[0]: "a" is invalid; supported values: an object`},
		"a podgroup without a name": {
			"podgroups: [{name: a}, {minReplicas: 1}]",
			`spec.podgroups[1].name: "" is invalid; write a name that no other podgroup has`,
		},
		"a name twice": {
			groups("a 1", "a 2"),
			`spec.podgroups[1].name: "a" is invalid; write a name that no other podgroup has`,
		},
		"less than nothing":   {groups("a -1"), "spec.podgroups[0].minReplicas: -1 is invalid; supported values: an integer ≥ 0"},
		"a word for a number": {groups("a many"), `spec.podgroups[0].minReplicas: "many" is invalid; supported values: an integer ≥ 0`},
		"half a pod":          {groups("a 1.5"), "spec.podgroups[0].minReplicas: 1.5 is invalid; supported values: an integer ≥ 0"},
		"more than there can be": {
			groups("a 9999999999"),
			"spec.podgroups[0].minReplicas: 9999999999 is invalid; supported values: an integer from 0 to 2147483647",
		},
		"S004-07 an unknown key": {
			"topologyConstraint: {packConstraint: {required: topology.kubernetes.io/zone}}, " + groups("a 1"),
			`spec.topologyConstraint.packConstraint.required: "topology.kubernetes.io/zone" is no label key of a layer; ` +
				`supported values: the label keys of ClusterNetworkTopology default: ` +
				`[topology.kubernetes.io/block topology.example.com/zone topology.kubernetes.io/rack kubernetes.io/hostname]`,
		},
		"a constraint that is a text": {
			"topologyConstraint: rack, " + groups("a 1"),
			`spec.topologyConstraint: "rack" is invalid; supported values: an object`,
		},
		"a key that is a number": {
			"topologyConstraint: {packConstraint: {required: 3}}, " + groups("a 1"),
			`spec.topologyConstraint.packConstraint.required: 3 is invalid; supported values: a text; write "3" with quotes`,
		},
		"that of a podgroup": {
			groups("a 1 topologyConstraint: {packConstraint: []}"),
			`spec.podgroups[0].topologyConstraint.packConstraint: [] is invalid; supported values: an object`,
		},
		"a config of an unknown podgroup": {
			groups("a 1") + config("[x]"),
			`spec.topologyConstraintGroupConfigs[0].podGroupNames: "x" is no podgroup; supported values: [a]`,
		},
		"names that are a text": {groups("a 1") + config("a"), `spec.topologyConstraintGroupConfigs[0].podGroupNames: .spec`},
		"one that requires no layer": {
			groups("a 1", "b 1") + strings.Replace(config("[a, b]"), "topology.kubernetes.io/rack", "nosuch", 1),
			`spec.topologyConstraintGroupConfigs[0]: topologyConstraint.packConstraint.required: "nosuch" is no label key of a layer`,
		},
		"a config that is a number": {
			groups("a 1") + ", topologyConstraintGroupConfigs: [3]",
			`spec.topologyConstraintGroupConfigs[0]: 3 is invalid; supported values: an object`,
		},
		"one that packs a text": {
			groups("a 1") + ", topologyConstraintGroupConfigs: [{topologyConstraint: x}]",
			`spec.topologyConstraintGroupConfigs[0].topologyConstraint: "x" is invalid; supported values: an object`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := groveDeclared(t, podGang(t, c.spec), "a")
			want, _, loose := strings.Cut(c.want, ".spec")
			if !loose || want == "" {
				want = c.want
			}
			require.Contains(t, d.Problem.Words, want)
			require.Equal(t, gang.Declaration, d.Problem.By)
			require.Contains(t, d.Notes, source.Note{Reason: reasons.InvalidAnnotation, Message: d.Problem.Words}, "said of the PodGang")
			require.Empty(t, scoped(d))
		})
	}
}

// listing has the podgroups of some names list a pod each.
func listing(text string, names ...string) string {
	for _, name := range names {
		before, after, _ := strings.Cut(text, "name: "+name+",")
		text = before + "name: " + name + "," + strings.Replace(after, "podReferences: []", "podReferences: [{namespace: default, name: p}]", 1)
	}
	return text
}

// TestReleasedMinima is S004-16: a podgroup with minimum 0 keeps the one that it had, as long as it is the same
// PodGang; else its pods start one by one, and no gang waits for them. A podgroup that lists no pods, where other podgroups do,
// was scaled to zero.
func TestReleasedMinima(t *testing.T) {
	was, is := podGang(t, groups("a 3", "b 1")), podGang(t, groups("a 0", "b 1"))
	is.CarryOver(was)
	require.Equal(t, 3, groveDeclared(t, is, "a").Min)
	again := podGang(t, groups("a 0", "b 2"))
	again.CarryOver(is)
	require.Equal(t, 3, groveDeclared(t, again, "a").Min)
	require.Equal(t, 2, groveDeclared(t, again, "b").Min, "a number is a number")
	require.Len(t, groveDeclared(t, again, "b").Group, 2)

	listed := podGang(t, listing(groups("a 0", "b 2"), "a", "b"))
	listed.CarryOver(again)
	require.Equal(t, 3, groveDeclared(t, listed, "a").Min)
	none := podGang(t, listing(groups("a 0", "b 1"), "b"))
	none.CarryOver(listed)
	require.Equal(t, 1, groveDeclared(t, none, "a").Min, "it was scaled to zero")
	require.Empty(t, groveDeclared(t, none, "b").Group, "no gang waits for it")

	other := podGang(t, groups("a 0", "b 1", "c 1"))
	other.Object.UID = "u2"
	other.CarryOver(again)
	require.Equal(t, 1, groveDeclared(t, other, "a").Min)
	require.Empty(t, groveDeclared(t, other, "a").Group)
	require.Len(t, groveDeclared(t, other, "b").Group, 2, "without the gang that needs no member")
	other.CarryOver(nil)
	lws := owned(t, object(t, "{kind: LeaderWorkerSet, metadata: {namespace: default, name: a}, spec: {}}"))
	lws.CarryOver(lws)
	require.Equal(t, 1, lws.Size, "others hold on to nothing")
}
