package elasticquota

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// nodes has the allocatable resources of ready nodes, and their sum.
type nodes struct {
	byName map[string]quota.List // nil for a node that is not ready
	sum    quota.List
}

// set records a node's resources, and returns whether they changed.
func (n *nodes) set(node *v1.Node) bool {
	if n.byName == nil {
		n.byName, n.sum = map[string]quota.List{}, quota.List{}
	}
	previous, known := n.byName[node.Name]
	var current quota.List
	if convert.Ready(node) {
		current = convert.Amounts(node.Status.Allocatable)
	}
	if known && maps.Equal(previous, current) && (previous == nil) == (current == nil) {
		return false
	}
	n.add(previous, -1)
	n.add(current, 1)
	n.byName[node.Name] = current
	return true
}

func (n *nodes) drop(name string) {
	n.add(n.byName[name], -1)
	delete(n.byName, name)
}

// add adds l to the sum, multiplied by times; -1 subtracts it.
func (n *nodes) add(l quota.List, times int64) {
	for name, amount := range l {
		n.sum[name] += times * amount
	}
}

func (r *Manager) setNode(node *v1.Node) {
	r.mu.Lock()
	changed := r.nodes.set(node)
	if changed && r.Active() {
		r.markTotalsStale()
	}
	r.mu.Unlock()
	if changed {
		r.notifyMayBeAdmitted()
	}
}

func (r *Manager) dropNode(name string) {
	r.mu.Lock()
	if r.nodes.drop(name); r.Active() {
		r.markTotalsStale()
	}
	r.mu.Unlock()
	r.notifyMayBeAdmitted()
}

// onUnreadyNode returns whether a pod is bound to a node that is not ready or not known. The total capacity does not contain such a node.
func (r *Manager) onUnreadyNode(p *v1.Pod) bool {
	return p.Spec.NodeName != "" && r.nodes.byName[p.Spec.NodeName] == nil
}

// markTotalsStale makes the next call of currentBook compute the totals again. r.mu is locked.
func (r *Manager) markTotalsStale() {
	r.totalsStale = true
	r.scheduleWrite()
}

// currentBook returns the book, with the total capacity of each tree recomputed if stale. The total is the allocatable of ready nodes and
// the requests of pods on other nodes. r.mu is locked.
func (r *Manager) currentBook() *quota.Book {
	if !r.totalsStale {
		return r.book
	}
	r.totalsStale = false
	total := quota.List{}
	maps.Copy(total, r.nodes.sum)
	classes := r.classes.Named(r.book.Tree().Resources())
	var devices quota.List
	if len(classes) > 0 {
		devices = r.classes.Total(classes, func(node string) bool { return r.nodes.byName[node] != nil })
		maps.DeleteFunc(devices, func(name string, _ int64) bool { return r.devices.overcounted.counts[name] > 0 })
		for resource, class := range r.classes.Backs() {
			if r.nodes.sum[resource] > 0 { // kubelets may provide it, too
				delete(devices, convert.QuotaOfClass(class))
			}
		}
		maps.Copy(total, devices)
	}
	for _, p := range r.pods {
		if p.onUnreadyNode = r.onUnreadyNode(p.Pod); !p.onUnreadyNode {
			continue
		}
		for name, n := range p.requests {
			total[name] += n
		}
	}
	maps.DeleteFunc(total, func(name string, _ int64) bool { // its total is not known, so that nothing limits it
		_, isClass := classes[name]
		_, isKnown := devices[name]
		return isClass && !isKnown || r.classes.Backing(name) != ""
	})
	totals := map[string]quota.List{scheduling.RootQuota: total}
	for _, o := range r.objects {
		if !o.Root || o.Tree == "" || o.Total == nil {
			continue
		}
		totals[o.Name] = o.Total
		if o.Own {
			for name, n := range o.Total {
				total[name] = max(0, total[name]-n)
			}
		}
	}
	for top, l := range totals {
		r.book.Total(top, l)
	}
	return r.book
}
