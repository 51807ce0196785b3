// Package acceptance runs the cases of testdata/integrations_acceptance.yaml that need neither a scheduler nor an API
// server, by their ids: what is built from objects, what backends make of it, and what admission says. The others are
// held elsewhere: docs/contributing/acceptance.md says where.
package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

type object = map[string]any

// acceptanceCase is one entry of the file. Given and Then are as they are written.
type acceptanceCase struct {
	ID      string   `json:"id"`
	Kind    []string `json:"kind"`
	Cluster string   `json:"cluster"`
	Given   any      `json:"given"`
	Then    any      `json:"then"`
}

// file is the whole of it.
type file struct {
	Fixtures map[string]struct {
		ClusterNetworkTopology []object `json:"clusterNetworkTopology"`
	} `json:"fixtures"`
	Tests []acceptanceCase `json:"tests"`
}

func load(t *testing.T) (out file) {
	data, err := os.ReadFile("testdata/integrations_acceptance.yaml")
	require.NoError(t, err)
	asJSON, err := yaml.YAMLToJSON(data)
	require.NoError(t, err)
	require.NoError(t, utiljson.Unmarshal(asJSON, &out))
	for i := range out.Tests { // numbers as they are in objects
		c := &out.Tests[i]
		for _, v := range []*any{&c.Given, &c.Then} {
			asJSON, err := json.Marshal(*v)
			require.NoError(t, err)
			require.NoError(t, utiljson.Unmarshal(asJSON, v))
		}
	}
	return out
}

// run is a case that is run.
type run struct {
	*testing.T
	acceptanceCase
	topology podgang.Topology
}

// elsewhere are the cases without an entry here, and why.
var elsewhere = map[string]string{
	"S001-04": "admission sees one object; the scheduler compares the PodGroups of a GangGroup: test/badinput/gang_test.go",
	"S003-03": "profiles and arguments are the scheduler's: test/e2e/testdata/error-config.txtar",
}

// TestAcceptance runs each case of kind unit or admission.
func TestAcceptance(t *testing.T) {
	all := load(t)
	require.Len(t, all.Tests, 57)
	seen := map[string]bool{}
	for _, c := range all.Tests {
		f, ok := cases[c.ID]
		seen[c.ID] = true
		pure := slices.Contains(c.Kind, "unit") || slices.Contains(c.Kind, "admission")
		switch {
		case !pure:
			require.False(t, ok, c.ID)
			continue
		case !ok:
			require.NotEmpty(t, elsewhere[c.ID], "%s is run nowhere", c.ID)
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			r := &run{T: t, acceptanceCase: c}
			if c.Cluster != "" {
				r.topology = r.network(all.Fixtures[c.Cluster].ClusterNetworkTopology)
			}
			f(r)
		})
	}
	for id := range cases {
		require.True(t, seen[id], id)
	}
}

// network is the topology of a fixture.
func (r *run) network(layers []object) podgang.Topology {
	var spec []any
	for _, l := range layers {
		spec = append(spec, l)
	}
	out, err := podgang.TopologyFrom(&unstructured.Unstructured{Object: object{
		"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "ClusterNetworkTopology", "metadata": object{"name": "default"},
		"spec": object{"networkTopologySpec": spec},
	}})
	require.NoError(r, err)
	return out
}

