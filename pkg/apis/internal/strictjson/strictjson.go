// Package strictjson decodes JSON that users write by hand. Its error names each unknown or invalid field with the supported values.
package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sigsjson "sigs.k8s.io/json"
)

// Field is one field of an object.
type Field struct {
	Name  string
	Into  any    // a pointer to the variable to set; it is unchanged if the field is absent or null
	Legal string // the supported values, for errors
	// Check, if set, is called after the value was stored, and says whether it is valid.
	Check    func() bool
	Required bool
}

// Object decodes data, a JSON object, into fields. path names the object in errors. Each field may occur once, its name must match in
// case, and other fields are errors.
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
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		legal := strings.Join(names, ", ") + DidYouMean(name, names)
		errs = append(errs, fmt.Errorf("%s.%s: unknown field; supported values: %s", path, name, legal))
	}
	return errors.Join(errs...)
}

// Illegal returns the error that a value is invalid. value is as the user wrote it; legal are the supported values, in words.
func Illegal(what, value, legal string) error {
	var names []string // of an enumeration
	for name := range strings.SplitSeq(legal, ", ") {
		if !strings.Contains(name, " ") {
			names = append(names, name)
		}
	}
	return fmt.Errorf("%s: %s is invalid; supported values: %s%s", what, short(value), legal, DidYouMean(strings.Trim(value, `"`), names))
}

// notJSON returns the error that text is not JSON, with the position of the mistake.
func notJSON(path, text string) error {
	syntax := (*json.SyntaxError)(nil)
	err := json.Unmarshal([]byte(text), new(any))
	if errors.As(err, &syntax) && text != "" {
		err = fmt.Errorf("%w (position %d)", err, syntax.Offset)
	}
	return fmt.Errorf("%s: %q is not JSON: %w", path, short(text), err)
}

// DidYouMean returns the end of a message about an invalid value: the most similar one of several names; "" if none is similar enough.
func DidYouMean(value string, names []string) string {
	if near := Near(value, names); len(names) > 1 && near != "" && Similar(value, near) {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Similar reports whether the Distance of two names is at most a quarter of the longer one: valid names resemble one another, such as
// SpineLayer and BlockLayer.
func Similar(a, b string) bool { return 4*Distance(a, b) <= max(len(a), len(b)) }

// Near returns the first of names with the least Distance to name; "" if that is more than half of the longer one.
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

// Distance returns the length of the longer of two names without their common prefix and suffix, ignoring case.
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

// short returns value, cut to 160 bytes for an error.
func short(value string) string {
	const most = 160
	if len(value) <= most {
		return value
	}
	return strings.ToValidUTF8(value[:most], "") + "…"
}
