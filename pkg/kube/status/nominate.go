package status

import (
	"context"
	"hash/fnv"

	v1 "k8s.io/api/core/v1"
)

// Nominate writes the reserved node of a waiting pod into its status. The caller evicts victims only after that, so that the next
// process can read what they are evicted for. It writes even if the known status has the node: an earlier request may have cleared
// it. It waits for a running request for the same key. Without a reservation it writes nothing. The error is the API server's.
func (t *Reporter) Nominate(ctx context.Context, pod *v1.Pod, key string) error {
	return t.turns.runExclusive(ctx, key, func() error {
		node, confirmed := t.cache.Place(pod)
		if node == "" || confirmed { // if it is being bound, no later write would clear a nominated node
			return nil
		}
		podCopy := pod.DeepCopy()
		podCopy.Status.NominatedNodeName = ""
		return t.Writer.Pod(ctx, podCopy, Waiting{Node: &node})
	})
}

// turns serializes the writers of a pod's nominated node: channels and not mutexes, since a writer stops waiting when its context ends.
type turns [64]chan struct{}

func newTurns() (t turns) {
	for i := range t {
		t[i] = make(chan struct{}, 1)
	}
	return t
}

// runExclusive calls write when no other call for this key runs, and returns its error. Calls for another key may wait, too. If ctx ends
// first, it returns the error of ctx, and does not call write.
func (t *turns) runExclusive(ctx context.Context, key string, write func() error) error {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	turn := t[h.Sum32()%uint32(len(t))]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
		return write()
	case <-ctx.Done():
		return ctx.Err()
	}
}