// cases are what is done for each.
var cases = map[string]func(*run){
	"S000-01": (*run).leaderWorkerSet, "S000-02": (*run).leaderWorkerSet, "S000-08": (*run).leaderWorkerSet, "S000-09": (*run).leaderWorkerSet,
	"S000-04": func(r *run) {
		r.admitted(podgang.ValidateLeaderWorkerSet(r.given(), nil))
		r.leaderWorkerSet()
	},
	"S000-05": func(r *run) { r.admitted(podgang.ValidateLeaderWorkerSet(r.given(), nil)) },
	"S000-06": func(r *run) { r.admitted(podgang.ValidateLeaderWorkerSet(r.given(), nil)) },
	"S000-07": func(r *run) {
		want := in(r.Then, "topologySpecContains").(object)
		require.Contains(r, rulesOf(r, r.write("koordinator", r.given())[0]), want)
	},
	"S000-13": func(r *run) {
		r.topology = r.network(load(r.T).Fixtures["topo12"].ClusterNetworkTopology)
		r.acceptanceCase.Then = r.of("S000-01").Then
		first := r.of("S000-01").Given.(object)
		unstructured.RemoveNestedField(first, "spec", "networkTopology")
		metadata := first["metadata"].(object)
		metadata["annotations"] = in(r.Given, "annotations")
		r.acceptanceCase.Given = first
		require.Empty(r, podgang.ValidateLeaderWorkerSet(r.given(), nil).Errors)
		r.leaderWorkerSet()
	},
	"VOL-01": func(r *run) {
		info, err := podgang.FromVolcanoPodGroup(r.given(), nil)
		require.NoError(r, err)
		sub := info.PodGroups[0].SubGroups[0]
		all, _, err := r.topology.Rules(info.TopologyConstraint)
		require.NoError(r, err)
		own, _, err := r.topology.Rules(sub.TopologyConstraint)
		require.NoError(r, err)
		require.Equal(r, `{"gatherStrategy":[{"layer":"BlockLayer","strategy":"PreferGather"},{"layer":"SpineLayer","strategy":"MustGather"}]}`,
			podgang.SpecJSON(all))
		require.Equal(r, `{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}`, podgang.SpecJSON(own))
		require.Equal(r, "part 2 2 [partition]", fmt.Sprint(sub.Name, " ", sub.Size, " ", sub.Least, " ", sub.MatchLabelKeys))
	},
	"VOL-02": func(r *run) { r.admitted(podgang.ValidateVolcano(r.given(), nil)) },
	"VOL-03": func(r *run) {
		for i, given := range r.Given.([]any) {
			want := r.Then.([]any)[i]
			spec, _, err := r.topology.Rules(&podgang.TopologyConstraint{
				Tiers: &podgang.Tiers{HighestTierName: in(given, "highestTierName").(string)},
			})
			if message, ok := in(want, "error").(string); ok {
				require.ErrorContains(r, err, message)
				continue
			}
			require.NoError(r, err)
			last := spec.Rules[len(spec.Rules)-1]
			require.Equal(r, in(want, "layer"), last.Layer)
			require.Equal(r, scheduling.MustGather, last.Strategy)
		}
	},
	"VOL-04": func(r *run) {
		info, err := podgang.FromVolcanoPodGroup(r.given(), nil)
		require.NoError(r, err)
		spec, notes, err := r.topology.Rules(info.TopologyConstraint)
		require.NoError(r, err)
		require.Nil(r, spec)
		require.Equal(r, in(r.Then, "event", "reason"), notes[0].Reason)
		require.Equal(r, in(r.Then, "event", "type") == "Warning", !notes[0].Info)
	},
	"S002-01": func(r *run) {
		registry := r.registry("", "workload", "podgang", "koordinator")
		for name, want := range r.Then.(object) {
			b, err := registry.For(name)
			require.NoError(r, err)
			require.Equal(r, want, b.Name(), "scheduler name %q", name)
		}
	},
	"S002-02": func(r *run) {
		for _, order := range [][]string{
			{"workload", "podgang", "koordinator"},
			{"workload", "koordinator", "podgang"},
			{"podgang", "workload", "koordinator"},
			{"podgang", "koordinator", "workload"},
			{"koordinator", "workload", "podgang"},
			{"koordinator", "podgang", "workload"},
		} {
			registry := r.registry("", order...)
			for name, want := range r.of("S002-01").Then.(object) {
				b, err := registry.For(name)
				require.NoError(r, err)
				require.Equal(r, want, b.Name(), "scheduler name %q, registered as %v", name, order)
			}
		}
		_, err := backend.NewRegistry(backend.New(r.translator("workload"), backend.Options{}),
			backend.New(r.translator("workload"), backend.Options{}))
		require.Error(r, err)
		_, err = r.registry("", "koordinator").For("another")
		require.ErrorContains(r, err, "no backend for schedulerName")
		b, err := r.registry("koordinator", "koordinator", "workload").For("")
		require.NoError(r, err)
		require.Equal(r, "koordinator", b.Name())
	},
	"S002-03": func(r *run) {
		objects := r.write("workload", r.given())
		want := in(r.Then, "objects").([]any)
		require.Len(r, objects, len(want))
		for i := range want {
			requireWithin(r, want[i], objects[i].Object)
		}
		require.Equal(r, in(r.Then, "gate"), r.translator("workload").Gate())
		pod := r.pod("ml-inference-0", "ml-inference-0-model-server")
		require.NoError(r, r.translator("workload").PreparePod(pod, podgang.PodKey{}, r.cluster()))
		require.Equal(r, in(r.Then, "podWorkloadRef"), in(pod.Object, "spec", "workloadRef"))
	},
	"S002-04": func(r *run) {
		given := r.of("S002-03").Given
		r.acceptanceCase.Given = given
		info := r.build(r.given())[0]
		w := r.translator("workload")
		for version, ref := range map[string][]string{
			"v1alpha2": {"spec", "podGroupTemplateRef", "workload", "workloadName"}, "v1beta1": {"spec", "workloadRef", "workloadName"},
		} {
			c := backend.Cluster{Native: version}
			objects, _, err := w.Objects(info, c)
			require.NoError(r, err)
			require.Equal(r, []string{"Workload", "PodGroup"}, []string{objects[0].GetKind(), objects[1].GetKind()})
			require.Equal(r, "scheduling.k8s.io/"+version, objects[1].GetAPIVersion())
			require.NotNil(r, in(objects[0].Object, "spec", "podGroupTemplates"))
			require.Equal(r, "ml-inference-0", in(objects[1].Object, ref...))
			pod := r.pod("ml-inference-0", "ml-inference-0-model-server")
			require.NoError(r, w.PreparePod(pod, podgang.PodKey{}, c))
			require.Equal(r, objects[1].GetName(), in(pod.Object, "spec", "schedulingGroup", "podGroupName"))
		}
		objects, _, err := w.Objects(info, backend.Cluster{})
		require.ErrorContains(r, err, "stay gated")
		require.Empty(r, objects)
	},
	"S002-06": func(r *run) {
		p := r.translator("podgang")
		infos, err := podgang.FromPodCliqueSet(cliqueSet("distributed-training", "kai-scheduler", map[string]int64{"master": 1, "workers": 8}),
			nil, nil)
		require.NoError(r, err)
		objects, _, err := p.Objects(infos[0], backend.Cluster{})
		require.NoError(r, err)
		require.Len(r, objects, 1)
		said := "PodGang " + objects[0].GetName() + ": podgroups ["
		for i, g := range in(objects[0].Object, "spec", "podgroups").([]any) {
			if i > 0 {
				said += ", "
			}
			said += fmt.Sprintf("%s min %d", strings.TrimPrefix(in(g, "name").(string), "distributed-training-0-"), in(g, "minReplicas"))
		}
		require.Equal(r, in(r.Then, "objects").([]any)[0], said+"]")
		require.Equal(r, in(r.Then, "gate"), p.Gate())
		infos[0].Kind = podgang.PodGang // Grove's operator has written it
		objects, _, err = p.Objects(infos[0], backend.Cluster{})
		require.NoError(r, err)
		require.Empty(r, objects)
	},
	"S002-07": (*run).gangReady,
	"S002-08": (*run).adapter,
	"S004-01": (*run).grovesExample,
	"S004-02": func(r *run) {
		names := map[string]bool{}
		for i, pair := range r.Given.([]any) {
			gang, group := pair.([]any)[0].(string), pair.([]any)[1].(string)
			require.EqualValues(r, in(r.Then, "naiveLengths").([]any)[i], len(gang+"-"+group))
			name := podgang.GroupName(gang, group)
			require.LessOrEqual(r, len(name), 63)
			if want := in(r.Then, "suggested").([]any)[i].(string); !strings.Contains(want, "truncate") {
				require.Equal(r, want, name)
			} else {
				require.Regexp(r, `^multinode-disaggregated-0-prefill-0-.*-[0-9a-f]{8}$`, name)
			}
			key, ok, err := podgang.KeyOf(r.pod(gang, group))
			require.NoError(r, err)
			require.True(r, ok)
			require.Equal(r, name, key.GroupName(), "pods name what is written")
			names[name] = true
		}
		require.Len(r, names, 3)
	},
	"S004-03": func(r *run) {
		var lists []string
		for _, name := range []string{"demo-0", "demo-0-prefill-0"} {
			objects := r.write("koordinator", podGang(name, object{"podgroups": []any{group(name+"-leader", 1), group(name+"-worker", 4)}}))
			lists = append(lists, objects[0].GetAnnotations()[scheduling.AnnotationGroups])
		}
		for _, a := range groupsOf(r, lists[0]) {
			require.NotContains(r, groupsOf(r, lists[1]), a)
		}
	},
	"S004-04": (*run).preparePod,
	"S004-05": func(r *run) {
		given := in(r.Given, "podGang").(object)
		objects := r.write("koordinator", podGang(given["name"].(string), given))
		require.Equal(r, in(r.Then, "topologySpec", "gatherStrategy"), anys(rulesOf(r, objects[0])))
	},
	"S004-06": func(r *run) {
		for i, given := range r.Given.([]any) {
			key, config := given, ""
			if mapped, ok := given.(object); ok {
				key = mapped["key"]
				data, err := json.Marshal(mapped["topologyKeyMappings"])
				require.NoError(r, err)
				config = "topologyKeyMappings: " + string(data)
			}
			info := r.build(podGang("t-0", object{"topologyConstraint": required(key.(string)), "podgroups": []any{group("w", 3)}}))[0]
			objects, _, err := r.translator("koordinator", config).Objects(info, backend.Cluster{})
			if want := r.Then.([]any)[i]; want != "unmapped" {
				require.NoError(r, err)
				require.Equal(r, want, rulesOf(r, objects[0].Unstructured)[0]["layer"])
			} else {
				require.Error(r, err)
			}
		}
	},
	"S004-07": func(r *run) {
		info := r.build(podGang("t-0",
			object{"topologyConstraint": required(in(r.Given, "required").(string)), "podgroups": []any{group("w", 3)}}))[0]
		objects, _, err := r.translator("koordinator").Objects(info, backend.Cluster{})
		var why *podgang.Error
		require.ErrorAs(r, err, &why)
		require.Equal(r, reasons.TopologyKeyNotMapped, why.Reason)
		require.EqualValues(r, in(r.Then, "podGroupsWritten"), len(objects))
	},
	"S004-08": func(r *run) {
		c := object{"packConstraint": object{"preferred": in(r.Given, "preferred")}}
		info := r.build(podGang("t-0", object{"topologyConstraint": c, "podgroups": []any{group("w", 3)}}))[0]
		objects, notes, err := r.translator("koordinator").Objects(info, backend.Cluster{})
		require.NoError(r, err)
		require.NotContains(r, objects[0].GetAnnotations(), scheduling.AnnotationTopologySpec)
		require.True(r, notes[0].Info)
	},
	"S004-09": func(r *run) {
		spec := object{"topologyConstraint": required(in(r.Given, "gang", "required").(string))}
		prefill := group("prefill", 2)
		prefill["topologyConstraint"] = required(in(r.Given, "podgroups", "prefill", "required").(string))
		spec["podgroups"] = []any{prefill, group("decode", 3)}
		objects := r.write("koordinator", podGang("t-0", spec))
		require.Equal(r, in(r.Then, "prefill"), anys(rulesOf(r, objects[0])))
		require.Equal(r, in(r.Then, "decode"), anys(rulesOf(r, objects[1])))
		r.topology = podgang.Topology{
			Layers: []podgang.Layer{
				{Name: "blockLayer", Keys: []string{"topology.kubernetes.io/block"}},
				{Name: "rackLayer", Keys: []string{"topology.kubernetes.io/rack"}},
			},
		}
		for i, own := range []int{1, 0} { // Muster's PodGroups say both, so that all are in one block
			rules := rulesOf(r, r.write("muster", podGang("t-0", spec))[i])
			require.Len(r, rules, 1+own)
			require.Equal(r, object{"layer": "blockLayer", "strategy": "MustGather"}, rules[0])
		}
	},
	"S004-10": func(r *run) {
		for i, given := range r.Given.([]any) {
			annotations := maps.Clone(given.(object))
			name := "koord-scheduler"
			if n, ok := annotations["schedulerName"].(string); ok {
				name = n
				delete(annotations, "schedulerName")
			}
			pcs := cliqueSet("p", name, map[string]int64{"w": 1})
			pcs.Object["metadata"].(object)["annotations"] = annotations
			require.Equal(r, r.Then.([]any)[i] == "allow", len(r.validate(pcs, nil).Errors) == 0, "%v", given)
		}
	},
	"S004-11": func(r *run) {
		r.admitted(r.validate(r.scalingGroup("koord-scheduler"), nil))
		spec := maps.Clone(in(r.Given, "podGang").(object))
		spec["podgroups"] = []any{group("w", 1), group("v", 1)}
		objects, _, err := r.translator("koordinator").Objects(r.build(podGang("t-0", spec))[0], backend.Cluster{})
		require.Error(r, err)
		require.EqualValues(r, in(r.Then, "sync", "podGroupsWritten"), len(objects))
	},
	"S004-12": func(r *run) {
		r.acceptanceCase.Given = r.of("S004-11").Given
		require.Empty(r, r.validate(r.scalingGroup("kai-scheduler"), nil).Errors)
		was := r.scalingGroup("koord-scheduler")
		is := was.DeepCopy()
		is.SetLabels(map[string]string{"touched": "yes"})
		require.Empty(r, r.validate(is, was).Errors)
		require.NotEmpty(r, r.validate(is, nil).Errors)
	},
	"S004-17": func(r *run) {
		info := r.build(podGang("t-0",
			object{"podgroups": []any{group("w", 1)}, "reuseReservationRef": object{"namespace": "default", "name": "old"}}))[0]
		_, notes, err := r.translator("koordinator").Objects(info, backend.Cluster{})
		require.NoError(r, err)
		require.Equal(r, reasons.ReuseReservationUnsupported, notes[0].Reason)
		require.False(r, notes[0].Info)
	},
	"S004-18": func(r *run) {
		for i, given := range r.Given.([]any) {
			data, err := json.Marshal(given)
			require.NoError(r, err)
			_, err = backend.ReadConfig([]byte("backends: [" + strings.Replace(string(data), "{", `{"name": "koordinator", `, 1) + "]"))
			require.Equal(r, r.Then.([]any)[i] == "error", err != nil, "%s: %v", data, err)
		}
	},
	"INT-02": func(r *run) {
		for _, c := range []struct {
			name    string
			depends bool
		}{{"dependsOn", true}, {"none", false}} {
			var got []any
			for _, info := range r.jobSet(c.depends, false) {
				n := int32(0)
				for _, g := range info.PodGroups {
					n += g.MinReplicas
				}
				got = append(got, fmt.Sprintf("%s=%d", orName(strings.TrimPrefix(info.Name, "js-"), "js", "jobset"), n))
			}
			require.Equal(r, in(r.Then, c.name), got)
		}
	},
	"INT-03": func(r *run) {
		for _, info := range r.jobSet(false, true)[1:] {
			require.EqualValues(r, in(r.Then, "minMember"), info.PodGroups[0].MinReplicas)
			require.EqualValues(r, 4, info.PodGroups[0].Total)
		}
	},
}

