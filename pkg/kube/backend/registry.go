package backend

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Registry finds the backend for a scheduler name. The order of registration does not matter.
type Registry struct {
	backends map[string]Backend
	fallback string
}

// NewRegistry returns a registry of backends; two of one name are an error.
func NewRegistry(backends ...Backend) (*Registry, error) {
	r := &Registry{backends: map[string]Backend{}}
	for _, b := range backends {
		if err := r.Register(b); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Register adds a backend.
func (r *Registry) Register(b Backend) error {
	if _, twice := r.backends[b.Name()]; twice {
		return fmt.Errorf("backend %q is registered twice", b.Name())
	}
	r.backends[b.Name()] = b
	return nil
}

// SetDefault sets the backend for pods without a scheduler name. It does not serve unknown scheduler names: the scheduler of
// that name would not read its objects.
func (r *Registry) SetDefault(name string) error {
	if _, known := r.backends[name]; !known {
		return fmt.Errorf("default backend %q is not registered; supported values: one of %q", name, slices.Sorted(maps.Keys(r.backends)))
	}
	r.fallback = name
	return nil
}

// For returns the backend for a scheduler name: the default for "", else the best match. Of equal matches the first by name wins.
// The default also serves the default scheduler's name, which the API server writes for "", unless another backend does.
func (r *Registry) For(schedulerName string) (Backend, error) {
	fallback, set := r.backends[r.fallback]
	if set && schedulerName == "" {
		return fallback, nil
	}
	var best Backend
	match := None
	for _, b := range r.All() {
		if m := b.Matches(schedulerName); m > match {
			best, match = b, m
		}
	}
	switch {
	case best != nil:
		return best, nil
	case set && schedulerName == defaultScheduler:
		return fallback, nil
	}
	return nil, fmt.Errorf("no backend for schedulerName %q; supported values: %s", schedulerName, r.legal())
}

// legal returns the served scheduler names, in words.
func (r *Registry) legal() string {
	var out []string
	for _, b := range r.All() {
		out = append(out, fmt.Sprintf("%s (backend %s)", b.Serves(), b.Name()))
	}
	if r.fallback != "" {
		out = append(out, fmt.Sprintf("none (default %s)", r.fallback))
	}
	return strings.Join(out, ", ")
}

// All returns the backends, by name.
func (r *Registry) All() (out []Backend) {
	for _, name := range slices.Sorted(maps.Keys(r.backends)) {
		out = append(out, r.backends[name])
	}
	return out
}
