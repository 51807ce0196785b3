package scheduling

import (
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ParseQuotaAmounts returns a parser of amounts by resource in annotation key of an ElasticQuota: a JSON object of quantities ≥ 0.
func ParseQuotaAmounts(key string) func(value string) (map[string]resource.Quantity, error) {
	return func(value string) (map[string]resource.Quantity, error) {
		var all map[string]resource.Quantity
		err := json.Unmarshal([]byte(value), &all)
		if err != nil || all == nil || slices.ContainsFunc(slices.Collect(maps.Values(all)), negative) {
			return nil, illegal(key, value, `amounts ≥ 0 by resource as JSON, such as {"cpu":"8"}`)
		}
		return all, nil
	}
}

// ParseQuotaNamespaces parses AnnotationQuotaNamespaces.
func ParseQuotaNamespaces(value string) ([]string, error) {
	var all []string
	if err := json.Unmarshal([]byte(value), &all); err != nil || all == nil || slices.Contains(all, "") {
		return nil, illegal(AnnotationQuotaNamespaces, value, `a list of namespaces as JSON, such as ["team-a"]`)
	}
	return all, nil
}

func negative(n resource.Quantity) bool { return n.Sign() < 0 }
