package preempt

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Violated are the disruption budgets that do not allow all of some pods to leave.
func (p *Preemptor) Violated(pods []*v1.Pod) (names []string) {
	c, left := &candidates{limits: p.listBudgets()}, map[string]int{}
	for _, pod := range pods {
		for _, b := range c.budgetsOf(pod) {
			if _, known := left[b.Name]; !known {
				left[b.Name] = b.Allowed
			}
			if left[b.Name]--; left[b.Name] == -1 {
				names = append(names, b.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
