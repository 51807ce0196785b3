// Backfill plays the jobs of public traces to a cluster. It shows how long jobs wait and which promised starts are kept, by the share of
// jobs that declare their run time.
//
//	go run ./test/backfill -seeds 1,2
//
// Package history is the cluster. Another configuration is a line here.
package main

import (
	"time"

	"github.com/muster-scheduler/muster/test/history"
)

// configurations are the columns of the table.
var configurations = []history.Configuration{
	{Name: "no holds", Args: "starvationTimeout: 0s"},
	{Name: "0 %"},
	{Name: "50 %", Declares: 0.5},
	{Name: "100 %", Declares: 1},
	{Name: "strict order", Player: strictOrder},
}

var defaults = history.Options{
	Nodes: 128, Spine: 32, Days: 5, Load: 0.9, Shortest: 20 * time.Minute, Longest: 12 * time.Hour, Over: 5,
}

func main() {
	history.Program{
		Name: "backfill", Mixes: []string{"Seren", "Philly"}, Configurations: configurations, Defaults: defaults, Report: report,
	}.Run()
}
