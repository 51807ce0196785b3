package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Notes lists what was left out: objects that a scheduler does not read, unknown fields, and pods that a controller would not make.
func (s *Set) Notes() (notes []string) {
	for _, what := range slices.Sorted(maps.Keys(s.skipped)) {
		n := s.skipped[what]
		notes = append(notes, fmt.Sprintf("%s: skipped %s %s%s: not read by a scheduler", n.at, what, n.name, n.moreText()))
	}
	for _, what := range slices.Sorted(maps.Keys(s.ignored)) {
		n := s.ignored[what]
		kind, why, _ := strings.Cut(what, ": ")
		notes = append(notes, fmt.Sprintf("%s: ignored in %s %s%s: %s", n.at, kind, n.name, n.moreText(), why))
	}
	for _, resource := range s.unlisted {
		notes = append(notes, UnlistedNote(resource))
	}
	return append(append(notes, s.podNotes...), s.unlistedPodNotes()...)
}

// occurrences is the first object that a note is about, and the number of such objects.
type occurrences struct {
	at    Position
	name  string
	times int
}

// addNote adds the occurrences to a note.
func addNote(notes *map[string]occurrences, what string, one occurrences) {
	if *notes == nil {
		*notes = map[string]occurrences{}
	}
	sum, ok := (*notes)[what]
	if !ok {
		sum = occurrences{at: one.at, name: one.name}
	}
	sum.times += one.times
	(*notes)[what] = sum
}

// moreText counts the objects that the note does not name.
func (n occurrences) moreText() string {
	if n.times == 1 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n.times-1)
}
