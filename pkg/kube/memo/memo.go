// Package memo remembers values by key, for several goroutines at a time.
package memo

import (
	"maps"
	"sync"
)

// Map is a map with a lock. Its zero value is empty. No function of the caller runs under the lock.
type Map[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]V
}

// Get returns the value of a key, and whether the key has one.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok = m.known[key]
	return value, ok
}

// Add sets the value of a key, and returns whether the key had none.
func (m *Map[K, V]) Add(key K, value V) (added bool) {
	return m.AddAtMost(key, value, 0)
}

// AddAtMost is Add for a map that forgets all other values first when it has most values or more; 0 is no bound.
func (m *Map[K, V]) AddAtMost(key K, value V, most int) (added bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, had := m.known[key]
	if m.known == nil || most > 0 && !had && len(m.known) >= most {
		m.known = map[K]V{}
	}
	m.known[key] = value
	return !had
}

// Share returns the value of a key, which is the given one if the key had none. It forgets all values first when there are most.
func (m *Map[K, V]) Share(key K, value V, most int) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.known[key]; ok {
		return known
	}
	if m.known == nil || len(m.known) >= most {
		m.known = map[K]V{}
	}
	m.known[key] = value
	return value
}

// Take returns the value of a key, and forgets it.
func (m *Map[K, V]) Take(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok = m.known[key]
	delete(m.known, key)
	return value, ok
}

// Drop forgets the value of a key, and returns whether it had one.
func (m *Map[K, V]) Drop(key K) (had bool) {
	_, had = m.Take(key)
	return had
}

// All returns a copy of the map.
func (m *Map[K, V]) All() map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.known)
}

// TakeAll returns the map, and forgets everything.
func (m *Map[K, V]) TakeAll() map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.known
	m.known = nil
	return all
}

// Memo remembers an answer for each key, as long as the stamp stays the same. A stamp is all that the answer depends on beside
// the key: numbers of states, pointers to objects that do not change. The zero value is empty.
type Memo[K, S comparable, V any] struct {
	// Most bounds the number of answers; 0 is no bound. When there are too many, all are forgotten.
	Most    int
	answers Map[K, stamped[S, V]]
}

type stamped[S, V any] struct {
	stamp  S
	answer V
}

// Get returns the answer for a key if it was put with the same stamp.
func (m *Memo[K, S, V]) Get(key K, stamp S) (answer V, ok bool) {
	known, ok := m.answers.Get(key)
	if !ok || known.stamp != stamp {
		return answer, false
	}
	return known.answer, true
}

// Put remembers the answer for a key, instead of the one with another stamp.
func (m *Memo[K, S, V]) Put(key K, stamp S, answer V) {
	m.answers.AddAtMost(key, stamped[S, V]{stamp, answer}, m.Most)
}

// Drop forgets the answer for a key.
func (m *Memo[K, S, V]) Drop(key K) { m.answers.Drop(key) }
