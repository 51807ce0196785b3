// Package arch keeps the arrows of docs/contributing/architecture.md true. Nothing is allowed that
// is not written here: a package that is not listed may not exist.
package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const (
	module = "github.com/muster-scheduler/muster/"
	root   = "../.."
)

// core lists the packages that only compute: values in, values out.
var core = []string{
	"pkg/topology", "pkg/offer", "pkg/choice", "pkg/bundle", "pkg/plan", "pkg/mixed", "pkg/evict", "pkg/gang", "pkg/device", "pkg/quota",
	"pkg/picture",
}

// std is the standard library of the core: no locks, logs, files, network or chance.
// Only the gang book gets the time as an argument; see clocks.
var std = []string{
	"cmp", "container/heap", "errors", "fmt", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings",
}

// besides holds what single packages of the core may import as well.
var besides = map[string][]string{
	"pkg/gang": {"time"},
}

// clocks are the functions of package time that read a clock or wait for one.
var clocks = []string{
	"Now", "Since", "Until", "After", "AfterFunc", "Tick", "Sleep", "NewTimer", "NewTicker",
}

// arrows lists what each of our packages imports of ours: no more and no less. A change that adds or removes an import
// changes the line; the test prints the new line.
var arrows = map[string][]string{
	"pkg/topology": {},
	"pkg/offer":    {"pkg/topology"},
	"pkg/choice":   {},
	"pkg/device":   {},
	"pkg/quota":    {},
	"pkg/plan":     {"pkg/offer", "pkg/topology"},
	"pkg/mixed":    {"pkg/choice", "pkg/offer", "pkg/plan", "pkg/topology"},
	"pkg/bundle":   {"pkg/choice"},
	"pkg/evict":    {"pkg/bundle", "pkg/offer", "pkg/plan", "pkg/topology"},
	"pkg/gang":     {"pkg/choice"},
	"pkg/picture":  {"pkg/offer", "pkg/topology"},

	"pkg/apis/config":                          {"pkg/apis/document", "pkg/apis/internal/strictjson", "pkg/apis/scheduling"},
	"pkg/apis/document":                        {},
	"pkg/apis/internal/strictjson":             {},
	"pkg/apis/reasons":                         {},
	"pkg/apis/scheduling":                      {"pkg/apis/internal/strictjson"},
	"pkg/apis/scheduling/koordinator/v1alpha1": {"pkg/apis/scheduling"},
	"pkg/apis/scheduling/sigs/v1alpha1":        {"pkg/apis/scheduling"},
	"pkg/apis/workloads":                       {},

	"pkg/kube/cache": {
		"pkg/apis/reasons",
		"pkg/apis/scheduling", "pkg/apis/scheduling/koordinator/v1alpha1", "pkg/apis/scheduling/sigs/v1alpha1", "pkg/choice", "pkg/gang",
		"pkg/kube/convert", "pkg/kube/group", "pkg/kube/lineage", "pkg/kube/maintenance", "pkg/kube/network", "pkg/kube/note", "pkg/kube/source", "pkg/kube/watch", "pkg/topology",
	},
	"pkg/kube/lineage":     {"pkg/gang", "pkg/kube/source"},
	"pkg/kube/maintenance": {"pkg/apis/scheduling"},
	"pkg/kube/note": {
		"pkg/apis/reasons", "pkg/apis/scheduling", "pkg/kube/convert", "pkg/kube/group", "pkg/kube/maintenance", "pkg/kube/source",
	},
	"pkg/kube/watch":   {},
	"pkg/kube/group":   {"pkg/apis/scheduling", "pkg/choice", "pkg/gang", "pkg/kube/convert", "pkg/kube/source", "pkg/topology"},
	"pkg/kube/network": {"pkg/apis/scheduling", "pkg/apis/scheduling/koordinator/v1alpha1", "pkg/kube/convert", "pkg/topology"},
	"pkg/kube/convert": {
		"pkg/apis/scheduling", "pkg/apis/scheduling/koordinator/v1alpha1", "pkg/apis/workloads", "pkg/device", "pkg/gang", "pkg/mixed",
		"pkg/offer", "pkg/plan",
		"pkg/quota", "pkg/topology",
	},
	"pkg/kube/allot":  {"pkg/apis/scheduling"},
	"pkg/kube/fit":    {"pkg/kube/memo", "pkg/offer"},
	"pkg/kube/ledger": {"pkg/kube/convert", "pkg/kube/fit"},
	"pkg/kube/deviceshare": {
		"pkg/apis/config", "pkg/device", "pkg/kube/cache", "pkg/kube/convert", "pkg/kube/fit", "pkg/kube/memo", "pkg/kube/watch",
	},
	"pkg/kube/elasticquota": {
		"pkg/apis/reasons",
		"pkg/apis/config", "pkg/apis/scheduling", "pkg/gang", "pkg/kube/cache", "pkg/kube/convert", "pkg/kube/deviceclass", "pkg/kube/fit",
		"pkg/kube/source", "pkg/kube/watch", "pkg/quota",
	},
	"pkg/kube/deviceclass": {"pkg/kube/convert"},
	"pkg/kube/pace":        {"pkg/apis/config"},
	"pkg/kube/plugin": {
		"pkg/apis/reasons",
		"pkg/apis/config", "pkg/apis/scheduling", "pkg/gang", "pkg/kube/allot", "pkg/kube/attract", "pkg/kube/cache", "pkg/kube/convert", "pkg/kube/departure", "pkg/kube/deviceshare",
		"pkg/kube/elasticquota", "pkg/kube/fit",
		"pkg/kube/group", "pkg/kube/maintenance", "pkg/kube/memo", "pkg/kube/place", "pkg/kube/preempt", "pkg/kube/source", "pkg/kube/spare", "pkg/kube/status", "pkg/kube/wake",
	},
	"pkg/kube/family": {"pkg/apis/config", "pkg/kube/deviceshare", "pkg/kube/elasticquota", "pkg/kube/ledger", "pkg/kube/plugin"},
	"pkg/kube/reload": {"pkg/apis/config", "pkg/apis/reasons"},
	"pkg/kube/simulate": {
		"pkg/apis/reasons",
		"manifests", "pkg/apis/config", "pkg/apis/scheduling", "pkg/apis/scheduling/koordinator/v1alpha1", "pkg/apis/workloads",
		"pkg/gang", "pkg/kube/cache", "pkg/kube/connect", "pkg/kube/convert", "pkg/kube/elasticquota", "pkg/kube/family", "pkg/kube/memo",
		"pkg/kube/pace", "pkg/kube/plugin", "pkg/kube/preempt",
		"pkg/kube/source", "pkg/kube/status", "pkg/kube/workload", "pkg/topology",
	},
	"pkg/kube/status": {
		"pkg/apis/reasons",
		"pkg/apis/scheduling", "pkg/apis/scheduling/koordinator/v1alpha1", "pkg/apis/scheduling/sigs/v1alpha1", "pkg/evict", "pkg/gang",
		"pkg/kube/cache", "pkg/kube/cause", "pkg/kube/convert", "pkg/kube/eligible", "pkg/kube/maintenance", "pkg/kube/place", "pkg/kube/source", "pkg/plan", "pkg/topology",
	},

	"pkg/kube/connect": {
		"pkg/apis/config", "pkg/apis/scheduling/koordinator/v1alpha1", "pkg/kube/cache", "pkg/kube/convert", "pkg/kube/memo",
		"pkg/kube/source", "pkg/kube/watch",
	},
	"pkg/kube/attract": {"pkg/kube/convert", "pkg/offer", "pkg/topology"},
	"pkg/kube/cause":   {"pkg/gang", "pkg/kube/convert", "pkg/kube/group", "pkg/mixed", "pkg/offer", "pkg/plan", "pkg/topology"},
	"pkg/kube/spare":   {"pkg/apis/config", "pkg/kube/convert", "pkg/topology"},
	"pkg/kube/place": {
		"pkg/apis/config", "pkg/apis/scheduling", "pkg/choice", "pkg/gang", "pkg/kube/attract", "pkg/kube/cache", "pkg/kube/cause", "pkg/kube/convert", "pkg/kube/eligible", "pkg/kube/fit", "pkg/kube/group",
		"pkg/kube/maintenance", "pkg/kube/memo", "pkg/kube/source", "pkg/kube/spare", "pkg/mixed", "pkg/offer", "pkg/plan", "pkg/topology",
	},
	"pkg/kube/eligible": {"pkg/bundle", "pkg/gang", "pkg/kube/cache", "pkg/kube/convert", "pkg/kube/source", "pkg/quota", "pkg/topology"},
	"pkg/kube/departure": {
		"pkg/apis/reasons", "pkg/apis/scheduling",
		"pkg/apis/config", "pkg/gang", "pkg/kube/cache", "pkg/kube/convert", "pkg/kube/eligible", "pkg/kube/place", "pkg/kube/source",
		"pkg/kube/status", "pkg/quota", "pkg/topology",
	},
	"pkg/kube/preempt": {
		"pkg/apis/reasons",
		"pkg/bundle", "pkg/evict", "pkg/gang", "pkg/kube/cache", "pkg/kube/convert", "pkg/kube/departure", "pkg/kube/eligible", "pkg/kube/memo",
		"pkg/kube/group", "pkg/kube/place",
		"pkg/kube/source", "pkg/kube/status", "pkg/mixed", "pkg/offer", "pkg/plan", "pkg/quota", "pkg/topology",
	},
	"pkg/kube/source": {
		"pkg/apis/reasons",
		"pkg/apis/scheduling", "pkg/apis/scheduling/sigs/v1alpha1", "pkg/apis/workloads", "pkg/choice", "pkg/gang", "pkg/kube/convert",
		"pkg/topology",
	},
	"pkg/kube/ask": {
		"pkg/apis/reasons", "pkg/apis/scheduling",
		"pkg/apis/scheduling/koordinator/v1alpha1", "pkg/gang", "pkg/kube/cache", "pkg/kube/connect", "pkg/kube/convert", "pkg/kube/elasticquota",
		"pkg/kube/eligible", "pkg/kube/fit", "pkg/kube/place", "pkg/kube/plugin", "pkg/kube/preempt",
		"pkg/kube/simulate", "pkg/kube/source", "pkg/kube/status", "pkg/offer", "pkg/picture", "pkg/topology",
	},
	"pkg/kube/survey":   {"pkg/gang", "pkg/kube/cache", "pkg/kube/connect", "pkg/kube/source"},
	"pkg/kube/backend":  {"pkg/apis/document", "pkg/apis/reasons", "pkg/apis/scheduling", "pkg/apis/workloads", "pkg/podgang"},
	"pkg/kube/memo":     {},
	"pkg/kube/wake":     {"pkg/gang", "pkg/topology"},
	"pkg/kube/workload": {"pkg/apis/workloads"},
	"pkg/localcluster":  {},
	"pkg/page":          {},
	"pkg/podgang":       {"pkg/apis/reasons", "pkg/apis/scheduling", "pkg/apis/scheduling/koordinator/v1alpha1", "pkg/apis/workloads"},
	"pkg/version":       {},
	"pkg/cli": {
		"manifests", "pkg/apis/scheduling", "pkg/demo", "pkg/kube/ask", "pkg/kube/connect", "pkg/kube/elasticquota", "pkg/kube/simulate",
		"pkg/kube/status", "pkg/kube/survey", "pkg/localcluster", "pkg/page", "pkg/topology", "pkg/version",
	},
	"pkg/demo": {
		"pkg/apis/reasons",
		"docs/examples", "manifests", "pkg/apis/scheduling", "pkg/apis/scheduling/koordinator/v1alpha1", "pkg/device", "pkg/kube/convert",
		"pkg/kube/simulate", "pkg/localcluster", "pkg/offer", "pkg/picture", "pkg/topology",
	},

	"pkg/kube/admit":      {"pkg/kube/backend", "pkg/podgang"},
	"pkg/kube/controller": {"pkg/apis/reasons", "pkg/apis/workloads", "pkg/kube/backend", "pkg/kube/memo", "pkg/podgang"},
	"pkg/kube/translate":  {"pkg/kube/admit", "pkg/kube/backend", "pkg/kube/controller", "pkg/podgang", "pkg/version"},

	"pkg/kube/command": {
		"pkg/apis/config", "pkg/apis/reasons", "pkg/apis/scheduling", "pkg/kube/connect", "pkg/kube/family", "pkg/kube/pace", "pkg/kube/plugin",
		"pkg/kube/reload", "pkg/version",
	},

	"cmd/muster-controller": {"pkg/kube/translate"},
	"cmd/muster-scheduler":  {"pkg/kube/command"},
	"cmd/musterctl":         {"pkg/cli"},
}

