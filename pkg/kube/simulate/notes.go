package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Notes says what was left out: objects that no scheduler reads, fields that do not exist,
// and pods that a controller would not make.
func (s *Set) Notes() (notes []string) {
	for _, what := range slices.Sorted(maps.Keys(s.skipped)) {
		n := s.skipped[what]
		notes = append(notes, fmt.Sprintf("%s: skipped %s %s%s: not read by a scheduler", n.at, what, n.name, n.more()))
	}
	for _, what := range slices.Sorted(maps.Keys(s.ignored)) {
		n := s.ignored[what]
		kind, why, _ := strings.Cut(what, ": ")
		notes = append(notes, fmt.Sprintf("%s: ignored in %s %s%s: %s", n.at, kind, n.name, n.more(), why))
	}
	for _, resource := range s.unread {
		notes = append(notes, Unread(resource))
	}
	return append(append(notes, s.podless...), s.unlisted()...)
}

// noted is the first object of which something is said, and of how many it is.
type noted struct {
	at    Position
	name  string
	times int
}

// note adds one.
func note(to *map[string]noted, what string, one noted) {
	if *to == nil {
		*to = map[string]noted{}
	}
	was, ok := (*to)[what]
	if !ok {
		was = noted{at: one.at, name: one.name}
	}
	was.times += one.times
	(*to)[what] = was
}

// more counts those that are not named.
func (n noted) more() string {
	if n.times == 1 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n.times-1)
}
