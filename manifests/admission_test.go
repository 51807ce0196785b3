package manifests_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/warning"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	internalv1 "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"
	admissionvalidation "k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

const domain = "gang.scheduling.koordinator.sh/"

// TestPoliciesAreLegal asks the API server's own code whether it would take the policies.
func TestPoliciesAreLegal(t *testing.T) {
	policies, bindings := readPolicies(t)
	require.Len(t, policies, 7)
	for i, p := range policies {
		var in admissionregistration.ValidatingAdmissionPolicy
		require.NoError(t, internalv1.Convert_v1_ValidatingAdmissionPolicy_To_admissionregistration_ValidatingAdmissionPolicy(p, &in, nil))
		require.Empty(t, admissionvalidation.ValidateValidatingAdmissionPolicy(&in))

		var binding admissionregistration.ValidatingAdmissionPolicyBinding
		convert := internalv1.Convert_v1_ValidatingAdmissionPolicyBinding_To_admissionregistration_ValidatingAdmissionPolicyBinding
		require.NoError(t, convert(bindings[i], &binding, nil))
		require.Empty(t, admissionvalidation.ValidateValidatingAdmissionPolicyBinding(&binding))
		require.Equal(t, p.Name, bindings[i].Spec.PolicyName)
		require.True(t, strings.HasPrefix(p.Name, "muster-"))
		require.Equal(t, admissionv1.Ignore, *p.Spec.FailurePolicy, "no rule may keep pods out because it is broken")
	}
}

// readPolicies reads admission/*.yaml, each a policy and its binding.
func readPolicies(t testing.TB) (
	policies []*admissionv1.ValidatingAdmissionPolicy, bindings []*admissionv1.ValidatingAdmissionPolicyBinding,
) {
	files, err := fs.Glob(manifests.Admission, "admission/*.yaml")
	require.NoError(t, err)
	for _, f := range files {
		data, err := manifests.Admission.ReadFile(f)
		require.NoError(t, err)
		docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		var p admissionv1.ValidatingAdmissionPolicy
		var b admissionv1.ValidatingAdmissionPolicyBinding
		for _, into := range []any{&p, &b} {
			doc, err := docs.Read()
			require.NoError(t, err)
			require.NoError(t, yaml.UnmarshalStrict(doc, into))
		}
		_, err = docs.Read()
		require.ErrorIs(t, err, io.EOF, path.Base(f))
		internalv1.SetObjectDefaults_ValidatingAdmissionPolicy(&p)
		internalv1.SetObjectDefaults_ValidatingAdmissionPolicyBinding(&b)
		policies, bindings = append(policies, &p), append(bindings, &b)
	}
	return policies, bindings
}

// door is the admission plugin of an API server, with cost limits and all.
type door struct {
	plugin  *validating.Plugin
	objects admission.ObjectInterfaces
}

