package config

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
)

// ForceFit is the argument forceFit of CoschedulingArgs. The zero value has no effect.
type ForceFit struct {
	// After is how long a gang is unschedulable before it may evict gangs of equal priority that were created after it.
	After metav1.Duration `json:"after"`
	// MinPriority is the lowest priority of a gang that may do so: each pending member has at least this priority.
	MinPriority int32 `json:"minPriority"`
}

// String returns the argument as JSON.
func (f ForceFit) String() string {
	if f.IsZero() {
		return "null"
	}
	type plain ForceFit
	return asJSON(plain(f))
}

// IsZero returns whether no gang may evict gangs of equal priority by the argument.
func (f ForceFit) IsZero() bool { return f.After.Duration == 0 }

// forceFitLegal are the supported values of forceFit, for errors.
const forceFitLegal = "an object with the fields after, minPriority"

// decodeForceFit parses forceFit; data that is no object is none.
func decodeForceFit(data json.RawMessage) (f ForceFit, err error) {
	if data == nil || data[0] != '{' {
		return f, nil
	}
	err = strictjson.Object(argsKind+".forceFit", data,
		strictjson.Field{
			Name: "after", Into: &f.After, Legal: "a duration > 0, such as 2h", Required: true,
			Check: func() bool { return f.After.Duration > 0 },
		},
		strictjson.Field{Name: "minPriority", Into: &f.MinPriority, Legal: "a priority, such as 1000", Required: true},
	)
	return f, err
}
