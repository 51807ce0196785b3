// Package strictjson reads JSON objects that users write by hand: what is wrong is said
// about each field, with the value that was met and what is legal, and nothing is ignored.
package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sigsjson "sigs.k8s.io/json"
)

// Field is one field of an object.
type Field struct {
	Name  string
	Into  any    // pointer to where the value goes; stays as it is if the field is absent or null
	Legal string // said in errors
	// Check, if set, is asked after the value was stored whether it is legal.
	Check    func() bool
	Required bool
}

// Object reads data into fields. Errors call the object path. Each field may
// occur once, its name must match in case, and there may be no others.
func Object(path string, data []byte, fields ...Field) error {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	var raw map[string]json.RawMessage
	twice, err := sigsjson.UnmarshalStrict(data, &raw)
	if err != nil || raw == nil {
		if json.Valid(data) {
			return fmt.Errorf("%s: %s is not an object; supported values: an object with the fields %s", path,
				short(string(data)), strings.Join(names, ", "))
		}
		return notJSON(path, string(data))
	}
	var errs []error
	for _, e := range twice {
		errs = append(errs, fmt.Errorf("%s: %w; supported values: each field once", path, e))
	}
	for _, f := range fields {
		v, given := raw[f.Name]
		delete(raw, f.Name)
		switch given = given && string(v) != "null"; {
		case !given && f.Required:
			errs = append(errs, fmt.Errorf("%s.%s: missing; supported values: %s", path, f.Name, f.Legal))
		case given && (json.Unmarshal(v, f.Into) != nil || f.Check != nil && !f.Check()):
			errs = append(errs, Illegal(path+"."+f.Name, string(v), f.Legal))
		}
	}
	var unknown []string
	for name := range raw {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		legal := strings.Join(names, ", ") + DidYouMean(name, names)
		errs = append(errs, fmt.Errorf("%s.%s: unknown field; supported values: %s", path, name, legal))
	}
	return errors.Join(errs...)
}

// Illegal is the error about a value that is invalid. value is as the user wrote it.
func Illegal(what, value, legal string) error {
	var names []string // of an enumeration
	for name := range strings.SplitSeq(legal, ", ") {
		if !strings.Contains(name, " ") {
			names = append(names, name)
		}
	}
	return fmt.Errorf("%s: %s is invalid; supported values: %s%s", what, short(value), legal, DidYouMean(strings.Trim(value, `"`), names))
}

// notJSON is the error about text that is not JSON, with the position of the mistake.
func notJSON(path, text string) error {
	syntax := (*json.SyntaxError)(nil)
	err := json.Unmarshal([]byte(text), new(any))
	if errors.As(err, &syntax) && int(syntax.Offset) < len(text) {
		err = fmt.Errorf("%w (position %d)", err, syntax.Offset)
	}
	return fmt.Errorf("%s: %q is not JSON: %w", path, short(text), err)
}

// DidYouMean ends a message about an invalid value with the valid one of several that it is like; "" if none is. Valid values are alike
// among themselves, as SpineLayer and BlockLayer are: the Distance is at most a quarter of the longer one.
func DidYouMean(value string, names []string) string {
	if near := Near(value, names); len(names) > 1 && near != "" && 4*Distance(value, near) <= max(len(value), len(near)) {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Near returns the one of names that a name is most like, the first of several; "" if none is like it. Two are alike if their
// Distance is at most half of the longer one.
func Near(name string, names []string) (near string) {
	best := 0
	for _, other := range names {
		d := Distance(name, other)
		if 2*d <= max(len(name), len(other)) && (near == "" || d < best) {
			near, best = other, d
		}
	}
	return near
}

// Distance returns how long the longer of two names is without what both begin and end with, whatever their case.
func Distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	short, begin, end := min(len(a), len(b)), 0, 0
	for begin < short && a[begin] == b[begin] {
		begin++
	}
	for end < short-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return max(len(a), len(b)) - begin - end
}

// short keeps an error readable when the value is not.
func short(value string) string {
	const most = 160
	if len(value) <= most {
		return value
	}
	return strings.ToValidUTF8(value[:most], "") + "…"
}
