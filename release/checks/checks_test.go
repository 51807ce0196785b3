package checks

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// repository is a git repository with a commit of some files, in the current folder.
func repository(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, variable := range []string{"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(variable, "a@example.com")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	sh(t, `git init -q
mkdir -p docs/getting-started pkg/a release
echo /bin/ > .gitignore
touch release/main.go CHANGELOG.md docs/page.md docs/getting-started/kind.md docs/picture.svg pkg/a/a.go pkg/a/README.md
git add .
git commit -qm one`)
}

func sh(t *testing.T, script string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "-ec", script).CombinedOutput()
	require.NoError(t, err, "%s: %s", script, out)
}

// runs runs a part with this command, and returns what is printed. It fails if the part is not green.
func runs(t *testing.T, command string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), &out, File, []Part{{Check: "nightly", Name: "core", Command: command}}))
	return out.String()
}

// holds reports whether the part that runs has a record for the files of the commit.
func holds(t *testing.T) bool {
	t.Helper()
	tree, err := ReadTree(t.Context())
	require.NoError(t, err)
	records, err := Read(File)
	require.NoError(t, err)
	_, found := Part{Check: "nightly", Name: "core"}.Last(records, tree.Fingerprint)
	return found
}

// TestRecordHoldsWhilePagesChange: a record holds for later commits that change pages and the records. Each other file ends it.
func TestRecordHoldsWhilePagesChange(t *testing.T) {
	repository(t)
	runs(t, "true")
	recorded, err := os.ReadFile(File)
	require.NoError(t, err)
	for change, want := range map[string]bool{
		"true":                                   true, // the file of records alone
		"echo >> CHANGELOG.md":                   true,
		"echo >> docs/page.md":                   true,
		"echo > docs/new.md":                     true,
		"git rm -q docs/page.md":                 true,
		"echo >> docs/getting-started/kind.md":   false, // e2e-kind reads it
		"git rm -q docs/getting-started/kind.md": false,
		"echo >> docs/picture.svg":               false,
		"echo >> pkg/a/README.md":                false,
		"echo >> pkg/a/a.go":                     false,
		"chmod +x pkg/a/a.go":                    false,
		"git mv pkg/a/a.go pkg/a/b.go":           false,
		"git rm -q pkg/a/a.go":                   false,
		"echo > pkg/a/new.go":                    false,
	} {
		t.Run(change, func(t *testing.T) {
			require.NoError(t, os.WriteFile(File, recorded, 0o644))
			require.True(t, holds(t))
			sh(t, change+"\ngit add .\ngit commit -qm two")
			defer sh(t, "git reset -q --hard HEAD~")
			require.Equal(t, want, holds(t))
			require.Equal(t, want, strings.Contains(runs(t, "true"), "was green"), "a part with a record does not run again")
		})
	}
}

// TestRunIsRecorded: a part leaves a record if it was green and whole, on files that are committed and do not change.
func TestRunIsRecorded(t *testing.T) {
	for _, c := range []struct {
		name, before, command, why string // why not
	}{
		{"green", "", "true", ""},
		{"pages that are not committed", "echo >> docs/page.md; echo > docs/new.md", "true", ""},
		{"a page changes while it runs", "", "echo >> CHANGELOG.md", ""},
		{"a commit of pages while it runs", "", "echo >> CHANGELOG.md; git commit -qam two", ""},
		{"a changed file", "echo >> pkg/a/a.go", "true", "commit all changes first, and change nothing while it runs: pkg/a/a.go"},
		{"a change for the next commit", "echo >> pkg/a/a.go; git add .", "true", "commit all changes first, and change nothing while it runs: pkg/a/a.go"},
		{"a new file", "mkdir new; touch new/new.go", "true", "commit all changes first, and change nothing while it runs: new/new.go"},
		{"a file that changes while it runs", "", "echo >> pkg/a/a.go", "commit all changes first, and change nothing while it runs: pkg/a/a.go"},
		{"a change that is undone while it runs", "echo >> pkg/a/a.go", "git checkout pkg", "commit all changes first, and change nothing while it runs: pkg/a/a.go"},
		{"a commit while it runs", "", "echo >> pkg/a/a.go; git commit -qam two", "another commit was checked out while it ran"},
		{"a skipped test", "", "echo '    --- SKIP: TestControllers/lws (0.00s)'", "it skipped TestControllers/lws"},
		{"a test that is not there", "", "echo 'ok  a 0.01s [no tests to run]'", "its tests were not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			repository(t)
			sh(t, c.before+"\ntrue")
			printed := runs(t, c.command)
			require.Equal(t, c.why == "", holds(t), printed)
			if c.why != "" {
				require.Contains(t, printed, "== nightly, part core: no record for a release: "+c.why+"\n")
			}
		})
	}
}

// TestGreenPartsStay: a part that fails has no record, and the next parts run. The same command then runs the failed part alone.
func TestGreenPartsStay(t *testing.T) {
	repository(t)
	parts := []Part{
		{Check: "mutants", Name: "1", Command: "echo one >> bin/ran; test -e bin/mended"},
		{Check: "mutants", Name: "2", Command: "echo two >> bin/ran; echo SEED=$SEED"},
		{Check: "mutants", Name: "3", Command: "echo '--- SKIP: TestOther (0.00s)'", MaySkip: true},
	}
	var out bytes.Buffer
	require.EqualError(t, Run(t.Context(), &out, File, parts), "mutants, part 1: exit status 1")
	sh(t, "touch bin/mended")
	require.NoError(t, Run(t.Context(), &out, File, parts))
	ran, err := os.ReadFile("bin/ran")
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\none\n", string(ran))

	records, err := Read(File)
	require.NoError(t, err)
	tree, err := ReadTree(t.Context())
	require.NoError(t, err)
	var names []string
	for _, r := range records {
		names = append(names, r.Part)
		require.Equal(t, []string{"mutants", tree.Fingerprint, tree.Head}, []string{r.Check, r.Fingerprint, r.Commit})
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, r.At)
		require.Regexp(t, `^\d+s$`, r.Took)
	}
	require.Equal(t, []string{"2", "3", "1"}, names)
	require.Equal(t, "-", records[1].Seed)
	require.Regexp(t, `^[1-9]\d*$`, records[0].Seed)
	log, err := os.ReadFile("bin/checks/mutants-2.log")
	require.NoError(t, err)
	require.Equal(t, "SEED="+records[0].Seed+"\n", string(log))
	require.Contains(t, out.String(), "echo SEED="+records[0].Seed+"\n", "the command that repeats it")
}

// TestInterruptedRunStops: after an interrupt no further part begins, and the interrupted part has no record.
func TestInterruptedRunStops(t *testing.T) {
	repository(t)
	ctx, cancel := context.WithCancel(t.Context())
	out := &cancels{after: "began", cancel: cancel}
	err := Run(ctx, out, File, []Part{
		{Check: "mutants", Name: "1", Command: "trap 'exit 1' INT; echo began; while true; do read -t 0.01 <> <(:); done"},
		{Check: "mutants", Name: "2", Command: "true"},
	})
	require.ErrorContains(t, err, "mutants, part 1: ")
	require.ErrorContains(t, err, "interrupted: the same command continues with this part")
	records, err := Read(File)
	require.NoError(t, err)
	require.Empty(t, records)
}

// cancels cancels a context when a line has been written.
type cancels struct {
	after  string
	cancel func()
}

func (c *cancels) Write(p []byte) (int, error) {
	if strings.TrimSpace(string(p)) == c.after {
		c.cancel()
	}
	return len(p), nil
}

// TestList: a maintainer reads what is green, what is missing and how long it took for other files.
func TestList(t *testing.T) {
	repository(t)
	runs(t, "true")
	list := func() string {
		var out bytes.Buffer
		require.NoError(t, List(t.Context(), &out, File))
		return out.String()
	}
	require.Regexp(t, `(?m)^nightly +core +green on 20\S+Z after \d+s, seed -$`, list())
	require.Regexp(t, `(?m)^mutants +1 +missing$`, list())
	require.Regexp(t, `\n1 of \d+ parts have a record for the files of commit [0-9a-f]{12}\n$`, list())

	sh(t, "echo >> pkg/a/a.go")
	require.Regexp(t, `\nparts that run now leave no record: pkg/a/a.go is not committed\n$`, list())
	sh(t, "git commit -qam two")
	require.Regexp(t, `(?m)^nightly +core +missing, last time it took \d+s$`, list())
	require.NoError(t, os.WriteFile(File, []byte("nightly core\n"), 0o644))
	require.EqualError(t, List(t.Context(), &bytes.Buffer{}, File),
		`release/checks.txt:1: got "nightly core"; supported values: CHECK PART FINGERPRINT COMMIT TIME DURATION SEED`)
}

// TestSelect: PART names parts as a whole. A name that no part has is rejected.
func TestSelect(t *testing.T) {
	names := func(check, pattern string) (all []string) {
		parts, err := Select(check, pattern)
		require.NoError(t, err)
		for _, p := range parts {
			all = append(all, p.Name)
		}
		return all
	}
	require.Equal(t, []string{"koordinator", "readers"}, names("e2e-controllers", "koordinator|readers"))
	require.Len(t, names("nightly", "worlds-.*"), worldChunks)
	_, err := Select("race-all", "cor")
	require.EqualError(t, err, "PART=cor; supported values: core, kube, simulate, cmd")
	_, err = Select("race-all", "(")
	require.ErrorContains(t, err, "PART=(: ")
	_, err = Select("race", "")
	require.EqualError(t, err, `check "race"; supported values: nightly, e2e-kind, e2e-controllers, mutants, race-all`)
}

// TestPartsAreWhole: each check has parts with names of their own. The parts together are all packages, scripts and mutants.
func TestPartsAreWhole(t *testing.T) {
	t.Chdir(root)
	seen := map[string]bool{}
	for _, p := range All() {
		require.Contains(t, Names, p.Check)
		require.False(t, seen[p.Check+" "+p.Name], p.Name)
		require.NotContains(t, p.Name, " ")
		seen[p.Check+" "+p.Name] = true
	}
	for _, check := range Names {
		require.NotEmpty(t, Of(check))
	}
	var scripts []string
	files, err := filepath.Glob("test/e2e/testdata/controllers/*.txtar")
	require.NoError(t, err)
	for _, file := range files {
		scripts = append(scripts, strings.TrimSuffix(filepath.Base(file), ".txtar"))
	}
	require.ElementsMatch(t, controllerScripts, scripts)

	packages := func(patterns string) []string {
		out, err := exec.CommandContext(t.Context(), "bash", "-c", "go list "+patterns).Output()
		require.NoError(t, err)
		return strings.Fields(string(out))
	}
	var parts []string
	for _, group := range []string{corePackages, kubePackages, simulatePackages} {
		parts = append(parts, packages(group)...)
	}
	require.ElementsMatch(t, packages("./pkg/..."), parts)
}

// TestPagesThatAreRead: pages that tests of the checks name count, or are listed here with the reason.
func TestPagesThatAreRead(t *testing.T) {
	t.Chdir(root)
	page := regexp.MustCompile("(docs/)?[^\"'`\\s]*\\.md\\b")
	unread := map[string]bool{"docs/admins/controller.md": true} // a help text names it
	for _, top := range []string{"pkg", "cmd", "test/acceptance", "test/e2e", "test/e2ekind", "test/mutants"} {
		err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, "_test.go") && !strings.HasSuffix(file, ".txtar") {
				return err
			}
			text, err := os.ReadFile(file)
			for line := range strings.Lines(string(text)) {
				line = strings.TrimSpace(line)
				if strings.HasPrefix(line, "//") || strings.HasPrefix(line, "#") {
					continue
				}
				for _, name := range page.FindAllString(line, -1) {
					name = strings.TrimPrefix(name, "$ROOT/")
					if !unread[name] {
						require.Contains(t, pagesRead, name, file)
					}
				}
			}
			return err
		})
		require.NoError(t, err)
	}
}
