// Package ledger knows what pods take that no NodeInfo shows, one file for each thing:
//
//	volumes.go   volumes: local ones, storage capacity; rehearsal.go: who takes which; attach.go: how many a node attaches;
//	             putaside.go: what those have who are under way
//	claims.go    resource claims, and extended resources that a class backs; allocate.go: who takes which devices;
//	             joint.go: what members have together; settled.go: what is to be deallocated; tocome.go: claims that are
//	             still to be made; short.go: how many are missing
//
// Each is a fit.Ledger over the objects that the scheduler's own plugins read. The package
// decides nothing: it says what is left when some have taken and others have left.
package ledger

import (
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// All are the ledgers of a profile.
func All(profile framework.Framework) []fit.Ledger {
	return []fit.Ledger{newVolumes(profile), newClaims(profile)}
}
