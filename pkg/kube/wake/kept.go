package wake

import (
	"maps"
	"sync"
)

// Kept is what is kept until somebody takes it. Its zero value is empty; it may be used by several at once.
type Kept[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]V
}

// Add keeps something, instead of what was kept by that key.
func (k *Kept[K, V]) Add(key K, value V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[K]V{}
	}
	k.all[key] = value
}

// Drop forgets a key, and says whether there was something.
func (k *Kept[K, V]) Drop(key K) (was bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, was = k.all[key]
	delete(k.all, key)
	return was
}

// All returns a copy of everything.
func (k *Kept[K, V]) All() map[K]V {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.all)
}

// Take returns everything, and forgets it.
func (k *Kept[K, V]) Take() map[K]V {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.all
	k.all = nil
	return all
}
