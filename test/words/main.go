// Command words runs Vale with the rules of tools/words and compares what it finds with the exceptions.
// It prints each finding that no exception covers, and each exception that allows more than there is. The exit code is 1 then.
//
//	go run ./test/words
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

const exceptionsFile = "tools/words/exceptions.txt"

// runs are the arguments of Vale's runs: pages and comments, then messages.
var runs = [][]string{
	{"--config", "tools/words/vale.ini", "pkg", "cmd", "test", "manifests", "deploy", "docs", "README.md", "CHANGELOG.md"},
	{"--config", "tools/words/messages.ini", "--glob=!*_test.go", "pkg", "cmd"},
}

// Alert is one finding of Vale.
type Alert struct {
	File    string `json:"-"`
	Check   string
	Line    int
	Message string
}

// Exception allows Count alerts of one rule ("*" is each rule) in a file, below a folder, or in the files of a pattern.
type Exception struct {
	Path, Check string
	Count       int
	Reason      string
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	alerts, err := vale()
	if err != nil {
		return err
	}
	file, err := os.Open(exceptionsFile)
	if err != nil {
		return err
	}
	defer file.Close()
	exceptions, err := Parse(file)
	if err != nil {
		return err
	}
	if wrong := Compare(alerts, exceptions); len(wrong) > 0 {
		fmt.Fprintln(out, strings.Join(wrong, "\n"))
		return fmt.Errorf("words: %d findings; the rules are in tools/words/styles", len(wrong))
	}
	return nil
}

// vale returns what Vale finds, by file and line.
func vale() (all []Alert, err error) {
	for _, args := range runs {
		command := exec.Command("go", append([]string{"tool", "-modfile=tools/vale/go.mod", "vale", "--output=JSON", "--no-exit"}, args...)...)
		command.Stderr = os.Stderr
		data, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("vale: %w: %s", err, bytes.TrimSpace(data))
		}
		alerts, err := Alerts(data)
		if err != nil {
			return nil, err
		}
		all = append(all, alerts...)
	}
	return all, nil
}

// Alerts reads Vale's JSON output.
func Alerts(data []byte) (all []Alert, err error) {
	var found map[string][]Alert
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("vale: %w: %.200s", err, data)
	}
	for file, alerts := range found {
		for _, a := range alerts {
			a.File = strings.ReplaceAll(file, `\`, "/")
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b Alert) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Check, b.Check))
	})
	return all, nil
}

// Parse reads exceptions: path, rule, count and reason, one a line, with # before comments.
func Parse(file io.Reader) (all []Exception, err error) {
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 4 {
			return nil, fmt.Errorf("%s:%d: supported values: PATH RULE COUNT REASON", exceptionsFile, n)
		}
		count, err := strconv.Atoi(fields[2])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: count %q: %w", exceptionsFile, n, fields[2], errors.Unwrap(err))
		}
		all = append(all, Exception{fields[0], fields[1], count, strings.Join(fields[3:], " ")})
	}
	return all, lines.Err()
}

// Compare returns one line for each alert beyond the exceptions, and for each exception with a count that is too high.
// An alert counts for the first exception that covers it.
func Compare(alerts []Alert, exceptions []Exception) (wrong []string) {
	covered := make([][]Alert, len(exceptions))
	for _, a := range alerts {
		i := slices.IndexFunc(exceptions, func(e Exception) bool { return e.covers(a) })
		if i < 0 {
			wrong = append(wrong, a.String())
			continue
		}
		covered[i] = append(covered[i], a)
	}
	for i, e := range exceptions {
		switch n := len(covered[i]); {
		case n > e.Count:
			wrong = append(wrong, fmt.Sprintf("%s %s: %d findings, %s allows %d:", e.Path, e.Check, n, exceptionsFile, e.Count))
			for _, a := range covered[i] {
				wrong = append(wrong, "  "+a.String())
			}
		case n < e.Count:
			wrong = append(wrong, fmt.Sprintf("%s %s: %d findings, %s allows %d: lower the count", e.Path, e.Check, n, exceptionsFile, e.Count))
		}
	}
	return wrong
}

// covers says whether the path is the alert's file, a folder above it, or a pattern of it: "pkg/*_test.go" is each such file below pkg.
func (e Exception) covers(a Alert) bool {
	if e.Check != "*" && e.Check != a.Check {
		return false
	}
	if before, after, ok := strings.Cut(e.Path, "*"); ok {
		return strings.HasPrefix(a.File, before) && strings.HasSuffix(a.File, after)
	}
	return a.File == e.Path || strings.HasPrefix(a.File, strings.TrimSuffix(e.Path, "/")+"/")
}

func (a Alert) String() string {
	return fmt.Sprintf("%s:%d: %s (%s)", a.File, a.Line, a.Message, a.Check)
}