func orName(name, is, then string) string {
	if name == is {
		return then
	}
	return name
}

// of is another case.
func (r *run) of(id string) acceptanceCase {
	for _, c := range load(r.T).Tests {
		if c.ID == id {
			return c
		}
	}
	r.Fatalf("there is no case %s", id)
	return acceptanceCase{}
}

// given is the object of a case, with what every object has.
func (r *run) given() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: r.Given.(object)}
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	if u.GetName() == "" {
		u.SetName("x")
	}
	if u.GetUID() == "" {
		u.SetUID("u1")
	}
	return u
}

// in is a field within a field, nil if there is none.
func in(v any, path ...string) any {
	for _, name := range path {
		o, _ := v.(object)
		v = o[name]
	}
	return v
}

func anys(rules []object) (out []any) {
	for _, r := range rules {
		out = append(out, r)
	}
	return out
}

// requireWithin: all that is wanted is there.
func requireWithin(t require.TestingT, want, have any) {
	switch want := want.(type) {
	case object:
		for key, value := range want {
			requireWithin(t, value, in(have, key))
		}
	case []any:
		require.Len(t, have, len(want))
		for i := range want {
			requireWithin(t, want[i], have.([]any)[i])
		}
	default:
		require.Equal(t, want, have)
	}
}

// translator is a backend, with more lines of its configuration.
func (r *run) translator(name string, config ...string) backend.Translator {
	text := "backends:\n- name: " + name + "\n"
	for _, line := range config {
		if line != "" {
			text += "  " + line + "\n"
		}
	}
	c, err := backend.ReadConfig([]byte(text))
	require.NoError(r, err)
	all, err := c.Translators()
	require.NoError(r, err)
	return all[0]
}

