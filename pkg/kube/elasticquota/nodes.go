package elasticquota

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// nodes are what there is on nodes that are ready.
type nodes struct {
	known map[string]quota.List // nil for one that is not ready
	sum   quota.List
}

// set notes what a node has, and says whether that is something else than before.
func (n *nodes) set(node *v1.Node) bool {
	if n.known == nil {
		n.known, n.sum = map[string]quota.List{}, quota.List{}
	}
	was, known := n.known[node.Name]
	var is quota.List
	if ready(node) {
		is = convert.Amounts(node.Status.Allocatable)
	}
	if known && maps.Equal(was, is) && (was == nil) == (is == nil) {
		return false
	}
	n.add(was, -1)
	n.add(is, 1)
	n.known[node.Name] = is
	return true
}

func (n *nodes) drop(name string) {
	n.add(n.known[name], -1)
	delete(n.known, name)
}

func (n *nodes) add(l quota.List, times int64) {
	for name, amount := range l {
		n.sum[name] += times * amount
	}
}

// ready says whether a node is ready, as far as anybody says so: nodes in files need not.
func ready(node *v1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return true
}

func (r *Room) setNode(node *v1.Node) {
	r.mu.Lock()
	changed := r.nodes.set(node)
	if changed && r.Active() {
		r.totals()
	}
	r.mu.Unlock()
	if changed {
		r.changed()
	}
}

func (r *Room) dropNode(name string) {
	r.mu.Lock()
	if r.nodes.drop(name); r.Active() {
		r.totals()
	}
	r.mu.Unlock()
	r.changed()
}

// off says whether a pod is on a node that does not count.
func (r *Room) off(p *v1.Pod) bool {
	return p.Spec.NodeName != "" && r.nodes.known[p.Spec.NodeName] == nil
}

// totals notes that there is more or less than before. What that is is found out when somebody asks: at the start all nodes and all pods
// come at once. r.mu is held.
func (r *Room) totals() {
	r.stale = true
	r.touch()
}

// asked returns the book for a question, with how much there is for each tree: on nodes that are ready, and what pods have on others.
// r.mu is held.
func (r *Room) asked() *quota.Book {
	if !r.stale {
		return r.book
	}
	r.stale = false
	all := quota.List{}
	maps.Copy(all, r.nodes.sum)
	named := r.classes.Named(r.book.Tree().Resources())
	var known quota.List
	if len(named) > 0 {
		known = r.classes.Total(named, func(node string) bool { return r.nodes.known[node] != nil })
		maps.DeleteFunc(known, func(name string, _ int64) bool { return r.devices.unsure.all[name] > 0 })
		for resource, class := range r.classes.Backs() {
			if r.nodes.sum[resource] > 0 { // whoever asks for it may have it of kubelets
				delete(known, convert.QuotaOfClass(class))
			}
		}
		maps.Copy(all, known)
	}
	for _, p := range r.pods {
		if p.off = r.off(p.Pod); !p.off {
			continue
		}
		for name, n := range p.asks {
			all[name] += n
		}
	}
	maps.DeleteFunc(all, func(name string, _ int64) bool { // how much there is of it cannot be said, so that nothing limits it
		_, of := named[name]
		_, is := known[name]
		return of && !is || r.classes.Backing(name) != ""
	})
	tops := map[string]quota.List{scheduling.RootQuota: all}
	for _, o := range r.objects {
		if !o.Root || o.Tree == "" || o.Total == nil {
			continue
		}
		tops[o.Name] = o.Total
		if o.Own {
			for name, n := range o.Total {
				all[name] = max(0, all[name]-n)
			}
		}
	}
	for top, l := range tops {
		r.book.Total(top, l)
	}
	return r.book
}
