package gang

import "slices"

// Refuser says what prevents a gang from starting, which decides what can change that.
type Refuser uint8

const (
	Nobody      Refuser = iota
	Declaration         // the declaration is invalid; users must change it
	Conflict            // the gangs of the group ask for different things
	Consent             // it lists a gang that does not list it
	Missing             // members or gangs of the group do not exist yet
	Plan                // no domain has the capacity
	Template            // a plugin's PreFilter rejects the members everywhere
	Quota               // a quota has too little
	Veto                // an extension's check rejects it before the search
	API                 // a request failed, which says nothing about the cluster
)

// Refusal says why a gang is not started. Components that publish it, react to it or search an eviction use its
// fields and never parse its words.
type Refusal struct {
	By    Refuser
	Words string // for users
	// Says is a summary of one sentence; "" if Words is already one.
	Says string
	// Plugins are the plugins whose Filters rejected nodes, sorted. Their events may help.
	Plugins []string
	// Evictable says that more capacity would help, so an eviction may.
	Evictable bool
	// Never says that no terminating pod helps: only other nodes, topology, quota limits or another gang do.
	Never bool
}

// Is says whether there is a refusal.
func (r Refusal) Is() bool { return r.By != Nobody }

// Waits says whether a search is useless until users or a controller act.
func (r Refusal) Waits() bool {
	return r.By == Declaration || r.By == Consent || r.By == Missing
}

// String returns the text for users; "" if there is no refusal.
func (r Refusal) String() string {
	if r.By == Declaration {
		return "rejected: " + r.Words
	}
	return r.Words
}

// Equal compares two refusals.
func (r Refusal) Equal(o Refusal) bool {
	return r.By == o.By && r.Words == o.Words && r.Says == o.Says &&
		r.Evictable == o.Evictable && r.Never == o.Never && slices.Equal(r.Plugins, o.Plugins)
}
