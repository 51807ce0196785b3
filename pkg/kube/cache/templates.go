package cache

import (
	"unique"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Template is a template of convert's that is compared as a pointer is, and of which there is one for all that have it.
type Template = unique.Handle[string]

// templateOf is what a member needs that waits for one of our profiles: it is read once, when the pod is seen in that
// state, and not with each plan. Of others nobody asks; there is none of them.
func (c *Cache) templateOf(pod *v1.Pod) Template {
	if pod.Spec.NodeName != "" || convert.Finished(pod) || !c.Serves(pod) {
		return Template{}
	}
	return unique.Make(convert.Template(pod))
}

// keep notes what a member needs. It is kept by the object, which is never changed: a pod in another state is another
// object, and so nothing that is kept can be out of date. c.mu is held.
func (c *Cache) keep(pod *v1.Pod, is Template) {
	if is != (Template{}) {
		c.templates[pod] = is
	}
}

// Templates are those of some pods, in their order, whoever they are.
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

// Waiting is how many members wait for our profiles.
func (c *Cache) Waiting() int { return read(c, func() int { return len(c.templates) }) }