// kubernetes lists the packages that may import Kubernetes. Other packages at the edge may import anything else.
var kubernetes = []string{"pkg/apis/...", "pkg/kube/...", "pkg/podgang", "pkg/localcluster", "pkg/demo", "pkg/cli"}

// TestArrows: the imports between our packages are exactly the ones in the list.
func TestArrows(t *testing.T) {
	drawn := map[string]map[string]bool{} // by package and what it imports
	files := 0
	eachFile(t, func(pkg, file string, f *ast.File) {
		files++
		if drawn[pkg] == nil {
			drawn[pkg] = map[string]bool{}
		}
		for _, imp := range imports(t, f) {
			if ours, isOurs := strings.CutPrefix(imp, module); isOurs {
				drawn[pkg][ours] = true
			}
		}
	})
	if files < 20 {
		t.Fatalf("only %d files were looked at", files)
	}
	for _, wrong := range compare(arrows, drawn) {
		t.Error(wrong)
	}
}

// compare returns the differences between two lists of arrows: the documented ones and the ones in the source.
func compare(listed map[string][]string, drawn map[string]map[string]bool) (wrong []string) {
	for _, pkg := range slices.Sorted(maps.Keys(listed)) {
		if drawn[pkg] == nil {
			wrong = append(wrong, fmt.Sprintf("%s is listed, and there is no such package", pkg))
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(drawn)) {
		is := slices.Sorted(maps.Keys(drawn[pkg]))
		was, known := listed[pkg]
		if known && slices.Equal(is, slices.Sorted(slices.Values(was))) {
			continue
		}
		line := fmt.Sprintf("%q: {}", pkg)
		if len(is) > 0 {
			line = fmt.Sprintf("%q: {\"%s\"}", pkg, strings.Join(is, `", "`))
		}
		wrong = append(wrong, fmt.Sprintf("the list says %s imports %q; what is drawn would read\n\t%s,", pkg, was, line))
	}
	return wrong
}

// TestImports: a package imports only what its list permits, and the core imports only the core.
func TestImports(t *testing.T) {
	eachFile(t, func(pkg, file string, f *ast.File) {
		for _, imp := range imports(t, f) {
			if why := refuse(pkg, imp); why != "" {
				t.Errorf("%s imports %s: %s", file, imp, why)
			}
		}
	})
}

func imports(t *testing.T, f *ast.File) (all []string) {
	t.Helper()
	for _, spec := range f.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, imp)
	}
	return all
}

