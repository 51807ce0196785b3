// Package workloads has Go types for the objects of other projects from which Muster reads gangs: JobSet, LeaderWorkerSet, Grove's
// PodGang and Volcano's PodGroup. The scheduler's integrations, muster-controller and the simulation read these objects with it.
//
// The types have only the fields that Muster uses, so that objects of later versions can be read.
package workloads

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Read sets into, a pointer to a struct, from the top-level field of u. For an invalid nested field, into keeps its value, and the other
// fields are set. The error names the first invalid field, its value and the supported values.
//
// A struct tag min:"1" is the smallest valid value of an integer or a quantity.
func Read(u *unstructured.Unstructured, field string, into any) error {
	r := reader{}
	r.read(u.Object[field], reflect.ValueOf(into).Elem(), field, "")
	return r.err
}

// ReadObject is Read for a whole object: into is a pointer to its type. Metadata counts, too.
func ReadObject(object map[string]any, into any) error {
	r := reader{}
	r.read(object, reflect.ValueOf(into).Elem(), "", "")
	return r.err
}

// imported has the smallest valid values of integer fields in types of other projects, which have no such tag.
var imported = map[string]string{"parallelism": "0", "completions": "0", "size": "1"}

// reader converts JSON values to Go values, and keeps the first error.
type reader struct{ err error }

// invalid records that the value of a field is invalid, unless there is an error already. It returns false.
func (r *reader) invalid(path string, value any, legal string) bool {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s is invalid; supported values: %s", path, Quoted(value), legal)
	}
	return false
}

// read sets into from a decoded JSON value. It returns false if the value is invalid. null changes nothing.
func (r *reader) read(value any, into reflect.Value, path, least string) (ok bool) {
	if value == nil {
		return true
	}
	if into.Kind() == reflect.Pointer {
		fresh := reflect.New(into.Type().Elem())
		if ok = r.read(value, fresh.Elem(), path, least); ok {
			into.Set(fresh)
		}
		return ok
	}
	if _, own := into.Addr().Interface().(json.Unmarshaler); own {
		return r.readOwnForm(value, into, path, least)
	}
	switch into.Kind() {
	case reflect.Struct:
		return r.readStruct(value, into, path)
	case reflect.Map:
		return r.readMap(value, into, path, least)
	case reflect.Slice:
		return r.readList(value, into, path)
	case reflect.Interface:
		into.Set(reflect.ValueOf(value))
		return true
	case reflect.Int, reflect.Int32, reflect.Int64:
		return r.readInteger(value, into, path, least)
	}
	legal := "a text"
	switch into.Kind() {
	case reflect.String:
		if _, isList := value.([]any); !isList && reflect.ValueOf(value).Kind() != reflect.Map {
			legal += "; write " + strconv.Quote(Quoted(value)) + " with quotes"
		}
	case reflect.Bool:
		legal = "true or false"
	case reflect.Float64:
		legal = "a number"
		if n, whole := value.(int64); whole {
			value = float64(n)
		}
	}
	if v := reflect.ValueOf(value); v.Kind() == into.Kind() {
		into.Set(v.Convert(into.Type()))
		return true
	}
	return r.invalid(path, value, legal)
}

// readStruct sets the fields of a struct. It returns true for every object, also if some fields are invalid.
func (r *reader) readStruct(value any, into reflect.Value, path string) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return r.invalid(path, value, "an object")
	}
	for i := range into.NumField() {
		field := into.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			r.readStruct(object, into.Field(i), path)
		case name != "":
			r.read(object[name], into.Field(i), strings.TrimPrefix(path+"."+name, "."), cmp.Or(field.Tag.Get("min"), imported[name]))
		}
	}
	return true
}

// readMap sets into to a map with the valid entries of value. least is the smallest valid value of integers.
func (r *reader) readMap(value any, into reflect.Value, path, least string) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return r.invalid(path, value, "an object")
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		entry, at := reflect.New(into.Type().Elem()).Elem(), fmt.Sprintf("%s[%s]", path, key)
		if object[key] == nil && least != "" {
			r.invalid(at, nil, "an integer ≥ "+least)
		} else if r.read(object[key], entry, at, least) {
			into.SetMapIndex(reflect.ValueOf(key).Convert(into.Type().Key()), entry)
		}
	}
	return true
}

// readList sets into to a list. An invalid element keeps its zero value.
func (r *reader) readList(value any, into reflect.Value, path string) bool {
	if into.Type().Elem().Kind() == reflect.Uint8 {
		return r.readOwnForm(value, into, path, "")
	}
	list, ok := value.([]any)
	if !ok {
		legal := "a list"
		if into.Type().Elem().Kind() == reflect.String {
			legal = "a list of texts"
		}
		return r.invalid(path, value, legal)
	}
	into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
	for i := range list {
		r.read(list[i], into.Index(i), fmt.Sprintf("%s[%d]", path, i), "")
	}
	return true
}

// readInteger sets into to an integer that is at least least; "" is no limit.
func (r *reader) readInteger(value any, into reflect.Value, path, least string) bool {
	n, whole := value.(int64)
	if f, is := value.(float64); is && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		n, whole = int64(f), true // encoding/json has no other numbers; the webhook decodes with it
	}
	legal, from := "an integer", math.MinInt64
	if least != "" {
		legal += " ≥ " + least
		from, _ = strconv.Atoi(least)
	}
	if text, quoted := value.(string); quoted {
		if parsed, err := strconv.Atoi(text); err == nil && parsed >= from {
			legal += "; write " + text + " without quotes"
		}
	}
	switch {
	case !whole || n < int64(from):
		return r.invalid(path, value, legal)
	case into.OverflowInt(n):
		return r.invalid(path, value, fmt.Sprintf("an integer from %d to %d", max(0, from), math.MaxInt32))
	}
	into.SetInt(n)
	return true
}

// readOwnForm sets into by its UnmarshalJSON, for types such as quantities. A quantity is at least least, which is "0" or "" (no limit).
func (r *reader) readOwnForm(value any, into reflect.Value, path, least string) bool {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, into.Addr().Interface())
	}
	quantity, isQuantity := into.Addr().Interface().(*resource.Quantity)
	switch {
	case isQuantity && err != nil:
		return r.invalid(path, value, "a quantity, such as 8, 500m or 64Gi")
	case isQuantity && least != "" && quantity.Sign() < 0:
		return r.invalid(path, value, "a quantity ≥ "+least)
	}
	if err != nil {
		return r.invalid(path, value, fmt.Sprintf("a %s (%v)", into.Type().Name(), err))
	}
	return true
}

// Quoted returns a value as JSON; "nothing" for nil.
func Quoted(value any) string {
	if value == nil {
		return "nothing"
	}
	if s, ok := value.(string); ok {
		return strconv.Quote(s)
	}
	if data, err := json.Marshal(value); err == nil {
		return string(data)
	}
	return fmt.Sprint(value)
}
