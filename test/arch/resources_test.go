package arch

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Several projects have resources of these names, and kubectl takes one of them.
var (
	ambiguousNames = []string{
		"podgroup", "podgroups", "pg", "pgs", "elasticquota", "elasticquotas", "eq", "eqs", "queue", "queues",
	}
	// kubectlCommand is a command up to the end of its line, its quotes or its pipe.
	kubectlCommand = regexp.MustCompile("\\bkubectl (?:[^\\n`|;&]*)")
	// goArguments are arguments of a kubectl command in Go, of a verb and a resource.
	goArguments = regexp.MustCompile(`"(?:get|describe|delete|edit|patch|label|annotate|wait)", "([^"]*)"`)
	verbs       = []string{"get", "describe", "delete", "edit", "patch", "label", "annotate", "wait", "explain", "replace"}
)

// ambiguous returns the kubectl commands of a text that name a resource without its API group.
func ambiguous(text string) (found []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, command := range kubectlCommand.FindAllString(text, -1) {
		words := strings.Fields(command)
		if words[min(1, len(words)-1)] == "muster" {
			continue
		}
		verb := slices.IndexFunc(words, func(word string) bool { return slices.Contains(verbs, word) })
		for _, word := range words[max(verb, 0):] {
			if verb >= 0 && namesAmbiguous(word) {
				found = append(found, strings.TrimSpace(command))
				break
			}
		}
	}
	for _, m := range goArguments.FindAllStringSubmatch(text, -1) {
		if namesAmbiguous(m[1]) {
			found = append(found, m[0])
		}
	}
	return found
}

// namesAmbiguous returns whether a word, as in "podgroups,pods" or "podgroup/train", is a list of resources with an ambiguous one.
func namesAmbiguous(word string) bool {
	resources, _, _ := strings.Cut(strings.Trim(word, `"'().,:`), "/")
	return slices.ContainsFunc(strings.Split(resources, ","), func(r string) bool { return slices.Contains(ambiguousNames, r) })
}

// TestAmbiguous: what the search finds, and what it does not.
func TestAmbiguous(t *testing.T) {
	for text, want := range map[string]int{
		"kubectl get podgroups -A":                                       1,
		"`kubectl get pg`":                                               1,
		"kubectl -n team get pods,podgroups,nodes -o yaml > a":           1,
		"kubectl describe podgroup/train":                                1,
		"kubectl get \\\n  elasticquota":                                 1,
		"see \"kubectl get queues\".":                                    1,
		`look("get", "podgroup", name)`:                                  1,
		"kubectl get podgroups.scheduling.sigs.k8s.io -A":                0,
		"kubectl wait podgroup.scheduling.sigs.k8s.io/train --for=x":     0,
		"kubectl muster explain podgroup train":                          0,
		"musterctl queue":                                                0,
		"kubectl get pods -A | musterctl queue -f -":                     0,
		"`kubectl get pods`, and `musterctl explain podgroup a`":         0,
		"kubectl get crd podgroups.scheduling.x-k8s.io":                  0,
		"kubectl apply -f queue":                                         0,
		`look("get", "elasticquotas.scheduling.sigs.k8s.io", "-o=yaml")`: 0,
	} {
		if got := ambiguous(text); len(got) != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestFullResourceNames: users read no kubectl command with an ambiguous resource: in pages, charts and their notes, manifests, alerts,
// help, and what the demo prints.
func TestFullResourceNames(t *testing.T) {
	files := markdown(t)
	for _, top := range []string{"docs", "deploy", "manifests", "pkg/cli", "pkg/demo", "pkg/page", "pkg/kube", "pkg/podgang", "cmd", "release"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !isTest(d.Name()) && !strings.Contains(file, "testdata") && !slices.Contains(files, file) {
				files = append(files, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	commands := 0
	for _, file := range files {
		text := read(t, file)
		commands += len(kubectlCommand.FindAllString(text, -1))
		for _, command := range ambiguous(text) {
			t.Errorf("%s: %s: write the resource with its API group, as in podgroups.scheduling.sigs.k8s.io", file, command)
		}
	}
	if commands < 100 {
		t.Errorf("only %d commands were found", commands)
	}
}
