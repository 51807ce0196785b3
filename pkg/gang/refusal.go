package gang

import "slices"

// ObstacleKind says what prevents a gang from starting, which decides what can change that.
type ObstacleKind uint8

// The kinds of obstacles.
const (
	NoObstacle  ObstacleKind = iota
	Declaration              // the declaration is invalid; users must change it
	Conflict                 // the gangs of the group have contradictory constraints
	Consent                  // it lists a gang that does not list it
	Missing                  // members or gangs of the group do not exist yet
	Plan                     // no domain has the capacity
	Template                 // a plugin's PreFilter rejects the members everywhere
	Quota                    // a quota has too little
	Veto                     // an extension's check rejects it before the search
	API                      // a request failed, which says nothing about the cluster
)

// Obstacle says why a gang is not started. Components that publish it or react to it use its fields and never parse its words.
type Obstacle struct {
	By    ObstacleKind
	Words string // for users
	// Summary is a summary of one sentence; "" if Words is already one.
	Summary string
	// Plugins are the plugins whose Filters rejected nodes, sorted. Their events may help.
	Plugins []string
	// Evictable says that more capacity would help, so an eviction may.
	Evictable bool
	// NeverEvictable says that no terminating pod helps: only other nodes, topology, quota limits or another gang do.
	NeverEvictable bool
	// KeepsPromise says that the quotas, which refuse the group now, admit it when its promised start comes.
	KeepsPromise bool
}

// Exists returns whether something prevents the start.
func (r Obstacle) Exists() bool { return r.By != NoObstacle }

// WaitsForUser returns whether a search is useless until users or a controller act.
func (r Obstacle) WaitsForUser() bool {
	return r.By == Declaration || r.By == Consent || r.By == Missing
}

// String returns the text for users; "" if there is no obstacle.
func (r Obstacle) String() string {
	if r.By == Declaration {
		return "rejected: " + r.Words
	}
	return r.Words
}

// Equal returns whether two obstacles have equal fields.
func (r Obstacle) Equal(o Obstacle) bool {
	return r.By == o.By && r.Words == o.Words && r.Summary == o.Summary && r.Evictable == o.Evictable &&
		r.NeverEvictable == o.NeverEvictable && r.KeepsPromise == o.KeepsPromise && slices.Equal(r.Plugins, o.Plugins)
}
