// Package quota divides a cluster's capacity among teams, gang by gang.
//
// Quotas form trees. Each has a min, which is guaranteed, a max, which is a hard limit, and a weight, by which spare capacity is divided:
//
//	total 96        used  reserved  request  fair share
//	└─ ml           64    0         96       96
//	   ├─ train     64    0         64       64      min 32: G1 is guaranteed, G2 borrows
//	   └─ serve      0    0         32       32      min 64
//
//	quota.go      what users declare
//	tree.go       quotas, and the problems in them
//	book.go       use, reservations and requests
//	bookcopy.go   a book without some pods
//	fairshare.go  the fair share of each quota
//	share.go      the order in which quotas are served
//	admit.go      whether a gang is admitted, on every path at once
//	choices.go    which members are admitted where members differ
//	classes.go    which gangs are guaranteed, and which borrow
//	reclaim.go    which gangs may be evicted for a gang, and what must be freed
//	revoke.go     which quotas exceed their fair share or limits
//
// Invariant: a gang is admitted whole. A Book records changes pod by pod and answers questions; it takes no lock and reads no clock.
// Amounts are whole numbers of a resource's unit. The package knows neither nodes nor Kubernetes objects. The fair share is the runtime
// quota of Koordinator's group_quota_manager: mins scaled to the total, and water filling by weight with largest remainders.
package quota

import (
	"maps"
	"math"
	"slices"
)

// List is amounts by resource name. As a limit, it does not limit resources that it does not name.
type List map[string]int64

// Spec is a quota as users declare it.
type Spec struct {
	Name   string
	Parent string // "" at the top of a tree
	Min    List
	Max    List
	Weight List // default: as in Max, or the largest of any sibling
	// NotLent says that unused min is not lent.
	NotLent bool
	// Inner quotas have quotas below them, and no pods of their own.
	Inner bool
	// Detached is a quota beside its tree: only its max limits it, its use reduces the tree's total, and it gets no share.
	Detached bool
	// NeverEvicted says that its pods are never evicted for other pods.
	NeverEvicted bool
	// Created is the creation time. Of quotas with the same name only the oldest counts.
	Created int64
	// Invalid says why the quota cannot be used as written; "" if it can. Its pods, and pods of quotas below it, wait.
	Invalid string
}

// Problem is an error in a quota.
type Problem struct {
	Spec    int // index into the specs
	Message string
	// Stops says that pods of the quota wait until the error is fixed. Otherwise the quota is used as Message say.
	Stops bool
}

// vector is amounts by the number of a resource.
type vector []int64

// add adds o to v, element by element.
func (v vector) add(o vector) {
	for r, n := range o {
		v[r] = plus(v[r], n)
	}
}

// sub subtracts o from v, element by element.
func (v vector) sub(o vector) {
	for r, n := range o {
		v[r] -= n
	}
}

// plus returns the sum, or math.MaxInt64 (unlimited) on overflow.
func plus(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// names returns the resource names of lists, sorted and unique.
func names(lists ...List) (all []string) {
	for _, l := range lists {
		all = slices.AppendSeq(all, maps.Keys(l))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
