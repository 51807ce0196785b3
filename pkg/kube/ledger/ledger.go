// Package ledger tracks what pods use that no NodeInfo shows:
//
// \tvolumes.go volumes: local ones, storage capacity; attach.go: how many a node attaches
// \tvolumerehearsal.go which pod takes which volume; assumed.go: volumes of pods that are being bound
// \tclaims.go ResourceClaims, and extended resources that a class backs
// \tallocate.go which pod takes which devices; reallocate.go: all pods of a node at once
// \tjoint.go claims that members share; settled.go: claims to be deallocated
// \tfutureclaims.go claims that do not exist yet; shortage.go: how many devices are missing
//
// Each is a fit.Ledger over the objects that the scheduler's own plugins read. The package decides nothing: it returns what is
// free after some pods have taken devices or volumes and other pods were evicted.
package ledger

import (
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// All returns the ledgers of a profile.
func All(profile framework.Framework) []fit.Ledger {
	return []fit.Ledger{newVolumes(profile), newClaims(profile)}
}
