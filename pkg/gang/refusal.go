package gang

import "slices"

// Refuser says who refused a gang, which decides who can cure it.
type Refuser uint8

const (
	Nobody      Refuser = iota
	Declaration         // what its users wrote cannot be carried out; they must change it
	Conflict            // the gangs of its group ask for different things
	Consent             // it lists a gang that does not list it
	Missing             // members or gangs of its group do not exist yet
	Plan                // no domain has room for it
	Template            // a plugin's PreFilter refuses its members everywhere
	Quota               // the quotas of its members have too little
	Veto                // a check of somebody's own refuses it before places are looked for
	API                 // a request failed, which says nothing of the cluster
)

// Refusal says why a gang is not started. It is a value from whoever refuses to whoever
// tells people, decides what may cure it, and looks for an eviction: none of them reads
// its words.
type Refusal struct {
	By    Refuser
	Words string // for people
	// Says is one plain sentence for people who read no further; "" where the words are one.
	Says string
	// Plugins are those whose Filters refused nodes, sorted: their events may cure it.
	Plugins []string
	// Evictable says that more room would cure it, so that an eviction may.
	Evictable bool
	// Never says that nobody who leaves cures it: only other nodes, another topology, other limits of quotas, or another gang do.
	Never bool
}

// Is says whether there is a refusal.
func (r Refusal) Is() bool { return r.By != Nobody }

// Waits says that nobody need look for a plan: its users must act first, or whoever makes
// its members.
func (r Refusal) Waits() bool {
	return r.By == Declaration || r.By == Consent || r.By == Missing
}

// String is what people read; "" if there is no refusal.
func (r Refusal) String() string {
	if r.By == Declaration {
		return "rejected: " + r.Words
	}
	return r.Words
}

// Equal compares two refusals.
func (r Refusal) Equal(o Refusal) bool {
	return r.By == o.By && r.Words == o.Words && r.Says == o.Says && r.Evictable == o.Evictable && r.Never == o.Never && slices.Equal(r.Plugins, o.Plugins)
}
