// Command muster-scheduler is the stock kube-scheduler with the Coscheduling plugin in every profile. Its code is in pkg/kube/command,
// so that users can build a scheduler with additional plugins: see docs/contributing/extend.md.
package main

import (
	"os"

	"github.com/muster-scheduler/muster/pkg/kube/command"
)

func main() { os.Exit(command.Main(command.Options{})) }
