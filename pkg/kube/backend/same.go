package backend

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// isApplied says whether applying want to the existing object live would change nothing: live contains want, and no field that an earlier
// apply wrote and want lacks.
func isApplied(want, live *unstructured.Unstructured) bool {
	if !containsAll(want.Object, live.Object, "") {
		return false
	}
	for _, entry := range live.GetManagedFields() {
		if entry.Manager != FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply ||
			entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var owned map[string]any
		return json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned) == nil && !surplus(owned, want.Object)
	}
	return false // the fields of the earlier apply are unknown
}

// containsAll says whether have contains every value of want. have may have more map keys and owners, from the API server's defaults or
// other clients. field is the name of the compared field.
func containsAll(want, have any, field string) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return len(want) == 0 && have == nil
		}
		for key, value := range want {
			if !containsAll(value, have[key], key) {
				return false
			}
		}
		return true
	case []any:
		have, ok := have.([]any)
		if field == "ownerReferences" {
			return ok && hasOwnerReferences(want, have)
		}
		if len(want) != len(have) || !ok && len(want) > 0 {
			return false
		}
		for i := range want {
			if !containsAll(want[i], have[i], "") {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, have)
}

// hasOwnerReferences says whether each owner reference in want is also in have. There it may have more fields.
func hasOwnerReferences(want, have []any) bool {
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h any) bool { return containsAll(w, h, "") }) {
			return false
		}
	}
	return true
}

// surplus says whether owned, in the format of managedFields, has a field that want lacks. It ignores list items.
func surplus(owned, want map[string]any) bool {
	for key, below := range owned {
		name, isField := strings.CutPrefix(key, "f:")
		if !isField {
			continue
		}
		value, wanted := want[name]
		if !wanted {
			return true
		}
		object, isObject := value.(map[string]any)
		if fields, ok := below.(map[string]any); ok && isObject && surplus(fields, object) {
			return true
		}
	}
	return false
}
