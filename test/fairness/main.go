// Fairness plays a random trace of three teams and their gangs on the core of quotas. It draws what each team used of
// the cluster, and its fair share. See docs/measurements/fairness.md.
//
//	go run ./test/fairness -svg docs/measurements/fairness.svg
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	seed := flag.Uint64("seed", 1, "of the trace")
	svg := flag.String("svg", "", "`FILE` for the drawing")
	flag.Parse()
	m := play(draw(*seed), usual)
	fmt.Println(m.report())
	if *svg != "" {
		if err := os.WriteFile(*svg, []byte(m.svg()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "fairness:", err)
			os.Exit(1)
		}
	}
}
