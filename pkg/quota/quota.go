// Package quota divides what a cluster has among teams, gang by gang.
//
// Quotas hang in trees. Each has a min, which is kept for it, a max, which it never passes, and a weight,
// by which what is left over is divided:
//
//	total 96        used  reserved  asked for  entitled to
//	└─ ml           64    0         96         64
//	   ├─ train     64    0         64         48      min 32: G1 is guaranteed, G2 borrows
//	   └─ serve      0    0         32         16      min 64
//
//	quota.go    what users declare
//	tree.go     quotas, and what is wrong with them
//	book.go     who has, keeps and waits for how much
//	entitle.go  what each quota is entitled to
//	share.go    who is served next
//	admit.go    whether a gang may have what it asks for, on every path at once
//	classes.go  which gangs are guaranteed, and which borrow
//	reclaim.go  who may be evicted for a gang, and what must be freed
//	revoke.go   which quotas have too much, and who leaves, or gives up its places, for that
//
// A gang is admitted whole. A Book is told what happens, one pod after the other, and asked any number of
// questions; it takes no lock and reads no clock. Amounts are whole numbers of whatever a resource is
// counted in. The package knows neither nodes nor places, and nothing of what a pod is.
//
// The entitlement is the runtime quota of Koordinator's elastic quota (group_quota_manager): mins that are scaled to
// what there is, and water filling by weight with largest remainders.
package quota

import (
	"maps"
	"math"
	"slices"
)

// List is amounts by resource. What a limit does not name it does not limit.
type List map[string]int64

// Spec is a quota as users declare it.
type Spec struct {
	Name   string
	Parent string // "" at the top of a tree
	Min    List
	Max    List
	Weight List // what is not named is as in Max, or as much as any sibling's if that does not name it either
	// Keeps says that what it does not use of its min is not lent.
	Keeps bool
	// Inner quotas have quotas below them, and no pods of their own.
	Inner bool
	// Apart is a quota beside the others of its tree: what it uses they cannot have, only its max limits it, and it
	// has no part in what they divide.
	Apart bool
	// Spared says that its pods are never evicted to make room.
	Spared bool
	// Created orders quotas that nothing else does, and says which of one name counts: the oldest.
	Created int64
	// Wrong says why the quota cannot be used as it is written; "" if it can. Its pods wait, and so do those of
	// quotas below it.
	Wrong string
}

// Problem is what is wrong with a quota.
type Problem struct {
	Spec  int // index into the specs
	Words string
	// Stops says that pods of the quota wait until it is mended. Otherwise the quota is used as Words say.
	Stops bool
}

// vector is amounts by the number of a resource.
type vector []int64

func (v vector) add(o vector) {
	for r, n := range o {
		v[r] = plus(v[r], n)
	}
}

func (v vector) sub(o vector) {
	for r, n := range o {
		v[r] -= n
	}
}

// plus adds without overflow: there is no more than unlimited.
func plus(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// names lists the resources of lists, sorted, each once.
func names(lists ...List) (all []string) {
	for _, l := range lists {
		all = slices.AppendSeq(all, maps.Keys(l))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
