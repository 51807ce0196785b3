// Command muster-controller writes gangs of one API as the objects that one scheduler reads: for example
// PodGangs and LeaderWorkerSets as PodGroups of Muster, Koordinator, Volcano or Kubernetes itself.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/muster-scheduler/muster/pkg/kube/translate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := translate.Command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
