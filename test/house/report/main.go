// Command report prints the table of "make house".
package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/muster-scheduler/muster/test/house"
)

func main() {
	all, err := house.Load(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	memories, err := house.Memories(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tnow\tlimit\ttarget\t")
	for _, f := range house.Count(all, memories) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", f.Name, f.Now, f.Limit, f.Target, f.Note)
	}
	w.Flush()
	fmt.Println("\nfile arrows that run back, by package:")
	for _, t := range house.Tangles(all) {
		fmt.Fprintf(w, "  %s\t%d of %d\t%d %%\n", t.Package, t.Back, t.Arrows, 100*t.Back/t.Arrows)
	}
	w.Flush()
	fmt.Println("\nnot counted here: CI minutes (make test), speed and memory (make bench-scale, make bench-churn), quality (make bench-quality)")
}
