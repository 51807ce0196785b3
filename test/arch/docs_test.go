package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	status = regexp.MustCompile(`^# \d+\. .+\n\nStatus: (accepted|accepted; superseded in part|superseded)  \n` +
		`Date: \d+ [A-Z][a-z]+ \d{4}(  \nSuperseded by: .+)?\n\n`)
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

	fence       = regexp.MustCompile("(?ms)^```.*?^```")
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	punctuation = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
)

// TestDecisions: each says when it was made and whether it holds, and if it does not, what holds in its place.
func TestDecisions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/decisions/*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal("no decisions: ", err)
	}
	for _, file := range files {
		m := status.FindStringSubmatch(read(t, file))
		switch {
		case m == nil:
			t.Errorf("%s: after its heading it must say Status: accepted, accepted; superseded in part, or superseded, and then Date: DAY MONTH YEAR", file)
		case strings.Contains(m[1], "superseded") != (m[2] != ""):
			t.Errorf("%s is %s, and it must say by what: Superseded by", file, m[1])
		}
	}
}

// TestLinks: the file and the heading behind each link of a page exist.
func TestLinks(t *testing.T) {
	seen := 0
	for _, file := range markdown(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, file), ""), -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			seen++
			target, heading, _ := strings.Cut(m[1], "#")
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s refers to %s: %v", file, m[1], err)
			} else if heading != "" && !slices.Contains(anchors(read(t, path)), heading) {
				t.Errorf("%s refers to %s, and %s has no such heading", file, m[1], path)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d links were found", seen)
	}
}

// TestIndex: docs/README.md links to each page. Decisions, measurements and translations have one link each.
func TestIndex(t *testing.T) {
	index := read(t, filepath.Join(root, "docs/README.md"))
	for _, file := range markdown(t) {
		page, below := strings.CutPrefix(file, filepath.Join(root, "docs")+"/")
		folder, _, _ := strings.Cut(page, "/")
		if !below || page == "README.md" || slices.Contains([]string{"decisions", "measurements", "zh-CN"}, folder) {
			continue
		}
		if !strings.Contains(index, "]("+page+")") {
			t.Errorf("docs/README.md has no link to %s", page)
		}
	}
}

// markdown returns the pages at the root, below docs and in the charts.
func markdown(t *testing.T) (files []string) {
	t.Helper()
	for _, glob := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md", "deploy/*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// anchors returns the names by which links find the headings of a page, as GitHub makes them.
func anchors(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
