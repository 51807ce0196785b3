// Command musterctl shows gangs and topology, and runs Muster on simulated clusters. As kubectl-muster on PATH it is "kubectl muster".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/muster-scheduler/muster/pkg/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
