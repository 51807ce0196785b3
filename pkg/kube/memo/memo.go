// Package memo remembers values by key, for several goroutines. It must not know what it remembers. Invariant: no
// function of the caller runs under its locks.
package memo

import (
	"maps"
	"sync"
)

// Map is a map with a lock. Its zero value is empty.
type Map[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

// Get returns the value of a key, and whether the key has one.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok = m.values[key]
	return value, ok
}

// Add sets the value of a key, and returns whether the key had none.
func (m *Map[K, V]) Add(key K, value V) (added bool) {
	return m.AddAtMost(key, value, 0)
}

// AddAtMost is Add with a limit: at limit values the map forgets all others first. 0 is no limit.
func (m *Map[K, V]) AddAtMost(key K, value V, limit int) (added bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, had := m.values[key]
	if m.values == nil || limit > 0 && !had && len(m.values) >= limit {
		m.values = map[K]V{}
	}
	m.values[key] = value
	return !had
}

// Share returns the value of a key, adding the given one if the key has none. At limit values it forgets all first.
func (m *Map[K, V]) Share(key K, value V, limit int) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.values[key]; ok {
		return known
	}
	if m.values == nil || len(m.values) >= limit {
		m.values = map[K]V{}
	}
	m.values[key] = value
	return value
}

// Take removes and returns the value of a key.
func (m *Map[K, V]) Take(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok = m.values[key]
	delete(m.values, key)
	return value, ok
}

// Drop removes a key, and says whether it had a value.
func (m *Map[K, V]) Drop(key K) (had bool) {
	_, had = m.Take(key)
	return had
}

// All returns a copy of the map.
func (m *Map[K, V]) All() map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.values)
}

// TakeAll removes and returns all values.
func (m *Map[K, V]) TakeAll() map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.values
	m.values = nil
	return all
}

// Memo remembers an answer for each key while the stamp stays the same. The stamp is everything else that the
// answer depends on: numbers of states, pointers to immutable objects. The zero value is empty.
type Memo[K, S comparable, V any] struct {
	// Most limits the number of answers; 0 is no limit. At the limit all are forgotten.
	Most    int
	answers Map[K, stamped[S, V]]
}

type stamped[S, V any] struct {
	stamp  S
	answer V
}

// Get returns the answer of a key if it was put with the same stamp.
func (m *Memo[K, S, V]) Get(key K, stamp S) (answer V, ok bool) {
	known, ok := m.answers.Get(key)
	if !ok || known.stamp != stamp {
		return answer, false
	}
	return known.answer, true
}

// Put sets the answer of a key.
func (m *Memo[K, S, V]) Put(key K, stamp S, answer V) {
	m.answers.AddAtMost(key, stamped[S, V]{stamp, answer}, m.Most)
}

// Drop forgets the answer of a key.
func (m *Memo[K, S, V]) Drop(key K) { m.answers.Drop(key) }
