// Repair plays the history of a cluster whose nodes fail, and shows how gangs become whole again.
//
//	go run ./test/repair -nodes 400 -days 30 -seeds 1,2
//
// Package history is the cluster. Another configuration is a line here.
package main

import (
	"time"

	"github.com/muster-scheduler/muster/test/history"
)

// configurations are the columns of the table. The first is Muster as shipped.
var configurations = []history.Configuration{
	{Name: "Muster", Args: "repairTimeout: 10m"},
	{Name: "1 spare", Args: "repairTimeout: 10m, spares: [{layer: SpineLayer, nodes: 1}]"},
	{Name: "2 spares", Args: "repairTimeout: 10m, spares: [{layer: SpineLayer, nodes: 2}]"},
	{Name: "no swap", Args: "repairTimeout: 10m, repairSwap: false"},
	{Name: "repair off", Args: "repairTimeout: 0s, repairSwap: false"},
	{Name: "anywhere", Args: "repairTimeout: 0s, repairSwap: false", Anywhere: true},
}

var defaults = history.Options{
	Mix: "Whole nodes", Nodes: 400, Spine: 32, Days: 30, Load: 0.85, Shortest: 10 * time.Minute, Longest: 7 * 24 * time.Hour,
	Over: 1, Faults: history.FaultRate,
}

func main() {
	history.Program{
		Name: "repair", Mixes: []string{defaults.Mix}, Configurations: configurations, Defaults: defaults, Report: report,
	}.Run()
}
