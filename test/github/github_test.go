// Package github tests the files that GitHub reads: workflows, templates for issues, the configuration of the update bot, owners.
package github

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/release/checks"
)

const root = "../.."

type step struct {
	Name, Uses, Run string
	With            map[string]any
}

type job struct {
	RunsOn         string `json:"runs-on"`
	TimeoutMinutes int    `json:"timeout-minutes"`
	Strategy       struct {
		Matrix struct{ Target []string }
	}
	Steps []step
}

type workflow struct {
	Name        string
	On          map[string]any `json:"on"`
	Permissions map[string]string
	Jobs        map[string]job
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	return string(text)
}

// readWorkflow reads a workflow. Its key "on" is a boolean in YAML 1.1.
func readWorkflow(t *testing.T, file string) (w workflow) {
	t.Helper()
	text := regexp.MustCompile(`(?m)^on:`).ReplaceAllString(read(t, file), `"on":`)
	require.NoError(t, yaml.Unmarshal([]byte(text), &w), file)
	return w
}

var makes = regexp.MustCompile(`\bmake ([a-z][a-z-]*(?: [a-z][a-z-]+)*)`)

// targets returns the targets that a script makes, without comments and what it prints.
func targets(script string) (all []string) {
	for line := range strings.Lines(script) {
		line, _, _ = strings.Cut(" "+strings.TrimSpace(line), " #")
		if strings.HasPrefix(line, " echo") {
			continue
		}
		for _, m := range makes.FindAllStringSubmatch(line, -1) {
			all = append(all, strings.Fields(m[1])...)
		}
	}
	return all
}

// targets returns the targets that the steps of a workflow make, with the values of its matrix.
func (w workflow) targets() (all []string) {
	for _, j := range w.Jobs {
		for _, s := range j.Steps {
			if strings.Contains(s.Run, "make ${{ matrix.target }}") {
				all = append(all, j.Strategy.Matrix.Target...)
			}
			all = append(all, targets(s.Run)...)
		}
	}
	return all
}

// TestWorkflows: each parses, is limited in time and permissions, and makes targets that the Makefile has.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/workflows/*.yml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	makefile := read(t, "Makefile")
	for _, file := range files {
		w := readWorkflow(t, ".github/workflows/"+filepath.Base(file))
		require.NotEmpty(t, w.Name, file)
		require.NotEmpty(t, w.On, file)
		require.Equal(t, map[string]string{"contents": "read"}, w.Permissions, file)
		for name, j := range w.Jobs {
			require.NotEmpty(t, j.RunsOn, name)
			require.Positive(t, j.TimeoutMinutes, name)
			for _, s := range j.Steps {
				require.NotEqual(t, s.Uses == "", s.Run == "", "%s: a step has either uses or run: %v", name, s)
				if s.Uses != "" {
					require.Regexp(t, `^actions/[a-z-]+@v\d+$`, s.Uses)
				}
				if strings.HasPrefix(s.Uses, "actions/checkout@") {
					require.EqualValues(t, 0, s.With["fetch-depth"], "the version comes from tags, and e2e-kind needs the commit before")
				}
			}
		}
		all := w.targets()
		require.NotEmpty(t, all, file)
		for _, target := range all {
			require.Regexp(t, `(?m)^`+target+`:`, makefile, "%s makes %s", file, target)
		}
	}
}

// TestWorkflowRunsCI: the workflow makes what .ci/run makes, in an order in which it can.
func TestWorkflowRunsCI(t *testing.T) {
	want := targets(read(t, ".ci/run"))
	require.Contains(t, want, "test")
	got := readWorkflow(t, ".github/workflows/ci.yml").targets()
	require.ElementsMatch(t, want, got)
	require.Less(t, slices.Index(got, "control-plane"), slices.Index(got, "test"))
	require.Equal(t, []string{"a", "b-c", "d"}, targets("make a b-c # make x\n# make y\necho make z\nbash -c 'make d && true'\n"))
}

// TestNightlyRunsChecks: the nightly workflow runs all that a release needs, with new seeds and without earlier records.
func TestNightlyRunsChecks(t *testing.T) {
	file := ".github/workflows/nightly.yml"
	require.ElementsMatch(t, checks.Names, readWorkflow(t, file).targets())
	require.Contains(t, read(t, file), "make ${{ matrix.target }} CHECKS=bin/checks.txt\n")
	page := read(t, "docs/contributing/release.md")
	for _, check := range checks.Names {
		require.Contains(t, page, "| `make "+check+"` |")
	}
}

