package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/release/checks"
)

var released = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// tree is what git says of the folder.
type tree struct {
	checks.Tree
	dirty bool     // any file, also one that does not count for records
	tags  []string // of the commit
}

func readTreeState(ctx context.Context) (t tree, err error) {
	git := func(args ...string) string {
		out, failed := exec.CommandContext(ctx, "git", args...).Output()
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("git %s: %w", args[0], failed))
		}
		return strings.TrimSpace(string(out))
	}
	t.dirty, t.tags = git("status", "--porcelain") != "", strings.Fields(git("tag", "--points-at", "HEAD"))
	if err == nil {
		t.Tree, err = checks.ReadTree(ctx)
	}
	return t, err
}

// green is what is recorded of a check for the files of a commit.
type green struct {
	parts, of int
	last      string // when the last part ended
}

// greenParts returns what is recorded of each check.
func greenParts(t tree, records []checks.Record) map[string]green {
	all := map[string]green{}
	for _, p := range checks.All() {
		g := all[p.Check]
		g.of++
		if r, found := p.Last(records, t.Fingerprint); found {
			g.parts++
			g.last = max(g.last, r.At)
		}
		all[p.Check] = g
	}
	return all
}

// missing returns what a release lacks, each with what to do.
func (r *release) missing(t tree, changes string) (lacks []string) {
	if t.dirty {
		lacks = append(lacks, "the folder has changes that are not committed: git status")
	}
	if !slices.Contains(t.tags, r.version) {
		lacks = append(lacks, fmt.Sprintf("commit %s has no tag %s: git tag -a %s %s", short(t.Head), r.version, r.version, short(t.Head)))
	}
	if heading, _, _ := strings.Cut(changes, "\n"); !dated.MatchString(heading) {
		lacks = append(lacks, "CHANGELOG.md has no section of "+r.core()+" with a date: write the date of the release into its heading")
	}
	for _, check := range checks.Names {
		if g := r.green[check]; g.parts < g.of {
			lacks = append(lacks, fmt.Sprintf("%d of %d parts of %s have no record for the files of this commit: make %s",
				g.of-g.parts, g.of, check, check))
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
	records, err := checks.Read(file)
	if err != nil {
		return err
	}
	changes, err := r.changes()
	if err != nil {
		return err
	}
	r.green = greenParts(t, records)
	r.lacks = r.missing(t, changes)
	if len(r.lacks) == 0 || r.unchecked {
		return nil
	}
	return fmt.Errorf("release %s is rejected:\n  %s\nRELEASE_UNCHECKED=1 makes it all the same, and its notes say what is missing",
		r.version, strings.Join(r.lacks, "\n  "))
}
