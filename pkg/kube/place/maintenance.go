package place

import (
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/maintenance"
)

// Annotation muster.sh/maintenance of nodes: a node is excluded from the attempt of a group that would run there in a maintenance window.
// It is excluded for free capacity, evictions and reservations. All members of a group count as running as long as the longest of them.

// maintained are the nodes that an attempt excludes because of maintenance. The zero value is of a cluster without maintenance windows.
type maintained struct {
	announced bool            // some node has a window
	run       maintenance.Run // of the group, if announced
	closed    map[int]scheduling.Window
}

// closeForMaintenance excludes the nodes that take no member of the group, if it starts at a.start.
func (a *Attempt) closeForMaintenance() {
	announced := a.planner.cache.Maintenance()
	a.maintained = maintained{}
	if announced == nil {
		return
	}
	run, kept := a.run()
	a.maintained = maintained{announced: true, run: run, closed: map[int]scheduling.Window{}}
	if !kept {
		return
	}
	lead, excluded := a.planner.Args().MaintenanceLead, map[int]fwk.NodeInfo{}
	for name, windows := range announced.All() {
		i, ok := a.Net.Tree.NodeIndex(name)
		if !ok || a.Nodes[i] == nil {
			continue
		}
		if window, closed := windows.Closed(a.start, run, lead); closed {
			a.maintained.closed[i], excluded[i] = window, nil
		}
	}
	a.Replace(excluded)
}

// ClosedAt returns whether a node takes no member of the group because of maintenance, if the group starts at that time.
func (a *Attempt) ClosedAt(start time.Time) func(node int) bool {
	announced, lead := a.planner.cache.Maintenance(), a.planner.Args().MaintenanceLead
	return func(node int) bool {
		_, closed := announced.Of(a.Net.Tree.NodeName(node)).Closed(start, a.maintained.run, lead)
		return closed
	}
}

// run returns how long the group runs: as long as the gang that runs longest. kept is false if maintenance keeps no member off a node.
func (a *Attempt) run() (run maintenance.Run, kept bool) {
	run.Known = true
	asked := map[gang.Ref]bool{}
	for _, m := range a.Group.Pending {
		pod := a.Group.Pods[m.Pod]
		if convert.OnEveryNode(pod) {
			continue
		}
		kept = true
		if asked[m.Gang.Whole()] {
			continue
		}
		asked[m.Gang.Whole()] = true // Runtime is the same for all members of a gang
		runtime, known := a.planner.cache.Runtime(pod)
		run.Time, run.Known = max(run.Time, runtime), run.Known && known
	}
	return run, kept
}

// withMaintenance adds the nodes that are excluded because of maintenance.
func (d Diagnosis) withMaintenance(m maintained) Diagnosis {
	for _, window := range m.closed {
		d.Nodes++
		d.Lacks[maintenance.Reason(window)]++
	}
	return d
}

// absence returns why the attempt lacks a node with a reservation. i is its index in the tree, if that knows it.
func (a *Attempt) absence(name string, i int, known bool) string {
	if window, closed := a.maintained.closed[i]; known && closed {
		return "node " + name + " has maintenance from " + window.Start.Format(time.RFC3339)
	}
	return "node " + name + " is gone"
}

// ClosedUntil is when the first of the nodes that are closed for maintenance takes members of a group again.
type ClosedUntil struct {
	Time     time.Time // zero if no node is closed
	Declared bool      // the group has a declared end
	Began    bool      // the window of that node has begun
}

// closedUntil returns when nodes that are excluded because of maintenance take members again.
func (a *Attempt) closedUntil() (until ClosedUntil) {
	until.Declared = a.maintained.run.Known
	for i, window := range a.maintained.closed {
		if end := a.openAgain(i); until.Time.IsZero() || end.Before(until.Time) {
			until.Time, until.Began = end, !a.start.Before(window.Start)
		}
	}
	return until
}

// openAgain returns when a node that is excluded because of maintenance takes members again: after the last of its adjoining windows.
func (a *Attempt) openAgain(node int) time.Time {
	windows, end := a.planner.cache.Maintenance().Of(a.Net.Tree.NodeName(node)), a.maintained.closed[node].End
	for {
		window, closed := windows.Closed(end, a.maintained.run, a.planner.Args().MaintenanceLead)
		if !closed {
			return end
		}
		end = window.End
	}
}

// ClosedForMaintenance returns whether the attempt excludes a node because of maintenance.
func (a *Attempt) ClosedForMaintenance(node int) bool {
	_, closed := a.maintained.closed[node]
	return closed
}
