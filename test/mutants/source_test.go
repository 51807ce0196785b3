package mutants

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// declaration is a function, a type, or one specification of constants or variables, with the rest of its file.
// The name is written as in a stack trace: lessSum, set.with, (*search).putBack.
type declaration struct {
	name, file, before, text, after string
	tokens                          []lexeme
}

// lexeme is a token and its place in the text.
type lexeme struct {
	token      token.Token
	text       string
	start, end int
}

// readPackage returns the declarations of a package folder, without its tests.
func readPackage(folder string) (all []declaration, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		declarations, err := parse(file, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, declarations...)
	}
	return all, err
}

func parse(file, text string) (all []declaration, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(name string, node ast.Node) {
		start, end := node.Pos()-parsed.FileStart, node.End()-parsed.FileStart
		tokens, _ := lex(text[start:end]) // the parser has accepted them
		all = append(all, declaration{name, file, text[:start], text[start:end], text[end:], tokens})
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(functionName(d), d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name.Name, spec)
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						add(n.Name, spec)
					}
				}
			}
		}
	}
	return all, nil
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver, _, _ := strings.Cut(types.ExprString(f.Recv.List[0].Type), "[")
	if strings.HasPrefix(receiver, "*") {
		receiver = "(" + receiver + ")"
	}
	return receiver + "." + f.Name.Name
}

// mutate returns the file of m's declaration and its text with m.new in place of m.old.
// An error says what to correct in m.
func (m mutant) mutate(all []declaration) (file, broken string, err error) {
	fragment, err := lex(m.old)
	if err == nil && len(fragment) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", "", fmt.Errorf("old is not a fragment of Go; correct it (%w)", err)
	}
	var texts, similar, holders []string
	found := 0
	for _, d := range all {
		places := d.find(fragment)
		if len(places) > 0 {
			holders = append(holders, d.name)
		}
		switch {
		case d.name == m.declaration:
			texts = append(texts, d.text)
			found += len(places)
			for _, p := range places {
				file, broken = d.file, d.before+d.text[:p.start]+m.new+d.text[p.end:]+d.after
			}
		case isSimilar(d.name, m.declaration):
			similar = append(similar, d.name)
		}
	}
	if found == 1 {
		_, err = parser.ParseFile(token.NewFileSet(), file, broken, parser.SkipObjectResolution)
		if err == nil {
			return file, broken, nil
		}
		err = fmt.Errorf("the file does not parse with new in place of old; correct new (%w)", err)
	} else if len(texts) > 0 {
		err = fmt.Errorf("old is there %d times instead of once; correct old and new, or the declaration's name", found)
	} else {
		err = errors.New("no such declaration; correct its name; similar names: " + list(similar))
	}
	return "", "", fmt.Errorf("%s in %s: %w\ndeclarations with old: %s\nold:\n%s\nnew:\n%s\ndeclaration:\n%s",
		m.declaration, m.folder, err, list(holders), m.old, m.new, list(texts))
}

// find returns the places of a fragment: from the first token's start to the last token's end.
func (d *declaration) find(fragment []lexeme) (places []lexeme) {
	equal := func(a, b lexeme) bool { return a.token == b.token && a.text == b.text }
	for i := range len(d.tokens) - len(fragment) + 1 {
		if part := d.tokens[i : i+len(fragment)]; slices.EqualFunc(part, fragment, equal) {
			places = append(places, lexeme{start: part[0].start, end: part[len(part)-1].end})
		}
	}
	return places
}

// isSimilar reports whether two names have the same receiver, or whether one name without its receiver contains the other one.
func isSimilar(a, b string) bool {
	i, j := strings.LastIndex(a, ".")+1, strings.LastIndex(b, ".")+1
	x, y := strings.ToLower(a[i:]), strings.ToLower(b[j:])
	return i > 0 && a[:i] == b[:j] || strings.Contains(x, y) || strings.Contains(y, x)
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// lex returns the tokens of Go text without comments. An inserted semicolon equals a written one.
// Semicolons and commas before a closing bracket are left out, and so is an inserted semicolon at the end.
func lex(text string) (tokens []lexeme, err error) {
	var s scanner.Scanner
	var failures scanner.ErrorList
	s.Init(token.NewFileSet().AddFile("", 1, len(text)), []byte(text), failures.Add, 0)
	for inserted := false; ; {
		position, t, literal := s.Scan()
		if n := len(tokens) - 1; n >= 0 {
			last := tokens[n].token
			closing := t == token.RPAREN || t == token.RBRACK || t == token.RBRACE
			if closing && (last == token.SEMICOLON || last == token.COMMA) || t == token.EOF && inserted {
				tokens = tokens[:n]
			}
		}
		if t == token.EOF {
			return tokens, failures.Err()
		}
		if inserted = literal == "\n"; literal == "" || inserted {
			literal = t.String()
		}
		start := int(position) - 1
		tokens = append(tokens, lexeme{t, literal, start, start + len(literal)})
	}
}

// TestMutateComparesTokens: line ends, comments and trailing commas do not matter. Each error says what to correct.
func TestMutateComparesTokens(t *testing.T) {
	all, err := parse("a.go", `package a

var most, least = 7, 1 // bounds

func (s *set[T]) grow(n int) {
	if n > most { // too many
		n = most
	}
	s.put(
		n,
		least,
	)
}

func (s set[T]) size() int { return min(most, most) }
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ declaration, old, new, want string }{
		{"most", "7", "8", "var most, least = 8, 1 // bounds"},
		{"(*set).grow", "if n > most { n = most }; s.put(n, least)", "s.put(n)", "{\n\ts.put(n)\n}"},
		{"(*set).grow", "n >\nmost { n", "false { n", "\tif false { n = most\n"},
		{"set.size", "(most,", "(", "return min( most)"},
		{"set.size", "most", "least", "old is there 2 times instead of once"},
		{"set.size", "s.put(", "s.get(", "declarations with old: (*set).grow\n"},
		{"set.size", "max(", "min(", "declarations with old: none\nold:\nmax(\nnew:\nmin(\ndeclaration:\nfunc (s set[T]) size() int {"},
		{"(*set).growBy", "n > most", "true", "no such declaration; correct its name; similar names: (*set).grow\ndeclarations with old: (*set).grow\n"},
		{"set.size", "return", "return }", "the file does not parse with new in place of old; correct new"},
		{"set.size", "// return", "", "old is not a fragment of Go; correct it (it is empty)"},
		{"set.size", "'", "", "old is not a fragment of Go; correct it (1:1: rune literal not terminated"},
	} {
		_, got, err := mutant{declaration: test.declaration, old: test.old, new: test.new}.mutate(all)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: %q instead of %q gives %s\nwant: %s", test.declaration, test.new, test.old, got, test.want)
		}
	}
}