func (r *run) registry(fallback string, names ...string) *backend.Registry {
	out, err := backend.NewRegistry()
	require.NoError(r, err)
	for _, name := range names {
		require.NoError(r, out.Register(backend.New(r.translator(name), backend.Options{})))
	}
	if fallback != "" {
		require.NoError(r, out.SetDefault(fallback))
	}
	return out
}

func (r *run) cluster() backend.Cluster {
	return backend.Cluster{Topology: r.topology, Native: "v1alpha1"}
}

// build builds the gangs of an object.
func (r *run) build(u *unstructured.Unstructured) []*podgang.PodGangInfo {
	if u.GetKind() == "LeaderWorkerSet" {
		out, err := podgang.FromLeaderWorkerSet(u, "rev", nil)
		require.NoError(r, err)
		return out
	}
	out, err := podgang.FromPodGang(u)
	require.NoError(r, err)
	return []*podgang.PodGangInfo{out}
}

// write is what a backend makes of an object.
func (r *run) write(name string, u *unstructured.Unstructured) (out []*unstructured.Unstructured) {
	for _, info := range r.build(u) {
		objects, _, err := r.translator(name).Objects(info, r.cluster())
		require.NoError(r, err)
		for _, o := range objects {
			out = append(out, o.Unstructured)
		}
	}
	return out
}

