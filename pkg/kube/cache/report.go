package cache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Report is what people may be told about one gang.
type Report struct {
	gang.State
	PodGroup *sigs.PodGroup // nil for a gang that its pods describe
	Resource schema.GroupVersionResource
	Speaker  *v1.Pod  // a member to tell instead where there is no PodGroup, one that waits if any does; may be nil
	Owners   []string // namespace/name of the members' controllers
	Members  int      // all of them
	// Members by phase; finished ones count.
	Running, Succeeded, Failed int
	// Domain is the path of the deepest named domain that holds all bound members; ""
	// if that is the whole cluster, or none is bound.
	Domain string
}

// speaksBefore says which of two members is told about their gang: one that waits, the
// first by name.
func speaksBefore(x, y *v1.Pod) bool {
	if a, b := x.Spec.NodeName == "", y.Spec.NodeName == ""; a != b {
		return a
	}
	return topology.CompareNames(convert.PodKey(x), convert.PodKey(y)) < 0
}

// Report returns what is known of a gang now.
func (c *Cache) Report(name string) (Report, bool) {
	tree := c.Topology().Tree
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[name]
	if r == nil {
		return Report{}, false
	}
	out := Report{State: c.book.State(name), Members: len(r.pods)}
	out.PodGroup, out.Resource = r.podGroup()
	owners := map[string]bool{}
	domain := topology.ID(-1)
	for _, pod := range r.pods {
		if !convert.Finished(pod) && (out.Speaker == nil || speaksBefore(pod, out.Speaker)) {
			out.Speaker = pod
		}
		if o := metav1.GetControllerOf(pod); o != nil {
			owners[convert.Key(pod.Namespace, o.Name)] = true
		}
		switch {
		case pod.Status.Phase == v1.PodSucceeded:
			out.Succeeded++
		case pod.Status.Phase == v1.PodFailed:
			out.Failed++
		case pod.DeletionTimestamp != nil:
		case pod.Status.Phase == v1.PodRunning:
			out.Running++
		}
		if i, ok := tree.NodeIndex(pod.Spec.NodeName); ok && !convert.Finished(pod) {
			if domain < 0 {
				domain = tree.Node(i)
			}
			domain = tree.Common(domain, tree.Node(i))
		}
	}
	for _, pod := range r.done {
		if o := metav1.GetControllerOf(pod); o != nil {
			owners[convert.Key(pod.Namespace, o.Name)] = true
		}
		if pod.Status.Phase == v1.PodSucceeded {
			out.Succeeded++
		} else {
			out.Failed++
		}
	}
	for ; domain > topology.Root && !tree.Named(domain); domain = tree.Parent(domain) {
	}
	if domain > topology.Root {
		out.Domain = tree.Path(domain)
	}
	out.Owners = slices.SortedFunc(maps.Keys(owners), topology.CompareNames)
	return out, true
}

// Gangs lists the gangs that are known.
func (c *Cache) Gangs() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(c.gangs), topology.CompareNames)
}

// Bound says whether a member has a node for the API server, and not only a place that
// is being taken.
func (c *Cache) Bound(pod *v1.Pod) bool {
	p := c.Pod(convert.PodKey(pod))
	return p != nil && p.Spec.NodeName != ""
}

// Counted says whether a member has a node, or the scheduler counts it on one.
func (c *Cache) Counted(pod *v1.Pod) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	key := convert.PodKey(pod)
	p := c.pods[key]
	return p != nil && p.UID == pod.UID && (p.Spec.NodeName != "" || c.book.Assumed(key))
}

// Running returns the members of a gang that have a node and are neither done nor asked to
// leave, and how many of them it needs: none if nothing declares it.
func (c *Cache) Running(name string) (pods []*v1.Pod, least int) {
	return c.stay(name, func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
}

// Placed returns Running's and those that are about to run: the scheduler counts them on a
// node.
func (c *Cache) Placed(name string) (pods []*v1.Pod, least int) {
	return c.stay(name, func(p *v1.Pod) bool { return p.Spec.NodeName != "" || c.book.Assumed(convert.PodKey(p)) })
}

func (c *Cache) stay(name string, there func(*v1.Pod) bool) (pods []*v1.Pod, least int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := c.gangs[name]
	if r == nil {
		return nil, 0
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.pods), topology.CompareNames) {
		if p := r.pods[key]; there(p) && !convert.Finished(p) && (c.Leaves == nil || !c.Leaves(p)) {
			pods = append(pods, p)
		}
	}
	return pods, c.book.State(name).Min
}

// Pending returns the members of a gang that wait for a node.
func (c *Cache) Pending(name string) (pods []*v1.Pod) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.gangs[name]; r != nil {
		for _, key := range slices.SortedFunc(maps.Keys(r.pods), topology.CompareNames) {
			if p := r.pods[key]; p.Spec.NodeName == "" && !convert.Finished(p) {
				pods = append(pods, p)
			}
		}
	}
	return pods
}

// Pod returns a member.
func (c *Cache) Pod(key string) *v1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.pods[key]
}
