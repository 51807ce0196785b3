// Package seed decides which random worlds a test run draws.
//
// By default each run draws the same worlds, a tenth of all: a test that fails has failed because of a change.
// With MUSTER_NIGHTLY=1, as in "make nightly", a run draws all worlds from new seeds.
// The flags -rapid.seed and -rapid.checks overrule both. Import the package for its effect.
package seed

import (
	"flag"
	"os"
	"strconv"

	_ "pgregory.net/rapid" // which defines the flags
)

const (
	fixed = 20261122
	part  = 10
)

func init() {
	if nightly() {
		return
	}
	if err := flag.Set("rapid.seed", strconv.Itoa(fixed)); err != nil {
		panic(err)
	}
}

func nightly() bool { return os.Getenv("MUSTER_NIGHTLY") != "" }

// Worlds returns the number of worlds that this run draws for a property: a tenth of all, and at least one. The nightly
// run draws all.
func Worlds(all int) int {
	if nightly() {
		return all
	}
	return max(1, all/part)
}