// rulesOf are the rules of a PodGroup.
func rulesOf(t require.TestingT, u *unstructured.Unstructured) (out []object) {
	var spec struct {
		Rules []object `json:"gatherStrategy"`
	}
	value := u.GetAnnotations()[scheduling.AnnotationTopologySpec]
	require.NoError(t, json.Unmarshal([]byte(value), &spec), value)
	return spec.Rules
}

func groupsOf(t require.TestingT, list string) []string {
	out, err := scheduling.ParseGroups(list)
	require.NoError(t, err)
	return out
}

// leaderWorkerSet compares what is written for Koordinator with what the case wants.
func (r *run) leaderWorkerSet() {
	objects := r.write("koordinator", r.given())
	want := in(r.Then, "podGroups").([]any)
	require.Len(r, objects, len(want))
	spec := any(nil)
	for i := range want {
		w, u := want[i].(object), objects[i]
		if name, ok := w["name"].(string); ok {
			require.Equal(r, strings.ReplaceAll(name, "{rev}", "rev"), u.GetName())
		}
		require.Equal(r, w["minMember"], in(u.Object, "spec", "minMember"))
		if w["topologySpec"] != "same" {
			spec = w["topologySpec"]
		}
		if spec != nil {
			require.Equal(r, in(spec, "gatherStrategy"), anys(rulesOf(r, u)))
		}
		if annotations, ok := w["annotations"].(object); ok {
			requireWithin(r, annotations, in(u.Object, "metadata", "annotations"))
		}
	}
}

