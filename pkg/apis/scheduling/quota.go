package scheduling

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ParseQuotaAmounts returns a parser of amounts by resource in annotation key of an ElasticQuota: a JSON object of quantities ≥ 0.
func ParseQuotaAmounts(key string) func(value string) (map[string]resource.Quantity, error) {
	return func(value string) (map[string]resource.Quantity, error) {
		var all map[string]resource.Quantity
		if err := json.Unmarshal([]byte(value), &all); err != nil || all == nil || slices.ContainsFunc(values(all), negative) {
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

func values(m map[string]resource.Quantity) (all []resource.Quantity) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

func negative(n resource.Quantity) bool { return n.Sign() < 0 }
