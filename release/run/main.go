// Command run runs the parts of a check that a release needs, or lists which are recorded:
//
//	go run ./release/run [-records FILE] [-part REGEXP] [CHECK]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/muster-scheduler/muster/release/checks"
)

func main() {
	records := flag.String("records", checks.File, "`FILE` of the records")
	part := flag.String("part", "", "only parts whose whole name matches `REGEXP`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *records, flag.Arg(0), *part); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, records, check, part string) error {
	if check == "" {
		return checks.List(ctx, os.Stdout, records)
	}
	parts, err := checks.Select(check, part)
	if err != nil {
		return err
	}
	return checks.Run(ctx, os.Stdout, records, parts)
}
