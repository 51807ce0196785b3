// Command scheduler is muster-scheduler with what package extend adds.
package main

import (
	"os"

	"github.com/muster-scheduler/muster/pkg/kube/command"
	"github.com/muster-scheduler/muster/test/extend"
)

func main() {
	extend.Register()
	os.Exit(command.Main(command.Options{Plugins: extend.Plugins()}))
}
