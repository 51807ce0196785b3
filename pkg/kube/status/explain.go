package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/evict"
)

// Explanation says why the scheduler evicts pods in one domain and not in another.
type Explanation struct {
	// Considered are the possible domains, the best first; empty if there were too many to compare.
	Considered []ConsideredDomain `json:"considered"`
	Won        string             `json:"won"`  // the path of a domain; "" is the whole cluster
	Rule       evict.Rule         `json:"rule"` // the rule by which Won is better than the next domain
}

// ConsideredDomain is the cost of the cheapest eviction in a domain.
type ConsideredDomain struct {
	Domain   string `json:"domain"` // its path; "" is the whole cluster
	Possible bool   `json:"possible"`
	// Untried says that the domain was not compared, because of a search or time limit.
	Untried       bool `json:"untried,omitempty"`
	*EvictionCost      // nil if it is not possible
}

// EvictionCost is what the rules compare, in this order.
type EvictionCost struct {
	Violations      int   `json:"violations"` // pods evicted against a PodDisruptionBudget
	Pods            int   `json:"pods"`
	SentBack        int   `json:"sentBack,omitempty"` // members at Permit that are requeued
	HighestPriority int32 `json:"highestPriority"`
	Sum             int64 `json:"sum"` // of priorities
}

// rules are the words for each rule, in messages.
var rules = map[evict.Rule]string{
	evict.Alone:         "no other domain is possible",
	evict.ByBudgets:     "fewest violated PodDisruptionBudgets",
	evict.ByPods:        "fewest pods",
	evict.ByRequeued:    "fewest requeued members",
	evict.ByHighest:     "lowest priority of the most important victim",
	evict.BySum:         "lowest sum of priorities",
	evict.ByLeaders:     "evicts no launcher, driver or rank 0 of a gang that continues to run",
	evict.ByReleased:    "least capacity released",
	evict.ByAge:         "the victims started last",
	evict.ByMembers:     "most members placed",
	evict.ByDepth:       "deepest domain that holds all members",
	evict.ByPreferences: "fewest domains of the PreferGather layers",
	evict.ByAttraction:  "most pods of the same network-topology-selector",
	evict.BySoft:        "fewest soft preferences violated",
	evict.ByBinpack:     "least capacity if all possible victims were gone (binpack)",
	evict.ByNames:       "first by name, all else being equal",
	evict.ByOrder:       "the better plan",
	evict.NotAll:        "search limit reached",
}

// A message names at most this many domains, in at most this many bytes.
const (
	maxDomains     = 5
	maxDomainBytes = 640
)

// Why returns the rule that decided, in words.
func (e Explanation) Why() string {
	if e.Rule == evict.Alone && slices.ContainsFunc(e.Considered, func(c ConsideredDomain) bool { return c.Untried }) {
		return "no other domain is known to be possible"
	}
	return rules[e.Rule]
}

// String returns the message for users, shorter than status.Limit.
func (e Explanation) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "evicts in %s: %s", clipPath(cmp.Or(e.Won, "the cluster")), e.Why())
	for i, c := range e.Considered {
		domain := fmt.Sprintf("%s: %s", clipPath(cmp.Or(c.Domain, "the cluster")), c.cost())
		if i == maxDomains || out.Len()+len(domain) > maxDomainBytes {
			fmt.Fprintf(&out, "; and %d more", len(e.Considered)-i)
			break
		}
		out.WriteString(map[bool]string{true: ". ", false: "; "}[i == 0] + domain)
	}
	return out.String()
}

// clipPath shortens a path from its front, where paths differ least.
func clipPath(path string) string {
	const maxBytes = 160
	if len(path) <= maxBytes {
		return path
	}
	return "…" + strings.ToValidUTF8(path[len(path)-maxBytes:], "")
}

// cost returns a domain's cost in words, such as "2 pods of priority up to 5".
func (c ConsideredDomain) cost() string {
	switch {
	case c.Untried:
		return "search limit reached"
	case !c.Possible:
		return "impossible"
	case c.Pods == 0 && c.SentBack == 0:
		return "no pods"
	}
	text := fmt.Sprintf("%d pod%s", c.Pods, map[bool]string{false: "s"}[c.Pods == 1])
	switch {
	case c.Pods == 0:
		text = fmt.Sprintf("none, but %d waiting pods are requeued, of priority up to %d", c.SentBack, c.HighestPriority)
	case c.SentBack > 0:
		text = fmt.Sprintf("%s, and %d waiting pods are requeued, of priority up to %d", text, c.SentBack, c.HighestPriority)
	case c.Pods == 1:
		text += fmt.Sprintf(" of priority %d", c.HighestPriority)
	default:
		text += fmt.Sprintf(" of priority up to %d", c.HighestPriority)
	}
	if c.SentBack == 0 && c.Sum != int64(c.Pods)*int64(c.HighestPriority) {
		text += fmt.Sprintf(", %d in sum", c.Sum)
	}
	if c.Violations > 0 { // counted in pods, however few budgets protect them
		text += fmt.Sprintf(", %d against a budget", c.Violations)
	}
	return text
}
