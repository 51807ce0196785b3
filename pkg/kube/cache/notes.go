package cache

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// takeNotes returns the notes on a gang that people have not been told, and counts
// them as told. Before the cache is open nobody is told anything. c.mu is held.
func (c *Cache) takeNotes(name string) (notes []Note) {
	r := c.gangs[name]
	if r == nil || !c.open.Load() {
		return nil
	}
	pg, _ := r.podGroup()
	for _, n := range r.notes {
		if pg != nil {
			notes = append(notes, Note{About: pg, Warning: true, Reason: "InvalidAnnotation", Message: n})
		} else if pod := r.declarer(); pod != nil {
			notes = append(notes, Note{About: pod, Warning: true, Reason: "InvalidAnnotation", Message: n})
		}
	}
	return slices.DeleteFunc(notes, func(n Note) bool { return r.knows(name, n) })
}

// knows says whether people were told, and counts them as told from now on.
func (r *record) knows(about string, n Note) bool {
	key := about + " " + n.Reason + " " + n.Message
	was := r.told[key]
	if r.told == nil {
		r.told = map[string]bool{}
	}
	r.told[key] = true
	return was
}

// podNotes returns what people have not been told of one member. c.mu is held.
func (c *Cache) podNotes(pod *v1.Pod, r *record) (notes []Note) {
	if !c.open.Load() {
		return nil
	}
	if _, err := convert.Member(pod); err != nil {
		notes = append(notes, Note{About: pod, Warning: true, Reason: "InvalidTopologyIndex", Message: err.Error()})
	}
	for _, message := range r.contradictions(pod) {
		notes = append(notes, Note{About: pod, Warning: true, Reason: "InvalidAnnotation", Message: message})
	}
	return slices.DeleteFunc(notes, func(n Note) bool { return r.knows(string(pod.UID), n) })
}

// contradictions lists where a member says something else of its gang than what counts.
func (r *record) contradictions(pod *v1.Pod) (out []string) {
	keys := describing
	if convert.ByAnnotation(pod) {
		keys = slices.Concat(describing, own)
	}
	pg, _ := r.podGroup()
	if pg == nil && r.by == "" {
		return nil // nothing describes the gang
	}
	for _, key := range keys {
		who := r.by
		if pg != nil {
			if _, its := pg.Annotations[key]; its {
				who = "PodGroup " + convert.Key(pg.Namespace, pg.Name)
			}
		}
		v, says := pod.Annotations[key]
		if counts := r.say[key]; says && v != counts {
			out = append(out, fmt.Sprintf("%s: %q is not what %s says; legal: the same on all members; %q is used", key, v, who, counts))
		}
	}
	return out
}

// allNotes is for when the cache opens. c.mu is held.
func (c *Cache) allNotes() (notes []Note) {
	for _, name := range c.book.Gangs() {
		r := c.gangs[name]
		if r == nil {
			continue
		}
		notes = append(notes, c.takeNotes(name)...)
		for _, key := range slices.SortedFunc(maps.Keys(r.pods), topology.CompareNames) {
			notes = append(notes, c.podNotes(r.pods[key], r)...)
		}
	}
	return notes
}

// tell says in one event what is to be said of an object for one reason: of several the
// API server's clients keep the first.
func (c *Cache) tell(notes []Note) {
	for i := 0; i < len(notes); {
		n := notes[i]
		for i++; i < len(notes) && notes[i].About == n.About && notes[i].Reason == n.Reason; i++ {
			n.Message += "; " + notes[i].Message
		}
		c.Note(n)
	}
}
