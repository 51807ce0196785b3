package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/test/house"
)

const (
	module      = "github.com/muster-scheduler/muster/"
	reasonsPath = module + "pkg/apis/reasons"
	corePath    = "k8s.io/api/core/v1"
)

// loaded returns the packages of all programs.
func loaded(t *testing.T) (root string, all []*house.Package) {
	t.Helper()
	root, err := rootFolder()
	require.NoError(t, err)
	all, err = house.LoadFolders(root, "pkg", "cmd")
	require.NoError(t, err)
	return root, all
}

// TestReasons: each reason that the code writes into a condition or an event is a constant that reasons.yaml describes, and each
// reason of reasons.yaml is written.
func TestReasons(t *testing.T) {
	root, all := loaded(t)
	chapters, err := reasonChapters(root)
	require.NoError(t, err)
	described := map[string]string{} // the value, by the constant
	declared := map[string]string{}
	constants := map[string]string{} // the constant, by its value
	for _, p := range all {
		if p.Types.Path() != reasonsPath {
			continue
		}
		for _, name := range p.Types.Scope().Names() {
			value := constant.StringVal(p.Types.Scope().Lookup(name).(*types.Const).Val())
			require.True(t, strings.HasSuffix(value, name), "%s: the name of a reason is its value, or its end", name)
			require.NotContains(t, constants, value, "two constants")
			declared[reasonsPath+"."+name], constants[value] = value, name
		}
	}
	for _, c := range chapters {
		require.NotEmpty(t, c.Intro, c.Title)
		for _, r := range c.Reasons {
			name := reasonsPath + "." + constants[r.Name]
			if r.Core != "" {
				name = corePath + "." + r.Core
			}
			require.NotContains(t, described, name, "described twice")
			described[name] = r.Name
			for _, cell := range []string{r.Where, r.Meaning, r.Cause, r.Remedy} {
				require.NotEmpty(t, cell, r.Name)
			}
		}
	}
	w := newReasonSearch(all)
	w.run()
	require.Empty(t, w.problems)
	require.Equal(t, described, w.written, "described in reasons.yaml, and written by the code")
	maps.DeleteFunc(described, func(name, _ string) bool { return strings.HasPrefix(name, corePath) })
	require.Equal(t, declared, described, "declared in pkg/apis/reasons, and described in reasons.yaml")
}

// reasonSearch finds the reasons that code writes. It begins at the fields and parameters of Kubernetes' libraries that take a reason.
// From there it follows variables, fields, parameters and results to constants.
type reasonSearch struct {
	all      []*house.Package
	fields   map[string]bool   // "package.Type.Field"
	params   map[string]bool   // "function#index"
	results  map[string]bool   // functions that return a reason
	written  map[string]string // values, by the constant
	problems map[string]bool
	changed  bool

	p     *house.Package
	funcs []ast.Node // the enclosing functions, the innermost last
}

func newReasonSearch(all []*house.Package) *reasonSearch {
	return &reasonSearch{
		all: all,
		fields: map[string]bool{
			"k8s.io/apimachinery/pkg/apis/meta/v1.Condition.Reason": true,
			corePath + ".PodCondition.Reason":                       true,
			corePath + ".Event.Reason":                              true,
			module + "pkg/kube/simulate.Event.Reason":               true, // warnings that are no events
		},
		params: map[string]bool{}, results: map[string]bool{}, written: map[string]string{},
	}
}

// run searches until no further field, parameter or result is found.
func (s *reasonSearch) run() {
	for s.changed = true; s.changed; {
		s.changed, s.problems = false, map[string]bool{}
		for _, s.p = range s.all {
			for _, f := range s.p.Files {
				s.file(f)
			}
		}
	}
}

func (s *reasonSearch) file(f *ast.File) {
	s.funcs = nil
	ast.PreorderStack(f, nil, func(n ast.Node, stack []ast.Node) bool {
		s.funcs = slices.DeleteFunc(slices.Clone(stack), func(n ast.Node) bool {
			switch n.(type) {
			case *ast.FuncDecl, *ast.FuncLit:
				return false
			}
			return true
		})
		switch n := n.(type) {
		case *ast.CompositeLit:
			s.literal(n)
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if x, ok := left.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) && s.fields[s.fieldName(x)] {
					s.resolve(n.Rhs[i])
				}
			}
		case *ast.CallExpr:
			s.call(n)
		case *ast.ReturnStmt:
			if d, ok := s.funcs[len(s.funcs)-1].(*ast.FuncDecl); ok && len(n.Results) > 0 && s.results[s.fullName(d)] {
				s.resolve(n.Results[0])
			}
		}
		return true
	})
}

// literal looks at the fields of a struct that are reasons.
func (s *reasonSearch) literal(l *ast.CompositeLit) {
	t := s.p.Info.Types[l].Type
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	of, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, e := range l.Elts {
		name := of.Field(min(i, of.NumFields()-1)).Name()
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			name, e = pair.Key.(*ast.Ident).Name, pair.Value
		}
		if s.fields[s.typeName(t)+"."+name] {
			s.resolve(e)
		}
	}
}

