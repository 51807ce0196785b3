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
		return fmt.Errorf("%s: %q is not JSON: %w", path, short(string(data)), err)
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
		errs = append(errs, fmt.Errorf("%s.%s: unknown field; supported values: %s", path, name, strings.Join(names, ", ")))
	}
	return errors.Join(errs...)
}

// Illegal is the error about a value that is invalid. value is as the user wrote it.
func Illegal(what, value, legal string) error {
	return fmt.Errorf("%s: %s is invalid; supported values: %s", what, short(value), legal)
}

// short keeps an error readable when the value is not.
func short(value string) string {
	const most = 160
	if len(value) <= most {
		return value
	}
	return strings.ToValidUTF8(value[:most], "") + "…"
}
