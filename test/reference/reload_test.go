package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/apis/config"
)

// argumentsByReload returns the names of CoschedulingArgs that a running scheduler adopts, and the names of the rest.
func argumentsByReload() (live, restart []string) {
	of := reflect.TypeFor[config.Args]()
	for i := range of.NumField() {
		name := config.Name(of.Field(i).Name)
		if config.IsLive(name) {
			live = append(live, name)
		} else {
			restart = append(restart, name)
		}
	}
	return live, restart
}

// TestReloadedArguments: docs/admins/arguments.md lists exactly the arguments that a running scheduler adopts, and exactly the rest.
func TestReloadedArguments(t *testing.T) {
	root, err := rootFolder()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs/admins/arguments.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| what changed | in force |\n")
	require.True(t, found)
	listed := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			break
		}
		force := strings.TrimSpace(cells[2])
		for _, m := range codeSpan.FindAllStringSubmatch(cells[1], -1) {
			listed[force] = append(listed[force], m[1])
		}
	}
	live, restart := argumentsByReload()
	require.ElementsMatch(t, live, listed["while it runs"])
	require.ElementsMatch(t, restart, listed["after a restart"])
}

var (
	// sentenceEnd ends a sentence, a paragraph, an item of a list or a row of a table.
	sentenceEnd = regexp.MustCompile(`[.;!?]\s|:\n|\n\s*\n|\n\s*(?:[*-] |\d\. )|\n\s*\|`)
	// commentLine begins a line that continues a comment, and codeLine one that does not.
	commentLine = regexp.MustCompile(`\n\s*(?:#|//) `)
	codeLine    = regexp.MustCompile(`\n`)

	configuration = regexp.MustCompile(`(?i)\b(configuration|config file|configmap|arguments?|CoschedulingArgs)\b`)
	readOnce      = regexp.MustCompile(`(?i)\b(read|reads|loaded|parsed)\b.*\b(at (the|its) start|at start|at startup|on startup|only once|when it starts)\b`)
	// anotherProgram is what reads its own file once.
	anotherProgram = regexp.MustCompile(`(?i)controller|musterctl|reload\.go`)
	restarts       = regexp.MustCompile(`(?i)\brestart|重启`)
	noRestart      = regexp.MustCompile(`(?i)without (a )?restart|no restart|while it runs|at once|immediately|无需重启`)
)

// contradictions returns the sentences of a page, or of another file, that contradict which arguments a running scheduler adopts.
func contradictions(text string, isPage bool) (wrong []string) {
	if !isPage { // each comment is a paragraph, and so is each line of code
		text = strings.ReplaceAll(codeLine.ReplaceAllString(commentLine.ReplaceAllString("\n"+text, "\r"), "\n\n"), "\r", "\n")
	}
	live, restart := argumentsByReload()
	names := func(sentence string, arguments []string) bool {
		return slices.ContainsFunc(arguments, func(name string) bool {
			return regexp.MustCompile(`\b` + name + `\b`).MatchString(sentence)
		})
	}
	for _, s := range sentenceEnd.Split(text, -1) {
		s = strings.Join(strings.Fields(s), " ")
		switch {
		case configuration.MatchString(s) && readOnce.MatchString(s) && !anotherProgram.MatchString(s),
			names(s, live) && !names(s, restart) && restarts.MatchString(s) && !noRestart.MatchString(s),
			names(s, restart) && !names(s, live) && noRestart.MatchString(s):
			wrong = append(wrong, s)
		}
	}
	return wrong
}

// TestContradictions: what the search finds, and what it does not.
func TestContradictions(t *testing.T) {
	for text, want := range map[string]int{
		"# The configuration is read at the start only: another one means other pods.\n":               1,
		"The arguments of Muster are read at its start.":                                               1,
		"The ConfigMap is loaded only once.":                                                           1,
		"# The scheduler's configuration is\n# read at startup.\n":                                     1,
		"Set `enablePreemption: false`, and restart the scheduler.":                                    1,
		"| `maxGrace` | a duration | after a restart |":                                                1,
		"`awareNetworkTopology` changes at once.":                                                      1,
		"| `controllerWorkers` | while it runs |":                                                      1,
		"`enablePreemption` takes effect without a restart.":                                           0,
		"`controllerWorkers` needs a restart.":                                                         0,
		"It asks the API server for that version at its start. Change the configuration afterwards.":   0,
		"muster-controller reads its configuration only once.":                                         0,
		"Disable the plugin in the profile, and restart the scheduler:\n\n    enablePreemption: false": 0,
	} {
		require.Len(t, contradictions(text, !strings.Contains(text, "#")), want, text)
	}
}

// TestNoTextContradictsReload: no page, chart, manifest, comment or help says another thing about changed arguments than the code does.
func TestNoTextContradictsReload(t *testing.T) {
	root, err := rootFolder()
	require.NoError(t, err)
	kinds, files := []string{".md", ".yaml", ".tpl", ".txt", ".go", ".json"}, 0
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(file, root+"/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"testdata", ".git", "bin"}, d.Name()) || name == "test" || name == "docs/decisions"):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains(kinds, filepath.Ext(file)) || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		files++
		text, err := os.ReadFile(file)
		require.Empty(t, contradictions(string(text), filepath.Ext(file) == ".md"), name)
		return err
	}))
	require.Greater(t, files, 300)
}
