// Package ledger counts what pods use that no NodeInfo shows:
//
//	volumes.go          volumes: local ones, and storage capacity; attach.go: how many volumes a node attaches
//	volumerehearsal.go  which pod takes which volume; assumed.go: volumes of pods that are being bound
//	claims.go           ResourceClaims, and extended resources that a class provides
//	allocate.go         which pod takes which devices; reallocate.go: all members of a node at once
//	joint.go            claims that members share; settled.go: claims that a controller will deallocate
//	futureclaims.go     claims that do not exist yet; shortage.go: how many devices are missing
//
// Volumes and claims are each a fit.Ledger, made from the objects that the scheduler's own plugins read. The package makes no decisions: it
// returns what is free after some pods have taken devices or volumes and other pods were evicted.
package ledger

import (
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// All returns the ledgers of a profile.
func All(profile framework.Framework) []fit.Ledger {
	return []fit.Ledger{newVolumes(profile), newClaims(profile)}
}
