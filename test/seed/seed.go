// Package seed has random tests draw the same worlds in every run, so that what fails has failed for a
// change, and for whoever runs the tests. Import it for its effect. With MUSTER_RANDOM=1, as in
// "make nightly", and with -rapid.seed, other worlds are drawn.
package seed

import (
	"flag"
	"os"
	"strconv"

	_ "pgregory.net/rapid" // which defines the flag
)

const fixed = 20261122

func init() {
	if os.Getenv("MUSTER_RANDOM") != "" {
		return
	}
	if err := flag.Set("rapid.seed", strconv.Itoa(fixed)); err != nil {
		panic(err)
	}
}