// admitted compares what admission says with what the case wants.
func (r *run) admitted(v podgang.Verdict) {
	want := in(r.Then, "admission").(object)
	require.Equal(r, want["allowed"], len(v.Errors) == 0, "%v", v.Errors)
	if words, ok := want["warningContains"].(string); ok {
		require.Contains(r, strings.Join(v.Warnings, "\n"), words)
	}
	if all, ok := want["messageContains"].([]any); ok {
		for _, words := range all {
			require.Contains(r, v.Errors.ToAggregate().Error(), words)
		}
	}
}

// validate asks the backend of each scheduler name.
func (r *run) validate(pcs, old *unstructured.Unstructured) (out podgang.Verdict) {
	registry := r.registry("", "koordinator", "podgang")
	for _, name := range podgang.SchedulerNames(pcs) {
		b, err := registry.For(name)
		require.NoError(r, err)
		out = out.And(b.Validate(pcs, old))
	}
	return out
}

func podGang(name string, spec object) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{
		"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": object{"name": name, "namespace": "default", "uid": "u1"},
		"spec": spec,
	}}
}

func group(name string, least int64) object {
	return object{"name": name, "minReplicas": least, "podReferences": []any{}}
}

func required(key string) object { return object{"packConstraint": object{"required": key}} }

// cliqueSet is a PodCliqueSet of one replica.
func cliqueSet(name, scheduler string, cliques map[string]int64) *unstructured.Unstructured {
	var list []any
	for _, c := range slices.Sorted(maps.Keys(cliques)) {
		list = append(list, object{"name": c, "spec": object{"replicas": cliques[c], "podSpec": object{"schedulerName": scheduler}}})
	}
	return &unstructured.Unstructured{Object: object{
		"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": object{"name": name, "namespace": "default", "uid": "u1"},
		"spec": object{"replicas": int64(1), "template": object{"cliques": list}},
	}}
}

