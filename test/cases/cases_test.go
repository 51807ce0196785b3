// Package cases checks docs/contributing/cases.md: the cases that must hold, by number, and what holds
// them.
package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root      = "../.."
	scenarios = "test/scenarios/simulate"
	// last is the number of the last case that there must be a row for.
	last = 60
)

// row is one case. It is open if nothing holds it yet.
type row struct {
	number int
	open   bool
	held   []string // files, folders, or file_test.go:TestName
}

var (
	line     = regexp.MustCompile(`^\| (\d+) \| .+ \| .+ \| (.+) \|$`)
	numbered = regexp.MustCompile(`^(\d+)-`)
)

// parse reads the rows of a table.
func parse(text string) (rows []row, err error) {
	for text := range strings.Lines(text) {
		m := line.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		r := row{number: n, open: m[2] == "open"}
		for _, name := range strings.Split(m[2], ", ") {
			switch {
			case r.open:
			case len(name) > 2 && name[0] == '`' && name[len(name)-1] == '`':
				r.held = append(r.held, name[1:len(name)-1])
			default:
				return nil, fmt.Errorf("case %d is held by %q, which is neither open nor `a file`", n, name)
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// check says what is wrong with a table: numbers that are missing, names of nothing, and
// folders, named after a case, that its row does not name.
func check(rows []row, last int, folders []string, exists func(name string) error) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(rows) < last {
		complain("there are %d rows, and %d cases at the least", len(rows), last)
	}
	named := map[string]int{}
	for i, r := range rows {
		if r.number != i+1 {
			complain("row %d is of case %d", i+1, r.number)
		}
		for _, name := range r.held {
			named[name] = r.number
			if err := exists(name); err != nil {
				complain("case %d: %v", r.number, err)
			}
		}
	}
	for _, folder := range folders {
		m := numbered.FindStringSubmatch(filepath.Base(folder))
		if m == nil {
			continue
		}
		if n, _ := strconv.Atoi(m[1]); named[folder] != n {
			complain("%s is not named in the row of case %d", folder, n)
		}
	}
	return wrong
}

// exists says what is missing of a file or a test.
func exists(name string) error {
	file, test, isTest := strings.Cut(name, ":")
	text, err := os.ReadFile(filepath.Join(root, file))
	if !isTest {
		_, err = os.Stat(filepath.Join(root, file))
		return err
	}
	if err == nil && !strings.Contains(string(text), "func "+test+"(") {
		return fmt.Errorf("%s has no %s", file, test)
	}
	return err
}

// TestCases: every case is in the table, and what holds it exists.
func TestCases(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/contributing/cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob(filepath.Join(root, scenarios, "*"))
	if err != nil || len(folders) == 0 {
		t.Fatal("no scenarios: ", err)
	}
	for i, folder := range folders {
		folders[i] = scenarios + "/" + filepath.Base(folder)
	}
	for _, wrong := range check(rows, last, folders, exists) {
		t.Error(wrong)
	}
	open := []string{}
	for _, r := range rows {
		if r.open {
			open = append(open, strconv.Itoa(r.number))
		}
	}
	t.Logf("%d of %d cases are open: %s", len(open), len(rows), strings.Join(open, ", "))
}

// TestAcceptance: what holds the cases of other controllers' gangs exists, and no scenario that is named
// after one is left out.
func TestAcceptance(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/contributing/acceptance.md"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "test/acceptance/testdata/integrations_acceptance.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^\| ([A-Z0-9]+-[0-9]+) \| .+ \| (.+) \|$`).FindAllStringSubmatch(string(text), -1)
	var ids, rows []string
	for _, c := range regexp.MustCompile(`(?m)^- id: (\S+)$`).FindAllStringSubmatch(string(data), -1) {
		ids = append(ids, c[1])
	}
	for _, row := range all {
		rows = append(rows, row[1])
	}
	if len(ids) != 57 || !slices.Equal(ids, rows) {
		t.Errorf("the cases are %q, and the rows %q", ids, rows)
	}
	named := map[string]bool{}
	for _, row := range all {
		for _, name := range strings.Split(row[2], ", ") {
			name = strings.Trim(name, "`")
			named[name] = true
			if err := exists(name); err != nil {
				t.Error(err)
			}
		}
	}
	folders, err := filepath.Glob(filepath.Join(root, scenarios, "int-[isv]*-[0-9]*"))
	if err != nil || len(folders) == 0 {
		t.Fatal("no scenarios: ", err)
	}
	for _, folder := range folders {
		if name := scenarios + "/" + filepath.Base(folder); !named[name] {
			t.Errorf("%s is named in no row", name)
		}
	}
}

// TestCheck: what is wrong is found.
func TestCheck(t *testing.T) {
	rows, err := parse("# Cases\n\n| case | given | expected | held by |\n|--:|---|---|---|\n" +
		"| 1 | a | b | `x`, `y_test.go:TestY` |\n| 2 | a | b | open |\n| 4 | a | b | `gone` |\n")
	if err != nil {
		t.Fatal(err)
	}
	got := check(rows, 4, []string{"s/1-a", "s/2-b", "s/other", "x"}, func(name string) error {
		if name == "gone" {
			return fmt.Errorf("%s does not exist", name)
		}
		return nil
	})
	want := []string{
		"there are 3 rows, and 4 cases at the least", "row 3 is of case 4", "case 4: gone does not exist",
		"s/1-a is not named in the row of case 1", "s/2-b is not named in the row of case 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if _, err := parse("| 1 | a | b | later |\n"); err == nil {
		t.Error("a row that is neither open nor held was taken")
	}
	const file = "test/cases/cases_test.go"
	if exists(file+":TestCheck") != nil || exists(file+":TestNothing") == nil || exists("no/such") == nil {
		t.Error("files and tests are not told from those that do not exist")
	}
}
