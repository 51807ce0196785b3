// Package arch keeps the arrows of docs/architecture.md true. Nothing is allowed that
// is not written here: a package that is not listed may not exist.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/muster-scheduler/muster/"
	root   = "../.."
)

// core lists the packages that only compute: values in, values out.
var core = []string{
	"pkg/topology", "pkg/offer", "pkg/plan", "pkg/evict", "pkg/gang", "pkg/picture",
}

// std is the standard library of the core: no locks, logs, files, network or chance.
// Only the gang book is told what time it is; see clocks.
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

// may says which of our packages each of our packages may import.
var may = map[string][]string{
	"pkg/topology": {},
	"pkg/offer":    {"pkg/topology"},
	"pkg/plan":     {"pkg/topology", "pkg/offer"},
	"pkg/evict":    {"pkg/topology", "pkg/offer", "pkg/plan"},
	"pkg/gang":     {},
	"pkg/picture":  {"pkg/topology", "pkg/offer", "pkg/plan", "pkg/evict", "pkg/gang"},

	"pkg/apis/config":                          {"pkg/apis/..."},
	"pkg/apis/internal/strictjson":             {},
	"pkg/apis/scheduling":                      {"pkg/apis/..."},
	"pkg/apis/scheduling/koordinator/v1alpha1": {"pkg/apis/..."},
	"pkg/apis/scheduling/sigs/v1alpha1":        {"pkg/apis/..."},
	"pkg/apis/scheduling/x/v1alpha1":           {"pkg/apis/..."},

	"pkg/kube/convert": {"pkg/apis/...", "pkg/topology", "pkg/offer", "pkg/plan", "pkg/evict", "pkg/gang"},
	"pkg/kube/fit":     {"pkg/kube/convert", "pkg/topology", "pkg/offer", "pkg/plan", "pkg/evict"},
	"pkg/kube/status":  {"pkg/kube/convert", "pkg/apis/...", "pkg/topology", "pkg/offer", "pkg/plan", "pkg/evict", "pkg/gang"},
	"pkg/kube/cache":   {"pkg/kube/convert", "pkg/kube/status", "pkg/apis/...", "pkg/topology", "pkg/gang"},
	"pkg/kube/plugin": {
		"pkg/kube/convert", "pkg/kube/fit", "pkg/kube/cache", "pkg/kube/status", "pkg/apis/...",
		"pkg/topology", "pkg/offer", "pkg/plan", "pkg/evict", "pkg/gang",
	},

	"pkg/kube/simulate": {
		"pkg/kube/plugin", "pkg/kube/cache", "pkg/kube/convert", "pkg/kube/status", "pkg/apis/...", "manifests",
		"pkg/topology",
	},

	"pkg/kube/pace": {},

	"pkg/localcluster": {},
	"pkg/cli": {
		"pkg/localcluster", "pkg/kube/simulate", "pkg/apis/...", "pkg/picture", "manifests",
		"test/fixtures", // the documents' YAML, which the demo applies as it stands
		"pkg/topology", "pkg/offer", "pkg/plan", "pkg/evict", "pkg/gang",
	},

	"cmd/muster-scheduler": {"pkg/kube/plugin", "pkg/kube/pace", "pkg/apis/..."},
	"cmd/musterctl":        {"pkg/cli"},
}

// kubernetes lists who may import Kubernetes; the others of the edge may import
// anything else.
var kubernetes = []string{"pkg/apis/...", "pkg/kube/...", "pkg/localcluster", "pkg/cli", "cmd/..."}

func TestImports(t *testing.T) {
	seen := 0
	eachFile(t, func(pkg, file string, f *ast.File) {
		seen++
		if _, listed := may[pkg]; !listed {
			t.Errorf("%s: package %s is not in the list of packages and their imports", file, pkg)
			return
		}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if why := refuse(pkg, imp); why != "" {
				t.Errorf("%s imports %s: %s", file, imp, why)
			}
		}
	})
	if seen < 20 {
		t.Fatalf("only %d files were looked at", seen)
	}
}

// refuse says why a package may not import something; "" if it may.
func refuse(pkg, imp string) string {
	pure := slices.Contains(core, pkg)
	ours, isOurs := strings.CutPrefix(imp, module)
	switch {
	case isOurs && !matches(ours, may[pkg]):
		return "no arrow leads there"
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

// eachFile parses every Go file below pkg and cmd that is not a test.
func eachFile(t *testing.T, see func(pkg, file string, f *ast.File)) {
	for _, top := range []string{"pkg", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
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

// TestRefuse: the rules can refuse.
func TestRefuse(t *testing.T) {
	for _, c := range []struct {
		pkg, imp string
		refused  bool
	}{
		{"pkg/plan", module + "pkg/offer", false},
		{"pkg/offer", module + "pkg/plan", true},
		{"pkg/gang", module + "pkg/topology", true},
		{"pkg/topology", "slices", false},
		{"pkg/evict", "k8s.io/api/core/v1", true},
		{"pkg/plan", "sync", true},
		{"pkg/plan", "log", true},
		{"pkg/picture", "os", true},
		{"pkg/plan", "time", true},
		{"pkg/gang", "time", false},
		{"pkg/plan", "github.com/stretchr/testify/require", true},
		{"pkg/kube/fit", "k8s.io/api/core/v1", false},
		{"pkg/kube/fit", module + "pkg/kube/cache", true},
		{"pkg/kube/cache", module + "pkg/plan", true},
		{"pkg/apis/config", module + "pkg/plan", true},
		{"pkg/apis/config", module + "pkg/apis/scheduling", false},
		{"pkg/localcluster", module + "pkg/kube/plugin", true},
		{"cmd/musterctl", module + "pkg/kube/plugin", true},
		{"pkg/cli", module + "test/worlds", true},
		{"pkg/kube/plugin", "testing", true},
	} {
		if why := refuse(c.pkg, c.imp); (why != "") != c.refused {
			t.Errorf("%s imports %s: %q", c.pkg, c.imp, why)
		}
	}
}