// scalingGroup is the PodCliqueSet of S004-11, which selects a scheduler.
func (r *run) scalingGroup(scheduler string) *unstructured.Unstructured {
	pcs := cliqueSet("p", scheduler, map[string]int64{"w": 1})
	in(pcs.Object, "spec", "template").(object)["podCliqueScalingGroups"] = in(r.Given, "pcs", "podCliqueScalingGroups")
	return pcs
}

func (r *run) pod(gang, clique string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{"name": "p", "namespace": "default", "labels": object{workloads.LabelPodGang: gang, workloads.LabelPodClique: clique}},
		"spec":     object{"schedulingGates": []any{object{"name": podgang.GroveGate}}},
	}}
}

// grovesExample compares field by field with the example of GREP-537.
func (r *run) grovesExample() {
	objects := r.write("koordinator", r.given())
	want := in(r.Then, "podGroups").([]any)
	require.Len(r, objects, len(want))
	each := in(r.Then, "onEach").(object)
	for i, u := range objects {
		w := want[i].(object)
		require.Equal(r, "scheduling.sigs.k8s.io/v1alpha1", u.GetAPIVersion())
		require.Equal(r, w["name"], u.GetName())
		require.Equal(r, w["minMember"], in(u.Object, "spec", "minMember"))
		total, known := u.GetAnnotations()[scheduling.AnnotationTotalNumber]
		if w["totalNumber"] == "absent" {
			require.False(r, known)
		} else {
			require.Equal(r, w["totalNumber"], total)
		}
		requireWithin(r, each["labels"], in(u.Object, "metadata", "labels"))
		requireWithin(r, each["annotations"], in(u.Object, "metadata", "annotations"))
		requireWithin(r, each["ownerReferences"], in(u.Object, "metadata", "ownerReferences"))
		require.Equal(r, in(each, "spec", "scheduleTimeoutSeconds"), in(u.Object, "spec", "scheduleTimeoutSeconds"))
		require.Nil(r, in(u.Object, "spec", "minResources"))
	}
}

// preparePod: labels and scheduler name are set, once or twice, and nothing else.
func (r *run) preparePod() {
	k := r.translator("koordinator", "defaultQoSClass: "+in(r.Given, "config", "defaultQoSClass").(string))
	pod := r.pod("demo-0", "pworker")
	require.NoError(r, k.PreparePod(pod, podgang.PodKey{}, backend.Cluster{}))
	once := pod.DeepCopy()
	require.NoError(r, k.PreparePod(pod, podgang.PodKey{}, backend.Cluster{}))
	require.Equal(r, once, pod)
	require.Equal(r, in(r.Then, "schedulerName"), in(pod.Object, "spec", "schedulerName"))
	requireWithin(r, in(r.Then, "labels"), in(pod.Object, "metadata", "labels"))
	gates := in(pod.Object, "spec", "schedulingGates").([]any)
	require.Equal(r, in(r.Then, "gatesUntouched").([]any)[0], in(gates[0], "name"))
	require.Len(r, gates, 1)
	pod.SetLabels(map[string]string{workloads.LabelPodGang: "demo-0"})
	require.ErrorContains(r, k.PreparePod(pod, podgang.PodKey{}, backend.Cluster{}), workloads.LabelPodClique)
}

