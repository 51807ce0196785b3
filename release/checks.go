package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// required are the targets of make that must have run whole and green on the commit of a release.
var required = []string{"nightly", "e2e-kind", "e2e-controllers", "mutants", "race-all"}

var released = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// record is a line that make writes into .checks after a whole green run.
type record struct{ target, commit, at string }

// readRecords reads the records of a file; none if it does not exist.
func readRecords(file string) (all []record, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s:%d: got %q; supported values: TARGET COMMIT TIME", file, number, strings.TrimSpace(line))
		}
		all = append(all, record{fields[0], fields[1], fields[2]})
	}
	return all, nil
}

// ran returns the last record of each target on a commit.
func ran(records []record, commit string) map[string]record {
	last := map[string]record{}
	for _, r := range records {
		if r.commit == commit {
			last[r.target] = r
		}
	}
	return last
}

// tree is what git says of the folder.
type tree struct {
	head    string
	changed bool
	tags    []string // of head
}

func readTreeState(ctx context.Context) (t tree, err error) {
	git := func(args ...string) string {
		out, failed := exec.CommandContext(ctx, "git", args...).Output()
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("git %s: %w", args[0], failed))
		}
		return strings.TrimSpace(string(out))
	}
	t.head, t.changed = git("rev-parse", "HEAD"), git("status", "--porcelain") != ""
	t.tags = strings.Fields(git("tag", "--points-at", "HEAD"))
	return t, err
}

// missing returns what a release lacks, each with what to do.
func (r *release) missing(t tree, records []record, changes string) (lacks []string) {
	if t.changed {
		lacks = append(lacks, "the folder has changes that are not committed: git status")
	}
	if !slices.Contains(t.tags, r.version) {
		lacks = append(lacks, fmt.Sprintf("commit %s has no tag %s: git tag -a %s %s", short(t.head), r.version, r.version, short(t.head)))
	}
	if heading, _, _ := strings.Cut(changes, "\n"); !dated.MatchString(heading) {
		lacks = append(lacks, "CHANGELOG.md has no section of "+r.core()+" with a date: write the date of the release into its heading")
	}
	green := ran(records, t.head)
	for _, target := range required {
		if _, ok := green[target]; !ok {
			lacks = append(lacks, fmt.Sprintf("no record of a whole green run on commit %s: make %s", short(t.head), target))
		}
	}
	return lacks
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// check reads what is known of the commit. It returns an error if something is missing, unless the release is meant to be unchecked.
func (r *release) check(ctx context.Context, file string) error {
	t, err := readTreeState(ctx)
	if err != nil {
		return err
	}
	records, err := readRecords(file)
	if err != nil {
		return err
	}
	changes, err := r.changes()
	if err != nil {
		return err
	}
	r.lacks, r.green = r.missing(t, records, changes), ran(records, t.head)
	if len(r.lacks) == 0 || r.unchecked {
		return nil
	}
	return fmt.Errorf("release %s is rejected:\n  %s\nRELEASE_UNCHECKED=1 makes it all the same, and its notes say what is missing",
		r.version, strings.Join(r.lacks, "\n  "))
}
