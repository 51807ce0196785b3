package status

import (
	"context"
	"hash/fnv"

	v1 "k8s.io/api/core/v1"
)

// Nominate writes the node of a waiting pod's place in a reservation, before anybody is asked to leave for it: whoever comes
// after this process must be able to read for whom. It writes what the pod has by what was seen of it, too: a request that
// clears the node may have been carried out, and not been seen yet. One that is under way is waited for. Without a
// place that is reserved now nothing is written. The error is what the API server says.
func (t *Teller) Nominate(ctx context.Context, pod *v1.Pod, key string) error {
	return t.turns.take(ctx, key, func() error {
		node, confirmed := t.cache.Place(pod)
		if node == "" || confirmed { // it is being bound: a node that is written now would stay
			return nil
		}
		blank := pod.DeepCopy()
		blank.Status.NominatedNodeName = ""
		return t.Writer.Pod(ctx, blank, Waiting{Node: &node})
	})
}

// turns has those who read where a pod's place is, and write that, come one after the other. They are channels and not
// locks, since the API server may be waited for meanwhile, and those who wait for a turn may give up.
type turns [64]chan struct{}

func newTurns() (t turns) {
	for i := range t {
		t[i] = make(chan struct{}, 1)
	}
	return t
}

// take does something when nobody else does anything with that key.
func (t *turns) take(ctx context.Context, key string, do func() error) error {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	turn := t[h.Sum32()%uint32(len(t))]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
		return do()
	case <-ctx.Done():
		return ctx.Err()
	}
}
