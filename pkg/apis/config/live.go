package config

import (
	"reflect"
	"slices"
	"strings"
)

// live are the arguments that a running scheduler takes over when its configuration changes.
var live = []string{
	"enablePreemption", "defaultTimeout", "preemptionTimeout", "maxGrace", "starvationTimeout", "defaultMatchPolicy",
	"skipCheckScheduleCycle", // it has no effect, and so none that needs a restart
}

// IsLive says whether an argument, by its name in a configuration, may change while the scheduler runs.
func IsLive(name string) bool { return slices.Contains(live, name) }

// Take returns the arguments with those of others that may change while the scheduler runs, the names
// of these as far as they differ, and the names of those that differ and stay, since they need a restart.
func (a Args) Take(others Args) (now Args, changed, stay []string) {
	into, from := reflect.ValueOf(&a).Elem(), reflect.ValueOf(others)
	for i := range from.NumField() {
		if into.Field(i).Equal(from.Field(i)) {
			continue
		}
		name := Name(from.Type().Field(i).Name)
		if !IsLive(name) {
			stay = append(stay, name)
			continue
		}
		into.Field(i).Set(from.Field(i))
		changed = append(changed, name)
	}
	return a, changed, stay
}

// Name is what a field is called in a configuration.
func Name(field string) string { return strings.ToLower(field[:1]) + field[1:] }