// refuse says why a package may not import something, whatever the list of arrows says; ""
// if it may.
func refuse(pkg, imp string) string {
	pure := slices.Contains(core, pkg)
	ours, isOurs := strings.CutPrefix(imp, module)
	switch {
	case isOurs && pure && !slices.Contains(core, ours):
		return "the core knows the core only"
	case isOurs:
		return ""
	case imp == "testing":
		return "tests stay in test files"
	case pure && !slices.Contains(std, imp) && !slices.Contains(besides[pkg], imp):
		return "the core only computes"
	case isKubernetes(imp) && !matches(pkg, kubernetes):
		return "it knows no Kubernetes"
	}
	return ""
}

func isKubernetes(imp string) bool {
	host, _, _ := strings.Cut(imp, "/")
	return host == "k8s.io" || host == "sigs.k8s.io"
}

// TestPicture: the picture in docs/contributing/architecture.md names every package, and none that does
// not exist.
func TestPicture(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/contributing/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n```\n")
	picture, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		t.Fatal("docs/contributing/architecture.md has no picture")
	}
	for _, wrong := range unnamed(picture, slices.Collect(maps.Keys(arrows))) {
		t.Error(wrong)
	}
}

// unnamed says which packages a picture does not name, and which names in it are of no
// package. A package is named by its path without pkg/.
func unnamed(picture string, packages []string) (wrong []string) {
	words := map[string]bool{}
	for _, word := range strings.FieldsFunc(picture,
		func(r rune) bool { return r != '/' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		words[strings.Trim(word, "/")] = true // what ends or begins with a stroke is drawn
	}
	short := map[string]bool{}
	for _, pkg := range slices.Sorted(slices.Values(packages)) {
		name := strings.TrimPrefix(pkg, "pkg/")
		short[name] = true
		if !words[name] {
			wrong = append(wrong, fmt.Sprintf("the picture does not name %s", name))
		}
	}
	for _, word := range slices.Sorted(maps.Keys(words)) {
		if strings.Contains(word, "/") && !short[word] {
			wrong = append(wrong, fmt.Sprintf("the picture names %s, which is no package", word))
		}
	}
	return wrong
}

// matches says whether a name is in a list, where x/... is everything below x.
func matches(name string, rules []string) bool {
	return slices.ContainsFunc(rules, func(rule string) bool {
		below, all := strings.CutSuffix(rule, "...")
		return name == rule || all && strings.HasPrefix(name, below)
	})
}

// TestCoreOnlyComputes: no goroutine, channel or clock in the core.
func TestCoreOnlyComputes(t *testing.T) {
	eachFile(t, func(pkg, file string, f *ast.File) {
		if !slices.Contains(core, pkg) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
				t.Errorf("%s starts a goroutine or uses a channel", file)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
					t.Errorf("%s reads a clock: time.%s", file, n.Sel.Name)
				}
			}
			return true
		})
	})
}

// polls are the tests that look again and again, in real time, whether something has come
// true, and sleep between two looks.
var polls = []string{}

// TestTestsDoNotSleep: a test waits for the state that it wants to see, or has a clock of its own. Only a bubble of
// testing/synctest may sleep. Tests from outside the process, in test/e2e, have their own rules.
func TestTestsDoNotSleep(t *testing.T) {
	sleeps := map[string]bool{}
	walk(t, []string{"pkg", "cmd", "test", "manifests"}, isTest, func(_, file string, f *ast.File) {
		if strings.HasPrefix(file, "test/e2e/") || slices.Contains(imports(t, f), "testing/synctest") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					sleeps[file] = true
				}
			}
			return true
		})
	})
	if is := slices.Sorted(maps.Keys(sleeps)); !slices.Equal(is, polls) {
		t.Errorf("these sleep in real time: %q; those that may, for they poll: %q", is, polls)
	}
}

// TestSeeds: random tests draw the same worlds in every run (test/seed). A failure that an earlier run has stored cannot
// fail the next run.
func TestSeeds(t *testing.T) {
	draws, seeded := map[string]bool{}, map[string]bool{}
	walk(t, []string{"pkg", "cmd", "test", "manifests"}, isTest, func(pkg, _ string, f *ast.File) {
		all := imports(t, f)
		draws[pkg] = draws[pkg] || slices.Contains(all, "pgregory.net/rapid")
		seeded[pkg] = seeded[pkg] || slices.Contains(all, "github.com/muster-scheduler/muster/test/seed")
	})
	for _, pkg := range slices.Sorted(maps.Keys(draws)) {
		if draws[pkg] && !seeded[pkg] {
			t.Errorf("the random tests of %s draw other worlds in every run: let one of its test files import test/seed", pkg)
		}
	}
}

// eachFile parses every Go file below pkg and cmd that is not a test.
func eachFile(t *testing.T, see func(pkg, file string, f *ast.File)) {
	walk(t, []string{"pkg", "cmd"}, func(name string) bool { return !isTest(name) }, see)
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// walk parses the Go files below some folders that are wanted.
func walk(t *testing.T, tops []string, want func(name string) bool, see func(pkg, file string, f *ast.File)) {
	for _, top := range tops {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || !want(file) {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			rel = filepath.ToSlash(rel)
			see(path.Dir(rel), rel, f)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRulesFindViolations: each rule finds a violation of it.
func TestRulesFindViolations(t *testing.T) {
	for _, c := range []struct {
		pkg, imp string
		refused  bool
	}{
		{"pkg/plan", module + "pkg/offer", false},
		{"pkg/plan", module + "pkg/kube/convert", true},
		{"pkg/gang", module + "pkg/apis/scheduling", true},
		{"pkg/picture", module + "test/worlds", true},
		{"pkg/topology", "slices", false},
		{"pkg/evict", "k8s.io/api/core/v1", true},
		{"pkg/plan", "sync", true},
		{"pkg/plan", "log", true},
		{"pkg/picture", "os", true},
		{"pkg/plan", "time", true},
		{"pkg/gang", "time", false},
		{"pkg/plan", "github.com/stretchr/testify/require", true},
		{"pkg/kube/fit", "k8s.io/api/core/v1", false},
		{"cmd/musterctl", "k8s.io/klog/v2", true},
		{"cmd/muster-scheduler", "k8s.io/klog/v2", true},
		{"pkg/kube/plugin", "testing", true},
	} {
		if why := refuse(c.pkg, c.imp); (why != "") != c.refused {
			t.Errorf("%s imports %s: %q", c.pkg, c.imp, why)
		}
	}
}

// TestCompare: an arrow too many is found, and one too few, and a package too many, and one
// too few.
func TestCompare(t *testing.T) {
	listed := map[string][]string{"a": {"c", "b"}, "b": {"c"}, "c": {}, "gone": {}}
	drawn := map[string]map[string]bool{"a": {"b": true, "c": true}, "b": {}, "c": {"new": true}, "new": {"a": true}}
	want := []string{
		`gone is listed, and there is no such package`,
		"the list says b imports [\"c\"]; what is drawn would read\n\t\"b\": {},",
		"the list says c imports []; what is drawn would read\n\t\"c\": {\"new\"},",
		"the list says new imports []; what is drawn would read\n\t\"new\": {\"a\"},",
	}
	if got := compare(listed, drawn); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// TestUnnamed: a package that the picture leaves out is found, and a name of none.
func TestUnnamed(t *testing.T) {
	want := []string{"the picture does not name plan", "the picture names kube/gone, which is no package"}
	if got := unnamed("kube/fit -> offer\n |\n kube/gone (planned)",
		[]string{"pkg/kube/fit", "pkg/offer", "pkg/plan"}); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
