// Package page shows a cluster in a browser: the network as nested boxes, who is on which node,
// and which gangs wait for what. Values go in (a State), an http.Handler comes out.
//
//	state.go    State: what is shown
//	patch.go    what has changed between two States, and how to make it so
//	letters.go  which letter stands for which gang
//	page.go     the handler, and who may ask it
//	events.go   server-sent events
//	site/       what the browser runs: no build step, nothing from elsewhere
//
// It knows no Kubernetes, no clock and no scheduler: it never says what is true of a cluster, and
// shows what it is told. Whoever fills a State asks package ask.
package page

import "time"

// State is a cluster at one moment. It must not be changed once it is shown.
type State struct {
	At     time.Time `json:"at"`
	Source string    `json:"source"` // of what: a context, or files
	For    string    `json:"for"`    // what a slot is room for
	// Layers are the names of the layers from the top down: the cluster first, nodes last.
	Layers  []string `json:"layers"`
	Nodes   []Node   `json:"nodes"`   // in the order in which they are drawn
	Gangs   []Gang   `json:"gangs"`   // all that have members, the largest first
	Waiting []Waiter `json:"waiting"` // in the order in which they will be tried
	Problem string   `json:"problem"` // with the topology, or with reading the cluster
}

// Node is a node, and who is on it.
type Node struct {
	// Path is the names of the domains that hold it, from the top down, and its own, with slashes
	// between; - is one without a name. It has as many names as there are layers below the cluster.
	Path   string  `json:"path"`
	Free   int     `json:"free"` // slots
	Broken bool    `json:"broken,omitempty"`
	Places []Place `json:"places,omitempty"`
}

// Place is so many pods of one gang on a node.
type Place struct {
	Gang string `json:"gang,omitempty"` // "" is none
	Kind Kind   `json:"kind"`
	Pods int    `json:"pods"`
}

// Kind says what pods do with a place.
type Kind string

// The kinds.
const (
	Runs     Kind = "runs"
	Leaves   Kind = "leaves"   // they were asked to end
	Reserved Kind = "reserved" // they have yet to come
)

// Gang is a gang.
type Gang struct {
	Name   string `json:"name"`             // namespace/name
	Letter string `json:"letter,omitempty"` // that stands for it; the handler's own, see letters
	Number int    `json:"number"`           // of the letter, from 0: what its colour comes from
	Pods   int    `json:"pods"`             // that have a node
	Domain string `json:"domain,omitempty"` // that holds them all; "" is the whole cluster
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
	Starts   *time.Time `json:"starts,omitempty"`
}

// Fit is what a domain has for a gang that waits.
type Fit struct {
	Gang  string `json:"gang"`
	Needs int    `json:"needs"` // places for those who start together
	Slots int    `json:"slots"` // so many of them have room in the domain
	Fits  bool   `json:"fits"`
}
