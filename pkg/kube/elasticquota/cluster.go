package elasticquota

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// Cluster is what the room asks the rest of the process, and tells it.
type Cluster interface {
	Places
	Evictions
	Events
	Background
}

// Places are the places of pods.
type Places interface {
	// Place returns what a pod without a node has.
	Place(pod *v1.Pod) Place
	// Templates returns values that are equal for pods that are written alike.
	Templates(pods []*v1.Pod) []cache.Template
}

// Place is what a pod without a node has.
type Place struct {
	Assigned bool // a plan assigns a node to the member
	Reserved bool // the node is reserved for it until victims have terminated
	Foreign  bool // another scheduler schedules the pod
}

// Evictions are the pods that are evicted.
type Evictions interface {
	// Leaves returns whether a pod was asked to terminate.
	Leaves(pod *v1.Pod) bool
	// Terminates returns whether a pod that is seen terminating is gone within a time.
	Terminates(pod *v1.Pod, within time.Duration) bool
	// Unseen returns the pods that are to be gone within a time and are not seen terminating: those whose eviction the API server has accepted, and
	// the others.
	Unseen(within time.Duration) (accepted, others []*v1.Pod)
}

// Events is where the room reports.
type Events interface {
	// Hear hears of what has changed. It is called often, and must return at once.
	Hear(Event)
	// Note reports a note about an object.
	Note(cache.Note)
	// Open returns whether notes are reported and objects written.
	Open() bool
}

// Event is a change of which gangs and pods hear that wait.
type Event struct {
	What What
	// Waits are the gangs and pods that the event is for, by Named: of MayEvict alone. A gang is known by one of its pods.
	Waits map[string]*v1.Pod
	// Members are of the gangs that the event is for, one of each: of MayNotKeep alone.
	Members []*v1.Pod
}

// What is the kind of an event.
type What uint8

const (
	// Begins: from now on the room is to be told when members get places, or lose them (Look).
	Begins What = iota
	// MayBeAdmitted: a gang or pod that was refused may be admitted.
	MayBeAdmitted
	// MayBeNext: the same of gangs and pods that wait for another quota's (Later).
	MayBeNext
	// MayEvict: more may be evicted for gangs and pods that wait than before.
	MayEvict
	// MayNotKeep: a quota does not allow any more what gangs have reserved. It may have less, or cannot be used.
	MayNotKeep
)

// Background does work later.
type Background interface {
	// Do has work done after a while, once for each key. Idle work is done when nothing is more urgent; yields returns whether it should be
	// done later after all.
	Do(key string, after time.Duration, idle bool, work func(ctx context.Context, yields func() bool) error)
	// Patch writes into an object, or into its subresource unless that is "".
	Patch(ctx context.Context, of schema.GroupVersionResource, namespace, name string, patch []byte, sub string) error
}

// NewRoom returns a room without quotas.
func NewRoom() *Room { return &Room{} }

// Connect has the room work for a cluster. Changes are gathered for as long as settle before they are written.
func (r *Room) Connect(cluster Cluster, by clock.PassiveClock, settle time.Duration) {
	r.cluster, r.clock, r.settle = cluster, by, settle
}
