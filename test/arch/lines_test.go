package arch

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is the longest line of a Go file, where a tab counts as one column.
const maxColumns = 140

// TestLines fails for each line that exceeds maxColumns in a Go file that is neither a test nor generated.
func TestLines(t *testing.T) {
	files := 0
	for _, top := range []string{"pkg", "cmd", "manifests", "deploy", "release"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, d fs.DirEntry, err error) error {
			name := d.Name()
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || isTest(name) || strings.HasPrefix(name, "zz_") {
				return err
			}
			files++
			rel, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			for _, long := range longLines(read(t, file)) {
				t.Errorf("%s:%s columns, more than %d", filepath.ToSlash(rel), long, maxColumns)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were found", files)
	}
}

// longLines returns the number and length of each line that exceeds maxColumns. Markers for controller-gen and Go directives
// are excepted, since they cannot be broken.
func longLines(text string) (long []string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		start := strings.TrimSpace(line)
		n := utf8.RuneCountInString(line)
		if n > maxColumns && !strings.HasPrefix(start, "// +kubebuilder") && !strings.HasPrefix(start, "//go:") {
			long = append(long, fmt.Sprintf("%d: %d", number, n))
		}
	}
	return long
}

// TestLongLines: longLines counts characters, and excepts what cannot be broken.
func TestLongLines(t *testing.T) {
	fits := "\t" + strings.Repeat("é", maxColumns-1) + "\n"
	over := "x" + fits
	text := fits + over + "\t// +kubebuilder:" + over + "//go:generate " + over + "// " + over
	if got, want := longLines(text), []string{"2: 141", "5: 144"}; !slices.Equal(got, want) {
		t.Errorf("longLines: got %v, want %v", got, want)
	}
}