// jobSet is a JobSet of a driver, and of workers of 2 times 4.
func (r *run) jobSet(depends, exclusive bool) []*podgang.PodGangInfo {
	workers := object{
		"name": "workers", "replicas": int64(2), "template": object{"spec": object{"parallelism": int64(4), "completions": int64(4)}},
	}
	if depends {
		workers["dependsOn"] = []any{object{"name": "driver", "status": "Ready"}}
	}
	metadata := object{"name": "js", "namespace": "default"}
	if exclusive {
		metadata["annotations"] = object{"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
	}
	out, err := podgang.FromJobSet(&unstructured.Unstructured{Object: object{
		"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata,
		"spec": object{
			"replicatedJobs": []any{
				object{"name": "driver", "replicas": int64(1), "template": object{"spec": object{"parallelism": int64(1)}}}, workers,
			},
		},
	}}, nil)
	require.NoError(r, err)
	return out
}

// recorder is a backend that only notes what it is asked.
type recorder struct {
	backend.Backend
	calls []any
	gangs []string
}

func (b *recorder) Name() string                 { return "fake" }
func (b *recorder) Matches(string) backend.Match { return backend.Any }
func (b *recorder) Sync(_ context.Context, info *podgang.PodGangInfo) error {
	b.calls = append(b.calls, "Sync")
	b.gangs = []string{info.Name}
	return nil
}

func (b *recorder) Delete(context.Context, *podgang.PodGangInfo) error {
	b.calls = append(b.calls, "Delete")
	b.gangs = nil
	return nil
}

func (b *recorder) GetExistingGangNames(context.Context, string, podgang.Owner) ([]string, error) {
	return b.gangs, nil
}

// adapter: Sync on each reconcile, Delete on removal. That a second Sync writes nothing is shown with a real backend.
func (r *run) adapter() {
	fake := &recorder{}
	registry, err := backend.NewRegistry(fake)
	require.NoError(r, err)
	a := backend.Adapter{Registry: registry}
	info := r.build(podGang("t-0", object{"podgroups": []any{group("w", 1)}}))
	sync := func() {
		written, err := a.Sync(r.Context(), "default", info[0].Owner, info)
		require.NoError(r, err)
		require.Equal(r, info, written)
	}
	for range 2 {
		sync()
	}
	require.NoError(r, a.Delete(r.Context(), "default", info[0].Owner))
	require.Equal(r, in(r.Then, "calls"), fake.calls)

	c := newCluster(r.T)
	a = backend.Adapter{Registry: c.registry(r, "koordinator")}
	sync()
	c.writes = nil
	sync()
	require.EqualValues(r, in(r.Then, "apiWritesOnSecondSync"), len(c.writes))
}

// gangReady: a PodGroup is missing, then pods, then nothing.
func (r *run) gangReady() {
	c := newCluster(r.T)
	b, err := c.registry(r, "koordinator").For("koord-scheduler")
	require.NoError(r, err)
	info := r.build(podGang("t-0", object{"podgroups": []any{group("a", 1), group("b", 2)}}))[0]
	step := func(name string) {
		ready, gang, err := b.CheckGangReady(r.Context(), info)
		require.NoError(r, err)
		require.Equal(r, in(r.Then, name).([]any)[0], ready, name)
		require.Equal(r, "t-0", gang)
	}
	require.NoError(r, b.Sync(r.Context(), info))
	c.remove(r, "t-0-b")
	step("a")
	require.NoError(r, b.Sync(r.Context(), info))
	c.pod(r, "t-0", "a", "a-0")
	c.pod(r, "t-0", "b", "b-0")
	step("b")
	c.pod(r, "t-0", "b", "b-1")
	step("c")
}
