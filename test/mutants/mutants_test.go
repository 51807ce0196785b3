// Package mutants breaks the core on purpose, one fragment of a declaration at a time. Each time the named tests must fail.
// A full run takes hours, so it runs on request only:
//
//	make mutants
//	MUTANTS=3/8 go test ./test/mutants
//	MUTANTS=1 go test ./test/mutants -run TestMutants/evict:
//
// Without MUTANTS the test checks the list: each fragment is found once, each mutant parses, each killer exists.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// mutant is one break: in a declaration of a package folder, the fragment old becomes new. Then each killer must fail.
// Fragments are compared token by token: spaces, line ends and comments do not matter. The declaration has old exactly once.
// Killers are tests of the folder, separated by spaces. A test of a folder beside it is named with that folder: plan.TestChoose.
type mutant struct {
	name, folder, declaration, old, new, killers string
}

const root = "../.."

func TestMutants(t *testing.T) {
	shard, shards, err := readShard(os.Getenv("MUTANTS"))
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string][]declaration{}
	for i, m := range all {
		if shards > 0 && i%shards != shard-1 {
			continue
		}
		if packages[m.folder] == nil {
			declarations, err := readPackage(filepath.Join(root, m.folder))
			if err != nil {
				t.Fatal(err)
			}
			packages[m.folder] = declarations
		}
		t.Run(filepath.Base(m.folder)+": "+m.name, func(t *testing.T) {
			file, broken, err := m.mutate(packages[m.folder])
			if err != nil {
				t.Fatalf("mutant %q: %v", m.name, err)
			}
			if m.killers == "" {
				t.Fatalf("mutant %q: no killers; name a test that must fail", m.name)
			}
			for folder, killers := range m.killersByFolder() {
				tests := readTests(t, folder)
				for _, killer := range killers {
					if !strings.Contains(tests, "\nfunc "+killer+"(") {
						t.Errorf("mutant %q: %s has no test %s; correct the killers", m.name, folder, killer)
					}
				}
			}
			if shards > 0 && !t.Failed() {
				kill(t, m, file, broken)
			}
		})
	}
}

// readShard reads MUTANTS: K/N runs each N-th mutant from the K-th on, 1 runs all, and "" none, with shards 0.
func readShard(text string) (shard, shards int, err error) {
	switch text {
	case "":
		return 0, 0, nil
	case "1":
		return 1, 1, nil
	}
	before, after, _ := strings.Cut(text, "/")
	shard, err1 := strconv.Atoi(before)
	shards, err2 := strconv.Atoi(after)
	if err1 != nil || err2 != nil || shard < 1 || shard > shards {
		return 0, 0, fmt.Errorf("MUTANTS=%s; supported values: 1, and K/N with K from 1 to N", text)
	}
	return shard, shards, nil
}

func TestReadShard(t *testing.T) {
	for _, text := range []string{"0/8", "9/8", "3", "3/", "/8", "a/b", "-1/8"} {
		if _, _, err := readShard(text); err == nil {
			t.Errorf("MUTANTS=%s is accepted", text)
		}
	}
	for text, want := range map[string][2]int{"": {}, "1": {1, 1}, "3/8": {3, 8}, "8/8": {8, 8}} {
		shard, shards, err := readShard(text)
		if err != nil || [2]int{shard, shards} != want {
			t.Errorf("MUTANTS=%s is shard %d of %d (%v)", text, shard, shards, err)
		}
	}
}

var notBuilt = regexp.MustCompile(`(?m)^FAIL\s+\S+ \[(build|setup) failed\]$`)

// kill runs the killers with the broken text in place of the file.
func kill(t *testing.T, m mutant, file, broken string) {
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	mutated := filepath.Join(t.TempDir(), "mutant.go")
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{mutated: []byte(broken), overlay: replace} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for folder, killers := range m.killersByFolder() {
		args := []string{"test", "-overlay", overlay, "-vet=off", "-count=1", "-timeout", "5m"}
		args = append(args, "-run", "^("+strings.Join(killers, "|")+")$", "./"+folder)
		if strings.Contains(readTests(t, folder), `"pgregory.net/rapid"`) {
			args = append(args, "-rapid.shrinktime", "1s")
		}
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "MUSTER_NIGHTLY=1") // all random worlds: a tenth of them may miss a mutant
		out, err := cmd.CombinedOutput()
		if notBuilt.Match(out) {
			t.Fatalf("mutant %q does not compile, so no test runs; correct new:\n-%s\n+%s\n%s", m.name, m.old, m.new, out)
		}
		for _, killer := range killers {
			if !strings.Contains(string(out), "--- FAIL: "+killer+" ") {
				t.Errorf("mutant %q survives %s (%v):\n-%s\n+%s\n%s", m.name, killer, err, m.old, m.new, out)
			}
		}
	}
}

// readTests returns the text of a folder's test files.
func readTests(t *testing.T, folder string) string {
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// killersByFolder returns the tests that must fail, by their folder.
func (m mutant) killersByFolder() map[string][]string {
	all := map[string][]string{}
	for _, killer := range strings.Fields(m.killers) {
		folder := m.folder
		if beside, name, ok := strings.Cut(killer, "."); ok {
			folder, killer = filepath.Join(filepath.Dir(folder), beside), name
		}
		all[folder] = append(all[folder], killer)
	}
	return all
}
