// Package house counts how large and how tangled the source is, and compares that with limits.
// "make house" prints the table; test/arch fails when a figure exceeds its limit.
package house

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/muster-scheduler/muster/"

// Package is one package below pkg, without its tests.
type Package struct {
	Path    string // relative to the root of the repository, as in "pkg/plan"
	Lines   int
	Locks   int
	Imports []string // packages of this module, relative to the root
	Files   []*ast.File
	Types   *types.Package
	Info    types.Info // with Uses, Defs, Types and Selections
	fset    *token.FileSet
}

// listed is what "go list" says of a package.
type listed struct {
	ImportPath string
	Dir        string
	Export     string
	GoFiles    []string
	Imports    []string
}

// Load returns the packages below pkg, type-checked, in the order of their paths. Root is the root of the repository.
func Load(root string) ([]*Package, error) { return LoadFolders(root, "pkg") }

// LoadFolders returns the packages below some folders at the root, type-checked, in the order of their paths.
// The packages that they import are read from the compiler's export data, which "go list -export" builds or finds in the build cache.
func LoadFolders(root string, folders ...string) ([]*Package, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Imports"}
	for _, folder := range folders {
		args = append(args, "./"+folder+"/...")
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	exports := map[string]string{}
	var ours []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		rel, isOurs := strings.CutPrefix(l.ImportPath, module)
		if folder, _, _ := strings.Cut(rel, "/"); isOurs && slices.Contains(folders, folder) {
			ours = append(ours, l)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var all []*Package
	for _, l := range ours {
		p, err := load(l, fset, imports)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Package) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

// load parses and type-checks one package.
func load(l listed, fset *token.FileSet, imports types.Importer) (*Package, error) {
	p := &Package{Path: strings.TrimPrefix(l.ImportPath, module), fset: fset}
	for _, name := range l.GoFiles {
		file := filepath.Join(l.Dir, name)
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.Lines += bytes.Count(text, []byte("\n"))
		p.Files = append(p.Files, f)
	}
	for _, imp := range l.Imports {
		if rel, isOurs := strings.CutPrefix(imp, module); isOurs {
			p.Imports = append(p.Imports, rel)
		}
	}
	conf := types.Config{Importer: imports}
	var err error
	p.Info = types.Info{
		Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	p.Types, err = conf.Check(l.ImportPath, fset, p.Files, &p.Info)
	if err != nil {
		return nil, err
	}
	p.Locks = p.countLocks()
	return p, nil
}

// countLocks returns how many fields and variables of the package are a sync.Mutex or a sync.RWMutex, or a pointer to one.
func (p *Package) countLocks() (n int) {
	isLock := func(t ast.Expr) bool {
		if pointer, isPointer := t.(*ast.StarExpr); isPointer {
			t = pointer.X
		}
		s, ok := t.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		o := p.Info.Uses[s.Sel]
		return o != nil && o.Pkg() != nil && o.Pkg().Path() == "sync" && (o.Name() == "Mutex" || o.Name() == "RWMutex")
	}
	for _, f := range p.Files {
		ast.Inspect(f, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.Field:
				if isLock(node.Type) {
					n += max(1, len(node.Names))
				}
			case *ast.ValueSpec:
				if isLock(node.Type) {
					n += len(node.Names)
				}
			}
			return true
		})
	}
	return n
}

// Arrow says that file From uses something that file To declares at package level.
type Arrow struct{ From, To string }

// Arrows returns the arrows between the files of the package, each once. A method counts as declared where it is written;
// fields and methods of interfaces count with their type's name only.
func (p *Package) Arrows() []Arrow {
	drawn := map[Arrow]bool{}
	for _, f := range p.Files {
		from := p.file(f.Pos())
		ast.Inspect(f, func(n ast.Node) bool {
			id, isIdent := n.(*ast.Ident)
			if !isIdent {
				return true
			}
			o := p.Info.Uses[id]
			if o == nil || o.Pkg() != p.Types || !p.isDeclaration(o) {
				return true
			}
			if to := p.file(o.Pos()); to != from {
				drawn[Arrow{from, to}] = true
			}
			return true
		})
	}
	all := make([]Arrow, 0, len(drawn))
	for a := range drawn {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Arrow) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return all
}

// isDeclaration returns whether an object is declared at package level, or is a method.
func (p *Package) isDeclaration(o types.Object) bool {
	if f, isFunc := o.(*types.Func); isFunc && f.Signature().Recv() != nil {
		return !types.IsInterface(f.Signature().Recv().Type())
	}
	return o.Parent() == p.Types.Scope()
}

func (p *Package) file(pos token.Pos) string { return filepath.Base(p.Position(pos).Filename) }

// Position returns the file and the line of a position in the package.
func (p *Package) Position(pos token.Pos) token.Position { return p.fset.Position(pos) }

// Back orders the files of a package so that few arrows run from a later file to an earlier one. It returns the arrows
// that still do. The order is found by moving one file at a time to its best position until no move helps. The result is
// near the least, and the same for the same arrows.
func Back(arrows []Arrow) (order []string, back int) {
	uses := map[string]map[string]int{}
	for _, a := range arrows {
		for _, f := range []string{a.From, a.To} {
			if uses[f] == nil {
				uses[f] = map[string]int{}
				order = append(order, f)
			}
		}
		uses[a.From][a.To] = 1
	}
	slices.Sort(order)
	// Files that use much and are used little come first.
	balance := func(f string) (n int) {
		n = len(uses[f])
		for _, u := range uses {
			n -= u[f]
		}
		return n
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(balance(b), balance(a)) })
	for improved := true; improved; {
		improved = false
		for _, f := range slices.Clone(order) {
			if to, gain := bestPosition(order, f, uses); gain > 0 {
				order = move(order, f, to)
				improved = true
			}
		}
	}
	at := map[string]int{}
	for i, f := range order {
		at[f] = i
	}
	for _, a := range arrows {
		if at[a.From] > at[a.To] {
			back++
		}
	}
	return order, back
}

// bestPosition returns the position in the order at which a file has the fewest arrows back, and how many fewer they are
// than now.
func bestPosition(order []string, f string, uses map[string]map[string]int) (best, gain int) {
	now := slices.Index(order, f)
	best = now
	sum := 0
	for i := now - 1; i >= 0; i-- {
		sum += uses[f][order[i]] - uses[order[i]][f]
		if sum > gain {
			best, gain = i, sum
		}
	}
	sum = 0
	for i := now + 1; i < len(order); i++ {
		sum += uses[order[i]][f] - uses[f][order[i]]
		if sum > gain {
			best, gain = i, sum
		}
	}
	return best, gain
}

// move returns the order with a file at another position.
func move(order []string, f string, to int) []string {
	rest := slices.DeleteFunc(slices.Clone(order), func(o string) bool { return o == f })
	return slices.Insert(rest, to, f)
}

// Tangle is how many of a package's file arrows run back.
type Tangle struct {
	Package      string
	Back, Arrows int
}

// Percent returns the share of arrows that run back. Packages with fewer than 20 arrows are too small for a share, and return 0.
func (t Tangle) Percent() int {
	if t.Arrows < 20 {
		return 0
	}
	return (100*t.Back + t.Arrows - 1) / t.Arrows
}

// Tangles returns the packages with arrows that run back, the worst share first.
func Tangles(all []*Package) (tangles []Tangle) {
	for _, p := range all {
		arrows := p.Arrows()
		if _, back := Back(arrows); back > 0 {
			tangles = append(tangles, Tangle{Package: p.Path, Back: back, Arrows: len(arrows)})
		}
	}
	slices.SortStableFunc(tangles, func(a, b Tangle) int { return cmp.Or(b.Percent()-a.Percent(), b.Back-a.Back) })
	return tangles
}

// closure returns the packages that a package imports, directly or not, and itself.
func closure(all []*Package, from string) []*Package {
	var reached []*Package
	for next := []string{from}; len(next) > 0; next = next[1:] {
		for _, p := range all {
			if p.Path == next[0] && !slices.Contains(reached, p) {
				reached = append(reached, p)
				next = append(next, p.Imports...)
			}
		}
	}
	return reached
}

// largest returns the package with the most lines.
func largest(all []*Package) *Package {
	return slices.MaxFunc(all, func(a, b *Package) int { return cmp.Compare(a.Lines, b.Lines) })
}

// preempts returns whether a package is on the preemption path.
func preempts(p *Package) bool {
	base := path.Base(p.Path)
	return strings.HasPrefix(base, "preempt") || slices.Contains([]string{"evict", "departure", "eligible"}, base)
}

// functionFields returns how many fields of a struct type are functions.
func functionFields(all []*Package, pkg, name string) (n int) {
	for _, p := range all {
		o := p.Types.Scope().Lookup(name)
		if p.Path != pkg || o == nil {
			continue
		}
		s, isStruct := o.Type().Underlying().(*types.Struct)
		for i := 0; isStruct && i < s.NumFields(); i++ {
			if _, isFunc := s.Field(i).Type().Underlying().(*types.Signature); isFunc {
				n++
			}
		}
	}
	return n
}

// missing returns the names of a list that the source does not declare. A name is a package's path, a dot, and a function, a type,
// a type's method or a type's field.
func missing(all []*Package, names []string) (gone []string) {
	for _, name := range names {
		dir, base := path.Split(name)
		parts := strings.Split(base, ".")
		if !slices.ContainsFunc(all, func(p *Package) bool { return p.Path == dir+parts[0] && p.declares(parts[1:]) }) {
			gone = append(gone, name)
		}
	}
	return gone
}

// declares returns whether the package declares an object, or a type with a method or a field.
func (p *Package) declares(name []string) bool {
	if len(name) == 0 || len(name) > 2 {
		return false
	}
	o := p.Types.Scope().Lookup(name[0])
	if o == nil || len(name) == 1 {
		return o != nil
	}
	member, _, _ := types.LookupFieldOrMethod(o.Type(), true, p.Types, name[1])
	return member != nil
}
