package cache

import (
	"unique"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Template is a convert.Template that is compared as a pointer; equal templates share one.
type Template = unique.Handle[string]

// templateOf returns the template of a pending member that this process schedules; for other pods an empty one.
func (c *Cache) templateOf(pod *v1.Pod) Template {
	if pod.Spec.NodeName != "" || convert.Finished(pod) || !c.Serves(pod) {
		return Template{}
	}
	return unique.Make(convert.Template(pod))
}

// storeTemplate records the template of a member, unless it is empty. The key is the pod object, which never changes, so that the template
// is never stale. c.mu is locked.
func (c *Cache) storeTemplate(pod *v1.Pod, template Template) {
	if template != (Template{}) {
		c.templates[pod] = template
	}
}

// Templates returns the templates of pods, in their order.
func (c *Cache) Templates(pods []*v1.Pod) []Template {
	all := make([]Template, len(pods))
	c.mu.RLock()
	for i, pod := range pods {
		all[i] = c.templates[pod]
	}
	c.mu.RUnlock()
	for i, pod := range pods {
		if all[i] == (Template{}) {
			all[i] = unique.Make(convert.Template(pod))
		}
	}
	return all
}

// Waiting returns the number of pending members that this process schedules.
func (c *Cache) Waiting() int { return read(c, func() int { return len(c.templates) }) }