// TestIssueForms: each form has what GitHub demands. A bug report asks for a dump or a picture.
func TestIssueForms(t *testing.T) {
	type element struct {
		Type, ID   string
		Attributes struct{ Label, Description, Placeholder, Render, Value string }

		Validations struct{ Required bool }
	}
	for _, name := range []string{"bug", "feature"} {
		var form struct {
			Name, Description string
			Labels            []string
			Body              []element
		}
		require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, ".github/ISSUE_TEMPLATE/"+name+".yml")), &form), name)
		require.NotEmpty(t, form.Name)
		require.NotEmpty(t, form.Description)
		ids := map[string]element{}
		for _, e := range form.Body {
			if e.Type == "markdown" {
				require.NotEmpty(t, e.Attributes.Value)
				continue
			}
			require.Equal(t, "textarea", e.Type)
			require.NotEmpty(t, e.Attributes.Label)
			require.NotContains(t, ids, e.ID)
			ids[e.ID] = e
		}
		if name == "bug" {
			require.True(t, ids["dump"].Validations.Required)
			require.Contains(t, ids["dump"].Attributes.Description, "musterctl dump")
			require.Contains(t, ids["dump"].Attributes.Description, "picture")
		}
		for _, m := range regexp.MustCompile(`/blob/main/([^)\s]+)`).FindAllStringSubmatch(read(t, ".github/ISSUE_TEMPLATE/"+name+".yml"), -1) {
			require.FileExists(t, filepath.Join(root, m[1]))
		}
	}
	var config struct {
		Blank    bool                                `json:"blank_issues_enabled"`
		Contacts []struct{ Name, URL, About string } `json:"contact_links"`
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, ".github/ISSUE_TEMPLATE/config.yml")), &config))
	require.False(t, config.Blank)
	for _, c := range config.Contacts {
		require.NotEmpty(t, c.Name)
		require.NotEmpty(t, c.About)
		require.True(t, strings.HasPrefix(c.URL, "https://github.com/muster-scheduler/muster/"), c.URL)
	}
	for _, m := range regexp.MustCompile("`make ([a-z-]+)`").FindAllStringSubmatch(read(t, ".github/pull_request_template.md"), -1) {
		require.Regexp(t, `(?m)^`+m[1]+`:`, read(t, "Makefile"))
	}
}

// TestUpdateBot: the bot knows each module, and changes Kubernetes' modules together.
func TestUpdateBot(t *testing.T) {
	var bot struct {
		Version int
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directory   string
			Directories []string
			Schedule    struct{ Interval string }
			Groups      map[string]struct {
				Patterns        []string
				ExcludePatterns []string `json:"exclude-patterns"`
			}
			Ignore []struct {
				Name  string   `json:"dependency-name"`
				Types []string `json:"update-types"`
			}
		}
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, ".github/dependabot.yml")), &bot))
	require.Equal(t, 2, bot.Version)
	var known []string
	for _, u := range bot.Updates {
		require.NotEmpty(t, u.Schedule.Interval)
		if u.Ecosystem == "gomod" {
			known = append(known, u.Directories...)
			if u.Directory != "" {
				known = append(known, u.Directory)
			}
		}
		if u.Directory == "/" && u.Ecosystem == "gomod" {
			require.Contains(t, u.Groups["kubernetes"].Patterns, "k8s.io/*")
			require.Equal(t, u.Groups["kubernetes"].Patterns, u.Groups["others"].ExcludePatterns)
		}
	}
	var modules []string
	for _, glob := range []string{"go.mod", "*/go.mod", "*/*/go.mod"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		require.NoError(t, err)
		for _, file := range files {
			folder, err := filepath.Rel(root, filepath.Dir(file))
			require.NoError(t, err)
			modules = append(modules, filepath.Join("/", folder))
		}
	}
	require.ElementsMatch(t, modules, known)
}

// TestOwners: each path of CODEOWNERS exists and has an owner, and all files have one.
func TestOwners(t *testing.T) {
	all := false
	for line := range strings.Lines(read(t, ".github/CODEOWNERS")) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		require.GreaterOrEqual(t, len(fields), 2, line)
		for _, owner := range fields[1:] {
			require.Regexp(t, `^@[a-z-]+(/[a-z-]+)?$`, owner)
		}
		if fields[0] == "*" {
			all = true
			continue
		}
		_, err := os.Stat(filepath.Join(root, fields[0]))
		require.NoError(t, err)
	}
	require.True(t, all)
	for _, file := range []string{"GOVERNANCE.md", "SUPPORT.md", "SECURITY.md", "CONTRIBUTING.md", "LICENSE"} {
		require.FileExists(t, filepath.Join(root, file))
	}
}
