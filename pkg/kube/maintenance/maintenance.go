// Package maintenance says which pods a node takes before and in its maintenance windows (annotation muster.sh/maintenance).
//
//	               maintenanceLead        window
//	──────────────|──────────────────────|████████|──────────▶ time
//	any pod        pods that end before   no pod   any pod
//
// It knows nodes and times. It must not know gangs, plans or clocks: its callers say when a pod would start.
package maintenance

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// Run is how long a pod runs after it has a node.
type Run struct {
	Time  time.Duration
	Known bool // false if no end is declared
}

// Windows are the maintenance windows of one node, by start.
type Windows []scheduling.Window

// Of returns the windows of a node. The error says what is invalid in its annotation.
func Of(node *v1.Node) (Windows, error) {
	value, announced := node.Annotations[scheduling.AnnotationMaintenance]
	if !announced {
		return nil, nil
	}
	windows, err := scheduling.ParseMaintenance(value)
	slices.SortFunc(windows, func(a, b scheduling.Window) int { return a.Start.Compare(b.Start) })
	return windows, err
}

// Closed returns whether a node with these windows takes no pod that would start there at a time, and the window that is the cause. lead is
// the argument maintenanceLead.
func (w Windows) Closed(start time.Time, run Run, lead time.Duration) (window scheduling.Window, closed bool) {
	for _, window := range w {
		if !start.Before(window.End) {
			continue
		}
		within := !start.Before(window.Start)
		tooLong := run.Known && start.Add(run.Time).After(window.Start)
		unknown := !run.Known && !start.Before(window.Start.Add(-lead))
		if within || tooLong || unknown {
			return window, true
		}
	}
	return scheduling.Window{}, false
}

// Reason is the reason of a closed node, in the form of a Filter's message.
func Reason(window scheduling.Window) string {
	return fmt.Sprintf("%s %s until %s", ReasonPrefix, window.Start.Format(time.RFC3339), window.End.Format(time.RFC3339))
}

// ReasonPrefix is the first part of all reasons.
const ReasonPrefix = "node(s) have maintenance from"

// Nodes are the windows of all nodes with an announced maintenance, by name. It never changes. nil has none.
type Nodes struct{ windows map[string]Windows }

// Of returns the windows of a node.
func (n *Nodes) Of(node string) Windows {
	if n == nil {
		return nil
	}
	return n.windows[node]
}

// All returns the nodes with windows, in any order.
func (n *Nodes) All() iter.Seq2[string, Windows] {
	if n == nil {
		return maps.All(map[string]Windows(nil))
	}
	return maps.All(n.windows)
}

// With returns n with other windows for a node; nil if no node has windows then.
func (n *Nodes) With(node string, windows Windows) *Nodes {
	changed := &Nodes{map[string]Windows{}}
	maps.Copy(changed.windows, maps.Collect(n.All()))
	changed.windows[node] = windows
	if len(windows) == 0 {
		delete(changed.windows, node)
	}
	if len(changed.windows) == 0 {
		return nil
	}
	return changed
}

// AnyChange returns whether a node takes other pods at a time than at an earlier one: because a window has begun or ended, or begins within
// lead.
func (n *Nodes) AnyChange(earlier, now time.Time, lead time.Duration) bool {
	passed := func(t time.Time) bool { return t.After(earlier) && !t.After(now) }
	for _, windows := range n.All() {
		for _, w := range windows {
			if passed(w.Start.Add(-lead)) || passed(w.Start) || passed(w.End) {
				return true
			}
		}
	}
	return false
}
