package config

import (
	"reflect"
	"slices"
	"strings"
)

// live are the arguments that a running scheduler applies when its configuration changes.
var live = []string{
	"enablePreemption", "defaultTimeout", "preemptionTimeout", "maxGrace", "backfill", "repairTimeout", "repairSwap", "repairPolicy",
	"forceFit", "defaultMatchPolicy",
	"spares", "degraded", "maintenanceLead",
	"skipCheckScheduleCycle", // it has no effect, so it needs no restart
}

// IsLive says whether an argument, by its name in a configuration, may change while the scheduler runs.
func IsLive(name string) bool { return slices.Contains(live, name) }

// Take returns a with the live arguments of others. changed are the names of the live arguments that differ, and stay the names of
// differing arguments that need a restart.
func (a Args) Take(others Args) (now Args, changed, stay []string) {
	into, from := reflect.ValueOf(&a).Elem(), reflect.ValueOf(others)
	for i := range from.NumField() {
		if reflect.DeepEqual(into.Field(i).Interface(), from.Field(i).Interface()) {
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

// Name returns the name of a field in a configuration.
func Name(field string) string { return strings.ToLower(field[:1]) + field[1:] }
