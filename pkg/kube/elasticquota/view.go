package elasticquota

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Quota is a quota as users see it, with quantities by resource.
type Quota struct {
	Name   string            `json:"name"`
	Parent string            `json:"parent,omitempty"`
	Depth  int               `json:"-"`
	Min    map[string]string `json:"min,omitempty"`
	Max    map[string]string `json:"max,omitempty"`
	Used   map[string]string `json:"used,omitempty"`
	// Reserved is requested by pods that are planned and not bound yet.
	Reserved map[string]string `json:"reserved,omitempty"`
	Request  map[string]string `json:"request,omitempty"`
	// Runtime is the quota's fair share.
	Runtime map[string]string `json:"runtime,omitempty"`
	// Share is its use above min, as a part of the total, relative to its weight.
	Share float64 `json:"share"`
	// Guaranteed and Borrows are the gangs, and pods without one, that fit its min, and the remaining ones.
	Guaranteed []string `json:"guaranteed,omitempty"`
	Borrows    []string `json:"borrows,omitempty"`
	Waits      []string `json:"waits,omitempty"` // gangs, and pods without one, that wait for the quota
	Problem    string   `json:"problem,omitempty"`
}

// Quotas returns all quotas for users, parents before children; nil if there are none.
func (r *Manager) Quotas() (all []Quota) {
	if !r.Active() {
		return nil
	}
	r.lock()
	defer r.mu.Unlock()
	names := r.book.Tree().Names()
	slices.SortStableFunc(names, func(a, b string) int { // trees stay together
		return cmp.Compare(r.detachedRank(a), r.detachedRank(b))
	})
	for _, name := range names {
		b, _ := r.currentBook().Balance(name)
		q := Quota{
			Name: name, Depth: len(b.Path) - 1, Min: quantities(b.Min), Max: quantities(b.Max), Used: quantities(b.Used),
			Reserved: quantities(b.Reserved), Request: quantities(b.Request), Runtime: quantities(b.FairShare), Guaranteed: shortNames(b.Guaranteed),
			Borrows: shortNames(b.Borrowing), Waits: shortNames(b.WaitingHere), Problem: b.Broken,
		}
		if b.Share != math.MaxUint64 {
			q.Share = float64(b.Share) / 1e6
		}
		if n := len(b.Path); n > 1 {
			q.Parent = b.Path[n-2]
		}
		all = append(all, q)
	}
	return all
}

// detachedRank returns 1 for the default and system quotas, which are outside of trees, and 0 for all others. It sorts them last.
func (r *Manager) detachedRank(name string) int {
	if s, _ := r.book.Tree().Spec(name); s.Detached {
		return 1
	}
	return 0
}

// quantities returns amounts as texts for users; nil if there are none.
func quantities(l quota.List) map[string]string {
	if len(l) == 0 {
		return nil
	}
	out := map[string]string{}
	for name, n := range l {
		out[name] = convert.Quantity(name, n)
	}
	return out
}

// shortNames returns namespace/name of gangs and pods, which are given by their name in the book.
func shortNames(gangs []string) []string {
	out := slices.Clone(gangs)
	for i, g := range out {
		words := strings.Split(g, " ") // gang, source, name, UID, or pod and name: see GangName and gang.Ref
		out[i] = words[min(2, len(words)-1)]
	}
	return out
}

// FormatQuantities returns quantities as one word, "cpu:8,memory:64Gi"; "-" if there are none.
func FormatQuantities(amounts map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		all = append(all, name+":"+amounts[name])
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ",")
}
