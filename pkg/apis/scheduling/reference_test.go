package scheduling_test

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// TestEveryKeyIsInTheReference: each constant for an annotation or a label is a key of the
// reference, which has no others and leaves nothing out.
func TestEveryKeyIsInTheReference(t *testing.T) {
	constants := map[string]string{}
	file, err := goparser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		name := spec.Names[0].Name
		kind := strings.HasPrefix(name, "Label")
		if kind || strings.HasPrefix(name, "Annotation") {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			constants[key(value, kind)] = name
		}
		return true
	})
	require.Greater(t, len(constants), 20)
	for _, chapter := range scheduling.Keys() {
		for _, k := range chapter.Keys {
			require.Contains(t, constants, key(k.Name, k.Label), "listed, and no constant")
			delete(constants, key(k.Name, k.Label))
			for what, text := range map[string]string{
				"on": k.On, "meaning": k.Meaning, "legal": k.Legal, "default": k.Default, "example": k.Example,
			} {
				require.NotEmpty(t, text, "%s has no %s", k.Name, what)
			}
		}
	}
	require.Empty(t, constants, "these are not in the reference")
}

func key(name string, label bool) string { return name + " " + strconv.FormatBool(label) }

// TestExamplesAreValid: the parsers accept the examples of the reference. A value with rules has a parser.
func TestExamplesAreValid(t *testing.T) {
	for _, chapter := range scheduling.Keys() {
		for _, k := range chapter.Keys {
			if k.Check == nil {
				require.Regexp(t, "name|any|no effect", k.Legal, "%s: it has no check", k.Name)
				continue
			}
			require.NoError(t, k.Check(k.Example), k.Name)
			require.Error(t, k.Check(k.Example+"!"), k.Name)
		}
	}
}

// TestUnknown: unknown keys of Muster's domain are reported with suggestions (case 59). Known keys and keys of other
// domains are not reported.
func TestUnknown(t *testing.T) {
	const domain = scheduling.GangDomain
	const all = "supported values: annotations name, min-available, total-number, waiting-time, mode, match-policy, groups, " +
		"network-topology-spec, network-topology-index"
	for key, want := range map[string]string{
		"network-topology-specs":  "did you mean network-topology-spec?",
		"network-topolgy-index":   "did you mean network-topology-index?",
		"network_topology_spec":   "did you mean network-topology-spec?",
		"topology-spec":           "did you mean network-topology-spec?",
		"matchpolicy":             "did you mean match-policy?",
		"Mode":                    "did you mean mode?",
		"group":                   "did you mean groups?",
		"min-avail":               "did you mean min-available?",
		"minMember":               all,
		"":                        all,
		"waiting-time ":           "did you mean waiting-time?",
		"network-topology-spec/x": "did you mean network-topology-spec?",
	} {
		require.Equal(t, []string{domain + key + ": unknown; " + want}, scheduling.Unknown(map[string]string{domain + key: "x"}, nil), key)
	}
	known := map[string]string{
		domain + "timeout": "true", "scheduling.koordinator.sh/mode": "x", "gang.scheduling.koordinator.sh": "x",
		"pod-group.scheduling.sigs.k8s.io/total": "3",
	}
	for _, chapter := range scheduling.Keys() {
		for _, k := range chapter.Keys {
			known[k.Name] = k.Example
		}
	}
	require.Empty(t, scheduling.Unknown(known, nil))
	require.Empty(t, scheduling.Unknown(known, known), "labels to look for")
	require.Equal(t, []string{
		domain + "b: unknown; " + all, domain + "modes: unknown; did you mean mode?", "label " + domain +
			"name: unknown; did you mean annotation name?",
	}, scheduling.Unknown(map[string]string{domain + "modes": "x", domain + "b": "x"},
		map[string]string{domain + "name": "g", "app": "a", domain + "timeout": "x"}))
	require.Equal(t, []string{"muster.sh/max-run-time: unknown; did you mean muster.sh/max-runtime?"},
		scheduling.Unknown(map[string]string{"muster.sh/max-run-time": "4h", "muster.sh/podgang": "a", "muster.sh/owner": "b"}, nil))
	require.Zero(t, testing.AllocsPerRun(100, func() { scheduling.Unknown(known, known) }), "most keys are known")
}
