package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	status = regexp.MustCompile(`^# \d+\. .+\n\nStatus: (accepted|accepted; superseded in part|superseded)(  \nSuperseded by: .+)?\n\n`)
	link   = regexp.MustCompile(`\]\(([^)#:]+)\)`)
)

// TestDecisions: each says whether it holds, and if it does not, what holds in its place.
func TestDecisions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/decisions/*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal("no decisions: ", err)
	}
	for _, file := range files {
		m := status.FindStringSubmatch(read(t, file))
		switch {
		case m == nil:
			t.Errorf("%s: after its heading it must say Status: accepted, accepted; superseded in part, or superseded", file)
		case strings.Contains(m[1], "superseded") != (m[2] != ""):
			t.Errorf("%s is %s, and it must say by what: Superseded by", file, m[1])
		}
	}
}

// TestLinks: what the documents refer to exists.
func TestLinks(t *testing.T) {
	seen := 0
	for _, glob := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
				seen++
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
					t.Errorf("%s refers to %s: %v", file, m[1], err)
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d links were found", seen)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
