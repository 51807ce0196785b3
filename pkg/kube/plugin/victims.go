package plugin

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// victims remembers, by group, who was asked to leave for its reservation. Only until
// they can be seen leaving is that more than the API server knows.
type victims struct {
	mu    sync.Mutex
	asked map[string]map[string]bool // group -> UIDs
	stuck map[string]map[string]bool // those who were asked and did not leave in time
}

func (v *victims) set(group string, pods []*v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked == nil {
		v.asked, v.stuck = map[string]map[string]bool{}, map[string]map[string]bool{}
	}
	uids := make(map[string]bool, len(pods))
	for _, p := range pods {
		uids[string(p.UID)] = true
	}
	v.asked[group] = uids
}

// forget is for when the group has its places, or is gone.
func (v *victims) forget(group string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.asked, group)
	delete(v.stuck, group)
}

// overdue notes that the group's victims have had their time.
func (v *victims) overdue(group string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for uid := range v.asked[group] {
		if v.stuck[group] == nil {
			v.stuck[group] = map[string]bool{}
		}
		v.stuck[group][uid] = true
	}
	delete(v.asked, group)
}

// avoid says whether a victim of the group that did not leave in time is still on the
// node.
func (v *victims) avoid(group string, node fwk.NodeInfo) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.stuck[group]) == 0 {
		return false
	}
	for _, p := range node.GetPods() {
		if v.stuck[group][string(p.GetPod().UID)] {
			return true
		}
	}
	return false
}

// leaving says whether somebody is still on a reserved node who was asked to leave,
// or who leaves anyway.
func (v *victims) leaving(a *attempt) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	asked := v.asked[a.group.Key]
	for _, node := range a.group.Places {
		i, ok := a.net.Tree.NodeIndex(node)
		if !ok || a.nodes[i] == nil {
			continue
		}
		for _, p := range a.nodes[i].GetPods() {
			if pod := p.GetPod(); pod.DeletionTimestamp != nil || asked[string(pod.UID)] {
				return true
			}
		}
	}
	return false
}