// newDoor starts it in a cluster with these ClusterNetworkTopologies.
func newDoor(t testing.TB, topologies ...runtime.Object) *door {
	policies, bindings := readPolicies(t)
	objects := []runtime.Object{&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
	for i := range policies {
		objects = append(objects, policies[i], bindings[i])
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	gvk := koordinator.GroupVersion.WithKind("ClusterNetworkTopology")
	mapper.AddSpecific(gvk, koordinator.ClusterNetworkTopologies, koordinator.ClusterNetworkTopologies, meta.RESTScopeRoot)
	client := fake.NewClientset(objects...)
	dynamic := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{koordinator.ClusterNetworkTopologies: "ClusterNetworkTopologyList"}, topologies...)

	plugin, err := validating.NewPlugin(nil)
	require.NoError(t, err)
	factory := informers.NewSharedInformerFactory(client, 0)
	plugin.SetExternalKubeInformerFactory(factory)
	plugin.SetExternalKubeClientSet(client)
	plugin.SetRESTMapper(mapper)
	plugin.SetDynamicClient(dynamic)
	plugin.SetDrainedNotification(t.Context().Done())
	plugin.SetUnconditionalAuthorizer(authorizerfactory.NewAlwaysAllowAuthorizer())
	require.NoError(t, plugin.ValidateInitialization())
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	require.True(t, plugin.WaitForReady())
	return &door{plugin, admission.NewObjectInterfacesFromScheme(scheme.Scheme)}
}

// said is what the admission policies answer to a request; both fields are "" if a policy has no objection.
type said struct{ refused, warned string }

var binding = regexp.MustCompile(`^Validation failed for ValidatingAdmissionPolicy '\S+' with binding '\S+': `)

type recorder struct{ *said }

func (r recorder) AddWarning(_, text string) { r.warned += text }

// enter brings an object to the door. With old it is an update.
func (d *door) enter(obj, old runtime.Object) said {
	m, _ := meta.Accessor(obj)
	gvk := obj.GetObjectKind().GroupVersionKind()
	gvr := gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
	op := admission.Create
	if old != nil {
		op = admission.Update
	}
	var out said
	attr := admission.NewAttributesRecord(obj, old, gvk, m.GetNamespace(), m.GetName(), gvr, "", op, nil, false, &user.DefaultInfo{Name: "u"})
	err := d.plugin.Validate(warning.WithWarningRecorder(context.Background(), recorder{&out}), attr, d.objects)
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid {
			panic(err)
		}
		out.refused = err.Error()
		if _, text, ok := strings.Cut(out.refused, "denied request: "); ok {
			out.refused = text
		}
	}
	out.warned = binding.ReplaceAllString(out.warned, "")
	return out
}

// annotate makes the annotations of short keys and values in turn.
func annotate(keysAndValues ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(keysAndValues); i += 2 {
		out[domain+keysAndValues[i]] = keysAndValues[i+1]
	}
	return out
}

func podOf(schedulerName string, annotations map[string]string) *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Annotations: annotations},
		Spec:       v1.PodSpec{SchedulerName: schedulerName},
	}
}

// pod is one of ours.
func pod(keysAndValues ...string) *v1.Pod {
	return podOf(scheduling.SchedulerName, annotate(keysAndValues...))
}

// podGroup is a PodGroup of four.
func podGroup(gvr schema.GroupVersionResource, keysAndValues ...string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(4)}}}
	u.SetGroupVersionKind(gvr.GroupVersion().WithKind("PodGroup"))
	u.SetNamespace("default")
	u.SetName("g")
	u.SetAnnotations(annotate(keysAndValues...))
	return u
}

// parsers are the scheduler's, by the short key.
var parsers = map[string]func(string) error{
	"mode":                   func(v string) error { _, err := scheduling.ParseMode(v); return err },
	"match-policy":           func(v string) error { _, err := scheduling.ParseMatchPolicy(v); return err },
	"waiting-time":           func(v string) error { _, err := scheduling.ParseWaitingTime(v); return err },
	"min-available":          func(v string) error { _, err := scheduling.ParseMinAvailable(v); return err },
	"total-number":           func(v string) error { _, err := scheduling.ParseTotalNumber(v); return err },
	"network-topology-index": func(v string) error { _, err := scheduling.ParseTopologyIndex(v); return err },
	"groups":                 func(v string) error { _, err := scheduling.ParseGroups(v); return err },
	"network-topology-spec":  func(v string) error { _, err := scheduling.ParseGatherSpec(v); return err },
}

// inOneLine is a parser's error as a policy says it.
func inOneLine(parserError string) string {
	what, _, notJSON := strings.Cut(parserError, " is not JSON: ")
	if notJSON {
		return what + " is not JSON, or is nested too deep; supported values: an object with the fields gatherStrategy"
	}
	return strings.ReplaceAll(parserError, "\n", "; ")
}

