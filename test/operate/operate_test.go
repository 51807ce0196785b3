// Package operate runs the commands that the docs print.
package operate

import (
	"bytes"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/cli"
)

// What a line of a block may be, or name.
var (
	command      = regexp.MustCompile(`^\s*(kubectl muster|musterctl|bin/musterctl) ([^|>&]+)`)
	target       = regexp.MustCompile(`^\s*make ([a-z-]+)`)
	inRepository = regexp.MustCompile(`\b(deploy|manifests|docs)/[a-z0-9./-]+\b`)
)

// commandLine is what a console block begins with.
var commandLine = regexp.MustCompile(`^\$ (kubectl muster|musterctl|bin/musterctl) (.+)$`)

var rewrite = flag.Bool("rewrite", false, "write what the commands print into the pages")

// pages are the README and the pages of docs, below the working directory, without decisions and measurements.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, glob := range []string{"README*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		found, err := filepath.Glob(glob)
		require.NoError(t, err)
		all = append(all, found...)
	}
	return slices.DeleteFunc(all, func(page string) bool {
		return strings.Contains(page, "docs/decisions/") || strings.Contains(page, "docs/measurements/")
	})
}

// TestCommands: each command in a console block prints what stands below it. A command without files reads cluster.yaml.
func TestCommands(t *testing.T) {
	t.Chdir("../..")
	ran, changed := 0, map[string]string{}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		now, blocks := transcripts(t, page, string(text))
		ran += blocks
		if *rewrite {
			changed[page] = now
			continue
		}
		require.Equal(t, now, string(text), "%s: run with -rewrite, and read the diff", page)
	}
	require.Greater(t, ran, 10)
	for page, text := range changed {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	}
}

// transcripts returns the page with what its commands print now, and their number.
func transcripts(t *testing.T, page, text string) (now string, ran int) {
	t.Helper()
	var out strings.Builder
	for rest := text; ; ran++ {
		before, block, ok := strings.Cut(rest, "```console\n")
		out.WriteString(before)
		if !ok {
			return out.String(), ran
		}
		var end bool
		block, rest, end = strings.Cut(block, "```")
		require.True(t, end, "%s: a block that does not end", page)
		first, _, _ := strings.Cut(block, "\n")
		m := commandLine.FindStringSubmatch(first)
		require.NotNil(t, m, "%s: %s", page, first)
		args := strings.Fields(strings.Replace(m[2], " --from-cluster", "", 1)) // for which the file stands
		if !slices.Contains(args, "-f") {
			args = append(args, "-f", "test/operate/cluster.yaml")
		}
		var said, errs bytes.Buffer
		code := cli.Main(t.Context(), args, &said, &errs)
		require.False(t, code != 0 && said.Len() == 0, "%s: %s: no answer: %s", page, first, errs.String())
		out.WriteString("```console\n" + first + "\n" + said.String() + "```")
	}
}

// TestAlerts: each alert of the rules is explained on the page, and no other.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../../docs/troubleshooting/alerts.md")
	require.NoError(t, err)
	rules, err := os.ReadFile("../../deploy/monitoring/prometheusrule.yaml")
	require.NoError(t, err)
	controller, err := os.ReadFile("../../deploy/monitoring/controller/prometheusrule.yaml")
	require.NoError(t, err)
	rules = append(rules, controller...)
	names := func(text []byte, pattern string) (names []string) {
		for _, found := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
		return names
	}
	require.Equal(t, names(rules, `alert: (\w+)`), names(text, `(?m)^## (Muster\w+)$`))
}

// TestCommandLines: musterctl knows the flags of each command in the docs' other blocks, and the Makefile its targets. The
// files of the repository that blocks name exist.
func TestCommandLines(t *testing.T) {
	t.Chdir("../..")
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	commands := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for i, block := range strings.Split(string(text), "```") {
			if i%2 == 0 || strings.HasPrefix(block, "console\n") {
				continue
			}
			for _, line := range strings.Split(block, "\n") {
				line, _, _ = strings.Cut(line, " #")
				if m := command.FindStringSubmatch(line); m != nil {
					commands++
					var errs bytes.Buffer
					require.Zero(t, cli.Main(t.Context(), append(strings.Fields(m[2]), "--help"), io.Discard, &errs), "%s: %s: %s", page, line, errs.String())
				}
				if m := target.FindStringSubmatch(line); m != nil {
					require.Contains(t, string(makefile), "\n"+m[1]+":", "%s: %s", page, line)
				}
				for _, m := range inRepository.FindAllString(line, -1) {
					_, err := os.Stat(m)
					require.NoError(t, err, "%s: %s", page, line)
				}
			}
		}
	}
	require.Greater(t, commands, 30)
}

// TestMessages: the parts of messages that the page explains are in the source, in alphabetical order.
func TestMessages(t *testing.T) {
	text, err := os.ReadFile("../../docs/troubleshooting/messages.md")
	require.NoError(t, err)
	var source strings.Builder
	require.NoError(t, filepath.WalkDir("../../pkg", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		source.Write(data)
		return err
	}))
	var parts []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(.+?)` \\|").FindAllStringSubmatch(string(text), -1) {
		parts = append(parts, strings.ToLower(row[1]))
		require.Contains(t, source.String(), row[1])
	}
	require.Greater(t, len(parts), 20)
	require.IsIncreasing(t, parts)
}
