package checks

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// File is the file of records.
const File = "release/checks.txt"

// pagesRead are the pages that a part reads: e2e-kind types the commands of this one.
var pagesRead = []string{"docs/getting-started/kind.md"}

// counts reports whether records end when a file changes. Pages of docs and of the root do not count, except pagesRead.
func counts(file string) bool {
	page := path.Ext(file) == ".md" && (strings.HasPrefix(file, "docs/") || !strings.Contains(file, "/"))
	return file != File && (!page || slices.Contains(pagesRead, file))
}

// Tree is what git knows of the folder.
type Tree struct {
	Head        string   // the commit
	Fingerprint string   // of the files of the commit that count
	Changed     []string // files that count and are not as in the commit, or not in it
}

// ReadTree reads the tree of the current folder.
func ReadTree(ctx context.Context) (t Tree, err error) {
	head, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return t, err
	}
	t.Head = strings.TrimSpace(head)
	entries, err := git(ctx, "ls-tree", "-r", "-z", "--full-tree", "HEAD")
	if err != nil {
		return t, err
	}
	hash := sha256.New()
	for entry := range strings.SplitSeq(entries, "\x00") {
		if _, file, _ := strings.Cut(entry, "\t"); entry != "" && counts(file) {
			hash.Write([]byte(entry + "\x00"))
		}
	}
	t.Fingerprint = fmt.Sprintf("%x", hash.Sum(nil))[:40]
	status, err := git(ctx, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
	if err != nil {
		return t, err
	}
	for line := range strings.SplitSeq(status, "\x00") {
		if len(line) > 3 && counts(line[3:]) { // two letters, a space, the file
			t.Changed = append(t.Changed, line[3:])
		}
	}
	return t, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), nil
}