// eventRecorders is where the packages of event recorders are.
const eventRecorders = "(k8s.io/client-go/tools/"

// call looks at the arguments that are reasons. Event recorders, and functions that are values, take a reason as the parameter of that
// name.
func (s *reasonSearch) call(c *ast.CallExpr) {
	signature, ok := s.p.Info.Types[c.Fun].Type.(*types.Signature)
	if !ok {
		return // a conversion, or a builtin
	}
	callee := s.callee(c)
	for i, arg := range c.Args {
		index := min(i, signature.Params().Len()-1)
		byName := callee == "" || strings.HasPrefix(callee, eventRecorders)
		if s.params[fmt.Sprintf("%s#%d", callee, index)] || byName && signature.Params().At(index).Name() == "reason" {
			s.resolve(arg)
		}
	}
}

// callee returns the full name of the called function; "" for a function that is a value.
func (s *reasonSearch) callee(c *ast.CallExpr) string {
	var id *ast.Ident
	switch f := ast.Unparen(c.Fun).(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return ""
	}
	if f, ok := s.p.Info.Uses[id].(*types.Func); ok {
		return f.Origin().FullName()
	}
	return ""
}

// resolve finds the constants that an expression may be.
func (s *reasonSearch) resolve(e ast.Expr) {
	e = ast.Unparen(e)
	var object types.Object
	switch x := e.(type) {
	case *ast.Ident:
		object = s.p.Info.Uses[x]
	case *ast.SelectorExpr:
		object = s.p.Info.Uses[x.Sel]
	case *ast.CallExpr:
		if name := s.callee(x); strings.Contains(name, module) {
			s.add(s.results, name)
			return
		}
		if len(x.Args) == 1 && s.p.Info.Types[x.Fun].IsType() {
			s.resolve(x.Args[0])
			return
		}
	}
	switch o := object.(type) {
	case *types.Const:
		path := o.Pkg().Path()
		if path == reasonsPath || path == corePath && strings.HasPrefix(o.Name(), "PodReason") {
			s.written[path+"."+o.Name()] = constant.StringVal(o.Val())
			return
		}
	case *types.Var:
		if selector, ok := e.(*ast.SelectorExpr); ok && o.IsField() {
			name := s.fieldName(selector)
			if s.fields[name] {
				return
			}
			if strings.HasPrefix(name, module) {
				s.add(s.fields, name)
				return
			}
		} else if s.variable(o) {
			return
		}
	}
	s.problem(e, "is a reason, and no constant of pkg/apis/reasons")
}

func (s *reasonSearch) fullName(d *ast.FuncDecl) string {
	return s.p.Info.Defs[d.Name].(*types.Func).FullName()
}

// variable follows a variable to the arguments of its function, or to the values that are assigned to it.
func (s *reasonSearch) variable(v *types.Var) bool {
	for _, f := range slices.Backward(s.funcs) {
		var params *ast.FieldList
		name := ""
		switch f := f.(type) {
		case *ast.FuncDecl:
			params, name = f.Type.Params, s.fullName(f)
		case *ast.FuncLit:
			params = f.Type.Params
		}
		i := 0
		for _, field := range params.List {
			for _, id := range field.Names {
				if s.p.Info.Defs[id] == v {
					if name != "" {
						s.add(s.params, fmt.Sprintf("%s#%d", name, i))
					}
					return name != "" || v.Name() == "reason" // see call
				}
				i++
			}
		}
	}
	found := false
	if len(s.funcs) == 0 {
		return false
	}
	ast.Inspect(s.funcs[0], func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != len(assign.Rhs) {
			return true
		}
		for i, left := range assign.Lhs {
			if id, ok := left.(*ast.Ident); ok && (s.p.Info.Defs[id] == v || s.p.Info.Uses[id] == v) {
				found = true
				s.resolve(assign.Rhs[i])
			}
		}
		return true
	})
	return found
}

func (s *reasonSearch) add(to map[string]bool, name string) {
	s.changed = s.changed || !to[name]
	to[name] = true
}

func (s *reasonSearch) problem(n ast.Node, text string) {
	s.problems[fmt.Sprintf("%s: %s", s.p.Position(n.Pos()), text)] = true
}

// fieldName returns "package.Type.Field" of a selector; "" for another selector.
func (s *reasonSearch) fieldName(x *ast.SelectorExpr) string {
	selection := s.p.Info.Selections[x]
	if selection == nil || selection.Kind() != types.FieldVal {
		return ""
	}
	t := selection.Recv()
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	return s.typeName(t) + "." + x.Sel.Name
}

// typeName returns the package and the name of a type. A type of a function has the position of its declaration, too.
func (s *reasonSearch) typeName(t types.Type) string {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return ""
	}
	o := named.Obj()
	if o.Pkg() != nil && o.Parent() != o.Pkg().Scope() && o.Parent() != nil {
		return fmt.Sprintf("%s.%s@%d", o.Pkg().Path(), o.Name(), o.Pos())
	}
	return types.TypeString(named.Origin(), nil)
}
