// Package checks knows the long runs that a release needs, the parts of each, and the records of the green ones.
//
// A record holds for the files of a commit, not for the commit: pages that no part reads may change afterwards.
// So the file of records can be committed itself, and a run that was interrupted goes on at another time.
package checks

import (
	"fmt"
	"regexp"
	"strings"
)

// Names are the checks that a release needs. Each is a target of make.
var Names = []string{"nightly", "e2e-kind", "e2e-controllers", "mutants", "race-all"}

// Part is a piece of a check that runs and is recorded on its own.
type Part struct {
	Check, Name string
	Command     string // for bash, in the root folder. $SEED is a new number for each run.
	MaySkip     bool   // some of its tests are meant for other versions of Kubernetes
}

// The packages in groups. Each package is in one group, also a new one.
const (
	corePackages     = "$(go list ./pkg/... | grep -v /pkg/kube/)"
	kubePackages     = "$(go list ./pkg/kube/... | grep -v /pkg/kube/simulate)"
	simulatePackages = "./pkg/kube/simulate/..."
)

// withPrograms builds what is in bin/ and the control plane first. A part does it itself: programs that were built before the part
// began may be of another commit.
const withPrograms = "make --no-print-directory build control-plane && " +
	"MUSTERCTL_BIN=$PWD/bin/musterctl MUSTER_CONTROLLER_BIN=$PWD/bin/muster-controller "

const (
	worldChunks   = 10 // each draws 1,000 histories, and plays 100 of them twice
	promiseChunks = 10 // each plays 10,000 histories
	mutantShards  = 8
)

// controllerScripts are the scripts of test/e2e/testdata/controllers.
var controllerScripts = []string{
	"jobset", "jobset-sizes", "koordinator", "koordinator-migration", "kueue", "lws", "lws-leader-first", "lws-leader-replaced",
	"lws-recreated", "lws-translated", "mpi-operator", "readers", "trainer",
}

// All returns the parts of all checks, in the order in which they run.
func All() (all []Part) {
	add := func(check, name, command string) { all = append(all, Part{Check: check, Name: name, Command: command}) }

	random := func(name, packages string) {
		add("nightly", name, withPrograms+
			"MUSTER_NIGHTLY=1 RAPID_SEED=$SEED WORLDS=$PWD/bin/checks/worlds-$SEED go test -count=1 -timeout 3h "+packages)
	}
	random("core", corePackages)
	random("kube", kubePackages)
	random("simulate", simulatePackages)
	random("acceptance", "./test/acceptance/...")
	for i := range worldChunks {
		add("nightly", fmt.Sprintf("worlds-%02d", i+1), "MUSTER_NIGHTLY=1 go test -count=1 -timeout 3h -v -run '^(TestWorlds|TestTwice)$' "+
			"./pkg/kube/simulate -args -sim.shrink -sim.seed=$SEED -sim.worlds=1000 -sim.twice=100")
	}
	for i := range promiseChunks {
		add("nightly", fmt.Sprintf("promises-%02d", i+1), "make --no-print-directory promises SEED=$SEED HISTORIES=10000")
	}
	property := func(name, test string, draws int) {
		add("nightly", name, fmt.Sprintf("MUSTER_NIGHTLY=1 RAPID_SEED=$SEED go test -count=1 -timeout 3h -v -run '^%s$' ./pkg/kube/simulate "+
			"-rapid.checks=%d", test, draws))
	}
	property("clusters", "TestRandomClusters", 1000)
	property("killed", "TestKilled", 2000)
	property("claims", "TestClaimPlans", 10000)
	property("quotas", "TestQuotaVictims", 10000)
	e2e := func(name, variables, test string) {
		add("nightly", name, withPrograms+variables+" go test -count=1 -timeout 2h -v -run '^"+test+"$' ./test/e2e")
	}
	e2e("crashes", "E2E_CRASHES=200", "TestCrashes")
	e2e("losses", "E2E_LOSSES=1 E2E_CRASHES=200", "TestCrashes")
	e2e("asked", "E2E_WORLDS=200 E2E_SEED=$SEED", "TestAsked")
	for _, version := range []string{"1.34", "1.35", "1.36"} {
		all = append(all, Part{"nightly", "kubernetes-" + version, "make --no-print-directory e2e-versions VERSIONS=" + version, true})
	}
	add("nightly", "image", "make --no-print-directory image-check")
	add("nightly", "quality", "make --no-print-directory quality-smoke")
	add("nightly", "vuln", "make --no-print-directory vuln")

	add("e2e-kind", "all", "E2E_KIND=1 go test -count=1 -timeout 60m -v -run '^TestKind$' ./test/e2ekind")
	for _, script := range controllerScripts {
		add("e2e-controllers", script, withPrograms+
			"E2E_CONTROLLERS=1 go test -count=1 -timeout 60m -v -run '^TestControllers$/^"+script+"$' ./test/e2e")
	}
	for i := range mutantShards {
		add("mutants", fmt.Sprint(i+1), fmt.Sprintf("MUTANTS=%d/%d go test -vet=off -count=1 -timeout 3h -v ./test/mutants", i+1, mutantShards))
	}
	race := func(name, packages string) {
		add("race-all", name, withPrograms+"go test -count=1 -timeout 2h -race "+packages)
	}
	race("core", corePackages)
	race("kube", kubePackages)
	race("simulate", simulatePackages)
	race("cmd", "./cmd/...")
	return all
}

// Of returns the parts of a check.
func Of(check string) (parts []Part) {
	for _, p := range All() {
		if p.Check == check {
			parts = append(parts, p)
		}
	}
	return parts
}

// Select returns the parts of a check whose whole name matches a regular expression; all parts if it is empty.
func Select(check, pattern string) (selected []Part, err error) {
	parts := Of(check)
	if len(parts) == 0 {
		return nil, fmt.Errorf("check %q; supported values: %s", check, strings.Join(Names, ", "))
	}
	if pattern == "" {
		return parts, nil
	}
	matches, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return nil, fmt.Errorf("PART=%s: %w", pattern, err)
	}
	var names []string
	for _, p := range parts {
		names = append(names, p.Name)
		if matches.MatchString(p.Name) {
			selected = append(selected, p)
		}
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("PART=%s; supported values: %s", pattern, strings.Join(names, ", "))
	}
	return selected, nil
}