// TestPolicySaysWhatParsersSay about the values of their own test, on pods and PodGroups.
func TestPolicySaysWhatParsersSay(t *testing.T) {
	d := newDoor(t)
	for key := range parsers {
		data, err := os.ReadFile("../pkg/apis/scheduling/testdata/annotations/" + key + ".yaml")
		require.NoError(t, err)
		var cases []struct {
			Value, Error string
			Policy       *string
		}
		require.NoError(t, yaml.UnmarshalStrict(data, &cases))
		for _, c := range cases {
			want := inOneLine(c.Error)
			if c.Policy != nil {
				want = *c.Policy
			}
			objects := []runtime.Object{pod(key, c.Value), podGroup(sigs.PodGroups, key, c.Value), podGroup(source.PodGroupsX, key, c.Value)}
			if want == "" && key == "total-number" {
				objects = objects[:1] // below minMember is another matter
			}
			for _, o := range objects {
				got := d.enter(o, nil)
				require.Equal(t, want, strings.ReplaceAll(got.refused, domain, ""), "%s: %q", key, c.Value)
			}
		}
	}
}

// TestFixturesPass: Koordinator's documents as they are.
func TestFixturesPass(t *testing.T) {
	d := newDoor(t)
	files, err := fs.Glob(examples.FS, "*pod*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 6)
	for _, f := range files {
		data, err := examples.FS.ReadFile(f)
		require.NoError(t, err)
		docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for doc, err := docs.Read(); err == nil; doc, err = docs.Read() {
			u := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal(doc, &u.Object))
			if u.GetKind() == "Pod" {
				require.Empty(t, d.enter(podOf(scheduling.SchedulerName, u.GetAnnotations()), nil), f)
				continue
			}
			require.Equal(t, "PodGroup", u.GetKind())
			require.Empty(t, d.enter(u, nil), f)
		}
	}
}

