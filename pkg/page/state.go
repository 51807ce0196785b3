// Package page shows a cluster in a browser: the network as nested boxes, the pods of each node, and why gangs wait. New returns an
// http.Handler that shows a State.
//
//	state.go    State: what is shown
//	patch.go    the difference between two States
//	letters.go  the letters of gangs
//	page.go     the handler and its access rules
//	events.go   server-sent events
//	site/       the browser's files: no build step, no external resources
//
// It uses no Kubernetes, no clock and no scheduler. It only shows the State that its caller fills from package ask.
package page

import "time"

// State is a cluster at one moment. It must not change after Show.
type State struct {
	At     time.Time `json:"at"`
	Source string    `json:"source"` // the context, or the files
	For    string    `json:"for"`    // what a slot is for
	// Layers are the names of the layers from the top down: the cluster first, nodes last.
	Layers  []string `json:"layers"`
	Nodes   []Node   `json:"nodes"`   // in drawing order
	Gangs   []Gang   `json:"gangs"`   // all gangs with members, the largest first
	Waiting []Waiter `json:"waiting"` // in scheduling order
	Problem string   `json:"problem"` // with the topology, or with reading the cluster
}

// Node is a node with its pods.
type Node struct {
	// Path is the names of the node's domains, from the top down, and its own, joined by slashes; - is a missing name. It has as
	// many names as there are layers below the cluster.
	Path   string  `json:"path"`
	Free   int     `json:"free"` // slots
	Broken bool    `json:"broken,omitempty"`
	Places []Place `json:"places,omitempty"`
}

// Place is a number of pods of one gang on a node.
type Place struct {
	Gang string `json:"gang,omitempty"` // "" is none
	Kind Kind   `json:"kind"`
	Pods int    `json:"pods"`
}

// Kind is how pods use a slot.
type Kind string

// The kinds.
const (
	Runs        Kind = "runs"
	Terminating Kind = "leaves"   // the pods terminate
	Reserved    Kind = "reserved" // the node is reserved for the pods
)

// Gang is a gang with members.
type Gang struct {
	Name   string `json:"name"`             // namespace/name
	Letter string `json:"letter,omitempty"` // set by the handler, see letters
	Number int    `json:"number"`           // of the letter, from 0; determines its colour
	Pods   int    `json:"pods"`             // pods with a node
	Domain string `json:"domain,omitempty"` // the deepest that holds all its pods; "" is the whole cluster
}

// Waiter is a gang that waits.
type Waiter struct {
	Gang     string     `json:"gang"`
	Priority int32      `json:"priority"`
	Since    *time.Time `json:"since,omitempty"`
	Bound    int        `json:"bound"`
	Min      int        `json:"min"`
	State    string     `json:"state"`
	Reason   string     `json:"reason"` // one sentence
	Start    *Start     `json:"start,omitempty"`
}

// Start is when a waiting gang starts. Kind is promised, forecast or unknown.
type Start struct {
	Kind   string    `json:"kind"`
	Time   time.Time `json:"time,omitzero"`
	Domain string    `json:"domain,omitempty"` // "" is the whole cluster, or unknown
}

// DomainFit is the capacity of a domain for a waiting gang.
type DomainFit struct {
	Gang  string `json:"gang"`
	Needs int    `json:"needs"` // members that start together
	Slots int    `json:"slots"` // how many of them fit in the domain
	Fits  bool   `json:"fits"`
}
