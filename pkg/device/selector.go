package device

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Selector is a label selector: all requirements must match. The empty selector matches everything.
type Selector struct{ Requirements []Requirement }

// Requirement is one requirement of a selector: as in Kubernetes, NotIn also matches labels without the key.
type Requirement struct {
	Key      string
	Operator string // In, NotIn, Exists or DoesNotExist
	Values   []string
}

// Matches returns whether labels meet all requirements. A nil selector matches everything.
func (s *Selector) Matches(labels map[string]string) bool {
	if s == nil {
		return true
	}
	for _, r := range s.Requirements {
		value, has := labels[r.Key]
		in := has && slices.Contains(r.Values, value)
		if r.Operator == "In" && !in || r.Operator == "NotIn" && in || r.Operator == "Exists" && !has || r.Operator == "DoesNotExist" && has {
			return false
		}
	}
	return true
}

// String returns a text that is equal only for selectors with the same requirements.
func (s *Selector) String() string {
	if s == nil {
		return "-"
	}
	var list []string
	for _, r := range s.Requirements {
		list = append(list, fmt.Sprintf("%q %s %q", r.Key, r.Operator, slices.Sorted(slices.Values(r.Values))))
	}
	slices.SortFunc(list, cmp.Compare[string])
	return "[" + strings.Join(list, ", ") + "]"
}

// check returns an Invalid if a requirement is malformed; nil otherwise. path is the field for the message.
func (s *Selector) check(path string) *Invalid {
	if s == nil {
		return nil
	}
	for _, r := range s.Requirements {
		switch {
		case r.Key == "":
			return &Invalid{Field: path, Value: "", Legal: "a key in every requirement"}
		case (r.Operator == "In" || r.Operator == "NotIn") && len(r.Values) == 0:
			return &Invalid{Field: path + ": " + r.Key, Value: r.Operator, Legal: r.Operator + " with values"}
		case (r.Operator == "Exists" || r.Operator == "DoesNotExist") && len(r.Values) > 0:
			return &Invalid{Field: path + ": " + r.Key, Value: r.Operator, Legal: r.Operator + " without values"}
		case !slices.Contains([]string{"In", "NotIn", "Exists", "DoesNotExist"}, r.Operator):
			return &Invalid{Field: path + ": " + r.Key, Value: r.Operator, Legal: "In, NotIn, Exists or DoesNotExist"}
		}
	}
	return nil
}