// TestPolicyAgreesWithParsers draws any values at all: the policy refuses what the
// scheduler refuses, and with its words.
func TestPolicyAgreesWithParsers(t *testing.T) {
	d := newDoor(t)
	draw := map[string]*rapid.Generator[string]{
		"mode":                   oneOf("Strict", "NonStrict", "strict", " ", "\n", "|"),
		"match-policy":           oneOf("only-waiting", "once-satisfied", "waiting-and-running", ",", "^"),
		"waiting-time":           oneOf("0", "1", "59", ".", "-", "+", "s", "ms", "µs", "μs", "h", " "),
		"min-available":          oneOf("0", "1", "9", "21474836", "-", "+", " ", "x"),
		"network-topology-index": oneOf("0", "1", "47", "-", "4836", ".", "_"),
		"groups":                 jsonText(groupsValue()),
		"network-topology-spec":  jsonText(specValue()),
	}
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(draw))).Draw(rt, "key")
		value := draw[key].Draw(rt, "value")
		err, got := parsers[key](value), d.enter(pod(key, value), nil).refused
		switch {
		case got == "" && strings.Contains(value, `\`): // is not read
		case (got == "") != (err == nil):
			rt.Fatalf("%s: %q\npolicy: %s\nparser: %v", key, value, got, err)
		case err == nil, strings.Contains(got, "nested too deep"), len(got) > 160: // cut elsewhere
		case !slices.Equal(eachError(withoutSuggestion(err.Error()), "\n"), eachError(got, "; ")):
			rt.Fatalf("%s: %q\npolicy: %s\nparser: %v", key, value, got, err)
		}
	})
}

// suggestion ends a message of the scheduler. A policy has none: CEL computes no distances of words.
var suggestion = regexp.MustCompile(`; did you mean [^;?]+\?`)

func withoutSuggestion(message string) string { return suggestion.ReplaceAllString(message, "") }

// eachError takes errors apart. The policy may say them in another order, and leaves out
// white space where a value should be no container but is.
func eachError(text, separator string) []string {
	errs := strings.Split(text, separator+domain)
	errs[0] = strings.TrimPrefix(errs[0], domain)
	for i, e := range errs {
		errs[i] = strings.Join(strings.Fields(e), "")
	}
	slices.Sort(errs)
	return errs
}

// oneOf draws a few of these in a row.
func oneOf(parts ...string) *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 4), func(p []string) string { return strings.Join(p, "") })
}

// groupsValue draws the tokens of a list that may be one of gangs.
func groupsValue() *rapid.Generator[[]string] {
	gang := rapid.SampledFrom([]string{
		`"a/b"`, `"a/c"`, `"default/g-0"`, `"a/ä[]{}"`, `"a"`, `"a/b/c"`, `"/"`, `""`, "null", "1", "{}", `"a/\n"`,
	})
	return rapid.Custom(func(rt *rapid.T) []string {
		return list("[", "]", rapid.SliceOfN(gang, 0, 4).Draw(rt, "gangs"))
	})
}

// specValue draws the tokens of an object that may be a network-topology-spec.
func specValue() *rapid.Generator[[]string] {
	anything := []string{"null", "0", "-1", "1.5", "1e2", "true", `""`, `"x"`, `"a{,}[]:b"`, "{}", "[]", "[1,{}]", `{"layer":"A"}`}
	legal := map[string][]string{
		`"layer"`: {`"A"`, `"B"`, `"C D"`}, `"strategy"`: {`"MustGather"`, `"PreferGather"`},
		`"podCountMultiple"`: {"1", "16", "null"}, `"scope"`: {`"PodGroup"`, `"GangGroup"`, "null"},
	}
	rarely := rapid.Map(rapid.IntRange(0, 15), func(n int) bool { return n == 15 })
	rule := rapid.Custom(func(rt *rapid.T) []string {
		if rarely.Draw(rt, "no object") {
			return []string{rapid.SampledFrom(anything).Draw(rt, "no rule")}
		}
		names := rapid.Permutation(slices.Sorted(maps.Keys(legal))).Draw(rt, "names")
		names = append(names[:rapid.SampledFrom([]int{4, 4, 4, 3, 2, 0}).Draw(rt, "fields")], names...)
		if !rarely.Draw(rt, "twice") {
			names = slices.Compact(slices.Sorted(slices.Values(names)))
			names = rapid.Permutation(names).Draw(rt, "order")[:rapid.SampledFrom([]int{4, 4, 4, 4, 3}).Draw(rt, "some")]
		}
		var fields []string
		for _, n := range names {
			values := legal[n]
			if rarely.Draw(rt, "any") {
				values = anything
			}
			if rarely.Draw(rt, "unknown") {
				n = rapid.SampledFrom([]string{`"Layer"`, `"x:{"`, `""`}).Draw(rt, "name")
			}
			fields = append(fields, n+":"+rapid.SampledFrom(values).Draw(rt, "value"))
		}
		return list("{", "}", fields)
	})
	return rapid.Custom(func(rt *rapid.T) []string {
		var rules []string
		for range rapid.IntRange(0, 3).Draw(rt, "rules") {
			rules = append(rules, strings.Join(rule.Draw(rt, "rule"), ""))
		}
		fields := []string{`"gatherStrategy":` + strings.Join(list("[", "]", rules), "")}
		for range rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2}).Draw(rt, "more") {
			name := rapid.SampledFrom([]string{`"gatherStrategy"`, `"a"`, `"b"`}).Draw(rt, "name")
			fields = append(fields, name+":"+rapid.SampledFrom(anything).Draw(rt, "value"))
		}
		return list("{", "}", rapid.Permutation(fields).Draw(rt, "order"))
	})
}

func list(begin, end string, elements []string) []string {
	return []string{begin, strings.Join(elements, ","), end}
}

var jsonToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[^"{}\[\],:]+|.`)

// jsonText writes a value with white space here and there, and sometimes spoils it.
func jsonText(value *rapid.Generator[[]string]) *rapid.Generator[string] {
	return rapid.Custom(func(rt *rapid.T) string {
		tokens := jsonToken.FindAllString(strings.Join(value.Draw(rt, "tokens"), ""), -1)
		if rapid.IntRange(0, 7).Draw(rt, "spoil") == 7 {
			i := rapid.IntRange(0, len(tokens)-1).Draw(rt, "where")
			with := rapid.SampledFrom([]string{
				"", "{", "}", "[", "]", ",", ":", `"`, `"x"`, "null", "01", "x", "\v", "\"\t\"", `"\x"`, `"\u00e"`, "{}{}",
			}).Draw(rt, "with")
			tokens = slices.Replace(tokens, i, i+rapid.IntRange(0, 1).Draw(rt, "instead"), with)
		}
		space := rapid.SampledFrom([]string{"", "", "", " ", "\n", "\t", "\r\n  "})
		var out strings.Builder
		for _, token := range tokens {
			out.WriteString(space.Draw(rt, "space") + token)
		}
		return out.String() + space.Draw(rt, "space")
	})
}

// TestPolicyLooksAtChanges: an object with an old invalid annotation can still be changed elsewhere.
func TestPolicyLooksAtChanges(t *testing.T) {
	d := newDoor(t)
	const mode = domain + `mode: "strict" is invalid; supported values: Strict, NonStrict`
	bad := pod("mode", "strict", "groups", "x")

	patched := bad.DeepCopy()
	patched.Finalizers, patched.Labels = []string{"a/b"}, map[string]string{"a": "b"}
	patched.Annotations["other"] = "x"
	require.Empty(t, d.enter(patched, bad))
	require.Empty(t, d.enter(pod("mode", "strict"), bad), "one is mended")
	require.Empty(t, d.enter(pod("mode", "strict", "network-topology-index", "1"), bad), "a good one is added")
	require.Empty(t, d.enter(podOf(scheduling.SchedulerName, nil), bad), "all are gone")
	require.Equal(t, mode, d.enter(bad, pod("mode", "Strict", "groups", "x")).refused)
	require.Equal(t, mode, d.enter(bad, pod("mode", "STRICT", "groups", "x")).refused)
	require.Contains(t, d.enter(bad, podOf(scheduling.SchedulerName, nil)).refused, mode)
	require.Contains(t, d.enter(bad, pod("name", "g")).refused, mode)

	group := podGroup(source.PodGroupsX, "mode", "strict", "total-number", "8")
	old := podGroup(source.PodGroupsX, "mode", "strict", "total-number", "8")
	require.NoError(t, unstructured.SetNestedField(group.Object, int64(9), "spec", "minMember"))
	require.Empty(t, d.enter(group, old))
}

// TestPolicyIgnoresOtherObjects: pods of other schedulers, other keys and other kinds pass.
func TestPolicyIgnoresOtherObjects(t *testing.T) {
	d := newDoor(t)
	bad := annotate("mode", "strict")
	require.Empty(t, d.enter(podOf("default-scheduler", bad), nil))
	require.Empty(t, d.enter(podOf("koord-scheduler", bad), nil), "the drop-in overlay adds it")
	require.Empty(t, d.enter(podOf(scheduling.SchedulerName, nil), nil))
	require.Empty(t, d.enter(podOf(scheduling.SchedulerName, map[string]string{"scheduling.koordinator.sh/mode": "x"}), nil))
	require.Empty(t, d.enter(pod("name", "g", "timeout", "true"), nil), "keys without rules")
	deployment := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
	deployment.SetAnnotations(bad)
	require.Empty(t, d.enter(deployment, nil))
	// Values without a meaning have no effect.
	labelled := podOf(scheduling.SchedulerName, nil)
	labelled.Labels = map[string]string{scheduling.LabelDisablePreemptible: "yes", scheduling.LabelQuotaPreemptible: "x"}
	require.Empty(t, d.enter(labelled, nil))
}

func TestTotalNumber(t *testing.T) {
	d := newDoor(t)
	below := func(value, least string) string {
		return domain + `total-number: "` + value + `" is invalid; supported values: at least min-available, ` + least
	}
	require.Equal(t, below("1", "2"), d.enter(pod("min-available", "2", "total-number", "1"), nil).refused)
	require.Empty(t, d.enter(pod("min-available", "2", "total-number", "2"), nil))
	require.Empty(t, d.enter(pod("total-number", "1"), nil))
	for _, bad := range []string{"", "0", "2147483648"} {
		require.Equal(t, domain+`min-available: "`+bad+`" is invalid; supported values: an integer ≥ 1`,
			d.enter(pod("min-available", bad, "total-number", "1"), nil).refused)
	}
	require.Equal(t, below("3", "4"), d.enter(podGroup(sigs.PodGroups, "total-number", "3"), nil).refused)
	require.Empty(t, d.enter(podGroup(sigs.PodGroups, "total-number", "4"), nil))
	noSpec := podGroup(sigs.PodGroups, "total-number", "1")
	delete(noSpec.Object, "spec")
	require.Empty(t, d.enter(noSpec, nil))
	require.Equal(t, below("1", "2"),
		d.enter(pod("min-available", "2", "total-number", "1"), pod("min-available", "1", "total-number", "1")).refused)
}

// TestPolicyReportsAllMistakes: one message lists all mistakes, in less than a KiB.
func TestPolicyReportsAllMistakes(t *testing.T) {
	d := newDoor(t)
	require.Equal(t, domain+`mode: "" is invalid; supported values: Strict, NonStrict; `+domain+`network-topology-index: "x" is invalid; supported values: an integer ≥ 0`,
		d.enter(pod("mode", "", "network-topology-index", "x"), nil).refused)
	long := d.enter(pod("network-topology-spec", `{"gatherStrategy":[`+strings.Repeat("{},", 99)+"7]}"), nil).refused
	require.True(t, strings.HasSuffix(long, "…"))
	require.Len(t, []rune(long), 1001)
	value := strings.Repeat("x", 500)
	require.EqualError(t, parsers["mode"](value), d.enter(pod("mode", value), nil).refused)
}

// TestPolicyHasTheBudget for the longest values that it looks at; longer ones it lets in.
func TestPolicyHasTheBudget(t *testing.T) {
	d := newDoor(t)
	rules, gangs := "", ""
	for i := range 90 {
		rules += fmt.Sprintf(`{"layer":"Layer%d","strategy":"MustGather","scope":"PodGroup","podCountMultiple":8},`, i)
	}
	for i := range 700 {
		gangs += fmt.Sprintf(`"ns/g%d",`, i)
	}
	groups := func(n int) string { return "[" + strings.Join(strings.Split(gangs, ",")[:n], ",") + "]" }
	require.Contains(t, d.enter(pod("network-topology-spec", `{"gatherStrategy":[`+rules+"7]}"), nil).refused,
		"gatherStrategy[90]: 7 is not an object")
	require.Contains(t, d.enter(pod("groups", `[`+gangs+`"ns/g650"]`), nil).refused,
		`groups[64]: "ns/g64" is invalid; supported values: at most 64 gangs`)
	require.Empty(t, d.enter(pod("groups", groups(64)), nil))
	_, err := scheduling.ParseGroups(groups(65))
	require.EqualError(t, err, d.enter(pod("groups", groups(65)), nil).refused)
	long := strings.Repeat("x", 200)
	require.Empty(t, d.enter(pod("groups", strings.ReplaceAll(groups(64), "ns/g", "ns/"+long)), nil))
	many := d.enter(pod("groups", strings.ReplaceAll(groups(700), "ns/g", "ns/"+long)), nil).refused
	require.Contains(t, many, "… is invalid; supported values: at most 64 gangs")
	for _, part := range []string{"{", "[{", "1,", "{},", `""`, "x"} {
		got := d.enter(pod("network-topology-spec", strings.Repeat(part, 8192/len(part))), nil).refused
		require.Contains(t, got, "is not JSON")
	}
	for key := range parsers {
		d.enter(pod(key, strings.Repeat("x", 200_000)), nil)
	}
	require.Empty(t, d.enter(pod("network-topology-spec", strings.Repeat("x", 8193)), nil))
	require.Empty(t, d.enter(pod("groups", strings.Repeat("x", 8193)), nil))
}

// TestLayerWarning: with the scheduler's words where there is a topology, silence elsewhere.
func TestLayerWarning(t *testing.T) {
	spec := func(layer string) string {
		return `{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}, {"strategy":"MustGather","layer" : "` + layer + `"}]}`
	}
	data, err := manifests.Topologies.ReadFile("topologies/topograph.yaml")
	require.NoError(t, err)
	topology := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(data, &topology.Object))
	gather, err := scheduling.ParseGatherSpec(spec("spineLayer"))
	require.NoError(t, err)
	want := withoutSuggestion(gather.CheckLayers([]string{"SpineLayer", "BlockLayer", "NodeTopologyLayer"}, "default").Error())

	d := newDoor(t, topology)
	bad := podGroup(sigs.PodGroups, "network-topology-spec", spec("spineLayer"))
	require.Equal(t, said{warned: want}, d.enter(bad, nil))
	require.Equal(t, said{warned: want}, d.enter(pod("network-topology-spec", spec("spineLayer")), nil))
	require.Empty(t, d.enter(bad, bad), "it was there before")
	for _, layer := range []string{"SpineLayer", "NodeTopologyLayer", "ClusterTopologyLayer"} {
		require.Empty(t, d.enter(podGroup(sigs.PodGroups, "network-topology-spec", spec(layer)), nil))
	}
	require.Empty(t, d.enter(podOf("default-scheduler", annotate("network-topology-spec", spec("x"))), nil))

	topology.SetName("other")
	require.Empty(t, newDoor(t, topology).enter(bad, nil))
	require.Empty(t, newDoor(t).enter(bad, nil))
}

