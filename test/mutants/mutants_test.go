// Package mutants breaks the core on purpose, one line at a time, and sees a test fail
// each time. It takes minutes, so it runs only when asked for:
//
//	MUTANTS=1 go test ./test/mutants -timeout 60m
//	MUTANTS=1 go test ./test/mutants -run TestMutants/evict:
//
// Without that it only makes sure that each line to break is still there.
package mutants

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is one break: in the file, old becomes new, and the tests of the file's
// package named killers (all of them, separated by spaces) must fail. A killer of a
// package beside it is named with that package: plan.TestChoose.
type mutant struct {
	name, file, old, new, killers string
}

const root = "../.."

func TestMutants(t *testing.T) {
	asked := os.Getenv("MUTANTS") != ""
	for _, m := range all {
		t.Run(filepath.Base(filepath.Dir(m.file))+": "+m.name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join(root, m.file))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%s holds %d times: %s", m.file, n, m.old)
			}
			if asked {
				kill(t, m, strings.Replace(string(source), m.old, m.new, 1))
			}
		})
	}
}

// kill runs the killers' packages' tests with the broken file in place of the real one.
func kill(t *testing.T, m mutant, broken string) {
	file, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	stand := filepath.Join(t.TempDir(), "mutant.go")
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: stand}})
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{stand: []byte(broken), overlay: replace} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	noticed := false
	for dir, killers := range m.byPackage() {
		args := []string{"test", "-overlay", overlay, "-count=1", "-timeout", "5m", "-run", "^(" + strings.Join(killers, "|") + ")$", "./" + dir}
		if usesRapid(t, dir) {
			args = append(args, "-rapid.shrinktime", "1s")
		}
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "MUSTER_NIGHTLY=1") // all random worlds: a tenth of them may miss a mutant
		out, err := cmd.CombinedOutput()
		noticed = noticed || err != nil
		for _, killer := range killers {
			if !strings.Contains(string(out), "--- FAIL: "+killer+" ") {
				t.Errorf("%s did not notice:\n-%s\n+%s\n%s", killer, m.old, m.new, out)
			}
		}
	}
	if !noticed {
		t.Errorf("nobody noticed:\n-%s\n+%s", m.old, m.new)
	}
}

// usesRapid says whether a folder's tests know rapid's flags.
func usesRapid(t *testing.T, dir string) bool {
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), `"pgregory.net/rapid"`) {
			return true
		}
	}
	return false
}

// byPackage tells which tests of which folder must fail.
func (m mutant) byPackage() map[string][]string {
	all := map[string][]string{}
	for _, killer := range strings.Fields(m.killers) {
		dir := filepath.Dir(m.file)
		if of, name, ok := strings.Cut(killer, "."); ok {
			dir, killer = filepath.Join(filepath.Dir(dir), of), name
		}
		all[dir] = append(all[dir], killer)
	}
	return all
}
