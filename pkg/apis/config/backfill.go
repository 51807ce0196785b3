package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
)

// Backfill is the argument backfill of CoschedulingArgs.
//
//	field               default  supported values
//	promiseAfter        10m      a duration ≥ 0; 0 means never
//	promises            1        an integer ≥ 0
//	defaultMaxRuntime   none     a duration > 0 for each PriorityClass
//	overdue             Wait     Wait, Evict
type Backfill struct {
	// PromiseAfter is how long a gang is unschedulable before free capacity is held for it.
	PromiseAfter time.Duration
	// Promises is how many gangs have a promised start at a time.
	Promises int
	// DefaultMaxRuntime is, by PriorityClass, the run time of pods without a declared one.
	DefaultMaxRuntime map[string]time.Duration
	// Overdue says what happens to pods that run longer than declared on capacity that is held for a gang.
	Overdue Overdue
}

// Overdue says what happens to pods that run longer than declared on held capacity.
type Overdue string

const (
	// OverdueWait makes the gang wait for them. It is the default.
	OverdueWait Overdue = "Wait"
	// OverdueEvict evicts them for the gang.
	OverdueEvict Overdue = "Evict"
)

// String returns the argument as YAML in one line.
func (b Backfill) String() string {
	var runtimes []string
	for _, class := range slices.Sorted(maps.Keys(b.DefaultMaxRuntime)) {
		runtimes = append(runtimes, fmt.Sprintf("%s: %s", class, short(b.DefaultMaxRuntime[class])))
	}
	return fmt.Sprintf("{promiseAfter: %s, promises: %d, defaultMaxRuntime: {%s}, overdue: %s}",
		short(b.PromiseAfter), b.Promises, strings.Join(runtimes, ", "), b.Overdue)
}

// short returns a duration without units that are 0.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

const (
	// backfillLegal are the supported values of backfill, for errors.
	backfillLegal = "an object with the fields promiseAfter, promises, defaultMaxRuntime, overdue"
	// durationOrNever are the supported values of durations that may be 0.
	durationOrNever = "a duration ≥ 0, such as 10m"
)

// decodeBackfill parses backfill; b has its defaults. starvation is the argument starvationTimeout, another name of promiseAfter; nil if it
// is not given. Data that is no object is none.
func decodeBackfill(data json.RawMessage, b Backfill, starvation *metav1.Duration) (Backfill, error) {
	if starvation != nil {
		b.PromiseAfter = starvation.Duration
	}
	if data == nil || data[0] != '{' {
		return b, nil
	}
	path := argsKind + ".backfill"
	var promiseAfter *metav1.Duration
	var runtimes map[string]json.RawMessage
	err := strictjson.Object(path, data,
		strictjson.Field{
			Name: "promiseAfter", Into: &promiseAfter, Legal: durationOrNever,
			Check: func() bool { return promiseAfter.Duration >= 0 },
		},
		strictjson.Field{
			Name: "promises", Into: &b.Promises, Legal: "an integer ≥ 0", Check: func() bool { return b.Promises >= 0 },
		},
		strictjson.Field{
			Name: "defaultMaxRuntime", Into: &runtimes, Legal: `an object with a duration for each PriorityClass, such as {"batch": "2h"}`,
		},
		strictjson.Field{
			Name: "overdue", Into: &b.Overdue, Legal: "Wait, Evict",
			Check: func() bool { return b.Overdue == OverdueWait || b.Overdue == OverdueEvict },
		},
	)
	for _, class := range slices.Sorted(maps.Keys(runtimes)) {
		var d metav1.Duration
		if json.Unmarshal(runtimes[class], &d) != nil || d.Duration <= 0 {
			err = errors.Join(err, strictjson.Illegal(path+".defaultMaxRuntime."+class, string(runtimes[class]), "a duration > 0, such as 2h"))
			continue
		}
		if b.DefaultMaxRuntime == nil {
			b.DefaultMaxRuntime = map[string]time.Duration{}
		}
		b.DefaultMaxRuntime[class] = d.Duration
	}
	if promiseAfter == nil {
		return b, err
	}
	if starvation != nil && *starvation != *promiseAfter {
		err = errors.Join(err, fmt.Errorf(
			"%s.starvationTimeout: %s contradicts %s.promiseAfter: %s; both are the same argument: remove starvationTimeout",
			argsKind, short(starvation.Duration), path, short(promiseAfter.Duration)))
	}
	b.PromiseAfter = promiseAfter.Duration
	return b, err
}
