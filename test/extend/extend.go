// Package extend builds a scheduler of your own: Muster with one source, one check, one ledger and one preference that
// Muster does not have. Copy from each file; scheduler/main.go makes the program. docs/contributing/extend.md explains them.
package extend

import (
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Register tells of the source. It is to be called once, when the program begins.
func Register() { source.Register(Crews) }

// Plugins are the others, which profiles name.
func Plugins() frameworkruntime.Registry {
	return frameworkruntime.Registry{TurnsName: NewTurns, SeatsName: NewSeats, ThinName: NewThin}
}