// TestUnknownKeysWarn: with the scheduler's words, when they come (case 59).
func TestUnknownKeysWarn(t *testing.T) {
	d := newDoor(t)
	specs := podGroup(sigs.PodGroups, "network-topology-specs", "{}")
	const want = domain + "network-topology-specs: unknown; did you mean network-topology-spec?"
	require.Equal(t, said{warned: want}, d.enter(specs, nil))
	require.Equal(t, said{warned: want}, d.enter(pod("network-topology-specs", "{}"), nil))
	require.Equal(t, said{warned: want},
		d.enter(podGroup(source.PodGroupsX, "network-topology-specs", "{}"), podGroup(source.PodGroupsX, "mode", "Strict")))
	require.Empty(t, d.enter(podGroup(sigs.PodGroups, "network-topology-specs", "[]"), specs), "it was there before")
	require.Empty(t, d.enter(podOf("default-scheduler", annotate("network-topology-specs", "{}")), nil))

	labelled := pod()
	labelled.Labels = map[string]string{domain + "name": "g"}
	require.Equal(t, said{warned: "label " + domain + "name: unknown; did you mean annotation name?"}, d.enter(labelled, nil))
	require.Empty(t, d.enter(labelled, labelled), "it was there before")
	labelled.Annotations = annotate("name", "g")
	require.Empty(t, d.enter(labelled, nil), "to be looked for")

	many := pod()
	for i := range 40 {
		many.Annotations[fmt.Sprint(domain, strings.Repeat("network-topology-spec", 2), i)] = "x"
	}
	require.Len(t, []rune(d.enter(many, nil).warned), 1001)
}

// TestPolicyKnowsTheSameKeys draws any names at all: the policy says what the scheduler says.
func TestPolicyKnowsTheSameKeys(t *testing.T) {
	d := newDoor(t)
	name := oneOf("name", "min", "-", "available", "match", "policy", "network", "topology", "spec", "index", "s", "_", "timeout", "mode", "X")
	rapid.Check(t, func(rt *rapid.T) {
		keys := func(what string) map[string]string {
			out := map[string]string{}
			for _, n := range rapid.SliceOfN(name, 0, 3).Draw(rt, what) {
				out[domain+n] = "1"
			}
			return out
		}
		p := podOf(scheduling.SchedulerName, keys("annotations"))
		p.Labels = keys("labels")
		want := strings.Join(scheduling.Unknown(p.Annotations, p.Labels), "; ")
		if len(want) > 1000 {
			want = want[:1000] + "…"
		}
		require.Equal(rt, want, d.enter(p, nil).warned)
	})
}
