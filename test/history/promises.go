package history

import (
	"regexp"
	"time"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// Wait is how long a job waited for its start, and what was promised to it.
type Wait struct {
	Job
	Started  bool
	For      time.Duration // until the start; if there is none, until the history has ended
	Promised time.Duration // the first promised start; 0 if there was none
	Moves    []string      // for each promise that was followed by a later one, another domain or none: the cause
}

// readPromises notes what is promised to the gangs that wait.
func (p *play) readPromises() {
	cache := p.world.Shared().Cache
	for _, r := range p.queue {
		if r.key.IsZero() {
			r.key = cache.GroupKey(p.object(r.members[0]))
		}
		holds := cache.Starves(r.key)
		if !holds && !r.promise.Exists() {
			continue
		}
		var promise gang.Promise
		if group, _ := cache.GroupOf(r.key); holds && group != nil {
			promise = group.Promise
		}
		old := r.promise
		r.promise = promise
		switch {
		case !old.Exists() && !promise.Exists():
		case old.Exists() && !holds:
			r.wait.Moves = append(r.wait.Moves, "the hold has ended")
		case old.Exists() && (!promise.Exists() || promise.At.After(old.At) || promise.Domain != old.Domain):
			r.wait.Moves = append(r.wait.Moves, generalCause(promise.Cause))
		}
		if promise.Exists() && !promise.At.Equal(old.At) {
			at := promise.At.Sub(p.begin)
			p.agenda.add(at, func() error { return nil }) // the clock stops there
			if r.wait.Promised == 0 {
				r.wait.Promised = at
			}
		}
	}
}

var names = regexp.MustCompile(`(pod|node|at) \S*[-/:]\S*`)

// generalCause returns the cause of a move without the names and times in it.
func generalCause(cause string) string {
	if cause == "" {
		return "no cause given"
	}
	return names.ReplaceAllString(cause, "$1 …")
}
