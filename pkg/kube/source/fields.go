package source

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// What follows reads fields of objects that nobody may have checked: whatever is not as it
// should be is an error that names the field and what is legal there.

// field is the value of a nested field, and whether there is one that is not null.
func field(object map[string]any, path ...string) (any, bool) {
	var value any = object
	for _, name := range path {
		in, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		value = in[name]
	}
	return value, value != nil
}

// within says which of the fields on the way to another one is no object.
func within(object map[string]any, path []string) error {
	for i := range path[:len(path)-1] {
		value, ok := field(object, path[:i+1]...)
		if !ok {
			return nil
		}
		if _, ok := value.(map[string]any); !ok {
			return fmt.Errorf("%s: %s is not legal; legal: an object", strings.Join(path[:i+1], "."), quoted(value))
		}
	}
	return nil
}

// objectIn is an object in a field; nil if there is none.
func objectIn(object map[string]any, path ...string) (map[string]any, error) {
	return typed[map[string]any](object, "an object", path)
}

// text is what is written in a field; "" if there is nothing.
func text(object map[string]any, path ...string) (string, error) {
	return typed[string](object, "a text", path)
}

// textsIn are the texts of a list in a field.
func textsIn(object map[string]any, path ...string) (out []string, err error) {
	all, err := typed[[]any](object, "a list of texts", path)
	for i, one := range all {
		s, ok := one.(string)
		if !ok {
			return nil, fmt.Errorf("%s[%d]: %s is not legal; legal: a text", strings.Join(path, "."), i, quoted(one))
		}
		out = append(out, s)
	}
	return out, err
}

// countIn is a number of pods or of gangs in a field, at least so many; if nothing is said it is another one.
func countIn(object map[string]any, least, otherwise int, path ...string) (int, error) {
	if err := within(object, path); err != nil {
		return 0, err
	}
	value, said := field(object, path...)
	if !said {
		return otherwise, nil
	}
	n, err := count(value, least)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
	}
	return n, nil
}

// objectsIn are the objects of a list in a field.
func objectsIn(object map[string]any, path ...string) (out []map[string]any, err error) {
	all, err := typed[[]any](object, "a list", path)
	for i, one := range all {
		o, ok := one.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d]: %s is not legal; legal: an object", strings.Join(path, "."), i, quoted(one))
		}
		out = append(out, o)
	}
	return out, err
}

func typed[T any](object map[string]any, legal string, path []string) (out T, err error) {
	if err := within(object, path); err != nil {
		return out, err
	}
	value, ok := field(object, path...)
	if !ok {
		return out, nil
	}
	out, ok = value.(T)
	if !ok {
		return out, fmt.Errorf("%s: %s is not legal; legal: %s", strings.Join(path, "."), quoted(value), legal)
	}
	return out, nil
}

// count is a number of pods or of gangs, at least so many. What is not said is 0, where that is
// legal.
func count(value any, least int) (int, error) {
	n, ok := value.(int64)
	if value == nil && least == 0 {
		return 0, nil
	}
	if n > math.MaxInt32 {
		return 0, fmt.Errorf("%d is not legal; legal: an integer from %d to %d", n, least, math.MaxInt32)
	}
	if !ok || n < int64(least) {
		return 0, fmt.Errorf("%s is not legal; legal: an integer ≥ %d", quoted(value), least)
	}
	return int(n), nil
}

// number is a number as JSON has it, nil if it is none.
func number(value any) *float64 {
	switch v := value.(type) {
	case int64:
		n := float64(v)
		return &n
	case float64:
		return &v
	}
	return nil
}

// quoted is a value as people know it from the object.
func quoted(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return strconv.Quote(v)
	}
	if said, err := json.Marshal(value); err == nil {
		return string(said)
	}
	return fmt.Sprint(value)
}
