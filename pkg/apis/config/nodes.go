package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
)

// Spares is the argument spares of CoschedulingArgs.
type Spares []Spare

// Spare says that gangs without running members leave free nodes unused in each domain of a layer.
type Spare struct {
	// Layer is a layer of the ClusterNetworkTopology, or ClusterTopologyLayer.
	Layer string `json:"layer"`
	// Nodes is how many free nodes each domain keeps, if it has more nodes than that.
	Nodes int `json:"nodes"`
	// UnlessPriority is the lowest priority of gangs that ignore the entry; nil if none does.
	UnlessPriority *int32 `json:"unlessPriority,omitempty"`
}

// String returns the argument as JSON.
func (s Spares) String() string {
	if len(s) == 0 {
		return "[]"
	}
	return asJSON([]Spare(s))
}

// Degraded is the argument degraded of CoschedulingArgs. A node that matches any entry is degraded. The zero value has no effect.
type Degraded struct {
	Conditions []DegradedCondition `json:"conditions,omitempty"`
	Labels     []string            `json:"labels,omitempty"` // as "key=value"
	Taints     []string            `json:"taints,omitempty"` // keys
	// AvoidAfterFault is how long the node of a lost member counts as degraded for the members of its gang.
	AvoidAfterFault metav1.Duration `json:"avoidAfterFault"`
}

// DegradedCondition is the type and status of a condition that degraded nodes have.
type DegradedCondition struct {
	Type   string             `json:"type"`
	Status v1.ConditionStatus `json:"status"`
}

// String returns the argument as JSON.
func (d Degraded) String() string {
	if d.IsZero() {
		return "null"
	}
	type plain Degraded
	return asJSON(plain(d))
}

// IsZero returns whether no node is degraded by the argument.
func (d Degraded) IsZero() bool {
	return len(d.Conditions)+len(d.Labels)+len(d.Taints) == 0 && d.AvoidAfterFault.Duration == 0
}

// asJSON returns a value that JSON can express as JSON.
func asJSON(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

// decodeSpares parses the entries of spares.
func decodeSpares(entries []json.RawMessage) (out Spares, err error) {
	for i, entry := range entries {
		s := Spare{}
		err = errors.Join(err, strictjson.Object(fmt.Sprintf("%s.spares[%d]", argsKind, i), entry,
			strictjson.Field{
				Name: "layer", Into: &s.Layer, Legal: "a layer of the ClusterNetworkTopology", Required: true,
				Check: func() bool { return s.Layer != "" },
			},
			strictjson.Field{
				Name: "nodes", Into: &s.Nodes, Legal: "an integer ≥ 0", Required: true, Check: func() bool { return s.Nodes >= 0 },
			},
			strictjson.Field{Name: "unlessPriority", Into: &s.UnlessPriority, Legal: "a priority, such as 100000"},
		))
		out = append(out, s)
	}
	return out, err
}

// degradedLegal are the supported values of degraded, for errors.
const degradedLegal = "an object with the fields conditions, labels, taints, avoidAfterFault"

// decodeDegraded parses degraded; data that is no object is none.
func decodeDegraded(data json.RawMessage) (Degraded, error) {
	if data == nil || data[0] != '{' {
		return Degraded{}, nil
	}
	d := Degraded{AvoidAfterFault: metav1.Duration{Duration: 10 * time.Minute}}
	var conditions []json.RawMessage
	path := argsKind + ".degraded"
	err := strictjson.Object(path, data,
		strictjson.Field{Name: "conditions", Into: &conditions, Legal: "a list of objects with the fields type, status"},
		strictjson.Field{
			Name: "labels", Into: &d.Labels, Legal: `a list of labels, such as "example.com/health=poor"`,
			Check: func() bool { return !slices.ContainsFunc(d.Labels, func(l string) bool { return !isLabel(l) }) },
		},
		strictjson.Field{
			Name: "taints", Into: &d.Taints, Legal: "a list of keys of taints, such as example.com/degraded",
			Check: func() bool {
				return !slices.ContainsFunc(d.Taints, func(key string) bool { return len(validation.IsQualifiedName(key)) > 0 })
			},
		},
		strictjson.Field{
			Name: "avoidAfterFault", Into: &d.AvoidAfterFault, Legal: durationOrNever,
			Check: func() bool { return d.AvoidAfterFault.Duration >= 0 },
		},
	)
	statuses := []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown}
	for i, entry := range conditions {
		c := DegradedCondition{}
		err = errors.Join(err, strictjson.Object(fmt.Sprintf("%s.conditions[%d]", path, i), entry,
			strictjson.Field{
				Name: "type", Into: &c.Type, Legal: "the type of a node's condition", Required: true, Check: func() bool { return c.Type != "" },
			},
			strictjson.Field{
				Name: "status", Into: &c.Status, Legal: "True, False, Unknown", Required: true,
				Check: func() bool { return slices.Contains(statuses, c.Status) },
			},
		))
		d.Conditions = append(d.Conditions, c)
	}
	return d, err
}

// isLabel returns whether a text is a label as "key=value".
func isLabel(text string) bool {
	key, value, ok := strings.Cut(text, "=")
	return ok && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}
