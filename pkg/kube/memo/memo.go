// Package memo remembers values by key, for several goroutines. Invariant: no function of the caller runs with its locks locked.
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

// AddAtMost is Add with a limit: if the map has limit values, it first removes all of them. 0 is no limit.
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

// Share returns the value of a key. If the key has none, it adds and returns the given value; if the map has limit values, it first removes
// all.
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

// Drop removes a key, and returns whether it had a value.
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

// Memo remembers a result for each key, which is valid for one stamp. The stamp is all that the result depends on besides the key: numbers
// of versions, pointers to immutable objects. The zero value is empty.
type Memo[K, S comparable, V any] struct {
	// Most limits the number of results; 0 is no limit. At the limit all are removed.
	Most    int
	answers Map[K, stamped[S, V]]
}

type stamped[S, V any] struct {
	stamp  S
	answer V
}

// Get returns the result of a key if Put was called with the same stamp; else ok is false.
func (m *Memo[K, S, V]) Get(key K, stamp S) (answer V, ok bool) {
	known, ok := m.answers.Get(key)
	if !ok || known.stamp != stamp {
		return answer, false
	}
	return known.answer, true
}

// Put sets the result of a key for a stamp.
func (m *Memo[K, S, V]) Put(key K, stamp S, answer V) {
	m.answers.AddAtMost(key, stamped[S, V]{stamp, answer}, m.Most)
}

// Drop removes the result of a key.
func (m *Memo[K, S, V]) Drop(key K) { m.answers.Drop(key) }
